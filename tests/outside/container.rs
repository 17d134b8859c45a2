//! A container whose children have names, in the order of insertion: `Pytree` by hand.

use pytree::core::field::{ModuleField, ParamField, StateField};
use pytree::core::shape::{NodeKind, NodeShape};
use pytree::core::{SelectPart, StaticRef, Unflattener, Visitor};
use pytree::prelude::*;
use pytree::{Leaf, Partition, PytreeOf, TreeError, checkpoint, nodes};

/// Values with names, in the order in which they were inserted. A name occurs once.
#[derive(Clone, Debug, PartialEq)]
pub struct ByName<T> {
    entries: Vec<(String, T)>,
}

impl<T> ByName<T> {
    const SHAPE: &'static NodeShape =
        &NodeShape::of_container::<ByName<()>>(NodeKind::OrderedDict, "ByName");

    pub fn new<N: Into<String>>(entries: impl IntoIterator<Item = (N, T)>) -> Self {
        let entries = entries.into_iter();
        let entries = entries.map(|(name, value)| (name.into(), value)).collect();
        Self { entries }
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        let mut entries = self.entries.iter();
        entries.find_map(|(own, value)| (own == name).then_some(value))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

impl<T: Pytree> Pytree for ByName<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, self.entries.len());
        for (name, _) in &self.entries {
            visitor.aux(StaticRef::new(name));
        }
        for (_, value) in &self.entries {
            value.visit(visitor);
        }
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(Self::SHAPE)?;
        let names = (0..arity).map(|_| source.aux::<String>());
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let values = names
            .into_iter()
            .map(|name| Ok((name, T::unflatten(source)?)));
        let entries = values.collect::<Result<_, TreeError>>()?;
        Ok(source.exit(Self { entries }))
    }
}

impl<L: Leaf + Clone, T: PytreeOf<L>> PytreeOf<L> for ByName<T> {}

impl<L: Leaf + Clone, T: PytreeOf<L>> SelectPart<L> for ByName<T> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        Ok(Partition::from_tree(tree))
    }
}

impl<T: ModuleField> ModuleField for ByName<T> {}
impl<T: ParamField> ParamField for ByName<T> {}
impl<T: StateField> StateField for ByName<T> {}

/// A container of another type, with the same name.
mod other {
    use super::{NodeKind, NodeShape, Pytree, TreeError, Unflattener, Visitor};

    #[derive(Clone, Debug, PartialEq)]
    pub struct ByName(Vec<f32>);

    const SHAPE: &NodeShape = &NodeShape::of_container::<ByName>(NodeKind::OrderedDict, "ByName");

    impl Pytree for ByName {
        fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
            visitor.enter(SHAPE, 0);
            visitor.exit();
        }
        fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
            source.enter(SHAPE)?;
            Ok(source.exit(Self(Vec::new())))
        }
    }
    impl pytree::PytreeOf<f32> for ByName {}
}

fn pair() -> ByName<Tensor> {
    ByName::new([
        ("slope", Tensor::from(2.0_f32)),
        ("bias", Tensor::from([1.0_f32, 3.0])),
    ])
}

#[test]
fn implementation_agrees_with_itself() {
    nodes::check_impl(&pair()).unwrap();
    let empty: [(&str, Tensor); 0] = [];
    nodes::check_impl(&ByName::new(empty)).unwrap();
}

#[test]
fn structure_builds_it_with_other_children_only() {
    let structure = tree::structure(&pair());
    let others: ByName<f32> = tree::unflatten(&structure, vec![1.0_f32, 2.0]).unwrap();
    assert_eq!(others.get("bias"), Some(&2.0));
    assert!(tree::unflatten::<Vec<f32>, f32>(&structure, vec![1.0, 2.0]).is_err());
    let error = tree::unflatten::<other::ByName, f32>(&structure, vec![1.0, 2.0]).unwrap_err();
    assert!(error.to_string().contains("ByName"), "{error}");
}

#[test]
fn children_have_names_in_paths_and_displays() {
    let structure = tree::structure(&pair());
    let paths: Vec<String> = structure
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["['slope']", "['bias']"]);
    assert_eq!(
        structure.to_string(),
        "PyTreeDef(ByName{'slope': *, 'bias': *})"
    );
}

#[test]
fn transformations_take_and_return_it() {
    let y = |pair: &ByName<Tensor>, x: &Tensor| {
        pair.get("slope").unwrap() * x + pair.get("bias").unwrap().sum()
    };
    let x = Tensor::from(5.0_f32);
    let swapped = jit(|pair: ByName<Tensor>| {
        let mut entries = pair.entries;
        entries.reverse();
        ByName { entries }
    })(pair());
    assert_eq!(swapped.entries[1].0, "slope");
    let gradient = grad(|pair: &ByName<Tensor>| y(pair, &x).square())(&pair());
    assert_eq!(gradient["['slope']"].item::<f32>(), 2.0 * 14.0 * 5.0);
    assert_eq!(gradient["['bias']"].to_vec::<f32>(), [28.0, 28.0]);
    let pairs = stack(&[pair(), tree::map(&pair(), |leaf: &Tensor| leaf * 2.0)], 0);
    let results = vmap(|pair: ByName<Tensor>| y(&pair, &x))(pairs);
    assert_eq!(results.to_vec::<f32>(), [14.0, 28.0]);
    // Another name is another structure.
    let doubled = jit(|pair: ByName<Tensor>| tree::map(&pair, |leaf: &Tensor| leaf * 2.0));
    doubled(pair());
    doubled(ByName::new([("other", Tensor::from(1.0_f32))]));
    assert_eq!(doubled.traces(), 2);
}

#[test]
fn checkpoint_names_its_arrays() {
    let path =
        std::env::temp_dir().join(format!("pytree-by-name-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &pair()).unwrap();
    let zeros = tree::map(&pair(), Tensor::zeros_like);
    let loaded = checkpoint::load(&path, &zeros).unwrap();
    let other = ByName::new([
        ("slope", Tensor::from(0.0_f32)),
        ("offset", Tensor::zeros(DType::F32, [2])),
    ]);
    let error = checkpoint::load(&path, &other).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded, pair());
    assert!(error.contains("offset"), "{error}");
}

#[test]
fn difference_names_the_entry() {
    let mut other = pair();
    other.entries[1].1 = Tensor::from([1.0_f32, 4.0]);
    let difference = diff(&pair(), &other).to_string();
    assert!(difference.contains("['bias']"), "{difference}");
}
