//! A layer of another library, which does not derive `Module`.

use pytree_core::Module;

mod candle_nn {
    #[derive(Clone, Debug)]
    pub struct Linear;
}

#[derive(Module, Clone, Debug)]
struct Model {
    layers: Vec<candle_nn::Linear>,
}

fn main() {}
