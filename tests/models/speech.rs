//! The speech detector of `examples/speech.rs` with its published weights.

use super::{assert_near, fetched};
use crate::goldens::files::read;

#[path = "../../examples/speech.rs"]
#[allow(dead_code, reason = "the function `main` of the example")]
mod example;

/// Chunk by chunk, with the state of the chunk before.
#[test]
fn probabilities_are_those_of_silero_vad() {
    let path = "silero-vad-6.2.3/silero_vad_16k.safetensors";
    let Some(weights) = fetched("PYTREE_SILERO_VAD", path, "tools/fetch silero-vad") else {
        return;
    };
    let detector = example::Detector::load(weights).unwrap();
    let mut state = detector.start();
    let chunks = example::audio().into_iter();
    let found: Vec<f32> = chunks
        .map(|chunk| detector.forward(&mut state, &chunk).item())
        .collect();
    assert_near(
        "probabilities",
        &found,
        &read("models.json")["speech"],
        1e-4,
    );
}
