//! Finds speech in audio with the weights of Silero VAD (MIT): a short-time Fourier transform, four convolutions and an LSTM.
//!
//! ```text
//! cargo run --release --example speech -- $(tools/fetch silero-vad)
//! ```
//!
//! It prints the probability of speech in each chunk of 32 ms. The audio is made here: noise, a buzz with the formants of a vowel,
//! and noise again.

use std::error::Error;
use std::f64::consts::TAU;
use std::path::Path;

use pytree::checkpoint::{CheckpointError, LoadOptions, WeightNames};
use pytree::nn::{ConvOptions, ConvPadding, LstmCell, RecurrentCell};
use pytree::padding::PadMode;
use pytree::prelude::*;

/// The number of samples per second, of a chunk, and of the end of the chunk before, which the detector gets again.
const RATE: usize = 16_000;
const CHUNK: usize = 512;
const CONTEXT: usize = 64;

/// The detector, with the names of its file. The axes of audio are `[batch, time, channels]`.
#[derive(Module, Clone, Debug)]
pub(crate) struct Detector {
    stft_conv: Conv,
    conv1: Conv,
    conv2: Conv,
    conv3: Conv,
    conv4: Conv,
    lstm_cell: LstmCell,
    final_conv: Conv,
}

/// What the detector keeps between two chunks: the memory of the LSTM, and the last samples.
#[derive(Pytree, Clone, Debug)]
pub(crate) struct State {
    carry: (Tensor, Tensor),
    context: Tensor,
}

/// Creates a convolution over time.
fn conv(inputs: usize, outputs: usize, size: usize, stride: usize, rngs: &mut Rngs) -> Conv {
    let half = (size / 2).cast_signed();
    let options = ConvOptions {
        strides: stride.into(),
        padding: ConvPadding::from([(half, half)]),
        ..ConvOptions::default()
    };
    Conv::with_options(inputs, outputs, [size], options, rngs)
}

impl Detector {
    fn new(rngs: &mut Rngs) -> Self {
        let transform = ConvOptions {
            strides: 128.into(),
            padding: ConvPadding::Valid,
            bias_init: None,
            ..ConvOptions::default()
        };
        Self {
            stft_conv: Conv::with_options(1, 258, [256], transform, rngs),
            conv1: conv(129, 128, 3, 1, rngs),
            conv2: conv(128, 64, 3, 2, rngs),
            conv3: conv(64, 64, 3, 2, rngs),
            conv4: conv(64, 128, 3, 1, rngs),
            lstm_cell: LstmCell::new(128, 128, rngs),
            final_conv: conv(128, 1, 1, 1, rngs),
        }
    }

    pub(crate) fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        // PyTorch's LSTM has two biases, and `WeightNames` adds them.
        let options = LoadOptions::new().names(WeightNames::pytorch());
        checkpoint::load_as(path, &options, Self::new).map(|(detector, _)| detector)
    }

    pub(crate) fn start(&self) -> State {
        State {
            carry: self.lstm_cell.initial_carry(&[1]),
            context: Tensor::zeros(DType::F32, [1, CONTEXT]),
        }
    }

    /// Returns the probability of speech in a chunk, `[1, 512]` to `[]`, and writes the state for the next one.
    pub(crate) fn forward(&self, state: &mut State, chunk: &Tensor) -> Tensor {
        let x = Tensor::concatenate(&[state.context.clone(), chunk.clone()], 1);
        state.context = chunk.index(ix![.., -64..]);
        let x = x
            .pad_mode(PadMode::Reflect, [(0, 0), (0, 64)])
            .expand_dims(-1);
        let parts = self.stft_conv.forward(&x).split(2, -1);
        let mut x = (parts[0].square() + parts[1].square()).sqrt();
        for conv in [&self.conv1, &self.conv2, &self.conv3, &self.conv4] {
            x = conv.forward(&x).relu();
        }
        let (carry, h) = self.lstm_cell.step(&state.carry, &x.squeeze(1));
        state.carry = carry;
        self.final_conv
            .forward(&h.relu().expand_dims(1))
            .sigmoid()
            .squeeze(-1)
            .squeeze(-1)
            .squeeze(-1)
    }
}

/// Returns the chunks of three seconds of audio, each `[1, 512]`. From the first to the second second, harmonics of a falling
/// pitch have the formants of the vowel in "father", and swell four times.
pub(crate) fn audio() -> Vec<Tensor> {
    let (mut noise, mut phase) = (1_u32, 0.0_f64);
    let mut samples = Vec::new();
    for n in 0..3 * RATE {
        let t = n as f64 / RATE as f64;
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut sample = (f64::from(noise) / f64::from(u32::MAX) - 0.5) * 0.004;
        if (1.0..2.0).contains(&t) {
            let pitch = 140.0 - 30.0 * (t - 1.0);
            phase += TAU * pitch / RATE as f64;
            for harmonic in 1..=30 {
                let frequency = f64::from(harmonic) * pitch;
                let formant = |at: f64, width: f64| (-((frequency - at) / width).powi(2)).exp();
                let loudness = formant(730.0, 150.0)
                    + 0.5 * formant(1090.0, 200.0)
                    + 0.2 * formant(2440.0, 300.0)
                    + 0.05;
                sample += 0.15
                    * (TAU / 2.0 * 4.0 * t).sin().powi(2)
                    * loudness
                    * (f64::from(harmonic) * phase).sin();
            }
        }
        #[allow(clippy::cast_possible_truncation, reason = "a sample has few digits")]
        samples.push(sample as f32);
    }
    let chunks = samples.chunks_exact(CHUNK);
    chunks
        .map(|chunk| Tensor::new([1, CHUNK], chunk.to_vec()))
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("write the path of silero_vad_16k.safetensors")?;
    let detector = Detector::load(path)?;
    let mut state = detector.start();
    let step = jit_mut(|(state, detector, chunk): (&mut State, Detector, Tensor)| {
        detector.forward(state, &chunk)
    });
    for (place, chunk) in audio().into_iter().enumerate() {
        let probability: f32 = step((&mut state, detector.clone(), chunk)).item();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 40"
        )]
        let bar = "#".repeat((probability * 40.0) as usize);
        println!(
            "{:5.2} s {probability:.3} {bar}",
            (place * CHUNK) as f64 / RATE as f64
        );
    }
    Ok(())
}
