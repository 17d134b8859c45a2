//! Static fields in checkpoints.

use std::collections::BTreeMap;

use pytree::checkpoint::{self, Bytes, CheckpointError, LoadOptions};
use pytree::core::StaticValue;
use pytree::prelude::*;
use serde::{Deserialize, Serialize};

/// Derives neither `Static` nor `Eq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Config {
    width: usize,
    rate: f64,
    names: BTreeMap<String, Vec<u8>>,
}

#[derive(Module, Clone, Debug)]
struct Classifier {
    #[r#static(saved)]
    config: Config,
    linear: Linear,
    /// The template decides.
    #[r#static]
    evaluates: bool,
}

#[derive(Module, Clone, Debug)]
struct Pair<T: StaticValue + Serialize + for<'de> Deserialize<'de>> {
    #[r#static(saved)]
    labels: T,
    parts: Vec<Classifier>,
}

fn classifier(width: usize, rate: f64) -> Classifier {
    let names = BTreeMap::from([(format!("tab\tline\n{width}"), vec![1, 2])]);
    let config = Config { width, rate, names };
    let linear = Linear::new(width, 1, &mut Rngs::new(0));
    Classifier {
        config,
        linear,
        evaluates: rate > 0.0,
    }
}

fn temporary(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("pytree-{name}-{}.safetensors", std::process::id()))
}

#[test]
fn values_come_back_through_a_file() {
    // A sum whose shortest decimal form has 17 digits.
    let saved = Pair {
        labels: vec!["a".to_owned()],
        parts: vec![classifier(2, 0.1 + 0.2), classifier(3, 1e-300)],
    };
    let path = temporary("statics");
    checkpoint::save(&path, &saved).unwrap();
    let template = Pair {
        labels: Vec::<String>::new(),
        parts: vec![classifier(2, 0.0), classifier(3, 0.0)],
    };
    let loaded = checkpoint::load(&path, &template).unwrap();
    let (rebuilt, _) =
        checkpoint::load_as(&path, &LoadOptions::new(), |_| template.clone()).unwrap();
    let statics = checkpoint::statics(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    for loaded in [loaded, rebuilt] {
        assert_eq!(loaded.labels, saved.labels);
        for (loaded, saved) in loaded.parts.iter().zip(&saved.parts) {
            assert_eq!(loaded.config, saved.config);
            assert!(!loaded.evaluates);
        }
    }
    // What a template is built from.
    assert_eq!(
        statics.keys().collect::<Vec<_>>(),
        ["labels", "parts[0].config", "parts[1].config"]
    );
    let config: Config = serde_json::from_str(&statics["parts[1].config"]).unwrap();
    assert_eq!(config, saved.parts[1].config);
    assert_eq!(
        checkpoint::metadata(Bytes(&checkpoint::to_bytes(&saved).unwrap())).unwrap(),
        BTreeMap::new()
    );
}

#[test]
fn file_without_values_leaves_the_template() {
    #[derive(Module, Clone, Debug)]
    struct Plain {
        #[r#static]
        config: Config,
        linear: Linear,
        #[r#static]
        evaluates: bool,
    }
    let Classifier {
        config,
        linear,
        evaluates,
    } = classifier(2, 0.5);
    let file = checkpoint::to_bytes(&Plain {
        config,
        linear,
        evaluates,
    })
    .unwrap();
    assert_eq!(checkpoint::statics(Bytes(&file)).unwrap(), BTreeMap::new());
    let loaded = checkpoint::load(Bytes(&file), &classifier(2, 0.25)).unwrap();
    assert_eq!(loaded.config, classifier(2, 0.25).config);
}

#[test]
fn value_of_another_type_is_a_mismatch() {
    #[derive(Module, Clone, Debug)]
    struct Other {
        #[r#static(saved)]
        config: Vec<String>,
        linear: Linear,
    }
    let linear = Linear::new(3, 1, &mut Rngs::new(0));
    let file = checkpoint::to_bytes(&Other {
        config: vec!["x".to_owned()],
        linear,
    })
    .unwrap();
    let error = checkpoint::load(Bytes(&file), &classifier(2, 0.0)).unwrap_err();
    let CheckpointError::Mismatch { mismatches, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        mismatches.len(),
        2,
        "the static field and the shape of the weight: {error}"
    );
    assert_eq!(
        mismatches[0].to_string(),
        r#"config: expected a value of `ecosystem::statics::Config`, found ["x"] in the file: invalid type: string "x", expected usize at line 1 column 4"#
    );
}

/// A saved field is static as any other: it is part of the key of a compiled function.
#[test]
fn saved_field_is_part_of_the_structure() {
    let structure = |rate| graph::flatten::<Tensor, _>(&classifier(2, rate)).1;
    assert_eq!(structure(0.5), structure(0.5));
    assert_ne!(structure(0.5), structure(0.25));
}

#[derive(Module, Clone, Debug)]
struct Only<T: StaticValue + Serialize + for<'de> Deserialize<'de>> {
    #[r#static(saved)]
    only: T,
    linear: Linear,
}

/// Serde writes these values as JSON that it reads as an error or as another value.
#[test]
fn value_that_json_does_not_keep_is_not_saved() {
    #[track_caller]
    fn refused<T>(only: T, problem: &str)
    where
        T: StaticValue + Serialize + for<'de> Deserialize<'de> + std::fmt::Debug,
    {
        let linear = Linear::new(1, 1, &mut Rngs::new(0));
        let error = checkpoint::to_bytes(&Only { only, linear }).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("cannot save the static field only: "),
            "{error}"
        );
        assert!(error.contains(problem), "{error}");
    }
    refused(f64::NAN, "invalid type: null, expected f64");
    refused(
        vec![1.0, f32::NEG_INFINITY],
        "invalid type: null, expected f32",
    );
    refused(Some(f64::INFINITY), "it is read as another value");
    refused(Some(None::<u8>), "it is read as another value");
    refused(
        BTreeMap::from([((1_u8, 2_u8), 3_u8)]),
        "key must be a string",
    );
}

#[test]
fn message_about_a_long_value_is_short() {
    let linear = || Linear::new(1, 1, &mut Rngs::new(0));
    let long = Only {
        only: "x".repeat(1 << 20),
        linear: linear(),
    };
    let file = checkpoint::to_bytes(&long).unwrap();
    let template = Only {
        only: 0_u8,
        linear: linear(),
    };
    let error = checkpoint::load(Bytes(&file), &template).unwrap_err();
    assert!(
        error.to_string().len() < 2000,
        "{}",
        error.to_string().len()
    );
}
