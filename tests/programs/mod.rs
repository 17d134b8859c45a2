//! Programs as users write them. The API was designed for these programs, so a program changes only for a reason that
//! the CHANGELOG states.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod bad_input;
mod mistakes;
mod named_mistakes;
// This program keeps its compact format.
#[rustfmt::skip]
mod p01_mlp;
mod p02_state;
mod p03_layers;
mod p04_static;
mod p05_generic;
mod p06_ndarray;
mod p07_tied;
mod p08_vmap;
mod p09_stored;
mod p10_freeze;
mod p11_parts;
mod p12_derivatives;
mod p13_trees;
mod p14_checkpoint;
mod p15_by_hand;
mod p16_selectors;
mod p17_vmap_states;
mod p18_inspecting;
mod p19_control_flow;
mod p20_states;
mod p21_references;
mod p22_fine_tuning;
mod p23_fallible;
mod p23_jit_mut;
mod p24_warnings;
mod p25_any_model;
mod p25_panics;
mod p26_meta_learning;
mod p27_train_state;
mod p28_ensemble;
mod p29_attention;
mod p30_convolution;
mod p31_tied_axes;
mod p32_stack;
mod p33_residual;
mod p34_layer_enum;
mod p35_labels;
mod p36_scan_body;
mod p37_ensemble_axes;
mod p38_wrong_checkpoint;
mod p39_adapters;
mod p40_gpt;
mod p41_cross_attention;
mod p42_padded_batch;
mod p50_digits_cnn;
mod p51_sequential;
mod p52_gru_sampling;
mod p53_lora;
mod p54_vae_ensemble;
mod p55_gaussian_process;
mod p56_data_parallel;
mod p57_sharded_transformer;
mod p58_roles;
mod p63_csv_crate;
mod p64_stacked_members;
mod p65_other_arrays;
mod p66_table_rows;

/// Returns the message of the panic in which the action ends. Line numbers of files in this folder are replaced by
/// `LINE`.
fn panic_message<R>(action: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
    let payload = outcome.err().expect("the action panics");
    let message = payload.downcast_ref::<String>().unwrap();
    let mut parts = message.split(".rs:");
    let mut all = parts.next().unwrap().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit());
        all = format!("{all}.rs:LINE{rest}");
    }
    all
}
