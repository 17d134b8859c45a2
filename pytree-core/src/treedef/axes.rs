//! The named axes of the leaves of a treedef: how they are written as text (such as `in heads*head_dim`), and the
//! comparison of shapes with these axes.

use std::collections::HashSet;
use std::ops::Range;

use super::cursor::NodeView;
use super::structure::TreeDef;
use crate::base::error::{ShapeError, ShapeMismatch};
use crate::node::axes::{Scope, ShapePattern, axes_of};
use crate::node::leaf::Leaf;
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::StaticData;

/// The leading axes that the arrays of a stacked model have in addition to their named axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacking<'n> {
    /// The axes with these names, in order.
    Named(&'n [&'n str]),
    /// Any number of axes, as long as all arrays of a module have the same number.
    Any,
}

/// Returns the leaf at a position.
type LeafAt<'f, 'l> = &'f dyn Fn(usize) -> &'l dyn Leaf;

/// The innermost field around a leaf: the struct, and the position of the field.
pub(super) type FieldAt<'t> = (NodeView<'t>, usize);

/// The stacked fields that are open or begin later in a walk over the nodes of a treedef: where each begins and ends, and
/// the names of its axes.
#[derive(Default)]
struct Stacks<'t>(Vec<(usize, usize, &'t str)>);

impl<'t> Stacks<'t> {
    /// Returns the names of the leading axes that the stacked fields around a node give its arrays. The outermost is the first.
    /// The walk calls this function at each node, in order.
    fn at(&mut self, node: NodeView<'t>) -> Vec<&'t str> {
        self.0.retain(|(_, end, _)| *end > node.position());
        let around = self.0.iter();
        let around = around.filter(|(begin, ..)| *begin <= node.position());
        let names = around.flat_map(|(.., names)| names.split_whitespace());
        let names = names.collect();
        let shape = node.shape();
        if (0..shape.num_fields()).any(|field| shape.stacked_axes(field).is_some()) {
            for (field, child) in node.children().enumerate() {
                let stacked = shape.stacked_axes(field);
                self.0
                    .extend(stacked.map(|names| (child.position(), child.end(), names)));
            }
        }
        names
    }
}

/// A leaf that a module declares with named axes.
struct DeclaredLeaf<'t> {
    /// The index of the leaf among the nodes of the treedef.
    node: usize,
    /// The index of the leaf among the leaves.
    leaf: usize,
    pattern: &'static ShapePattern,
    /// Whether the pattern is that of a stacked module around the leaf.
    is_stacked: bool,
    /// The child of the module that contains the leaf. If this child is a later occurrence of a shared node, the leaf
    /// itself is below the first occurrence.
    below: NodeView<'t>,
}

impl TreeDef {
    /// Returns the named axes of each leaf, in order. The item is `None` for a leaf without declared axes. A computed
    /// axis is returned as its text. The axes of stacked modules around the leaf come first: a leaf without declared
    /// axes in a module that is stacked by `expert` has the axes `expert` and `...`.
    ///
    /// # Examples
    /// ```
    /// use ndarray::Array2;
    /// use pytree_core::{Module, graph};
    /// #[derive(Module)]
    /// struct Attention {
    ///     #[param("in heads*head_dim")]
    ///     query: Array2<f32>,
    ///     #[r#static]
    ///     heads: usize,
    ///     #[r#static]
    ///     head_dim: usize,
    /// }
    /// let attention = Attention { query: Array2::zeros((3, 8)), heads: 2, head_dim: 4 };
    /// let axes = graph::structure(&attention).leaf_axes();
    /// assert_eq!(axes, [Some(vec!["in".to_owned(), "heads*head_dim".to_owned()])]);
    /// ```
    pub fn leaf_axes(&self) -> Vec<Option<Vec<String>>> {
        let leaves = self.leaf_fields().into_iter();
        let axes = leaves.map(|(_, field, stacked)| {
            let own =
                field.filter(|(module, position)| module.shape().stacked_axes(*position).is_none());
            let own = own.and_then(|(module, position)| module.shape().field_axes(position));
            if own.is_none() && stacked.is_empty() {
                return None;
            }
            let axes = stacked.into_iter().chain(axes_of(own.unwrap_or("...")));
            Some(axes.map(str::to_owned).collect())
        });
        axes.collect()
    }

    /// Returns each leaf, in order, with the innermost field that contains it, and the names of the leading axes that the
    /// stacked modules around it give it.
    pub(super) fn leaf_fields(&self) -> Vec<(NodeView<'_>, Option<FieldAt<'_>>, Vec<&str>)> {
        let mut all = Vec::with_capacity(self.num_leaves());
        let mut stacks = Stacks::default();
        // The fields that contain the current node: where each ends, and the field.
        let mut open: Vec<(usize, FieldAt<'_>)> = Vec::new();
        // The children of structs that the walk has not reached yet: where each begins and ends, and its field.
        let mut fields: Vec<(usize, usize, FieldAt<'_>)> = Vec::new();
        for node in self.nodes() {
            let stacked = stacks.at(node);
            while open.last().is_some_and(|(end, _)| *end <= node.position()) {
                open.pop();
            }
            while let Some((_, end, field)) = fields.pop_if(|(begin, ..)| *begin == node.position())
            {
                open.push((end, field));
            }
            if node.kind() == NodeKind::Leaf {
                all.push((node, open.last().map(|(_, field)| *field), stacked));
            } else if node.shape().num_fields() > 0 {
                let children: Vec<_> = node.children().enumerate().collect();
                let of_child = |(position, child): (usize, NodeView<'_>)| {
                    (child.position(), child.end(), (node, position))
                };
                fields.extend(children.into_iter().map(of_child).rev());
            }
        }
        all
    }

    /// Returns whether a module declares named axes.
    pub(crate) fn has_axes(&self) -> bool {
        // If a shape was created at run time, `node.shape` is a stand-in, which has no fields.
        *self.0.has_axes.get_or_init(|| {
            let mut nodes = self.0.nodes.iter();
            nodes.any(|node| node.arity > 0 && node.shape.has_axes())
        })
    }

    /// Compares the shapes of leaves with the named axes of the modules. Each module has a scope of its own, and the leading
    /// axes that the stacked modules around it declare. `trees`
    /// contains the positions of the nodes of dynamic trees. Modules at these positions are not compared.
    ///
    /// # Errors
    /// All leaves whose shapes do not match.
    pub(crate) fn check_shapes(
        &self,
        leaf: LeafAt<'_, '_>,
        stacking: Stacking<'_>,
        trees: &[Range<usize>],
    ) -> Result<(), ShapeError> {
        let named = match stacking {
            Stacking::Named(names) => names,
            Stacking::Any => &[],
        };
        if !self.has_axes() {
            return Ok(());
        }
        let before = self.leaves_before();
        let is_typed = |node: NodeView<'_>| {
            let tree = trees.partition_point(|tree| tree.end <= node.position());
            trees
                .get(tree)
                .is_none_or(|tree| tree.start > node.position())
        };
        let mut stacks = Stacks::default();
        let modules = self.nodes().map(|node| (node, stacks.at(node)));
        let modules = modules.filter(|(node, _)| has_axes(node.shape()) && is_typed(*node));
        let mismatches = modules.flat_map(|(module, declared)| {
            let names = [named, &declared].concat();
            let leaves = self.declared_in(module, &before);
            let compare = |scope: &mut Scope, stacked| {
                fill(self, scope, stacked, module, &leaves, leaf);
            };
            let matches = |stacked| {
                let mut scope = Scope::new();
                compare(&mut scope, stacked);
                scope.matches()
            };
            if matches(names.len()) {
                return Vec::new();
            }
            if stacking == Stacking::Any {
                let stacked = num_stacked(&leaves, leaf);
                if stacked > names.len() && matches(stacked) {
                    return Vec::new();
                }
            }
            Scope::explained(module.name(), &|scope: &mut Scope| {
                scope.name_stacked(&names);
                scope.set_module_path(module.path().to_string());
                compare(scope, names.len());
            })
        });
        let mut mismatches: Vec<ShapeMismatch> = mismatches.collect();
        // Of the mismatches of a leaf with the stacked modules around it and with its own module, the last says the most.
        let mut places = HashSet::new();
        mismatches.reverse();
        mismatches.retain(|mismatch| places.insert(mismatch.place.clone()));
        mismatches.reverse();
        mismatches.extend(self.uneven_stack(named, &before, leaf));
        if mismatches.is_empty() {
            return Ok(());
        }
        Err(ShapeError::new(self.root().name().to_owned(), mismatches))
    }

    /// Returns the leaves that a module declares with named axes.
    fn declared_in<'t>(&'t self, module: NodeView<'t>, before: &[usize]) -> Vec<DeclaredLeaf<'t>> {
        let mut leaves = Vec::new();
        let Shape::Static(shape) = module.shape() else {
            return leaves;
        };
        for (position, child) in module.children().enumerate() {
            let Some(pattern) = shape.fields.get(position).and_then(|field| field.axes) else {
                continue;
            };
            let is_stacked = module.shape().stacked_axes(position).is_some();
            let first = self.view(self.first_place_of(child.inside().position()));
            let mut position = first.position();
            while position < first.end() {
                let node = self.view(position);
                if has_axes(node.shape()) && !is_stacked {
                    // A module has a scope of its own.
                    position = node.end();
                    continue;
                }
                if node.kind() == NodeKind::Leaf {
                    leaves.push(DeclaredLeaf {
                        node: position,
                        leaf: before[position],
                        pattern,
                        is_stacked,
                        below: child,
                    });
                }
                position += 1;
            }
        }
        leaves
    }

    /// Compares the leading axes of all declared leaves with the leading axes of the first leaf. `names` names these
    /// axes. Returns the leaves that differ.
    fn uneven_stack(
        &self,
        names: &[&str],
        before: &[usize],
        leaf: LeafAt<'_, '_>,
    ) -> Vec<ShapeMismatch> {
        if names.is_empty() {
            return Vec::new();
        }
        let modules = self.nodes().filter(|node| has_axes(node.shape()));
        let leaves = modules.flat_map(|module| self.declared_in(module, before));
        let leaves = leaves.filter(|declared| !declared.is_stacked);
        let mut first: Option<(String, Vec<usize>)> = None;
        let mut uneven = Vec::new();
        for declared in leaves {
            let Some(shape) = leaf(declared.leaf).array_info() else {
                continue;
            };
            let Some(stacked) = shape.shape.get(..names.len()) else {
                continue;
            };
            let path = self.view(declared.node).path().or_root();
            match &first {
                None => first = Some((path, stacked.to_vec())),
                Some((_, expected)) if *expected == stacked => {}
                Some((other, expected)) => {
                    let lengths = names.iter().zip(expected);
                    let lengths = lengths.map(|(name, length)| format!("{name} = {length}"));
                    let lengths: Vec<String> = lengths.collect();
                    uneven.push(ShapeMismatch {
                        place: path.clone(),
                        found: shape.to_string(),
                        expected: format!(
                            "[{} {}] with {} (from {other})",
                            names.join(" "),
                            declared.pattern.axes().collect::<Vec<_>>().join(" "),
                            lengths.join(", ")
                        ),
                        fix: format!("stack the same number of models in {path} and {other}"),
                    });
                }
            }
        }
        uneven
    }
}

/// Returns how many more axes than its pattern the first leaf of a module has.
fn num_stacked(declared: &[DeclaredLeaf<'_>], leaf: LeafAt<'_, '_>) -> usize {
    let stacked = declared.iter().find_map(|declared| {
        let shape = leaf(declared.leaf).array_info()?;
        let is_fixed = declared.pattern.rest.is_none();
        is_fixed.then(|| shape.shape.len().saturating_sub(declared.pattern.fixed()))
    });
    stacked.unwrap_or_default()
}

/// Returns whether the shape declares the axes of a field as patterns. A shape that was created at run time stores its
/// axes only as text, which is not compared.
fn has_axes(shape: Shape<'_>) -> bool {
    match shape {
        Shape::Static(shape) => shape.has_axes(),
        Shape::Dynamic(_) => false,
    }
}

/// Compares the leaves of a module in a scope.
fn fill(
    treedef: &TreeDef,
    scope: &mut Scope,
    stacked: usize,
    module: NodeView<'_>,
    leaves: &[DeclaredLeaf<'_>],
    leaf: LeafAt<'_, '_>,
) {
    scope.bindings.stacked = stacked;
    if let Shape::Static(shape) = module.shape() {
        for (name, number) in shape.constants {
            scope.number(name, *number);
        }
        for (name, (_, value)) in shape.statics.iter().zip(module.statics()) {
            if let StaticData::Integer(number) = value.data() {
                scope.number(name, number);
            }
        }
    }
    for declared in leaves {
        let Some(found) = leaf(declared.leaf).array_info() else {
            continue;
        };
        if scope.records() {
            scope.set_place(declared.path(treedef));
        }
        scope.compare(declared.pattern, found);
    }
}

impl DeclaredLeaf<'_> {
    /// Returns the key path of the leaf.
    fn path(&self, treedef: &TreeDef) -> String {
        if (self.below.position()..self.below.end()).contains(&self.node) {
            return treedef.view(self.node).path().or_root();
        }
        // The leaf is below a later occurrence of a shared node.
        self.below.path().or_root()
    }
}
