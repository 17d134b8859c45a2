//! A recurrent network learns a play letter by letter, and writes a text.
//!
//! Run it with `cargo run --release --example gru`. It prints the mean loss of the last 200 steps in nats per letter, and
//! then a text. The last line is the loss on the end of the play, which the network has not read:
//!
//! ```text
//! step  200: loss 2.…
//! …
//! test loss: 1.9…
//! ```
//!
//! `--short` trains for 200 steps instead of 800.

use pytree::control::scan;
use pytree::nn::{GruCell, Rnn};
use pytree::prelude::*;
use pytree::random::Replacement;

const TEXT: &str = include_str!("data/as_you_like_it.txt");
/// The text is ASCII, and each letter is a number below this.
const LETTERS: usize = 128;
/// The number of letters at the end of the text that are not trained on.
const TEST: usize = 5000;
const BATCH: usize = 32;
/// The number of letters of a training example.
const LENGTH: usize = 64;

#[derive(Module, Clone, Debug)]
struct Writer {
    letters: Embed,
    rnn: Rnn<GruCell>,
    output: Linear,
}

impl Writer {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            letters: Embed::new(LETTERS, 32, rngs),
            rnn: Rnn::new(GruCell::new(32, 128, rngs)),
            output: Linear::new(128, LETTERS, rngs),
        }
    }

    /// Returns the logits of the next letter after each letter.
    #[shapes(text = "i32[*batch time]", return = "f32[*batch time _]")]
    fn forward(&self, text: &Tensor) -> Tensor {
        let states = self.rnn.forward(&self.letters.forward(text));
        self.output.forward(&states)
    }

    /// Returns the mean cross entropy of each letter, given the letters before it.
    fn loss(&self, text: &Tensor) -> Tensor {
        let logits = self.forward(&text.index(ix![.., ..-1]));
        softmax_cross_entropy(&logits, &text.index(ix![.., 1..])).mean()
    }
}

/// Trains on random windows of the text. The whole step is compiled, and the batch is drawn inside.
fn train(mut model: Writer, text: &Tensor, steps: u32) -> Writer {
    let mut optimizer = Optimizer::new(&model, adam(3e-3));
    let text = text.clone();
    let step = jit_mut(
        move |(model, optimizer, key): (&mut Writer, &mut Optimizer<Writer>, Key)| {
            let starts = key.choice(text.len() - LENGTH, [BATCH, 1], None, Replacement::With);
            let windows = starts + Tensor::arange(DType::I32, LENGTH + 1);
            let batch = text.take(&windows, 0);
            let (loss, gradient) = value_and_grad(|model: &Writer| model.loss(&batch))(&*model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut sum = Tensor::from(0.0_f32);
    for number in 1..=steps {
        sum += step((&mut model, &mut optimizer, Key::new(1).fold_in(number)));
        if number % 200 == 0 {
            println!("step {number:4}: loss {:.3}", sum.item::<f32>() / 200.0);
            sum = Tensor::from(0.0_f32);
        }
    }
    model
}

/// Returns `count` letters that follow a prompt.
///
/// The network reads the prompt at once. A `scan` then draws a letter in each step and feeds it back.
fn write(model: &Writer, prompt: &str, count: usize, key: &Key) -> String {
    let cell = &model.rnn.cell;
    let (state, outputs) = model
        .rnn
        .run(&model.letters.forward(&encode(prompt)), None, None);
    let step = |(state, output): (Tensor, Tensor), key: Key| {
        // A factor above 1 makes probable letters more probable.
        let letter = key.categorical(&(model.output.forward(&output) * 1.4), []);
        (cell.step(&state, &model.letters.forward(&letter)), letter)
    };
    let last = outputs.index(ix![-1]);
    let (_, letters) = scan(step, (state, last), key.split_stacked(count));
    let letters = letters.convert(DType::U8).to_vec::<u8>();
    String::from_utf8_lossy(&letters).into_owned()
}

fn encode(text: &str) -> Tensor {
    Tensor::from(text.bytes().map(i32::from).collect::<Vec<_>>())
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let text = encode(TEXT);
    let end = text.len() - TEST;
    let (training, test) = (text.index(ix![..end]), text.index(ix![end..]));

    let model = Writer::new(&mut Rngs::new(0));
    let model = train(model, &training, if is_short { 200 } else { 800 });

    let prompt = "ROSALIND\t";
    println!("\n{prompt}{}\n", write(&model, prompt, 400, &Key::new(2)));
    let test = test.reshape([TEST / 100, 100]);
    println!("test loss: {:.3}", model.loss(&test).item::<f32>());
}
