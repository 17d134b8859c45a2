//! A variable of another library is static, and its feature is off.

use pytree_core::Module;

mod candle_core {
    #[derive(Clone, Debug)]
    pub struct Var;
}

#[derive(Module, Clone, Debug)]
struct Scale {
    #[r#static]
    factor: candle_core::Var,
}

fn main() {}
