//! A Hessian-vector product of a candle model, which candle lacks: the weights move to a model of our tensors, and a step goes back.
//! Run it with `cargo run --release -p pytree-candle-examples --example candle_convert`.

use std::error::Error;

use candle_core::{Device, Result, Var};
use pytree::nn::convert_floats;
use pytree::prelude::*;
use pytree_core::candle011;

/// The names and axes are those of `pytree::nn::Linear`, and the struct has those of `Mlp`.
#[derive(pytree_core::Module, Clone, Debug)]
struct Dense {
    #[param("in out")]
    weight: Var,
    #[param("out")]
    bias: Var,
}

#[derive(pytree_core::Module, Clone, Debug)]
struct Network {
    layers: [Dense; 2],
}

impl Network {
    fn new() -> Result<Self> {
        let dense = |inputs, outputs| -> Result<Dense> {
            let weight = Var::randn(0_f64, 0.5, (inputs, outputs), &Device::Cpu)?;
            let bias = Var::randn(0_f64, 0.5, outputs, &Device::Cpu)?;
            Ok(Dense { weight, bias })
        };
        let layers = [dense(3, 8)?, dense(8, 2)?];
        Ok(Self { layers })
    }

    fn loss(&self, x: &candle_core::Tensor) -> Result<candle_core::Tensor> {
        let [first, last] = &self.layers;
        let hidden = x
            .matmul(&first.weight)?
            .broadcast_add(&first.bias)?
            .tanh()?;
        let y = hidden.matmul(&last.weight)?.broadcast_add(&last.bias)?;
        y.sqr()?.sum_all()
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let model = Network::new()?;
    let numbers: Vec<f64> = (0..15).map(|at| f64::from(at).sin()).collect();
    let x = candle_core::Tensor::from_slice(&numbers, (5, 3), &Device::Cpu)?;

    // The same model on our tensors. The forward pass is that of `Mlp`.
    let template = Mlp::new(&[3, 8, 2], Activation::Tanh, &mut Rngs::new(0));
    let ours = graph::convert(&model, &convert_floats(&template, DType::F64))?;
    let ours_x = Tensor::from(numbers).reshape([5, 3]);
    let loss = |mlp: &Mlp| mlp.forward(&ours_x).powi(2).sum();
    let direction = graph::map(&ours, |weight: &Tensor| weight.sin());
    let (_, product) = jvp(|mlp: &Mlp| grad(loss)(mlp), &ours, &direction);

    // Central differences of candle's gradients.
    let gradient = |step: f64| -> std::result::Result<Mlp, Box<dyn Error>> {
        let moved = |weight: &Tensor, along: &Tensor| weight + along * step;
        let moved = graph::convert(&graph::map2(&ours, &direction, moved)?, &model)?;
        let gradient = candle011::gradient(&moved, &moved.loss(&x)?.backward()?)?;
        Ok(graph::convert(&gradient, &ours)?)
    };
    let slope = |above: &Tensor, below: &Tensor| (above - below) / 2e-5;
    let differences = graph::map2(&gradient(1e-5)?, &gradient(-1e-5)?, slope)?;
    for (path, expected) in graph::leaves_with_path::<Tensor, _>(&differences) {
        let error = (&product[&*path.to_string()] - expected).abs().max();
        let error = error.item::<f64>();
        println!("{path}: the product differs from finite differences by {error:.1e}");
        assert!(error < 1e-6);
    }

    // A step along the product, written to the variables that candle's optimizers have.
    let product = partition::merge([product])?;
    let step = |weight: &Tensor, product: &Tensor| weight - product * 1e-3;
    let stepped = graph::map2(&ours, &product, step)?;
    let before = model.loss(&x)?.to_scalar::<f64>()?;
    candle011::set(&model, &graph::convert(&stepped, &model)?)?;
    let after = model.loss(&x)?.to_scalar::<f64>()?;
    println!("loss {before:.4}, and {after:.4} after the step");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
