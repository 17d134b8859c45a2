//! Trains layers of burn on handwritten digits: `cargo run --release --manifest-path examples/burn/Cargo.toml --example burn_digits`. The
//! training is resumed from a file, the weights are averaged, and then all but the last layer is frozen.

use std::{error::Error, fs, ops::Range};

use burn::module::Module as _;
use burn::nn::{Linear, LinearConfig, loss::CrossEntropyLossConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData, activation::relu};
use pytree_core::burn022::{self, AsBurn};
use pytree_core::{Filter, Module, graph};
use pytree_store::checkpoint::{Bytes, load, to_bytes};

type Done<T> = Result<T, Box<dyn Error>>;
type Digits = (Tensor<2>, Tensor<1, Int>);
const STEPS: usize = if cfg!(debug_assertions) { 5 } else { 100 };

#[derive(Module, Clone, Debug)]
struct Network {
    layers: Vec<Linear>,
    last: Linear,
}

fn network(device: &Device) -> Done<AsBurn<Network>> {
    let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
    let (layers, last) = (vec![linear(64, 32), linear(32, 32)], linear(32, 10));
    Ok(AsBurn::new(Network { layers, last })?)
}

impl Network {
    fn forward(&self, x: &Tensor<2>) -> Tensor<2> {
        let layers = self.layers.iter();
        let x = layers.fold(x.clone(), |x, linear| relu(linear.forward(x)));
        self.last.forward(x)
    }

    fn accuracy(&self, (x, y): &Digits) -> f32 {
        let found = self.forward(x).argmax(1).squeeze_dim::<1>(1);
        found.equal(y.clone()).float().mean().into_scalar()
    }
}

fn train(mut net: AsBurn<Network>, (x, y): &Digits) -> AsBurn<Network> {
    let mut sgd = SgdConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&x.device());
    for _ in 0..STEPS {
        let gradient = loss.forward(net.forward(x), y.clone()).backward();
        let gradient = GradientsParams::from_grads(gradient, &net);
        net = sgd.step(0.3, net, gradient);
    }
    net
}

/// Reads some of the 1,797 images.
fn digits(rows: Range<usize>, device: &Device) -> Done<Digits> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/digits.csv"))?;
    let numbers = text.split_terminator([',', '\n']).map(str::parse);
    let numbers = TensorData::new(numbers.collect::<Result<Vec<i32>, _>>()?, [1797, 65]);
    let rows = Tensor::<2, Int>::from_data(numbers, device).slice_dim(0, rows);
    let [pixels, labels] = [0..64, 64..65].map(|columns| rows.clone().slice_dim(1, columns));
    Ok((pixels.float() / 16.0, labels.squeeze_dim(1)))
}

fn main() -> Done<()> {
    let device = Device::flex().autodiff();
    let (training, test) = (digits(0..1437, &device)?, digits(1437..1797, &device)?);
    let net = train(network(&device)?, &training);

    // The same file continues in another model, bit for bit.
    let file = to_bytes(&net)?;
    let before = load(Bytes(&file), &network(&device)?)?;
    let (net, resumed) = (train(net, &training), train(before.clone(), &training));
    assert_eq!(to_bytes(&net)?, to_bytes(&resumed)?);
    println!("accuracy when resumed {:.3}", net.accuracy(&test));
    let mean = burn022::elementwise(|now, before| (now + before) / 2.0);
    let average = graph::map2_any(net.clone(), &before, mean)?;
    println!("accuracy of the average {:.3}", average.accuracy(&test));

    // Only the last layer is trained.
    let frozen = burn022::group(&net, &Filter::path("layers"))?;
    let tuned = train(net.clone().freeze_group(frozen), &training);
    assert_eq!(to_bytes(&tuned.layers)?, to_bytes(&net.layers)?);
    println!("accuracy of the tuned {:.3}", tuned.accuracy(&test));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
