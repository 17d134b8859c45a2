//! A recurrent network learns a text, letter by letter, and then writes it.

use pytree::nn::{GruCell, RecurrentCell, Rnn};
use pytree::prelude::*;

const TEXT: &str = "hello world. ";

#[derive(Module, Clone, Debug)]
struct Writer {
    letters: Embed,
    rnn: Rnn<GruCell>,
    head: Linear,
}

impl Writer {
    #[shapes(letters = "i32[*batch time]", return = "float[*batch time 128]")]
    fn forward(&self, letters: &Tensor) -> Tensor {
        let states = self.rnn.forward(&self.letters.forward(letters));
        self.head.forward(&states)
    }
}

#[test]
fn recurrent_network_writes_what_it_learned() {
    let mut rngs = Rngs::new(0);
    let mut model = Writer {
        letters: Embed::new(128, 16, &mut rngs),
        rnn: Rnn::new(GruCell::new(16, 32, &mut rngs)),
        head: Linear::new(32, 128, &mut rngs),
    };
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let step = jit_mut(
        |(model, optimizer, text): (&mut Writer, &mut Optimizer<_>, Tensor)| {
            let (x, y) = (text.index(ix![..-1]), text.index(ix![1..]));
            let loss = |model: &Writer| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let text = Tensor::from(TEXT.repeat(4).bytes().map(i32::from).collect::<Vec<_>>());
    for _ in 0..150 {
        step((&mut model, &mut optimizer, text.clone()));
    }
    let (mut state, mut letter) = (model.rnn.cell.initial_carry(&[]), text.index(ix![0]));
    let mut written = String::new();
    for _ in 1..TEXT.len() {
        (state, _) = model.rnn.cell.step(&state, &model.letters.forward(&letter));
        // If Gumbel noise is added to the logits, the index of the largest logit is a random sample.
        let noise = -(-rngs.uniform(DType::F32, [128]).log()).log();
        letter = (model.head.forward(&state) + noise).argmax(-1);
        written.push(char::from(letter.item::<i32>() as u8));
    }
    assert_eq!(written, TEXT[1..]);
}
