//! The layers of `tests/outside`, which are generic over the tensors.

use candle_core::{Device, Tensor};

#[allow(
    clippy::pedantic,
    unreachable_pub,
    reason = "it is part of another package"
)]
#[path = "../outside/layer_library.rs"]
mod layer_library;

impl layer_library::Array for Tensor {
    fn new(shape: &[usize], elements: Vec<f32>) -> Self {
        Self::from_vec(elements, shape, &Device::Cpu).unwrap()
    }
    fn matmul(&self, other: &Self) -> Self {
        Self::matmul(self, other).unwrap()
    }
    fn add_row(&self, row: &Self) -> Self {
        self.broadcast_add(row).unwrap()
    }
    fn tanh(&self) -> Self {
        Self::tanh(self).unwrap()
    }
}

#[test]
fn layers_work_with_candle() {
    layer_library::check::<Tensor>();
}
