//! Talks with a published language model: Llama, Qwen, `SmolLM`, Mistral or GPT-2. Each line of the input is a message. Models for
//! conversations answer; others continue the text.
//!
//! Download a model and run the example:
//!
//! ```text
//! hf download HuggingFaceTB/SmolLM2-135M-Instruct --local-dir models/SmolLM2-135M-Instruct
//! cargo run --release --features tokenizers --example chat -- models/SmolLM2-135M-Instruct
//! ```
//!
//! `--bf16` loads the weights as bf16, or `--int8` converts them to integers of 8 bits. `--greedy` takes the most likely token each time.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::ops::ControlFlow;
use std::time::Instant;

use pytree::models::{
    Folder, GenerateOptions, Generator, Gpt2, LanguageModel, Llama, Pretrained, Sampling, Tokenizer,
};
use pytree::nn::Quantized;
use pytree::prelude::*;

/// Tokens that end an answer, in the models that have them.
const ENDS: [&str; 4] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut has = |flag: &str| {
        let before = arguments.len();
        arguments.retain(|argument| argument != flag);
        arguments.len() < before
    };
    let [bf16, int8, greedy] = ["--bf16", "--int8", "--greedy"].map(&mut has);
    let [path] = &arguments[..] else {
        return Err("write the folder of a model, and --bf16, --int8 or --greedy".into());
    };
    if bf16 && int8 {
        return Err("write one of --bf16 and --int8".into());
    }
    let tokenizer = Tokenizer::from_pretrained(path)?;
    let chat = Chat {
        tokenizer,
        sampling: Sampling {
            temperature: if greedy { 0.0 } else { 0.7 },
            top_p: Some(0.9),
            repetition_penalty: 1.1,
            ..Sampling::default()
        },
        int8,
        start: Instant::now(),
    };
    let architectures = ["gpt2", "llama", "mistral", "qwen2", "qwen3"];
    let is_gpt2 = Folder::open(path, &architectures)?.text("model_type") == "gpt2";
    println!("loading {path}");
    let floats = if bf16 { DType::BF16 } else { DType::F32 };
    let source = Pretrained::new(path).floats(floats);
    if is_gpt2 {
        chat.talk(&Gpt2::from_pretrained(source)?)
    } else {
        chat.talk(&Llama::from_pretrained(source)?)
    }
}

struct Chat {
    tokenizer: Tokenizer,
    sampling: Sampling,
    int8: bool,
    start: Instant,
}

impl Chat {
    fn talk<M: LanguageModel>(&self, model: &M) -> Result<(), Box<dyn Error>> {
        let leaves = graph::leaves::<Tensor, _>(model);
        let parameters: usize = leaves.iter().map(|leaf| leaf.len()).sum();
        println!("{parameters} numbers after {:.1?}", self.start.elapsed());
        if self.int8 {
            self.talk_with(&Quantized::new(model, &Filter::param()))
        } else {
            self.talk_with(model)
        }
    }

    fn talk_with<M: LanguageModel>(&self, model: &M) -> Result<(), Box<dyn Error>> {
        let ids = ENDS
            .iter()
            .filter_map(|end| self.tokenizer.inner.token_to_id(end));
        let options = GenerateOptions {
            max_tokens: 200,
            sampling: self.sampling,
            stop: ids.map(u32::cast_signed).collect(),
            ..GenerateOptions::default()
        };
        let mut generator = Generator::new(model, options)?;
        let is_for_chat = self.tokenizer.inner.token_to_id("<|im_start|>").is_some();
        let mut conversation = String::new();
        for line in std::io::stdin().lock().lines() {
            let line = line?;
            if !is_for_chat {
                self.answer(&mut generator, &line)?;
                continue;
            }
            // The format of ChatML.
            for part in [
                "<|im_start|>user\n",
                &line,
                "<|im_end|>\n<|im_start|>assistant\n",
            ] {
                conversation += part;
            }
            conversation += &self.answer(&mut generator, &conversation)?;
            conversation += "<|im_end|>\n";
        }
        Ok(())
    }

    /// Prints and returns an answer.
    fn answer<M: LanguageModel>(
        &self,
        generator: &mut Generator<M>,
        text: &str,
    ) -> Result<String, Box<dyn Error>> {
        let text = self.tokenizer.encode(&[text])?;
        // A character may have several tokens.
        let mut decoded = self.tokenizer.inner.decode_stream(true);
        let (start, mut first) = (Instant::now(), None);
        let answers = generator.generate_with(&text, |_, token| {
            first.get_or_insert_with(Instant::now);
            if let Ok(Some(piece)) = decoded.step(token.cast_unsigned()) {
                print!("{piece}");
                let _ = std::io::stdout().flush();
            }
            ControlFlow::Continue(())
        })?;
        let first = first.unwrap_or(start);
        let further = answers[0].len() - 1;
        let speed = further as f64 / first.elapsed().as_secs_f64();
        println!(
            "\n[first token after {:.1?}, then {speed:.1} tokens per second]",
            first.duration_since(start)
        );
        Ok(self.tokenizer.decode(&answers[0])?)
    }
}
