//! Items with type and const parameters.

use std::fmt::Debug;
use std::marker::PhantomData;

use pytree_core::field::ParamField;
use pytree_core::{FieldKind, Leaf, Module, ModuleType, Pytree, PytreeOf, StaticValue, tree};

use crate::derive::{rebuilt, shown};

#[derive(Module, Clone, Debug, PartialEq)]
struct Scale<T> {
    #[param]
    factor: T,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Residual<M: Module> {
    inner: M,
    others: Vec<M>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Everything<A, B = f32, const N: usize = 2>
where
    A: Clone,
{
    #[param]
    array: [A; N],
    #[state]
    state: Option<B>,
    #[r#static]
    name: Vec<A>,
    #[r#static]
    limit: f64,
    marker: PhantomData<B>,
}

#[test]
fn generic_parameters_get_bounds_from_field_kinds() {
    let scale = Scale { factor: 2.0_f32 };
    assert_eq!(rebuilt(&scale), scale);
    let residual = Residual {
        inner: scale.clone(),
        others: vec![scale],
    };
    assert_eq!(rebuilt(&residual), residual);
    assert_eq!(Residual::<Scale<f32>>::REGISTRY[0].1, FieldKind::Module);
    let everything = Everything::<f64> {
        array: [1.0, 2.0],
        state: Some(3.0),
        name: vec![4.0],
        limit: 5.0,
        marker: PhantomData,
    };
    assert_eq!(rebuilt(&everything), everything);
    assert_eq!(
        shown(&everything),
        "PyTreeDef(Everything { array: [*, *], state: *, marker: (), name = [4.0], limit = 5.0 })"
    );
}

/// What the arguments of a generic item are is seen in its children, and nowhere else.
#[test]
fn type_arguments_are_not_part_of_structure() {
    #[derive(Module, Clone, Debug)]
    struct Tag<T>(PhantomData<T>);
    assert_eq!(
        tree::structure(&Tag::<u8>(PhantomData)),
        tree::structure(&Tag::<u16>(PhantomData))
    );
}

/// A bound by `Module` suffices in generic code.
#[test]
fn generic_code_is_bounded_by_module() {
    fn count<M: Module>(model: &Residual<M>) -> usize {
        tree::any_leaves(model).len()
    }
    fn of_leaf<L: Leaf + Clone, M: Module + PytreeOf<L>>(model: &Residual<M>) -> usize {
        tree::leaves::<L, _>(model).len()
    }
    let residual = Residual {
        inner: Scale { factor: 2.0_f32 },
        others: vec![],
    };
    assert_eq!(count(&residual), 1);
    assert_eq!(of_leaf::<f32, _>(&residual), 1);
}

#[derive(Module, Clone, Debug, PartialEq)]
enum Either<A, B> {
    Left(A),
    Right {
        inner: B,
        #[r#static]
        times: usize,
    },
}

#[test]
fn enums_may_be_generic() {
    let left: Either<Scale<f32>, Scale<f64>> = Either::Left(Scale { factor: 1.0 });
    let right: Either<Scale<f32>, Scale<f64>> = Either::Right {
        inner: Scale { factor: 1.0 },
        times: 2,
    };
    assert_eq!(rebuilt(&left), left);
    assert_eq!(rebuilt(&right), right);
    assert_ne!(tree::structure(&left), tree::structure(&right));
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Tree<T>
where
    T: ParamField,
{
    #[param]
    value: T,
    children: Vec<Tree<T>>,
    next: Option<Box<Self>>,
}

#[test]
fn generic_module_may_contain_itself() {
    let leaf = Tree {
        value: 1.0_f32,
        children: vec![],
        next: None,
    };
    let node = Tree {
        children: vec![leaf.clone()],
        ..leaf
    };
    assert_eq!(rebuilt(&node), node);
    assert_eq!(tree::leaves::<f32, _>(&node).len(), 2);
}

#[derive(Module, Clone)]
struct Function<A, S>
where
    S: StaticValue + Debug,
{
    #[r#static]
    function: fn(A) -> A,
    #[r#static]
    setting: S,
}

#[test]
fn static_fields_of_parameters_are_static_values() {
    let double = Function {
        function: |number: f32| number * 2.0,
        setting: "twice",
    };
    let again = rebuilt(&double);
    assert!((again.function)(2.0) > 3.9);
    assert_eq!(again.setting, "twice");
    assert_eq!(tree::structure(&again), tree::structure(&double));
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Pair<A, B: Clone>(A, B, #[r#static] [u8; 2]);

#[test]
fn plain_containers_may_be_generic() {
    let pair = Pair(1_i32, Pair(2.0_f32, "x".to_owned(), [0, 1]), [2, 3]);
    assert_eq!(rebuilt(&pair), pair);
}
