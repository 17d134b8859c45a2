//! A layer of another library as a parameter.

use pytree_core::Module;

mod candle_nn {
    #[derive(Clone, Debug)]
    pub struct Linear;
}

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    layer: candle_nn::Linear,
}

fn main() {}
