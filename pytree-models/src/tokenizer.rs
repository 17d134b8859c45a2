//! Texts to tokens, and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::{Encoding, TruncationDirection, TruncationParams};

use crate::error::{ConfigProblem, ModelError};
use crate::json::read_json;
use crate::settings;
use crate::tokens::Tokens;

/// The tokenizer of a folder: its `tokenizer.json`, read by the crate `tokenizers`. Needs the feature `tokenizers`.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// The tokenizer, without padding.
    pub inner: tokenizers::Tokenizer,
    folder: PathBuf,
}

impl Tokenizer {
    /// Reads `tokenizer.json`. Texts are cut off at the length that `sentence_bert_config.json` has, if the folder has this file, and are
    /// not cut off otherwise. If the file has no length, this is that of `tokenizer_config.json` or `config.json`, as in
    /// sentence-transformers.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if the folder has no `tokenizer.json`, or if the file has another format, and
    /// [`ModelError::Config`] if a setting of `tokenizer_config.json` or `sentence_bert_config.json` differs from what
    /// `tokenizer.json` does.
    pub fn from_pretrained(folder: impl AsRef<Path>) -> Result<Self, ModelError> {
        let folder = folder.as_ref();
        let file = folder.join("tokenizer.json");
        let failed = |problem: String| ModelError::Tokenizer {
            folder: folder.to_owned(),
            problem,
        };
        if !file.is_file() {
            let problem = "expected the file `tokenizer.json`; if the folder has `vocab.txt` or `vocab.json` only, write it in Python: `transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)`";
            return Err(failed(problem.to_owned()));
        }
        // The crate `tokenizers` panics in some files that are not JSON.
        let json = read_json(&file).map_err(|error| failed(error.to_string()))?;
        let mut tokenizer = Self {
            inner: caught(|| tokenizers::Tokenizer::from_file(&file)).map_err(failed)?,
            folder: folder.to_owned(),
        };
        let name = "tokenizer_config.json";
        let settings = settings::read(&folder.join(name), name)?.unwrap_or_default();
        let truncation = TruncationParams {
            max_length: usize::MAX,
            direction: match settings.get("truncation_side").and_then(Value::as_str) {
                Some("left") => TruncationDirection::Left,
                _ => TruncationDirection::Right,
            },
            ..TruncationParams::default()
        };
        let length = max_length(folder, &settings)?;
        let truncation = length.map(|max_length| TruncationParams {
            max_length,
            ..truncation
        });
        let inner = &mut tokenizer.inner;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| failed(error.to_string()))?;
        // A template with a token that the vocabulary lacks is an error here.
        let empty = tokenizer.encoded(vec![""])?;
        let problems = tokenizer.differences(&json, &settings, empty[0].get_ids());
        settings::refused(&folder.join(name), problems)?;
        let truncated = tokenizer.inner.with_truncation(truncation).map(drop);
        truncated.map_err(|error| failed(error.to_string()))?;
        Ok(tokenizer)
    }

    /// Returns the settings of `tokenizer_config.json` that are not those of `tokenizer.json`. `empty` has the tokens of an empty text.
    fn differences(
        &self,
        json: &Value,
        settings: &Map<String, Value>,
        empty: &[u32],
    ) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        let mut expect = |key: &str, expected: &Value| {
            let found = settings.get(key).filter(|found| *found != expected);
            problems.extend(found.map(|found| ConfigProblem {
                key: key.to_owned(),
                expected: format!("{expected}, as in `tokenizer.json`; write the folder again with `save_pretrained` of transformers"),
                found: Some(found.to_string()),
            }));
        };
        for (key, place) in [
            ("do_lower_case", "/normalizer/lowercase"),
            ("strip_accents", "/normalizer/strip_accents"),
            ("tokenize_chinese_chars", "/normalizer/handle_chinese_chars"),
            ("add_prefix_space", "/pre_tokenizer/add_prefix_space"),
        ] {
            json.pointer(place)
                .into_iter()
                .for_each(|expected| expect(key, expected));
        }
        // A token is a text, or an object with it.
        let content =
            |token: &Value| Some(token.get("content").unwrap_or(token).as_str()?.to_owned());
        let id = |token: &Value| self.inner.token_to_id(&content(token)?);
        let mut rest = empty;
        for (key, token) in [
            ("add_bos_token", "bos_token"),
            ("add_eos_token", "eos_token"),
        ] {
            let token = settings.get(token).filter(|token| !token.is_null());
            let added = if key == "add_bos_token" {
                rest.first()
            } else {
                rest.last()
            };
            let is_added = token.and_then(id).is_some_and(|id| added == Some(&id));
            if token.is_some() {
                expect(key, &Value::Bool(is_added));
            }
            // One token may begin and end texts.
            rest = &rest[usize::from(is_added)..];
        }
        let added = settings
            .get("added_tokens_decoder")
            .and_then(Value::as_object);
        for (number, token) in added.into_iter().flatten() {
            if id(token).map(|id| id.to_string()).as_ref() != Some(number) {
                problems.push(ConfigProblem {
                    key: format!("added_tokens_decoder.{number}"),
                    expected: "a token that `tokenizer.json` has with this number".to_owned(),
                    found: content(token),
                });
            }
        }
        problems
    }

    /// Returns the tokens of texts, with the special tokens that the model expects.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if a text has no tokens in the vocabulary, which has no token for unknown words.
    pub fn encode(&self, texts: &[impl AsRef<str>]) -> Result<Tokens, ModelError> {
        let encodings = self.encoded(texts.iter().map(AsRef::as_ref).collect())?;
        let ids = encodings.iter().map(|encoding| {
            let ids = encoding.get_ids().iter();
            ids.map(|&id| id.cast_signed()).collect()
        });
        Ok(Tokens::new(&ids.collect::<Vec<Vec<i32>>>()))
    }

    fn encoded(&self, texts: Vec<&str>) -> Result<Vec<Encoding>, ModelError> {
        caught(|| self.inner.encode_batch(texts, true)).map_err(|problem| self.failed(problem))
    }

    /// Returns the text of tokens, without special tokens.
    ///
    /// # Errors
    /// Returns [`ModelError::Tokenizer`] if the decoder of the tokenizer fails.
    pub fn decode(&self, ids: &[i32]) -> Result<String, ModelError> {
        let ids: Vec<u32> = ids.iter().map(|id| id.cast_unsigned()).collect();
        caught(|| self.inner.decode(&ids, true)).map_err(|problem| self.failed(problem))
    }

    fn failed(&self, problem: String) -> ModelError {
        ModelError::Tokenizer {
            folder: self.folder.clone(),
            problem,
        }
    }
}

/// Returns the result of the crate `tokenizers`, or its error or panic as a text. It panics, for instance, if a template has a token
/// that the vocabulary lacks.
fn caught<T>(call: impl FnOnce() -> Result<T, tokenizers::Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("it panicked");
            Err(format!(
                "{text}; download `tokenizer.json` again, or write it with transformers"
            ))
        }
    }
}

/// Returns the length at which the texts of a model for sentences are cut off.
fn max_length(folder: &Path, settings: &Map<String, Value>) -> Result<Option<usize>, ModelError> {
    let name = "sentence_bert_config.json";
    let path = folder.join(name);
    let Some(sentences) = settings::read(&path, name)? else {
        return Ok(None);
    };
    let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
    let key = "max_seq_length";
    let Some(length) = sentences.get(key).filter(|length| !length.is_null()) else {
        let config = folder.join("config.json");
        let config = config.is_file().then(|| read_json(&config)).transpose()?;
        let config = config.unwrap_or_default();
        let lengths = [
            settings.get("model_max_length"),
            config.get("max_position_embeddings"),
        ];
        return Ok(lengths.into_iter().flatten().filter_map(count).min());
    };
    let found = count(length).filter(|&count| count > 0);
    let problem = found.is_none().then(|| ConfigProblem {
        key: key.to_owned(),
        expected: "a positive whole number".to_owned(),
        found: Some(length.to_string()),
    });
    settings::refused(&path, problem.into_iter().collect())?;
    Ok(found)
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

    /// The template adds tokens, of which the vocabulary lacks one.
    fn with_template(token: &str) -> String {
        let template = format!(
            r#"{{"type": "TemplateProcessing", "single": [{{"SpecialToken": {{"id": "{token}", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}}], "pair": [], "special_tokens": {{"a": {{"id": "a", "ids": [1], "tokens": ["a"]}}}}}}"#
        );
        WORDS.replace(
            r#""post_processor": null"#,
            &format!(r#""post_processor": {template}"#),
        )
    }

    #[test]
    fn settings_of_the_tokenizer_are_used_or_refused() {
        let bert = WORDS.replace(r#""normalizer": null"#, r#""normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}"#);
        let begun = with_template("a");
        let load = |json: &str, settings: &str| {
            let files = [
                ("tokenizer.json", json),
                ("tokenizer_config.json", settings),
            ];
            let folder = Folder::new("settings", &files);
            Tokenizer::from_pretrained(&folder.0).map_err(|error| error.to_string())
        };
        for (json, right, wrong) in [
            (
                &*bert,
                r#"{"do_lower_case": true}"#,
                r#"{"do_lower_case": false}"#,
            ),
            (
                &bert,
                r#"{"strip_accents": null}"#,
                r#"{"strip_accents": true}"#,
            ),
            (
                &bert,
                r#"{"tokenize_chinese_chars": true}"#,
                r#"{"tokenize_chinese_chars": false}"#,
            ),
            (
                &begun,
                r#"{"add_bos_token": true, "bos_token": "a"}"#,
                r#"{"add_bos_token": false, "bos_token": "a"}"#,
            ),
            (
                WORDS,
                r#"{"add_bos_token": false, "bos_token": "a"}"#,
                r#"{"add_bos_token": true, "bos_token": {"content": "a"}}"#,
            ),
            (
                WORDS,
                r#"{"add_eos_token": false, "eos_token": "a"}"#,
                r#"{"add_eos_token": true, "eos_token": "a"}"#,
            ),
            (
                WORDS,
                r#"{"added_tokens_decoder": {"2": {"content": "cat"}}}"#,
                r#"{"added_tokens_decoder": {"9": {"content": "dog"}}}"#,
            ),
            (
                WORDS,
                r#"{"split_special_tokens": false}"#,
                r#"{"split_special_tokens": true}"#,
            ),
            (WORDS, r#"{"chat_template": "a"}"#, r#"{"surprise": "a"}"#),
        ] {
            let tokenizer = load(json, right).unwrap();
            let tokens = tokenizer.encode(&["cat"]).unwrap();
            let begin = if json == begun { vec![1, 2] } else { vec![2] };
            assert_eq!(tokens, Tokens::new(&[begin]));
            let text = load(json, wrong).unwrap_err();
            let key = wrong[2..].split('"').next().unwrap();
            assert!(text.contains(&format!("\n  {key}")), "{text}");
        }
    }

    #[test]
    fn lengths_of_sentences_are_counts() {
        fn files(sentences: &str, settings: &str) -> Result<Vec<i32>, String> {
            let files = [
                ("tokenizer.json", WORDS),
                ("sentence_bert_config.json", sentences),
                ("tokenizer_config.json", settings),
                ("config.json", r#"{"max_position_embeddings": 3}"#),
            ];
            let folder = Folder::new("lengths", &files);
            let tokenizer = Tokenizer::from_pretrained(&folder.0);
            let tokenizer = tokenizer.map_err(|error| error.to_string())?;
            Ok(tokenizer.encode(&["a cat sits a"]).unwrap().ids.to_vec())
        }
        for length in ["\"2\"", "2.5", "-1", "0", "true"] {
            let text = files(&format!(r#"{{"max_seq_length": {length}}}"#), "{}").unwrap_err();
            assert!(
                text.contains(&format!(
                    "max_seq_length: expected a positive whole number, found {length}"
                )),
                "{text}"
            );
        }
        // Without a length, that of the tokenizer or of the model, as in sentence-transformers.
        assert_eq!(files("{}", r#"{"model_max_length": 2}"#).unwrap(), [1, 2]);
        assert_eq!(
            files(
                r#"{"max_seq_length": null}"#,
                r#"{"model_max_length": 1e30}"#
            )
            .unwrap(),
            [1, 2, 3]
        );
        assert_eq!(
            files(r#"{"max_seq_length": 2}"#, r#"{"truncation_side": "left"}"#).unwrap(),
            [3, 1]
        );
    }

    /// Wherever a file is cut off, and if a template has a token that the vocabulary lacks.
    #[test]
    fn damaged_tokenizers_are_errors_without_panics() {
        let json = WORDS.replace(
            r#""decoder": null"#,
            r#""decoder": {"type": "WordPiece", "prefix": "x", "cleanup": true}"#,
        );
        for end in (0..json.len()).step_by(3) {
            let folder = Folder::new("cut-off", &[("tokenizer.json", &json[..end])]);
            let error = Tokenizer::from_pretrained(&folder.0).unwrap_err();
            assert!(matches!(error, ModelError::Tokenizer { .. }), "{error}");
        }
        let folder = Folder::new("template", &[("tokenizer.json", &with_template("b"))]);
        let error = Tokenizer::from_pretrained(&folder.0).unwrap_err();
        assert!(matches!(error, ModelError::Tokenizer { .. }), "{error}");
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
