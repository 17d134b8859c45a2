//! Continues a text with Llama or a model of its architecture. Each token is the most likely one.
//!
//! Download a model and run the example:
//!
//! ```text
//! hf download HuggingFaceTB/SmolLM2-135M --local-dir models/SmolLM2-135M
//! cargo run --release --features tokenizers --example generate -- models/SmolLM2-135M "The capital of France is"
//! ```

use std::error::Error;

use pytree::models::{Llama, Tokenizer};
use pytree::nn::with_cache;
use pytree::prelude::*;

/// The number of tokens that are added.
const ADDED: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("write the folder of a model")?;
    let text = arguments
        .next()
        .unwrap_or_else(|| "Once upon a time".to_owned());
    let tokenizer = Tokenizer::from_pretrained(&folder)?;
    let llama = Llama::from_pretrained(&folder)?;

    let start = tokenizer.encode(&[text])?.ids;
    let mut tokens = start.to_vec::<i32>();
    // Keeps the keys and values of earlier tokens, so each step computes one token.
    let mut decoder = with_cache(&llama, [1], tokens.len() + ADDED);
    let step = jit_mut(|(llama, tokens): (&mut Llama, Tensor)| {
        llama.forward(&tokens).index(ix![.., -1..]).argmax(-1)
    });
    let mut next = step((&mut decoder, start));
    for _ in 1..ADDED {
        tokens.push(next.item());
        next = step((&mut decoder, next));
    }
    tokens.push(next.item());
    println!("{}", tokenizer.decode(&tokens)?);
    Ok(())
}
