//! Published models with their pretrained weights. It is `pytree::models`, which needs the feature `models`.
//!
//! Each model is a struct of layers. Its function `from_pretrained` loads a folder of Hugging Face: the sizes from `config.json`,
//! and the weights from safetensors files. To change a model, copy its file: it uses only public items, and [`Folder`] reads the
//! folder.
//!
//! With the feature `tokenizers`, `Tokenizer` reads `tokenizer.json`, and makes [`Tokens`] of texts.

mod bert;
mod error;
mod folder;
mod generator;
mod gpt2;
mod json;
mod language_model;
mod llama;
mod llama_block;
mod pooling;
mod resnet;
mod rotary;
mod sampling;
mod sentence;
mod settings;
#[cfg(feature = "tokenizers")]
mod tokenizer;
mod tokens;
mod weights;

pub use bert::Bert;
pub use error::{ConfigProblem, ModelError};
pub use folder::{Folder, Pretrained};
pub use generator::{GenerateOptions, Generator};
pub use gpt2::Gpt2;
pub use language_model::LanguageModel;
pub use llama::Llama;
pub use llama_block::LlamaBlock;
pub use pooling::Pooling;
pub use resnet::{BasicBlock, ResNet18};
pub use sampling::Sampling;
pub use sentence::SentenceLayer;
#[cfg(feature = "tokenizers")]
pub use tokenizer::Tokenizer;
pub use tokens::Tokens;
