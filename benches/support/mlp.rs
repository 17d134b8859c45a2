//! The MLPs of the cases C1 to C3, with the initial parameters all peers have.

use pytree::prelude::*;

use super::workload;

/// Layers of these widths, ReLU between them.
pub fn model(sizes: &[usize]) -> Mlp {
    let mut model = Mlp::new(sizes, Activation::Relu, &mut Rngs::new(0));
    for (number, layer) in model.layers.iter_mut().enumerate() {
        let (inputs, outputs) = (sizes[number], sizes[number + 1]);
        let (weight, bias) = workload::linear(number as u64, inputs, outputs);
        layer.weight = Tensor::new([inputs, outputs], weight);
        layer.bias = Some(Tensor::from(bias));
    }
    model
}
