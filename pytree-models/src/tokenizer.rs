//! Texts to tokens, and back.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::TruncationParams;

use crate::error::ModelError;
use crate::folder::read_object;
use crate::tokens::Tokens;

/// The tokenizer of a folder: its `tokenizer.json`, read by the crate `tokenizers`. Needs the feature `tokenizers`.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// The tokenizer, without padding.
    pub inner: tokenizers::Tokenizer,
    folder: PathBuf,
}

impl Tokenizer {
    /// Reads `tokenizer.json`. Texts are cut off at the length that `sentence_bert_config.json` has, if the folder has this file,
    /// and are not cut off otherwise.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if the folder has no `tokenizer.json`, or if the file has another format, and
    /// [`ModelError::Json`] if the length cannot be read.
    pub fn from_pretrained(folder: impl AsRef<Path>) -> Result<Self, ModelError> {
        let folder = folder.as_ref();
        let failed = |problem: String| ModelError::Tokenizer {
            folder: folder.to_owned(),
            problem,
        };
        let file = folder.join("tokenizer.json");
        if !file.is_file() {
            let problem = "expected the file `tokenizer.json`; if the folder has `vocab.txt` or `vocab.json` only, write it in Python: `transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)`";
            return Err(failed(problem.to_owned()));
        }
        let inner = tokenizers::Tokenizer::from_file(file);
        let mut inner = inner.map_err(|error| failed(error.to_string()))?;
        let sentences = folder.join("sentence_bert_config.json");
        let mut truncation = None;
        if sentences.is_file() {
            let length = read_object(&sentences)?;
            let length = length.get("max_seq_length").and_then(Value::as_u64);
            truncation = length.and_then(|length| usize::try_from(length).ok());
        }
        let truncation = truncation.map(|max_length| TruncationParams {
            max_length,
            ..TruncationParams::default()
        });
        let truncated = inner.with_truncation(truncation);
        truncated.map_err(|error| failed(error.to_string()))?;
        inner.with_padding(None);
        let folder = folder.to_owned();
        Ok(Self { inner, folder })
    }

    /// Returns the tokens of texts, with the special tokens that the model expects.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if a text has no tokens in the vocabulary, which has no token for unknown words.
    pub fn encode(&self, texts: &[impl AsRef<str>]) -> Result<Tokens, ModelError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let encodings = self.inner.encode_batch(texts, true);
        let encodings = encodings.map_err(|error| self.failed(&error))?;
        let ids = encodings.iter().map(|encoding| {
            let ids = encoding.get_ids().iter();
            ids.map(|&id| id.cast_signed()).collect()
        });
        Ok(Tokens::new(&ids.collect::<Vec<Vec<i32>>>()))
    }

    /// Returns the text of tokens, without special tokens.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if the decoder of the tokenizer fails.
    pub fn decode(&self, ids: &[i32]) -> Result<String, ModelError> {
        let ids: Vec<u32> = ids.iter().map(|id| id.cast_unsigned()).collect();
        let text = self.inner.decode(&ids, true);
        text.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &tokenizers::Error) -> ModelError {
        ModelError::Tokenizer {
            folder: self.folder.clone(),
            problem: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let unique = format!("pytree-tokenizer-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(unique);
            std::fs::create_dir_all(&path).unwrap();
            for (name, text) in files {
                std::fs::write(path.join(name), text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Words of a vocabulary of four, with padding to 9 tokens and truncation at 2, which the library replaces.
    const WORDS: &str = r#"{"version": "1.0",
        "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "?"},
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"?": 0, "a": 1, "cat": 2, "sits": 3}, "unk_token": "?"}}"#;

    #[test]
    fn texts_are_padded_to_the_longest() {
        let folder = Folder::new("padded", &[("tokenizer.json", WORDS)]);
        let tokenizer = Tokenizer::from_pretrained(&folder.0).unwrap();
        let tokens = tokenizer.encode(&["a cat sits", "cat", ""]).unwrap();
        let expected = Tokens::new(&[vec![1, 2, 3], vec![2], vec![]]);
        assert_eq!(tokens, expected);
        assert_eq!(tokenizer.decode(&[1, 2]).unwrap(), "a cat");
    }

    #[test]
    fn length_of_sentences_cuts_texts_off() {
        let length = ("sentence_bert_config.json", r#"{"max_seq_length": 2}"#);
        let folder = Folder::new("cut", &[("tokenizer.json", WORDS), length]);
        let tokenizer = Tokenizer::from_pretrained(&folder.0).unwrap();
        let tokens = tokenizer.encode(&["a cat sits"]).unwrap();
        assert_eq!(tokens, Tokens::new(&[vec![1, 2]]));
    }

    #[test]
    fn missing_or_damaged_files_are_errors() {
        let folder = Folder::new("missing", &[]);
        let error = Tokenizer::from_pretrained(&folder.0).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected the file `tokenizer.json`")
        );
        let folder = Folder::new("damaged", &[("tokenizer.json", "{")]);
        assert!(Tokenizer::from_pretrained(&folder.0).is_err());
    }
}
