//! The training cases of the benchmarks: the losses at steps 1 and 20 are those of the other frameworks.

#[path = "../../examples/digits/workload.rs"]
mod workload;

use pytree::device::Device;
use pytree::prelude::*;

/// The losses at steps 1 and 20 of an MLP on the deterministic data, on the device or the host.
fn losses(sizes: [usize; 4], batch: usize, device: &Device) -> (f32, f32) {
    let mut model = Mlp::new(&sizes, Activation::Relu, &mut Rngs::new(0));
    for (number, layer) in model.layers.iter_mut().enumerate() {
        let (inputs, outputs) = (sizes[number], sizes[number + 1]);
        let (weight, bias) = workload::linear(number as u64, inputs, outputs);
        layer.weight = Tensor::new([inputs, outputs], weight);
        layer.bias = Some(Tensor::from(bias));
    }
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let step = jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    )
    .on(device);
    let mut losses = Vec::new();
    for count in 0..20 {
        let x = Tensor::new(
            [batch, sizes[0]],
            workload::uniform(10 + count % 4, batch * sizes[0], 1.0),
        );
        let y = Tensor::from(workload::labels(20 + count % 4, batch, 10));
        let loss;
        (model, optimizer, loss) = step((model, optimizer, x, y));
        losses.push(loss.item::<f32>());
    }
    (losses[0], losses[19])
}

#[test]
fn case_c1_has_losses_of_every_peer() {
    for device in [Some(Device::HOST), crate::device::device()]
        .iter()
        .flatten()
    {
        let (first, twentieth) = losses([64, 128, 128, 10], 64, device);
        assert!((first - 2.297_599).abs() < 1e-6, "{first} on {device}");
        assert!(
            (twentieth - 2.201_15).abs() < 1e-5,
            "{twentieth} on {device}"
        );
    }
}
