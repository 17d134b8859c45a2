//! A GPT: trained on a short text, and sampled with a cache of keys and values.

use pytree::nn::{LayerNorm, LearnedPositions, with_cache};
use pytree::prelude::*;

const TEXT: &str = "the cat sat on the mat. the dog sat on the log. the hen sat on the pen. the fox sat on the box. ";
const LENGTH: usize = 24;

#[derive(Module, Clone, Debug)]
struct Gpt {
    tokens: Embed,
    positions: LearnedPositions,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
}

impl Gpt {
    fn new(vocabulary: usize, width: usize, rngs: &mut Rngs) -> Self {
        Self {
            tokens: Embed::new(vocabulary, width, rngs),
            positions: LearnedPositions::new(LENGTH, width, rngs),
            blocks: Vec::from([(); 2].map(|()| TransformerBlock::causal(width, 4, rngs))),
            norm: LayerNorm::new(width, rngs),
        }
    }

    /// Returns the logits of the next token after each token.
    #[shapes(tokens = "i32[batch tokens]", return = "f32[batch tokens _]")]
    fn forward(&mut self, tokens: &Tensor) -> Tensor {
        let mut x = self.positions.forward(&self.tokens.forward(tokens));
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.tokens.attend(&self.norm.forward(&x))
    }
}

fn train((gpt, optimizer, text): (&mut Gpt, &mut Optimizer<Gpt>, Tensor)) -> Tensor {
    let (x, y) = (text.index(ix![.., ..-1]), text.index(ix![.., 1..]));
    let loss = |gpt: &mut Gpt| softmax_cross_entropy(&gpt.forward(&x), &y).mean();
    let (loss, gradient) = value_and_grad_mut(loss)(gpt);
    optimizer.update(gpt, &gradient);
    loss
}

/// Draws the next token. At the temperature 0, returns the most probable token.
fn next((gpt, token, key, temperature): (&mut Gpt, Tensor, Key, Tensor)) -> Tensor {
    let logits = gpt.forward(&token).index(ix![.., -1]);
    let gumbel = -(-key.uniform(DType::F32, logits.shape()).log()).log();
    (logits + gumbel * temperature).argmax(-1).expand_dims(-1)
}

#[test]
fn gpt_is_trained_and_decodes_with_cache() {
    let mut letters: Vec<char> = TEXT.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let of_letter = |letter| letters.iter().position(|&other| other == letter).unwrap() as i32;
    let text = Tensor::from(TEXT.chars().map(of_letter).collect::<Vec<_>>());

    let mut rngs = Rngs::new(0);
    let mut gpt = Gpt::new(letters.len(), 32, &mut rngs);
    let mut optimizer = Optimizer::new(&gpt, adam(1e-2));
    let (step, window) = (jit_mut(train), Tensor::arange(DType::I32, LENGTH + 1));
    let mut losses = Vec::new();
    for _ in 0..60 {
        let key = rngs.next("data");
        let starts = key.randint([8, 1], 0, (TEXT.len() - LENGTH) as i32);
        let batch = text.at_indices(&(starts + &window), 0).get();
        losses.push(step((&mut gpt, &mut optimizer, batch)).item::<f32>());
    }
    assert!(losses[0] > 2.5 && losses[59] < 0.7, "{losses:?}");

    // The prompt is also read token by token, so that one trace serves all tokens.
    let sampler = jit_mut(next);
    let mut decode = |temperature: f32| {
        let mut decoder = with_cache(&gpt, [1], LENGTH);
        let mut written: Vec<i32> = "the ".chars().map(of_letter).collect();
        for place in 0..LENGTH - 1 {
            let (token, key) = (Tensor::from([[written[place]]]), rngs.next("sample"));
            let next = sampler((&mut decoder, token, key, Tensor::from(temperature)));
            if place + 1 == written.len() {
                written.push(next.item::<i32>());
            }
        }
        written
    };
    let (greedy, sampled) = (decode(0.0), decode(1.0));
    assert_eq!(sampler.traces(), 1);
    let mut whole = greedy[..4].to_vec();
    while whole.len() < LENGTH {
        let logits = gpt.forward(&Tensor::from([whole.clone()]));
        whole.push(logits.index(ix![0, -1]).argmax(-1).item::<i32>());
    }
    assert_eq!(greedy, whole, "the cache changes no token");
    let text =
        |tokens: Vec<i32>| -> String { tokens.iter().map(|&i| letters[i as usize]).collect() };
    assert!(TEXT.contains(&text(greedy)[..12]));
    assert!(text(sampled).starts_with("the "));
}
