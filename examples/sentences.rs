//! Embeds sentences with MiniLM, and prints how similar they are. `hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir
//! models/all-MiniLM-L6-v2` downloads the model.
//!
//! Run it with `cargo run --release --features tokenizers --example sentences -- models/all-MiniLM-L6-v2`. It prints:
//!
//!      1.000  0.574  0.046 -0.007  0.110  A cat sits on the roof.
//!      0.574  1.000  0.022 -0.036 -0.036  There is a kitten on top of the house.
//!      0.046  0.022  1.000  0.530  0.072  The stock market fell by three percent on Monday, after weeks of losses.
//!     -0.007 -0.036  0.530  1.000  0.068  Shares lost value.
//!      0.110 -0.036  0.072  0.068  1.000  How do I bake bread?

use std::error::Error;

use pytree::models::{Bert, Tokenizer};
use pytree::prelude::*;

const SENTENCES: [&str; 5] = [
    "A cat sits on the roof.",
    "There is a kitten on top of the house.",
    "The stock market fell by three percent on Monday, after weeks of losses.",
    "Shares lost value.",
    "How do I bake bread?",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1);
    let folder = folder.unwrap_or_else(|| "models/all-MiniLM-L6-v2".to_owned());
    let tokenizer = Tokenizer::from_pretrained(&folder)?;
    let mut bert = Bert::from_pretrained(&folder)?;

    let embeddings: Tensor = bert.embed(&tokenizer.encode(&SENTENCES)?);
    let similarities = embeddings.matmul(&embeddings.transpose([1, 0]));
    for (row, sentence) in similarities
        .to_vec::<f32>()
        .chunks(SENTENCES.len())
        .zip(SENTENCES)
    {
        let row: Vec<String> = row.iter().map(|number| format!("{number:6.3}")).collect();
        println!("{}  {sentence}", row.join(" "));
    }
    Ok(())
}
