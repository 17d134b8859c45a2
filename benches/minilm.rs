//! Embeddings by MiniLM with its published weights: `cargo bench --bench minilm --features models -- FOLDER [--bf16]`. `tools/fetch
//! minilm` prints the folder. 32 sentences of 32 tokens are embedded. Prints the lines that `torch_minilm.py` prints.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;

use std::time::Instant;

use pytree::models::{Bert, Tokens};
use pytree::nn::convert_floats;
use pytree::prelude::*;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bf16 = arguments.iter().any(|argument| argument == "--bf16");
    arguments.retain(|argument| !argument.starts_with("--"));
    let workload = if is_bf16 { "minilm-bf16" } else { "minilm" };
    let start = Instant::now();
    let mut bert = Bert::from_pretrained(&arguments[0]).unwrap();
    if is_bf16 {
        bert = convert_floats(&bert, DType::BF16);
    }
    let load = start.elapsed().as_secs_f64() * 1e3;
    support::report(["K", workload, "load_ms", "pytree"], "ms", load, load);

    let ids = (0..32).map(|row| {
        (0..32)
            .map(|place| 1000 + (row * 977 + place * 131) % 28000)
            .collect()
    });
    let tokens = Tokens::new(&ids.collect::<Vec<Vec<i32>>>());
    let embed = jit_mut(|(bert, tokens): (&mut Bert, Tokens)| bert.embed(&tokens));
    let advance = || embed((&mut bert, tokens.clone()));
    let number = |embeddings: &Tensor| {
        embeddings
            .index(ix![.., 0])
            .convert(DType::F64)
            .sum()
            .item()
    };
    support::measure_steps(["K", workload, "pytree"], advance, number);
}
