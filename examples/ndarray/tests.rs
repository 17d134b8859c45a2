//! The gradient is that of finite differences, and the file opens in a model of tensors.
#![cfg(test)]

use std::error::Error;

use ndarray::{Array2, ArrayView1, ArrayViewD};
use pytree::prelude::{Activation, Mlp, Rngs, Tensor};
use pytree_core::arrays;
use pytree_store::checkpoint::{Bytes, load, to_bytes};

use crate::Network;

fn images() -> (Array2<f32>, Vec<u32>) {
    let x = Array2::from_shape_fn((5, 64), |(at, pixel)| ((64 * at + pixel) as f32).cos());
    (x, vec![3, 1, 4, 1, 5])
}

/// Returns the mean cross entropy.
fn loss(net: &Network) -> f32 {
    let (x, digits) = images();
    let [_, logits] = net.forward(&x);
    let loss = |(row, &digit): (ArrayView1<'_, f32>, &u32)| {
        row.mapv(f32::exp).sum().ln() - row[digit as usize]
    };
    logits
        .rows()
        .into_iter()
        .zip(&digits)
        .map(loss)
        .sum::<f32>()
        / 5.0
}

#[test]
fn it_runs() {
    crate::main().unwrap();
}

#[test]
fn gradient_is_that_of_finite_differences() {
    let (net, (x, digits)) = (Network::new(), images());
    let gradient = net.gradient(&x, &digits);
    let mut squares = 0.0;
    arrays::for_each(&gradient, |it: ArrayViewD<'_, f32>| {
        squares += it.mapv(|it| it * it).sum();
    });
    // The derivative along the gradient is its squared length.
    let moved = |step: f32| {
        let along = |it: ArrayViewD<'_, f32>, slope: ArrayViewD<'_, f32>| &it + &slope * step;
        loss(&arrays::map2(&net, &gradient, along).unwrap())
    };
    let difference = (moved(1e-4) - moved(-1e-4)) / 2e-4;
    assert!(
        (difference / squares - 1.0).abs() < 1e-2,
        "{difference} {squares}"
    );
}

#[test]
fn file_opens_in_our_mlp() -> Result<(), Box<dyn Error>> {
    let (net, (x, _)) = (Network::new(), images());
    let mlp = Mlp::new(&[64, 32, 10], Activation::Relu, &mut Rngs::new(0));
    let mlp = load(Bytes(&to_bytes(&net)?), &mlp)?;
    let ours = mlp.forward(&Tensor::from(x.clone())).to_vec::<f32>();
    let [_, theirs] = net.forward(&x);
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
    }
    Ok(())
}
