//! Rules that give each leaf of a model its spec: by filter, or by the names of axes that modules declare.

use pytree_core::{Filter, KeyPath, TreeDef};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::{Mistake, TensorError};
use crate::tensor::Tensor;
use crate::tensor::device::MeshAxes;
use crate::tensor::device::{
    Mesh, PartitionSpec, SpecAxis, problems_of_spec, problems_of_tensor, suggestion,
};

/// Rules that say how the leaves of a model are divided among the devices of a mesh.
///
/// [`axis`](Self::axis) divides each axis that a module declares under a name, as in `#[param("in heads head_dim")]`. The
/// layers of the library declare their axes. [`leaf`](Self::leaf) gives the spec of the leaves that a filter accepts.
/// A leaf to which no rule applies is on all devices.
///
/// The first `leaf` rule that accepts a leaf decides its spec. For other leaves, the first rule for the name of an axis
/// decides, except if it names an axis of the mesh that already divides another axis of this leaf: then the next rule
/// for the name decides. Equivalent to the rules from logical axes to the axes of a mesh in Flax.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, Module};
/// use pytree_transform::Tensor;
/// use pytree_transform::device::ShardingRules;
///
/// #[derive(Module)]
/// struct Feedforward {
///     #[param("embed hidden")]
///     up: Tensor,
///     #[param("hidden embed")]
///     down: Tensor,
///     #[param("embed")]
///     scale: Tensor,
/// }
///
/// // `up` is divided by columns and `down` by rows. `scale` is on all devices.
/// let rules = ShardingRules::new().axis("hidden", "model");
/// // The same, with filters.
/// let rules = ShardingRules::new()
///     .leaf(Filter::path("up"), (None, "model"))
///     .leaf(Filter::path("down"), ("model", None));
/// ```
#[doc(alias = "nnx.with_partitioning")]
#[derive(Clone, Debug, Default)]
pub struct ShardingRules(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    Leaf(Filter, PartitionSpec),
    Axis(Option<Filter>, String, SpecAxis),
}

impl ShardingRules {
    /// Creates rules that leave all leaves on all devices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Divides each axis that a module declares under this name. With `None`, the axis is not divided.
    #[must_use]
    pub fn axis(mut self, name: impl Into<String>, along: impl Into<SpecAxis>) -> Self {
        self.0.push(Rule::Axis(None, name.into(), along.into()));
        self
    }

    /// Divides each axis that a module declares under this name, in the leaves that a filter accepts.
    #[must_use]
    pub fn axis_where(
        mut self,
        filter: Filter,
        name: impl Into<String>,
        along: impl Into<SpecAxis>,
    ) -> Self {
        let rule = Rule::Axis(Some(filter), name.into(), along.into());
        self.0.push(rule);
        self
    }

    /// Gives the leaves that a filter accepts a spec.
    #[must_use]
    pub fn leaf(mut self, filter: Filter, spec: impl Into<PartitionSpec>) -> Self {
        self.0.push(Rule::Leaf(filter, spec.into()));
        self
    }

    /// Returns the spec of each leaf. Adds rules that apply to no leaf to `mistakes`.
    fn specs(
        &self,
        treedef: &TreeDef,
        leaves: &[Tensor],
        mistakes: &mut Vec<Mistake>,
    ) -> Vec<PartitionSpec> {
        let names = treedef.leaf_axes();
        let of_leaf = |(leaf, names): (&Tensor, Option<Vec<String>>)| {
            axis_names(&names.unwrap_or_default(), leaf.rank())
        };
        let names: Vec<Vec<Option<String>>> = leaves.iter().zip(names).map(of_leaf).collect();
        let mut accepted = Vec::with_capacity(self.0.len());
        for rule in &self.0 {
            let filter = match rule {
                Rule::Leaf(filter, _) | Rule::Axis(Some(filter), ..) => filter,
                Rule::Axis(None, ..) => &Filter::everything(),
            };
            let chosen = match filter.choose(treedef, leaves) {
                Ok(chosen) => chosen,
                Err(error) => {
                    let fix = "write a filter that accepts a leaf, or remove the rule";
                    mistakes.push(Mistake::new(format!("{}: {error}", rule.described()), fix));
                    vec![false; leaves.len()]
                }
            };
            if let Rule::Axis(_, name, _) = rule
                && chosen.contains(&true)
            {
                mistakes.extend(unknown(rule, name, &names, &chosen));
            }
            accepted.push(chosen);
        }
        let spec = |(leaf, names): (usize, &Vec<Option<String>>)| {
            let rules = self.0.iter().zip(&accepted);
            let rules = rules.filter(|(_, accepted)| accepted[leaf]);
            spec_of(rules.map(|(rule, _)| rule), names)
        };
        names.iter().enumerate().map(spec).collect()
    }
}

impl Rule {
    fn described(&self) -> String {
        match self {
            Self::Leaf(filter, spec) => format!("the rule `leaf({filter:?}, {spec})`"),
            Self::Axis(None, name, along) => format!("the rule `axis({name:?}, {along})`"),
            Self::Axis(Some(filter), name, along) => {
                format!("the rule `axis_where({filter:?}, {name:?}, {along})`")
            }
        }
    }
}

/// Returns the name of each axis of a leaf, from the text of its module. Leading axes of a stacked model have no names.
fn axis_names(declared: &[String], rank: usize) -> Vec<Option<String>> {
    let mut names = vec![None; rank];
    let is_rest = |name: &String| name.starts_with('*') || name == "...";
    let named = |name: &String| Some(name.trim_end_matches('?').to_owned());
    let rest = declared.iter().position(is_rest);
    let (before, after) = match rest {
        Some(rest) => (&declared[..rest], &declared[rest + 1..]),
        None => (&[][..], declared),
    };
    if before.len() + after.len() > rank {
        return names;
    }
    for (name, declared) in names.iter_mut().zip(before) {
        *name = named(declared);
    }
    for (name, declared) in names.iter_mut().rev().zip(after.iter().rev()) {
        *name = named(declared);
    }
    names
}

/// Returns the mistake that no accepted leaf declares an axis under the name of a rule.
fn unknown(
    rule: &Rule,
    name: &str,
    names: &[Vec<Option<String>>],
    accepted: &[bool],
) -> Option<Mistake> {
    let accepted = names
        .iter()
        .zip(accepted)
        .filter(|(_, accepted)| **accepted);
    let mut declared: Vec<&String> = accepted.flat_map(|(names, _)| names).flatten().collect();
    if declared.iter().any(|declared| *declared == name) {
        return None;
    }
    declared.sort();
    declared.dedup();
    let nearest = suggestion(name, declared.iter().map(|declared| declared.as_str()));
    let declared: Vec<String> = declared.iter().map(|name| format!("`{name}`")).collect();
    let known = match &declared[..] {
        [] => "none of its leaves has named axes".to_owned(),
        declared => format!("its leaves have the axes {}", declared.join(", ")),
    };
    Some(Mistake::new(
        format!("{} applies to no leaf: {known}{nearest}", rule.described()),
        "name an axis that a module declares, as in `#[param(\"in out\")]`, or remove the rule",
    ))
}

/// Returns the spec of a leaf from the rules that accept it.
fn spec_of<'r>(
    rules: impl Iterator<Item = &'r Rule> + Clone,
    names: &[Option<String>],
) -> PartitionSpec {
    let mut by_leaf = rules.clone();
    let by_leaf = by_leaf.find_map(|rule| match rule {
        Rule::Leaf(_, spec) => Some(spec),
        Rule::Axis(..) => None,
    });
    if let Some(spec) = by_leaf {
        return spec.clone();
    }
    let mut spec: Vec<SpecAxis> = Vec::with_capacity(names.len());
    for name in names {
        let along = rules.clone().find_map(|rule| match rule {
            Rule::Axis(_, of, along) if Some(of) == name.as_ref() => {
                let is_used = |name| spec.iter().any(|axis| axis.names().contains(name));
                (!along.names().iter().any(is_used)).then(|| along.clone())
            }
            _ => None,
        });
        spec.push(along.unwrap_or_else(|| SpecAxis::from(None)));
    }
    spec.into()
}

/// How the leaves of a pytree are divided: all by one spec, or by [`ShardingRules`].
#[derive(Clone, Debug)]
pub struct Shardings(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Spec(PartitionSpec),
    Rules(ShardingRules),
}

pytree_base::conversions! { Shardings:
    [S: Into<PartitionSpec>] S, |spec| Self(Kind::Spec(spec.into()));
    [] ShardingRules, |rules| Self(Kind::Rules(rules));
    [] &ShardingRules, |rules| rules.clone().into();
}

impl Shardings {
    /// Returns the spec of each leaf of a value.
    ///
    /// # Errors
    /// Returns all reasons why a leaf cannot be divided. Without a mesh, the names and lengths are not checked.
    pub(crate) fn of_leaves(
        &self,
        operation: &str,
        mesh: Option<&MeshAxes>,
        treedef: &TreeDef,
        leaves: &[Tensor],
    ) -> Result<Vec<PartitionSpec>, TensorError> {
        let mut mistakes = Vec::new();
        let specs = match &self.0 {
            Kind::Spec(spec) => vec![spec.clone(); leaves.len()],
            Kind::Rules(rules) => rules.specs(treedef, leaves, &mut mistakes),
        };
        let problems = |path: &KeyPath, spec: &PartitionSpec, info: &AbstractArray| {
            let path = path.or_root();
            problems_of_tensor(spec, mesh, (&path, info))
        };
        for (position, spec) in specs.iter().enumerate() {
            if !specs[..position].contains(spec) {
                mistakes.extend(problems_of_spec(spec, mesh));
            }
        }
        for ((leaf, spec), path) in leaves.iter().zip(&specs).zip(treedef.leaf_paths()) {
            mistakes.extend(problems(&path, spec, leaf.info()));
        }
        if mistakes.is_empty() {
            return Ok(specs);
        }
        Err(TensorError::sharding(operation, mistakes))
    }
}

/// A mesh with the shardings of the leaves of a pytree, the result of [`Mesh::divided`]. Equivalent to `NamedSharding` in
/// JAX.
#[doc(alias = "jax.sharding.NamedSharding")]
#[derive(Clone, Debug)]
pub struct NamedSharding {
    pub(crate) mesh: Mesh,
    pub(crate) shardings: Shardings,
}

impl Mesh {
    /// Returns the mesh together with a spec or with rules, for [`device_put`](crate::device::device_put). A spec applies
    /// to all leaves of a pytree.
    ///
    /// # Examples
    /// ```ignore
    /// let mesh = Mesh::new(&client, [("data", 2), ("model", 2)]);
    /// // The first axis of `x` and of `y` is divided along `data`.
    /// let (x, y) = device_put(&(x, y), mesh.divided("data"));
    /// let model = device_put(&model, mesh.divided(ShardingRules::new().axis("heads", "model")));
    /// ```
    pub fn divided(&self, shardings: impl Into<Shardings>) -> NamedSharding {
        NamedSharding {
            mesh: self.clone(),
            shardings: shardings.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(declared: &[&str], rank: usize) -> Vec<Option<String>> {
        let declared: Vec<String> = declared.iter().map(ToString::to_string).collect();
        axis_names(&declared, rank)
    }

    #[test]
    fn names_follow_the_trailing_axes() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(names(&["in", "out"], 3), [None, some("in"), some("out")]);
        assert_eq!(
            names(&["*kernel", "in", "out"], 4),
            [None, None, some("in"), some("out")]
        );
        assert_eq!(
            names(&["batch", "...", "out?"], 3),
            [some("batch"), None, some("out")]
        );
        assert_eq!(names(&["in", "out"], 1), [None]);
        assert_eq!(names(&[], 1), [None]);
    }

    #[test]
    fn axis_of_the_mesh_divides_once() {
        let rules = ShardingRules::new()
            .axis("hidden", "model")
            .axis("hidden", "data");
        let hidden = Some("hidden".to_owned());
        let spec = spec_of(rules.0.iter(), &[hidden.clone(), hidden.clone(), hidden]);
        assert_eq!(spec, PartitionSpec::from(("model", "data", None)));
    }
}
