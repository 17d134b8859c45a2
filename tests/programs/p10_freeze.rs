//! Freezing by filter: frozen leaves are not differentiated, and a parameter without a gradient is an error.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Model {
    encoder: Linear,
    head: Linear,
    unused: Linear,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::new(seed);
        let mut linear = |inputs, outputs| Linear::new(inputs, outputs, &mut rngs);
        Self {
            encoder: linear(4, 3),
            head: linear(3, 1),
            unused: linear(2, 2),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.encoder.forward(x).tanh())
    }
}

#[test]
fn frozen_leaves_are_not_updated() {
    let mut model = Model::new(0);
    let before = model.clone();
    let x = Tensor::ones(DType::F32, [5, 4]);
    let trained = Filter::param() & Filter::path("head");
    let gradient = grad(|m: &Model| m.forward(&x).square().mean()).wrt(trained.clone())(&model);
    assert_eq!(gradient.len(), 2);
    assert!(
        gradient
            .get("encoder.weight")
            .unwrap_err()
            .to_string()
            .contains("another part")
    );
    let mut optimizer = Optimizer::with_filter(&model, adam(1e-2), &trained);
    optimizer.update(&mut model, &gradient);
    assert_eq!(model.encoder.weight, before.encoder.weight);
    assert!(model.head.weight != before.head.weight);
}

#[test]
fn parameter_without_gradient_is_an_error() {
    let mut model = Model::new(0);
    let before = model.clone();
    let x = Tensor::ones(DType::F32, [5, 4]);
    let gradient = grad(|m: &Model| m.forward(&x).mean())(&model);
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let message = optimizer
        .try_update(&mut model, &gradient)
        .unwrap_err()
        .to_string();
    for expected in ["unused.weight", "unused.bias", "no gradient"] {
        assert!(message.contains(expected), "{message}");
    }
    assert!(!message.contains("head"), "{message}");
    assert_eq!(model.head.weight, before.head.weight);
}
