//! Trains candle's tensors on handwritten digits, with a tied layer: resumed, averaged, opened in a model of our tensors, and with frozen
//! layers. Run it with `cargo run --release -p pytree-candle-examples --example candle_digits`.

#[path = "../data/digits.rs"]
mod digits;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD, loss::cross_entropy};
use pytree::prelude::{Activation, Mlp, Rngs};
use pytree_core::{Filter, Module, Shared, candle011, graph, tree};
use pytree_store::checkpoint::{Bytes, load, to_bytes};

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("in out")]
    weight: Var,
    #[param("out")]
    bias: Var,
}

#[derive(Module, Clone, Debug)]
struct Network {
    layers: [Shared<Linear>; 4],
}

impl Network {
    fn new() -> Result<Self> {
        let linear = |inputs, outputs| -> Result<_> {
            let weight = Var::randn_f64(0.0, 0.2, (inputs, outputs), DType::F32, &Device::Cpu)?;
            let bias = Var::zeros(outputs, DType::F32, &Device::Cpu)?;
            Ok(Shared::new(Linear { weight, bias }))
        };
        // The same layer twice: its leaves are trained, averaged and saved once.
        let tied = linear(32, 32)?;
        let layers = [linear(64, 32)?, tied.clone(), tied, linear(32, 10)?];
        Ok(Self { layers })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let apply = |x: &Tensor, it: &Linear| x.matmul(&it.weight)?.broadcast_add(&it.bias);
        let [first, rest @ ..] = &self.layers;
        rest.iter()
            .try_fold(apply(x, first)?, |x, it| apply(&x.relu()?, it))
    }

    fn train(&self, vars: Vec<Var>, (x, digits): &(Tensor, Tensor)) -> Result<()> {
        let mut sgd = SGD::new(vars, 0.3)?;
        for _ in 0..if cfg!(debug_assertions) { 5 } else { 100 } {
            sgd.backward_step(&cross_entropy(&self.forward(x)?, digits)?)?;
        }
        Ok(())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [(pixels, digits), (test, labels)] = digits::read();
    let rows = |it: &[[f32; 64]]| Tensor::from_slice(it.as_flattened(), ((), 64), &Device::Cpu);
    let training = (rows(&pixels)?, Tensor::new(digits, &Device::Cpu)?);
    let logits = |net: &Network| net.forward(&rows(&test)?)?.flatten_all()?.to_vec1();
    let print = |name, logits| println!("{name}: {:.3}", digits::accuracy(logits, &labels));
    let all = Filter::everything();
    let net = Network::new()?;
    net.train(candle011::params(&net, &all)?, &training)?;
    let file = to_bytes(&net)?;
    let [half, resumed] = [load(Bytes(&file), &net)?, load(Bytes(&file), &net)?];
    net.train(candle011::params(&net, &all)?, &training)?;
    resumed.train(candle011::params(&resumed, &all)?, &training)?;
    assert!(to_bytes(&net)? == to_bytes(&resumed)?, "bit for bit");
    print("trained", logits(&net)?);
    let mean = |a: &Var, b: &Var| Var::from_tensor(&((a.as_tensor() + b.as_tensor())? / 2.0)?);
    let average = graph::map2(&net, &half, |a, b| mean(a, b).expect("equal shapes"))?;
    print("averaged", logits(&average)?);
    let last = candle011::params(&net, &Filter::path("layers[3]"))?; // the others are frozen
    net.train(last, &training)?;
    assert_eq!(to_bytes(&net.layers[0])?, to_bytes(&resumed.layers[0])?);
    // A file with the tied layer at both places opens in a model of our tensors.
    let file = to_bytes(&tree::map_to(&net, Var::clone))?;
    let mlp = Mlp::new(&[64, 32, 32, 32, 10], Activation::Relu, &mut Rngs::new(0));
    let ours = load(Bytes(&file), &mlp)?.forward(&test.clone().into());
    let is_same = |(a, b): (&f32, f32)| (a - b).abs() <= 1e-6 * a.abs().max(1.0);
    let ours = ours.to_vec();
    assert!(ours.iter().zip(logits(&net)?).all(is_same));
    print("the last layer trained alone, in our Mlp", ours);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
