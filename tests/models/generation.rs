//! Texts that language models continue, compared with transformers. The weights follow a formula.

use std::ops::ControlFlow;

use pytree::models::{GenerateOptions, Generator, LanguageModel, Llama, Sampling, Tokens};
use pytree::nn::Quantized;
use pytree::prelude::*;
use serde_json::Value;

use super::Folder;
use crate::goldens::files::read;
use crate::goldens::formula::values;

fn llama(name: &str) -> Llama {
    let golden: Value = read("models.json")["llama"][name].clone();
    let folder = Folder::new(name, &golden["config"]);
    folder.save(&values(&golden["shapes"], ""));
    Llama::from_pretrained(&folder.0).unwrap()
}

fn tokens_of(golden: &Value) -> Vec<Vec<i32>> {
    serde_json::from_value(golden.clone()).unwrap()
}

fn of_tokens(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_tokens,
        ..GenerateOptions::default()
    }
}

/// The texts of one batch have 1 to 9 tokens, and the caches grow once.
#[test]
fn batch_is_continued_as_by_transformers() {
    for (name, golden) in read("models.json")["generated"].as_object().unwrap() {
        for repetition_penalty in [1.0, 1.3] {
            let mut options = of_tokens(70);
            options.sampling.repetition_penalty = repetition_penalty;
            let mut generator = Generator::new(&llama(name), options).unwrap();
            let texts = Tokens::new(&tokens_of(&golden["texts"]));
            let found = generator.generate(&texts).unwrap();
            let expected = &golden[format!("penalty {repetition_penalty:.1}")];
            assert_eq!(found, tokens_of(expected), "{name}, {repetition_penalty}");
            // Caches of 64 and of 128 tokens.
            assert_eq!(generator.traces(), 2);
            generator.generate(&texts).unwrap();
            assert_eq!(generator.traces(), 2);
        }
    }
}

#[test]
fn logits_are_filtered_as_by_transformers() {
    let golden = read("models.json")["samplings"].clone();
    let logits: Vec<Vec<f32>> = serde_json::from_value(golden["logits"].clone()).unwrap();
    let logits = Tensor::new([2, 31], logits.concat());
    let texts = tokens_of(&golden["texts"]);
    let seen = Tensor::new([2, 6], texts.concat());
    let seen = seen.one_hot(31, DType::Bool).any_axes([1]);
    for result in golden["results"].as_array().unwrap() {
        let options = &result["sampling"];
        let sampling = Sampling {
            temperature: options["temperature"].as_f64().unwrap(),
            top_k: options["top_k"].as_u64().map(|top_k| top_k as usize),
            top_p: options["top_p"].as_f64(),
            repetition_penalty: options["repetition_penalty"].as_f64().unwrap_or(1.0),
        };
        let expected: Vec<Vec<Option<f32>>> =
            serde_json::from_value(result["logits"].clone()).unwrap();
        let found = sampling.filtered(&logits, &seen).to_vec::<f32>();
        for (found, expected) in found.iter().zip(expected.concat()) {
            match expected {
                Some(expected) => assert!((found - expected).abs() < 1e-5, "{options}"),
                None => assert_eq!(*found, f32::NEG_INFINITY, "{options}"),
            }
        }
    }
}

/// Of equal logits, as many stay as in transformers.
#[test]
fn equal_logits_are_filtered_as_by_transformers() {
    let golden = read("settings.json")["top_p"].clone();
    let logits: Vec<Vec<f32>> = serde_json::from_value(golden["logits"].clone()).unwrap();
    let logits = Tensor::new([2, 8], logits.concat());
    for (top_p, kept) in golden["kept"].as_object().unwrap() {
        let sampling = Sampling {
            temperature: 1.0,
            top_p: Some(top_p.parse().unwrap()),
            ..Sampling::default()
        };
        let kept: Vec<Vec<bool>> = serde_json::from_value(kept.clone()).unwrap();
        let found = sampling.filtered(&logits, &Tensor::zeros(DType::Bool, [2, 0]));
        let found: Vec<bool> = found
            .to_vec::<f32>()
            .iter()
            .map(|one| one.is_finite())
            .collect();
        assert_eq!(found, kept.concat(), "{top_p}");
    }
}

/// The texts of a batch have the draws that they have alone, and equal texts have others.
#[test]
fn texts_of_a_batch_are_drawn_as_alone() {
    let llama = llama("llama3");
    let mut options = of_tokens(70);
    options.sampling = Sampling {
        temperature: 0.8,
        top_p: Some(0.95),
        repetition_penalty: 1.1,
        ..Sampling::default()
    };
    let generate = |texts: &[Vec<i32>]| {
        let mut generator = Generator::new(&llama, options.clone()).unwrap();
        let first = generator.generate(&Tokens::new(texts)).unwrap();
        // A later call has other draws.
        assert_ne!(generator.generate(&Tokens::new(texts)).unwrap(), first);
        first
    };
    let texts = tokens_of(&read("models.json")["generated"]["llama3"]["texts"]);
    let together = generate(&[&texts[..], &texts[..1]].concat());
    for (text, found) in texts.iter().zip(&together) {
        assert_eq!(&generate(std::slice::from_ref(text))[0], found);
    }
    assert_ne!(together[0], together[3]);
}

/// In the limit, a draw is the most likely token, also if it is not token 0.
#[test]
fn tiny_temperatures_draw_the_most_likely_token() {
    let seen = Tensor::zeros(DType::Bool, [2, 0]);
    for scale in [1e-6_f32, 1.0, 1e6] {
        let logits = Tensor::from([[-1.0_f32, 2.0, 3.0, 1.0], [-9.0, -4.0, -5.0, -5.0]]) * scale;
        for temperature in [1e-300, 1e-45, 1e-38, 1e-31, 1e-20] {
            for top_p in [None, Some(0.9)] {
                let sampling = Sampling {
                    temperature,
                    top_p,
                    ..Sampling::default()
                };
                let found = sampling.choose(&logits, &seen, &Key::new(1));
                assert_eq!(found, Tensor::from([2, 1]), "{temperature} {scale}");
            }
        }
    }
}

#[test]
fn weights_that_are_not_numbers_are_an_error() {
    let mut llama = llama("llama3");
    llama.norm.scale = llama.norm.scale.map(|scale| scale * f32::NAN);
    for temperature in [0.0, 0.7] {
        let mut options = of_tokens(4);
        options.sampling.temperature = temperature;
        let mut generator = Generator::new(&llama, options).unwrap();
        let error = generator
            .generate(&Tokens::new(&[vec![1], vec![2, 3]]))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("text 0: expected logits that are numbers for token 1 after the text, found NaN; check the weights"), "{text}");
    }
}

/// Tokens that cannot be drawn are not drawn, and others have their frequencies.
#[test]
fn tokens_are_drawn_with_their_probabilities() {
    let sampling = Sampling {
        temperature: 0.5,
        top_k: Some(2),
        ..Sampling::default()
    };
    // The probabilities of the first two are 4 to 1.
    let logits = Tensor::from([4_f32.ln() / 2.0, 0.0, -0.1, -1.0]).broadcast_to([4000, 4]);
    let seen = Tensor::zeros(DType::Bool, [4000, 0]);
    let drawn = sampling
        .choose(&logits, &seen, &Key::new(3))
        .to_vec::<i32>();
    let count = |token| drawn.iter().filter(|&&drawn| drawn == token).count();
    assert_eq!(count(0) + count(1), 4000);
    // Five standard deviations.
    assert!(count(0).abs_diff(3200) < 127, "{}", count(0));
}

#[test]
fn texts_end_at_tokens_and_by_the_caller() {
    let golden = read("models.json")["generated"]["llama3"].clone();
    let expected = tokens_of(&golden["penalty 1.0"]);
    let mut options = of_tokens(20);
    options.stop = vec![expected[0][5]];
    let mut generator = Generator::new(&llama("llama3"), options).unwrap();
    let mut heard = vec![Vec::new(); 3];
    let found =
        generator.generate_with(&Tokens::new(&tokens_of(&golden["texts"])), |text, token| {
            heard[text].push(token);
            match text == 1 && heard[1].len() == 4 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
    let found = found.unwrap();
    assert_eq!(found, heard);
    assert_eq!(found[0], expected[0][..6]);
    assert_eq!(found[1], expected[1][..4]);
    assert_eq!(found[2], expected[2][..20]);
}

#[test]
fn quantized_models_generate() {
    let quantized = Quantized::new(&llama("smollm2"), &Filter::param());
    let text = vec![3, 1, 4, 1, 5];
    let mut generator = Generator::new(&quantized, of_tokens(8)).unwrap();
    let found = generator
        .generate(&Tokens::new(std::slice::from_ref(&text)))
        .unwrap();
    // The same without a cache.
    let (mut all, mut model) = (text, quantized.model());
    for _ in 0..8 {
        let logits = model.forward(&Tensor::new([1, all.len()], all.clone()));
        all.push(logits.index(ix![0, -1]).argmax(-1).item());
    }
    assert_eq!(found[0], all[5..]);
    assert_eq!(quantized.context(), None);
}

#[test]
fn mistakes_are_reported_together() {
    let llama = llama("llama3");
    let options = GenerateOptions {
        sampling: Sampling {
            temperature: f64::NAN,
            top_k: Some(0),
            top_p: Some(1.5),
            repetition_penalty: 0.0,
        },
        stop: vec![31],
        ..GenerateOptions::default()
    };
    let error = Generator::new(&llama, options).unwrap_err().to_string();
    for part in [
        "`temperature`",
        "`top_k`",
        "`top_p`",
        "`repetition_penalty`",
        "`stop`: expected a token from 0 to 30, found 31",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let mut generator = Generator::new(&llama, GenerateOptions::default()).unwrap();
    let texts = Tokens::new(&[vec![1, 99], vec![], vec![2]]);
    let error = generator.generate(&texts).unwrap_err().to_string();
    assert!(
        error.contains("text 0: expected a token from 0 to 30, found 99"),
        "{error}"
    );
    assert!(
        error.contains("text 1: expected at least one token"),
        "{error}"
    );
    assert!(!error.contains("text 2"), "{error}");
    assert!(generator.generate(&Tokens::new(&[])).is_err());
    let mut flat = Tokens::new(&[vec![1]]);
    flat.ids = Tensor::from([1, 2]);
    let error = generator.generate(&flat).unwrap_err().to_string();
    assert!(error.contains("found i32[2] and bool[1,1]"), "{error}");
}
