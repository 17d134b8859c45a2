//! Trains a GPT on two acts of a play, letter by letter: `cargo run --release --example char_gpt`.
//!
//! The program prints losses, and then a text that the model writes with a cache of keys and values. `--check` compares
//! the first 100 losses with the losses of the same model in Flax NNX. The script `flax_losses.py` writes the losses of
//! Flax to `flax_losses.txt`. `--help` lists the options.

mod model;

use std::process::ExitCode;
use std::time::Instant;

use pytree::nn::{summary, with_cache};
use pytree::prelude::*;

use crate::model::{Gpt, LENGTH};

const HELP: &str = "\
Trains a GPT on two acts of a play, letter by letter, and prints a text that it writes.

Usage: cargo run --release --example char_gpt -- [options]

  --steps N          number of training steps (default: 1000)
  --letters N        number of letters to write, up to 64 with the prompt (default: 64)
  --temperature T    0 writes the most probable letter, 1 draws from the distribution (default: 0.7)
  --check            compare the first losses with those of Flax, and fail if they differ by more than 1e-3
  --help             print this
";

const TEXT: &str = include_str!("../data/as_you_like_it.txt");
const FLAX_LOSSES: &str = include_str!("flax_losses.txt");
const PROMPT: &str = "ORLANDO\t";
const BATCH: usize = 16;
const RATE: f64 = 3e-3;

/// The options of a run.
struct Options {
    steps: u32,
    letters: usize,
    temperature: f32,
    is_checked: bool,
}

impl Options {
    /// Parses the command line. Returns `None` if it contains `--help`.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            steps: 1000,
            letters: LENGTH,
            temperature: 0.7,
            is_checked: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            let problem = |value: &str| format!("{argument} needs a number, found `{value}`");
            match argument.as_str() {
                "--help" | "-h" => return Ok(None),
                "--steps" => {
                    let value = value();
                    options.steps = value.parse().map_err(|_| problem(&value))?;
                }
                "--letters" => {
                    let value = value();
                    options.letters = value.parse().map_err(|_| problem(&value))?;
                }
                "--temperature" => {
                    let value = value();
                    options.temperature = value.parse().map_err(|_| problem(&value))?;
                }
                "--check" => options.is_checked = true,
                other => return Err(format!("unknown option {other}; --help lists them")),
            }
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            Ok(())
        }
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let letters = alphabet();
    let mut gpt = Gpt::new(letters.len(), &mut Rngs::new(0));
    println!("{}", summary(&gpt));
    let losses = train(&mut gpt, &letters, options.steps);
    if options.is_checked {
        let difference = difference_to_flax(&losses)?;
        println!("largest difference to the losses of Flax: {difference:.1e}");
        if difference > 1e-3 {
            return Err("the losses differ from those of Flax by more than 1e-3".to_owned());
        }
    }
    println!("{}", write(&gpt, &letters, options));
    Ok(())
}

/// Returns the different letters of the text in their order.
fn alphabet() -> Vec<char> {
    let mut letters: Vec<char> = TEXT.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    letters
}

/// Returns the index in `letters` of each letter of `text`.
fn encode(letters: &[char], text: &str) -> Vec<i32> {
    let number = |letter| letters.partition_point(|&other| other < letter);
    text.chars()
        .map(|letter| i32::try_from(number(letter)).unwrap_or_default())
        .collect()
}

/// Trains the model and returns the loss of each step.
fn train(gpt: &mut Gpt, letters: &[char], steps: u32) -> Vec<f32> {
    let text = Tensor::from(encode(letters, TEXT));
    let window = Tensor::arange(DType::I32, LENGTH + 1);
    let end = i32::try_from(text.len() - LENGTH).unwrap_or(i32::MAX);
    let mut optimizer = Optimizer::new(gpt, adam(RATE));
    let step = jit_mut(
        move |(gpt, optimizer, key): (&mut Gpt, &mut Optimizer<Gpt>, Key)| {
            let starts = key.randint([BATCH, 1], 0, end);
            let batch = text.at_indices(&(starts + &window), 0).get();
            let (x, y) = (batch.index(ix![.., ..-1]), batch.index(ix![.., 1..]));
            let loss = |gpt: &mut Gpt| softmax_cross_entropy(&gpt.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad_mut(loss)(gpt);
            optimizer.update(gpt, &gradient);
            loss
        },
    );
    let start = Instant::now();
    let mut losses = Vec::new();
    for number in 0..steps {
        let key = Key::new(1).fold_in(number);
        losses.push(step((&mut *gpt, &mut optimizer, key)).item::<f32>());
        if (number + 1) % 100 == 0 || number + 1 == steps {
            let loss = losses.iter().rev().take(50).sum::<f32>() / losses.len().min(50) as f32;
            let seconds = start.elapsed().as_secs_f32();
            println!("step {:5}, loss {loss:.3}, {seconds:.1} s", number + 1);
        }
    }
    losses
}

/// Returns the largest difference between the first losses and the losses of Flax.
fn difference_to_flax(losses: &[f32]) -> Result<f32, String> {
    let mut largest = 0.0_f32;
    let lines = FLAX_LOSSES.lines().filter(|line| !line.starts_with('#'));
    for (line, loss) in lines.zip(losses) {
        let expected: f32 = line
            .parse()
            .map_err(|_| format!("flax_losses.txt has the line `{line}`, expected a number"))?;
        // A NaN also counts as a difference.
        let difference = (loss - expected).abs();
        largest = if difference.is_nan() {
            f32::INFINITY
        } else {
            largest.max(difference)
        };
    }
    Ok(largest)
}

/// Writes a text letter by letter. One trace serves the letters of the prompt and the letters that the model writes.
fn write(gpt: &Gpt, letters: &[char], options: &Options) -> String {
    let step = jit_mut(
        |(gpt, token, key, temperature): (&mut Gpt, Tensor, Key, Tensor)| {
            let logits = gpt.forward(&token).index(ix![.., -1]);
            let gumbel = -(-key.uniform(DType::F32, logits.shape()).log()).log();
            (logits + gumbel * temperature)
                .argmax(-1)
                .convert(DType::I32)
        },
    );
    let mut decoder = with_cache(&eval(gpt), [1], LENGTH);
    let mut written = encode(letters, PROMPT);
    for place in 0..options.letters.min(LENGTH).saturating_sub(1) {
        let token = Tensor::from([[written[place]]]);
        let key = Key::new(2).fold_in(place);
        let temperature = Tensor::from(options.temperature);
        let next = step((&mut decoder, token, key, temperature)).item::<i32>();
        if place + 1 == written.len() {
            written.push(next);
        }
    }
    let letter = |&number: &i32| usize::try_from(number).ok().and_then(|n| letters.get(n));
    written.iter().filter_map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_losses_equal_those_of_flax() {
        let letters = alphabet();
        let mut gpt = Gpt::new(letters.len(), &mut Rngs::new(0));
        let losses = train(&mut gpt, &letters, 100);
        let difference = difference_to_flax(&losses);
        assert!(
            difference.is_ok_and(|difference| difference < 1e-3),
            "{losses:?}"
        );
    }
}
