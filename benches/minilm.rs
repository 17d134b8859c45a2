//! Embeddings by MiniLM with its published weights: `cargo bench --bench minilm --features models -- FOLDER [--bf16 | --cold]`.
//! `tools/fetch minilm` prints the folder. 32 sentences of 32 tokens are embedded. With `--cold`, the time from the start of the process
//! to the first embedding of one sentence. Prints the lines that `torch_minilm.py` prints.

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

/// Returns sentences of 32 tokens.
fn sentences(count: u32) -> Tokens {
    let ids = support::sentences(count).into_iter();
    let ids = ids.map(|row| row.into_iter().map(u32::cast_signed).collect());
    Tokens::new(&ids.collect::<Vec<Vec<i32>>>())
}

/// Returns the sum of the first numbers of the embeddings.
fn number(embeddings: &Tensor) -> f64 {
    let first = embeddings.index(ix![.., 0]);
    first.convert(DType::F64).sum().item()
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let (is_bf16, is_cold) = (has("--bf16"), has("--cold"));
    arguments.retain(|argument| !argument.starts_with("--"));
    let start = Instant::now();
    let mut bert = Bert::from_pretrained(&arguments[0]).unwrap();
    if is_cold {
        let embeddings = bert.embed(&sentences(1));
        support::report_cold_start(["K", "minilm-cold", "pytree"], number(&embeddings));
        return;
    }
    let workload = if is_bf16 { "minilm-bf16" } else { "minilm" };
    if is_bf16 {
        bert = convert_floats(&bert, DType::BF16);
    }
    let load = start.elapsed().as_secs_f64() * 1e3;
    support::report(["K", workload, "load_ms", "pytree"], "ms", load, load);

    let tokens = sentences(32);
    let embed = jit_mut(|(bert, tokens): (&mut Bert, Tokens)| bert.embed(&tokens));
    let advance = || embed((&mut bert, tokens.clone()));
    support::measure_steps(["K", workload, "pytree"], advance, number);
}
