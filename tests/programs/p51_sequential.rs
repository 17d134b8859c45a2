//! The user's own layers and layers of the library in one `Sequential`.

use pytree::nn::{Forward, Mode};
use pytree::prelude::*;

use crate::programs::panic_message;

/// A layer without state. The macro `forward!` makes it usable in a `Sequential`.
#[derive(Module, Clone, Debug)]
struct Residual {
    inner: Linear,
}
forward!(Residual);

impl Residual {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + self.inner.forward(x).tanh()
    }
}

/// A layer that changes when it runs: it counts its calls.
#[derive(Module, Clone, Debug)]
struct Counted<L> {
    inner: L,
    #[state]
    calls: Tensor,
}

impl<L: Forward + Clone> Forward for Counted<L> {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.calls = &self.calls + 1;
        self.inner.forward(x)
    }
}

fn model(rngs: &mut Rngs) -> Sequential {
    let inner = Residual {
        inner: Linear::new(4, 4, rngs),
    };
    sequential![
        Counted {
            inner,
            calls: Tensor::from(0),
        },
        sequential![Activation::Tanh, Dropout::new(0.5, rngs)],
        BatchNorm::new(4, rngs),
        Linear::new(4, 2, rngs),
    ]
}

fn loss(model: &mut Sequential, x: &Tensor) -> Tensor {
    model.forward(x).square().mean()
}

/// Applies a layer twice. The layer can be a layer of the library, the user's own layer, or a `Sequential`.
fn twice(layer: &mut impl Forward, x: &Tensor) -> Tensor {
    let y = layer.forward(x);
    layer.forward(&y)
}

#[test]
fn layers_of_ones_own_are_trained_with_others() {
    let mut rngs = Rngs::new(0);
    let mut model = model(&mut rngs);
    let x = rngs.normal(DType::F32, [8, 4]);
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    let step = jit_mut(
        |(model, optimizer, x): (&mut Sequential, &mut Optimizer<_>, Tensor)| {
            let (value, gradient) =
                value_and_grad_mut(|model: &mut Sequential| loss(model, &x))(model);
            optimizer.update(model, &gradient);
            value
        },
    );
    let losses: Vec<f32> = (0..20)
        .map(|_| step((&mut model, &mut optimizer, x.clone())).item())
        .collect();
    assert!(losses[19] < losses[0], "{losses:?}");
    assert_eq!(step.traces(), 1);
    let state: Partition<Sequential> = partition::filter(&model, &Filter::any_state());
    assert_eq!(state["layers[0].calls"].item::<i32>(), 20);
    assert_ne!(state["layers[2].mean"], Tensor::zeros(DType::F32, [4]));
}

#[test]
fn gradient_of_the_row_is_that_of_the_parts() {
    let mut rngs = Rngs::new(0);
    let (first, last) = (Linear::new(4, 3, &mut rngs), Linear::new(3, 2, &mut rngs));
    let x = rngs.normal(DType::F32, [8, 4]);
    let mut row = sequential![first.clone(), Activation::Tanh, last.clone()];
    let (_, gradient) = value_and_grad_mut(|model: &mut Sequential| loss(model, &x))(&mut row);
    let by_hand = grad(|layers: &(Linear, Linear)| {
        let y = layers.1.forward(&layers.0.forward(&x).tanh());
        y.square().mean()
    })(&(first, last));
    assert_eq!(gradient["layers[0].weight"], by_hand.0["weight"]);
    assert_eq!(gradient["layers[2].bias"], by_hand.1["bias"]);
}

#[test]
fn row_is_a_module_like_any_other() {
    let mut rngs = Rngs::new(0);
    let model = model(&mut rngs);
    let x = rngs.normal(DType::F32, [8, 4]);

    // The modes of all inner layers can be set, or only the modes of layers of one type.
    let mut quiet = eval(&model);
    assert_eq!(quiet.forward(&x), quiet.forward(&x));
    let changed =
        pytree::core::edit::apply(model.clone(), |layer: &mut Dropout| layer.mode = Mode::Eval);
    assert!(format!("{changed:?}").contains("mode: Eval"));

    // A summary, a checkpoint and a `vmap` of the whole `Sequential`.
    let table = summary(&model).to_string();
    assert!(table.contains("layers[0].inner.inner.weight"), "{table}");
    let path = std::env::temp_dir().join(format!("pytree-sequential-{}", std::process::id()));
    checkpoint::save(&path, &model).unwrap();
    let mut loaded = eval(&checkpoint::load(&path, &self::model(&mut Rngs::new(1))).unwrap());
    std::fs::remove_file(path).unwrap();
    assert_eq!(loaded.forward(&x), quiet.forward(&x));
    let each = vmap(|(mut model, x): (Sequential, Tensor)| model.forward(&x)).in_axes((None, 0));
    let distance = (each((quiet.clone(), x.clone())) - quiet.forward(&x)).abs();
    assert!(distance.max().item::<f32>() < 1e-6);
}

#[test]
fn function_of_any_layer_takes_a_row() {
    let mut rngs = Rngs::new(0);
    let x = rngs.normal(DType::F32, [2, 4]);
    let mut linear = Linear::new(4, 4, &mut rngs);
    let expected = linear.forward(&linear.forward(&x));
    assert_eq!(twice(&mut linear, &x), expected);
    assert_eq!(twice(&mut sequential![linear], &x), expected);
    assert_eq!(twice(&mut Activation::Relu, &x), x.maximum(0.0));
}

#[test]
fn mistake_names_the_layer_in_the_row() {
    let mut rngs = Rngs::new(0);
    let mut model = sequential![
        Linear::new(4, 3, &mut rngs),
        sequential![Activation::Relu, Linear::new(5, 2, &mut rngs)],
    ];
    assert_eq!(
        panic_message(move || model.forward(&Tensor::ones(DType::F32, [8, 4]))),
        "Linear::forward: x is f32[8,3], expected T[... in] with in = 5 (from weight: f32[5,2] as T[in out]); \
         pass x with in = 5, or make the Linear with in = 3; in layers[1].layers[1] of the Sequential"
    );
}
