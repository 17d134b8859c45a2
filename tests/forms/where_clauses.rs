//! Bounds in the parameters and where clauses of the item are kept, in addition to the inferred bounds.

use std::fmt::Debug;

use pytree_core::field::ParamField;
use pytree_core::{Leaf, Module, Pytree, Static, StaticValue, tree};

#[derive(Module)]
struct Residual<M: Module, A>
where
    A: StaticValue + Debug,
    Vec<M>: Clone,
{
    inner: Vec<M>,
    #[r#static]
    activation: A,
}

#[derive(Module, Clone)]
enum Node<T>
where
    T: ParamField + Clone,
{
    Leaf {
        #[param]
        value: T,
    },
    Inner(Vec<Node<T>>),
}

#[derive(Pytree)]
struct Pair<A, B>(A, B)
where
    A: Clone,
    B: Into<f64>;

#[derive(Static, Clone)]
struct Setting<T>
where
    T: Copy,
{
    value: T,
}

#[derive(Leaf, Clone, Debug)]
struct Grid<T>
where
    T: Copy + Send + Sync,
{
    values: Vec<T>,
}

#[test]
fn own_bounds_are_kept() {
    let leaf = Node::Leaf { value: 1.0_f32 };
    let residual = Residual {
        inner: vec![Node::Inner(vec![leaf.clone(), leaf])],
        activation: Setting { value: 1_u8 }.value,
    };
    assert_eq!(tree::any_leaves(&residual).len(), 2);
    let grid = Grid { values: vec![1_u8] };
    assert_eq!(tree::any_leaves(&Pair(grid, 1.0_f32)).len(), 2);
}
