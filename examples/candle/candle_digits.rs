//! Trains candle's tensors on handwritten digits: `cargo run --release -p pytree-candle-examples --example candle_digits`. Two layers are
//! tied, the weights are averaged, the training is resumed from a file, and then all but the last layer is frozen.

use std::error::Error;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD, loss::cross_entropy};
use pytree_core::{Filter, Module, Shared, candle011, graph};
use pytree_store::checkpoint::{Bytes, load, to_bytes};

type Done<T> = std::result::Result<T, Box<dyn Error>>;

/// Candle's steps are slow without optimizations.
const STEPS: usize = if cfg!(debug_assertions) { 5 } else { 100 };

/// A layer of variables, which are trained, or of tensors, such as averages.
#[derive(Module, Clone, Debug)]
struct Dense<T: 'static> {
    #[param("in out")]
    weight: T,
    #[param("out")]
    bias: T,
}

#[derive(Module, Clone, Debug)]
struct Network {
    first: Dense<Var>,
    /// The same layer twice: its leaves are trained, averaged and saved once.
    middle: [Shared<Dense<Var>>; 2],
    last: Dense<Var>,
}

fn dense(inputs: usize, outputs: usize) -> Result<Dense<Var>> {
    let bound = (3.0 / inputs as f64).sqrt();
    let weight = Var::rand_f64(-bound, bound, (inputs, outputs), DType::F32, &Device::Cpu)?;
    let bias = Var::zeros(outputs, DType::F32, &Device::Cpu)?;
    Ok(Dense { weight, bias })
}

impl Network {
    fn new() -> Result<Self> {
        let tied = Shared::new(dense(32, 32)?);
        let middle = [tied.clone(), tied];
        Ok(Self {
            first: dense(64, 32)?,
            middle,
            last: dense(32, 10)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let apply =
            |dense: &Dense<Var>, x: &Tensor| x.matmul(&dense.weight)?.broadcast_add(&dense.bias);
        let mut x = apply(&self.first, x)?.relu()?;
        for dense in &self.middle {
            x = apply(dense, &x)?.relu()?;
        }
        apply(&self.last, &x)
    }

    fn accuracy(&self, (x, y): &(Tensor, Tensor)) -> Result<f32> {
        let hits = self
            .forward(x)?
            .argmax(D::Minus1)?
            .to_dtype(DType::U32)?
            .eq(y)?;
        hits.to_dtype(DType::F32)?.mean_all()?.to_scalar()
    }
}

/// Trains the variables that a filter accepts.
fn train(net: &Network, filter: &Filter, (x, y): &(Tensor, Tensor), steps: usize) -> Done<()> {
    let mut sgd = SGD::new(candle011::params(net, filter)?, 0.3)?;
    for _ in 0..steps {
        sgd.backward_step(&cross_entropy(&net.forward(x)?, y)?)?;
    }
    Ok(())
}

/// Reads 1,437 training images and 360 test images.
fn digits() -> Done<[(Tensor, Tensor); 2]> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/digits.csv"))?;
    let numbers: Vec<u32> = text
        .split([',', '\n'])
        .filter(|it| !it.is_empty())
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let rows = Tensor::from_vec(numbers, (1797, 65), &Device::Cpu)?;
    let part = |start, count| -> Result<(Tensor, Tensor)> {
        let rows = rows.narrow(0, start, count)?;
        let pixels = (rows.narrow(1, 0, 64)?.to_dtype(DType::F32)? / 16.0)?;
        Ok((pixels, rows.narrow(1, 64, 1)?.flatten_all()?))
    };
    Ok([part(0, 1437)?, part(1437, 360)?])
}

fn main() -> Done<()> {
    let [training, test] = digits()?;
    let net = Network::new()?;
    train(&net, &Filter::everything(), &training, STEPS)?;

    // The same file continues in another model, bit for bit.
    let file = to_bytes(&net)?;
    let resumed = load(Bytes(&file), &Network::new()?)?;
    train(&net, &Filter::everything(), &training, STEPS)?;
    train(&resumed, &Filter::everything(), &training, STEPS)?;
    assert_eq!(to_bytes(&net)?, to_bytes(&resumed)?);
    println!(
        "accuracy {:.3}, and the same weights when resumed",
        net.accuracy(&test)?
    );

    // The average of the weights now and before.
    let before = load(Bytes(&file), &Network::new()?)?;
    let mean = |a: &Var, b: &Var| {
        ((a.as_tensor() + b.as_tensor()).and_then(|sum| sum / 2.0))
            .and_then(|it| Var::from_tensor(&it))
            .expect("equal shapes")
    };
    let average = graph::map2(&net, &before, mean)?;
    println!("accuracy of the average {:.3}", average.accuracy(&test)?);

    // Only the last layer is trained; the optimizer does not see the others.
    train(&net, &Filter::path("last"), &training, STEPS)?;
    let changed = (net.first.weight.as_tensor() - resumed.first.weight.as_tensor())?;
    assert!(changed.abs()?.max_all()?.to_scalar::<f32>()? < f32::MIN_POSITIVE);
    println!(
        "accuracy {:.3} after the last layer was trained alone",
        net.accuracy(&test)?
    );
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
