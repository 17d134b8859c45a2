//! The feature for the tensors of another library is off, in a container.

use pytree_core::Module;

mod candle_core {
    #[derive(Clone, Debug)]
    pub struct Tensor;
}

#[derive(Module, Clone, Debug)]
struct Norm {
    #[state]
    mean: Option<candle_core::Tensor>,
}

fn main() {}
