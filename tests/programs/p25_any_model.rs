//! Training code for any model: its only bound is `Model`.

use std::error::Error;
use std::path::Path;

use pytree::Freeze;
use pytree::Partition;
use pytree::module_object;
use pytree::prelude::*;

/// The models that this program accepts: each `Model` with a forward pass, which may write states.
trait Network: Model {
    fn forward(&mut self, x: &Tensor) -> Tensor;
}

impl Network for Mlp {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        Mlp::forward(self, x)
    }
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Normalized {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

impl Network for Normalized {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let hidden = self.norm.forward(&self.first.forward(x)).tanh();
        self.last.forward(&hidden)
    }
}

/// Runs compiled steps. `loss` may write states of the model.
fn fit<M: Model>(
    model: &mut M,
    optimizer: &mut Optimizer<M>,
    loss: impl Fn(&mut M, &Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
    (x, y): (&Tensor, &Tensor),
    steps: usize,
) -> Vec<f32> {
    let step = jit_mut(
        move |(model, optimizer, x, y): (&mut M, &mut Optimizer<M>, Tensor, Tensor)| {
            let (loss, gradient) = value_and_grad_mut(|model: &mut M| loss(model, &x, &y))(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = step((&mut *model, &mut *optimizer, x.clone(), y.clone()));
        losses.push(loss.item());
    }
    assert_eq!(step.traces(), 1);
    losses
}

/// Returns the mean gradient of some batches, and its norm.
fn mean_gradient<M: Network>(model: &M, batches: &[(Tensor, Tensor)]) -> (Partition<M>, Tensor) {
    let mut sum: Option<Partition<M>> = None;
    for (x, y) in batches {
        let gradient = grad(|model: &M| mse(&model.clone().forward(x), y))(model);
        sum = Some(match sum {
            None => gradient,
            Some(sum) => sum.map2(&gradient, |sum, more| sum + more).unwrap(),
        });
    }
    let mean = sum.unwrap().map(|sum| sum / batches.len() as f64);
    let squares = mean.leaves().iter().map(|leaf| leaf.square().sum());
    let norm = squares.reduce(|sum, square| sum + square).unwrap().sqrt();
    (mean, norm)
}

/// Returns the predictions in evaluation mode. Each example is computed separately.
fn predict<M: Network>(model: &M, x: &Tensor) -> Tensor {
    let quiet = eval(model);
    vmap(|x: Tensor| quiet.clone().forward(&x.expand_dims(0)).squeeze(0))(x.clone())
}

fn save<M: Model>(path: &Path, model: &M, optimizer: &Optimizer<M>) -> Result<(), Box<dyn Error>> {
    Ok(checkpoint::save(path, &(model.clone(), optimizer.clone()))?)
}

fn load<M: Model>(
    path: &Path,
    model: &M,
    optimizer: &Optimizer<M>,
) -> Result<(M, Optimizer<M>), Box<dyn Error>> {
    Ok(checkpoint::load(path, &(model.clone(), optimizer.clone()))?)
}

/// Trains a model, saves it, loads it, and continues the training.
fn run<M: Network>(name: &str, start: impl Fn() -> M) {
    let mut rngs = Rngs::new(7);
    let x = rngs.normal(DType::F32, [32, 3]);
    let y = x.square().sum_keep([-1]);
    let loss = |model: &mut M, x: &Tensor, y: &Tensor| mse(&model.forward(x), y);

    let mut model = start();
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let losses = fit(&mut model, &mut optimizer, loss, (&x, &y), 100);
    assert!(losses[99] < 0.5 * losses[0], "{name}: {losses:?}");

    let path = std::env::temp_dir().join(format!("{name}-{}.safetensors", std::process::id()));
    save(&path, &model, &optimizer).unwrap();
    let fresh = start();
    let loaded = load(&path, &fresh, &Optimizer::new(&fresh, adam(1e-2)));
    std::fs::remove_file(&path).unwrap();
    let (mut resumed, mut resumed_optimizer) = loaded.unwrap();
    let expected = fit(&mut model, &mut optimizer, loss, (&x, &y), 5);
    let found = fit(&mut resumed, &mut resumed_optimizer, loss, (&x, &y), 5);
    assert_eq!(found, expected, "{name}: bit for bit");
    assert!(diff(&resumed, &model).is_empty(), "{name}");

    let predictions = predict(&model, &x);
    assert_eq!(predictions.shape(), [32, 1]);
    let together = eval(&model).forward(&x);
    let distance = (predictions - together).abs().max().item::<f32>();
    assert!(distance < 1e-5, "{name}: off by {distance}");
}

#[test]
fn any_model_is_trained_saved_and_resumed() {
    run("mlp", || {
        Mlp::new(&[3, 16, 1], Activation::Tanh, &mut Rngs::new(0))
    });
    run("normalized", || {
        let mut rngs = Rngs::new(0);
        Normalized {
            first: Linear::new(3, 16, &mut rngs),
            norm: BatchNorm::new(16, &mut rngs),
            last: Linear::new(16, 1, &mut rngs),
        }
    });
}

#[test]
fn gradient_of_any_model_is_a_partition() {
    let mut rngs = Rngs::new(0);
    let model = Mlp::new(&[3, 4, 1], Activation::Tanh, &mut rngs);
    let x = rngs.normal(DType::F32, [8, 3]);
    let y = x.sum_keep([-1]);
    let halves = [ix![0..4], ix![4..8]].map(|half| (x.index(half), y.index(half)));
    let (mean, norm) = mean_gradient(&model, &halves);
    let (whole, whole_norm) = mean_gradient(&model, &[(x, y)]);
    assert!(
        (&mean["layers[0].weight"] - &whole["layers[0].weight"])
            .abs()
            .max()
            .item::<f32>()
            < 1e-6
    );
    assert!((norm - whole_norm).abs().item::<f32>() < 1e-5);
}

/// A model inside of a model: the type parameter needs no other bound.
#[derive(Module, Clone, Debug)]
struct Scaled<M: Model> {
    inner: M,
    #[param]
    scale: Tensor,
}

impl<M: Network> Network for Scaled<M> {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.inner.forward(x) * &self.scale
    }
}

fn is_model<M: Model>(_: &M) -> bool {
    true
}

#[test]
fn containers_of_models_are_models() {
    let mut rngs = Rngs::new(0);
    let mut mlp = || Mlp::new(&[2, 3, 1], Activation::Relu, &mut rngs);
    let mut scaled = Scaled {
        inner: mlp(),
        scale: Tensor::from(2.0_f32),
    };
    let x = Tensor::ones(DType::F32, [1, 2]);
    let expected = scaled.inner.forward(&x) * 2.0;
    assert_eq!(Network::forward(&mut scaled, &x), expected);
    assert!(is_model(&scaled));
    assert!(is_model(&vec![mlp(), mlp()]));
    assert!(is_model(&[mlp(), mlp()]));
    assert!(is_model(&Optimizer::new(&scaled, sgd(0.1))));
    assert!(is_model(&Freeze::frozen(mlp())));
}

#[module_object]
trait Layer: Module {
    fn forward(&self, x: &Tensor) -> Tensor;
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        Linear::forward(self, x)
    }
}

type Layers = Vec<Box<dyn Layer>>;

#[test]
fn boxed_layers_are_trained_as_any_model() {
    let mut rngs = Rngs::new(0);
    let mut layers: Layers = vec![
        Box::new(Linear::new(2, 8, &mut rngs)),
        Box::new(Linear::new(8, 1, &mut rngs)),
    ];
    // A box may hold leaves of any type, so the type of the part says that they are tensors.
    let before: Partition<_> = partition::filter(&layers, &Filter::param());
    let mut optimizer = Optimizer::new(&layers, adam(1e-2));
    let x = rngs.normal(DType::F32, [32, 2]);
    let y = x.sum_keep([-1]);
    let loss = |layers: &mut Layers, x: &Tensor, y: &Tensor| {
        let output = layers.iter().fold(x.clone(), |x, layer| layer.forward(&x));
        mse(&output, y)
    };
    let losses = fit(&mut layers, &mut optimizer, loss, (&x, &y), 100);
    assert!(losses[99] < 0.1 * losses[0], "{losses:?}");
    let after = partition::filter(&layers, &Filter::param());
    assert_eq!(before["[0].weight"].shape(), [2, 8]);
    assert_ne!(before["[0].weight"], after["[0].weight"]);
}
