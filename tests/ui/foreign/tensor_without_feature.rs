//! The feature for the tensors of another library is off.

use pytree_core::Module;

mod candle_core {
    #[derive(Clone, Debug)]
    pub struct Tensor;
}

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param]
    weight: candle_core::Tensor,
}

fn main() {}
