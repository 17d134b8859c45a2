//! The trees A1 to A3 and the MLPs of the peers' benchmarks.

#![allow(dead_code, reason = "each benchmark uses some of it")]

use pytree::prelude::*;

/// Two leaves; `b` is a state, as the workload asks.
#[derive(Module, Clone)]
pub struct Lin {
    #[param]
    pub w: Tensor,
    #[state]
    pub b: Tensor,
}

#[derive(Module, Clone)]
pub struct A1 {
    pub l0: Lin,
    pub l1: Lin,
    pub l2: Lin,
}

#[derive(Module, Clone)]
pub struct Attention {
    pub qkv: Lin,
    pub proj: Lin,
}

#[derive(Module, Clone)]
pub struct Feed {
    pub fc: Lin,
    pub proj: Lin,
}

#[derive(Module, Clone)]
pub struct Block {
    pub ln1: Lin,
    pub attn: Attention,
    pub ln2: Lin,
    pub mlp: Feed,
}

#[derive(Module, Clone)]
pub struct A2 {
    #[param]
    pub wte: Tensor,
    #[param]
    pub wpe: Tensor,
    pub h: Vec<Block>,
    pub lnf: Lin,
}

#[derive(Module, Clone)]
pub struct A3 {
    pub layers: Vec<Lin>,
}

pub fn leaf() -> Tensor {
    Tensor::from([0.5_f32])
}

fn lin() -> Lin {
    Lin {
        w: leaf(),
        b: leaf(),
    }
}

/// 6 leaves.
pub fn a1() -> A1 {
    A1 {
        l0: lin(),
        l1: lin(),
        l2: lin(),
    }
}

/// 148 leaves.
pub fn a2() -> A2 {
    let block = || Block {
        ln1: lin(),
        attn: Attention {
            qkv: lin(),
            proj: lin(),
        },
        ln2: lin(),
        mlp: Feed {
            fc: lin(),
            proj: lin(),
        },
    };
    A2 {
        wte: leaf(),
        wpe: leaf(),
        h: (0..12).map(|_| block()).collect(),
        lnf: lin(),
    }
}

/// 2,000 leaves.
pub fn a3() -> A3 {
    A3 {
        layers: (0..1000).map(|_| lin()).collect(),
    }
}
