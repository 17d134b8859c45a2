//! `#[derive(Leaf)]`: users' leaf types.

use pytree_core::{Leaf, Module, Pytree, tree};

use crate::derive::rebuilt;

#[derive(Leaf, Clone, Copy, Debug, PartialEq)]
struct Key([u32; 2]);

#[derive(Leaf, Clone, Debug, PartialEq)]
struct Grid<T: Send + Sync, const N: usize>
where
    T: Copy,
{
    values: [T; N],
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Dropout {
    #[state]
    key: Key,
    #[state]
    grids: Vec<Grid<f32, 2>>,
}

#[test]
fn users_leaves_are_states() {
    let dropout = Dropout {
        key: Key([1, 2]),
        grids: vec![Grid { values: [1.0, 2.0] }],
    };
    assert_eq!(rebuilt(&dropout), dropout);
    assert_eq!(tree::leaves::<Key, _>(&dropout.key), [&Key([1, 2])]);
    assert_eq!(tree::any_leaves(&dropout).len(), 2);
}

/// A leaf of another crate says itself what it can be.
#[derive(Clone, Debug, PartialEq)]
struct Tensor(f32);
impl Leaf for Tensor {
    pytree_core::__leaf_methods!();
}
pytree_core::__leaf_is_pytree!([] Tensor);
pytree_core::leaf_field!(param Tensor);

#[derive(Module, Clone, Debug)]
struct Trained {
    #[param]
    weight: Vec<Tensor>,
    #[state]
    mean: Tensor,
    #[r#static]
    activation: fn(&Tensor) -> Tensor,
}

#[test]
fn leaves_of_other_crates_are_fields() {
    let trained = Trained {
        weight: vec![Tensor(1.0)],
        mean: Tensor(2.0),
        activation: Tensor::clone,
    };
    assert_eq!(rebuilt(&trained).mean, trained.mean);
    assert_eq!(tree::leaves::<Tensor, _>(&trained).len(), 2);
}

#[derive(Pytree, Debug, PartialEq)]
struct Mixed(Key, Tensor);

#[test]
fn leaves_of_several_types_are_children() {
    let mixed = Mixed(Key([0, 1]), Tensor(1.0));
    assert_eq!(rebuilt(&mixed), mixed);
}
