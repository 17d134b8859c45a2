//! Parameters may have defaults, which the implementations omit.

use pytree_core::{Module, Pytree, tree};

#[derive(Module)]
struct Scale<T = f32> {
    #[param]
    factor: T,
}

#[derive(Module)]
struct Model<M = Scale, const N: usize = 1> {
    layers: [M; N],
}

#[derive(Pytree)]
struct Batch<I = Vec<f32>, L = i32> {
    input: I,
    label: L,
}

#[test]
fn parameters_have_defaults() {
    let model: Model = Model {
        layers: [Scale { factor: 1.0 }],
    };
    let batch: Batch = Batch {
        input: vec![1.0],
        label: 0,
    };
    assert_eq!(tree::any_leaves(&model).len(), 1);
    assert_eq!(tree::any_leaves(&batch).len(), 2);
}
