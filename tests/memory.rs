//! The most memory that is allocated at a time: to read a file at most 1.2 times its size, and to use quantized weights much less than the
//! weights would take as floats.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unsafe_code,
    missing_docs,
    reason = "an allocator that counts hands everything on to the system's"
)]

#[path = "memory/cases.rs"]
mod cases;
mod counting;
#[path = "memory/in_place.rs"]
mod in_place;
#[path = "memory/methods.rs"]
mod methods;
#[path = "memory/quantized.rs"]
mod quantized;
#[path = "memory/refused.rs"]
mod refused;

use std::path::PathBuf;

use pytree::checkpoint::{LoadOptions, SaveOptions, WeightNames};
use pytree::nn::{Initializer, LinearOptions, Quantized, convert_floats};
use pytree::prelude::*;

use crate::counting::peak;

fn file(name: &str) -> PathBuf {
    let unique = format!("pytree-memory-{}-{name}.safetensors", std::process::id());
    std::env::temp_dir().join(unique)
}

/// One large layer, so that a second copy of it would be nearly the whole file.
fn model() -> Mlp {
    let options = LinearOptions {
        weight_init: Initializer::Zeros,
        ..LinearOptions::default()
    };
    Mlp::with_options(
        &[1500, 4000, 10],
        Activation::Relu,
        options,
        &mut Rngs::new(0),
    )
}

/// All checks are in one test, because tests run at the same time and allocate from the same system.
#[test]
fn memory_has_limits() {
    // Without memory for reuse, which `peak` does not count.
    pytree::memory::set_limit(0);
    refused::operations_return_errors();
    refused::steps_keep_arguments();
    reading_needs_little_more_than_the_file();
    quantized_weights_are_not_widened();
    quantized::products_read_integers();
    quantized::models_are_not_widened();
    in_place::updates_overwrite_what_nothing_else_holds();
    in_place::steps_overwrite_tables_and_states();
    methods::need_little_more_than_their_results();
}

fn quantized_weights_are_not_widened() {
    let model = model();
    let (quantized, _) = peak(|| Quantized::new(&model, &Filter::param()));
    drop(model);
    let forward = jit(|(quantized, x): (&Quantized<Mlp>, Tensor)| quantized.model().forward(&x));
    for rows in [1, 32] {
        let x = Tensor::ones(DType::F32, [rows, 1500]);
        let (_, most) = peak(|| forward((&quantized, x)));
        println!("quantized, {rows} rows: {most} bytes for a weight of 24000000 bytes");
        // Each thread has the floats of at most 575 columns.
        assert!(most < 20_000_000, "{most}");
    }
}

fn reading_needs_little_more_than_the_file() {
    let template = model();
    let path = file("large");
    let pytorch = || SaveOptions::new().names(WeightNames::pytorch());
    let check = |what: &str, size: u64, most: usize| {
        let ratio = most as f64 / size as f64;
        println!("{what}: {most} bytes for a file of {size} bytes, {ratio:.3} times its size");
        assert!(ratio <= 1.2, "{what}: {ratio}");
        assert!(ratio > 0.9 || what.starts_with("list"), "{what}: {ratio}");
    };
    let size = || std::fs::metadata(&path).unwrap().len();

    checkpoint::save(&path, &template).unwrap();
    let (loaded, most) = peak(|| checkpoint::load(&path, &template).unwrap());
    check("load", size(), most);
    drop(loaded);
    // A random template would be a second copy of the weights.
    let build = |rngs: &mut Rngs| Mlp::new(&[1500, 4000, 10], Activation::Relu, rngs);
    let (loaded, most) = peak(|| checkpoint::load_as(&path, &LoadOptions::new(), build).unwrap());
    check("load as", size(), most);
    drop(loaded);
    let narrow = |rngs: &mut Rngs| convert_floats(&build(rngs), DType::BF16);
    let options = LoadOptions::new().convert_floats();
    let (loaded, most) = peak(|| checkpoint::load_as(&path, &options, narrow).unwrap());
    check("load as bf16", size() / 2, most);
    drop(loaded);
    let (tensors, most) = peak(|| checkpoint::tensors(&path).unwrap());
    check("tensors", size(), most);
    drop(tensors);
    let (_, most) = peak(|| checkpoint::inspect(&path).unwrap());
    check("list the leaves", size(), most);

    checkpoint::save_with(&path, &template, &pytorch()).unwrap();
    let options = LoadOptions::new().names(WeightNames::pytorch());
    let (loaded, most) = peak(|| checkpoint::load_with(&path, &template, &options).unwrap());
    check("load transposed", size(), most);
    drop(loaded);
    std::fs::remove_file(&path).unwrap();
}
