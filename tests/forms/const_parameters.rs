//! Const parameters, alone and together with type parameters, with defaults.

use pytree_core::{Leaf, Module, Static, tree};

#[derive(Module)]
struct Scales<const N: usize> {
    #[param]
    factors: [f32; N],
}

#[derive(Module)]
struct Stack<M, const N: usize = 2, const NAMED: bool = false> {
    layers: [M; N],
    #[r#static]
    sizes: [usize; N],
}

#[derive(Static, Clone)]
struct Sizes<const N: usize>([usize; N]);

#[derive(Leaf, Clone, Debug)]
struct Key<const N: usize>([u32; N]);

#[derive(Module)]
struct Model<const N: usize> {
    #[r#static]
    sizes: Sizes<N>,
    #[state]
    key: Key<2>,
}

#[test]
fn const_parameters_have_defaults_or_none() {
    let scales = || Scales { factors: [1.0; 3] };
    let stack: Stack<Scales<3>> = Stack {
        layers: [scales(), scales()],
        sizes: [3, 3],
    };
    assert_eq!(tree::any_leaves(&stack).len(), 6);
    let model = Model::<1> {
        sizes: Sizes([1]),
        key: Key([0, 1]),
    };
    assert_eq!(tree::any_leaves(&model).len(), 1);
}
