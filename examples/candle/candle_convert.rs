//! Derivatives that candle lacks, of a candle model: `cargo run --release -p pytree-candle-examples --example candle_convert`. The weights move
//! to a model of our tensors, whose Hessian-vector product is compared with finite differences of candle's gradients. A step along it goes
//! back.

use std::error::Error;

use candle_core::{Device, Var};
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
    layers: Vec<Dense>,
}

fn network(widths: &[usize]) -> candle_core::Result<Network> {
    let dense = |pair: &[usize]| -> candle_core::Result<Dense> {
        let weight = Var::randn(0_f64, 0.5, (pair[0], pair[1]), &Device::Cpu)?;
        Ok(Dense {
            weight,
            bias: Var::zeros(pair[1], candle_core::DType::F64, &Device::Cpu)?,
        })
    };
    Ok(Network {
        layers: widths
            .windows(2)
            .map(dense)
            .collect::<candle_core::Result<_>>()?,
    })
}

impl Network {
    fn loss(&self, x: &candle_core::Tensor) -> candle_core::Result<candle_core::Tensor> {
        let mut x = x.clone();
        for (at, dense) in self.layers.iter().enumerate() {
            x = if at > 0 { x.tanh()? } else { x };
            x = x.matmul(&dense.weight)?.broadcast_add(&dense.bias)?;
        }
        x.sqr()?.sum_all()
    }

    /// Returns candle's gradient at the weights plus multiples of a direction, as a model of our tensors.
    fn gradient_at(
        &self,
        step: f64,
        direction: &Mlp,
        x: &candle_core::Tensor,
    ) -> Result<Mlp, Box<dyn Error>> {
        let along = graph::convert(direction, self)?;
        let moved = graph::map2(self, &along, |weight: &Var, along: &Var| {
            let moved = (along.as_tensor() * step).and_then(|along| weight.as_tensor() + along);
            moved
                .and_then(|moved| Var::from_tensor(&moved))
                .expect("equal shapes")
        })?;
        let gradient = candle011::gradient(&moved, &moved.loss(x)?.backward()?)?;
        Ok(graph::convert(&gradient, direction)?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = network(&[3, 8, 2])?;
    let numbers: Vec<f64> = (0..15).map(|at| f64::from(at).sin()).collect();

    // The same model on our tensors. The forward pass is that of `Mlp`.
    let template = Mlp::new(&[3, 8, 2], Activation::Tanh, &mut Rngs::new(0));
    let ours = graph::convert(&model, &convert_floats(&template, DType::F64))?;
    let x = Tensor::from(numbers.clone()).reshape([5, 3]);
    let loss = |mlp: &Mlp| mlp.forward(&x).powi(2).sum();
    let direction = graph::map(&ours, |weight: &Tensor| weight.sin());
    let (_, product) = jvp(|mlp: &Mlp| grad(loss)(mlp), &ours, &direction);

    // Central differences of candle's gradients.
    let x = candle_core::Tensor::from_vec(numbers, (5, 3), &Device::Cpu)?;
    let [above, below] = [1e-5, -1e-5].map(|step| model.gradient_at(step, &direction, &x));
    let difference = graph::map2(&above?, &below?, |above: &Tensor, below: &Tensor| {
        (above - below) / 2e-5
    })?;
    for (path, expected) in graph::leaves_with_path::<Tensor, _>(&difference) {
        let error = (&product[&*path.to_string()] - expected)
            .abs()
            .max()
            .item::<f64>();
        println!("{path}: the product differs from finite differences by {error:.1e}");
        assert!(error < 1e-6);
    }

    // A step along the product, written to the variables that candle's optimizers have.
    let stepped = graph::map2(
        &ours,
        &partition::merge([product])?,
        |weight: &Tensor, product: &Tensor| weight - product * 1e-3,
    )?;
    let before = model.loss(&x)?.to_scalar::<f64>()?;
    candle011::set(&model, &graph::convert(&stepped, &model)?)?;
    println!(
        "loss {before:.4}, and {:.4} after the step",
        model.loss(&x)?.to_scalar::<f64>()?
    );
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
