//! Trains ndarray's arrays on handwritten digits, with a handwritten gradient: resumed, averaged, and with a frozen layer.
//! Run it with `cargo run --release -p pytree-ndarray-example`.

#[path = "../data/digits.rs"]
mod digits;
mod tests;

use ndarray::{Array1, Array2, ArrayViewD, Axis};
use pytree_core::{Filter, Module, TreeError, arrays, mixed, partition};
use pytree_store::checkpoint::{Bytes, load, to_bytes};

type View<'a> = ArrayViewD<'a, f32>;
type Images = (Array2<f32>, Vec<u32>);

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param("in out")]
    weight: Array2<f32>,
    #[param("out")]
    bias: Array1<f32>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Network {
    layers: [Linear; 2],
}

impl Network {
    fn new() -> Self {
        let layers = [(64, 32), (32, 10)].map(|shape| Linear {
            weight: Array2::from_shape_fn(shape, |(i, j)| ((i * 10 + j) as f32).sin() / 4.0),
            bias: Array1::zeros(shape.1),
        });
        Self { layers }
    }

    /// Returns the outputs of both layers.
    fn forward(&self, x: &Array2<f32>) -> [Array2<f32>; 2] {
        let [first, last] = &self.layers;
        let hidden = (x.dot(&first.weight) + &first.bias).mapv(|it| it.max(0.0));
        let logits = hidden.dot(&last.weight) + &last.bias;
        [hidden, logits]
    }

    /// Returns the gradient of the mean cross entropy.
    fn gradient(&self, x: &Array2<f32>, digits: &[u32]) -> Self {
        let [hidden, logits] = self.forward(x);
        let mut slope = logits.mapv(f32::exp);
        slope /= &slope.sum_axis(Axis(1)).insert_axis(Axis(1));
        let expected = |(at, digit)| f32::from(digits[at] as usize == digit);
        slope -= &Array2::from_shape_fn(slope.dim(), expected);
        slope /= digits.len() as f32;
        let below = slope.dot(&self.layers[1].weight.t()) * hidden.mapv(|it| f32::from(it > 0.0));
        let layers = [(x, below), (&hidden, slope)].map(|(x, slope)| Linear {
            weight: x.t().dot(&slope),
            bias: slope.sum_axis(Axis(0)),
        });
        Self { layers }
    }

    /// Returns the network after 100 steps. Parameters that the filter does not accept are frozen.
    fn trained(mut self, filter: &Filter, (x, digits): &Images) -> Result<Self, TreeError> {
        let step = |weights: View<'_>, slopes: View<'_>| &weights - &slopes;
        for _ in 0..100 {
            let gradient = self.gradient(x, digits);
            let [part, slopes] = [&self, &gradient].map(|it| partition::filter(&mixed(it), filter));
            let part = arrays::map2(&part, &slopes, step)?;
            self = partition::replace(&mixed(&self), &part)?.into_model()?;
        }
        Ok(self)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arrays = |(pixels, digits): (Vec<_>, _)| (Array2::from(pixels), digits);
    let [training, test] = digits::read().map(arrays);
    let all = Filter::everything();
    let half = Network::new().trained(&all, &training)?;
    let resumed = load(Bytes(&to_bytes(&half)?), &Network::new())?;
    let net = half.clone().trained(&all, &training)?;
    assert_eq!(resumed.trained(&all, &training)?, net);
    let average = arrays::map2(&net, &half, |a: View<'_>, b: View<'_>| (&a + &b) / 2.0)?;
    let tuned = net.clone().trained(&Filter::path("layers[1]"), &training)?;
    assert_eq!(tuned.layers[0], net.layers[0]);
    for (name, net) in [("trained", net), ("averaged", average), ("tuned", tuned)] {
        let [_, logits] = net.forward(&test.0);
        println!("{name}: accuracy {:.3}", digits::accuracy(logits, &test.1));
    }
    Ok(())
}
