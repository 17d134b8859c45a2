//! Treedefs, key paths, kinds, dtypes and settings as data.

use std::fmt::Debug;

use pytree::nn::Initializer;
use pytree::optim::{AdamOptions, Momentum};
use pytree::prelude::*;
use pytree::{CollectionId, FieldKind, KeyPath, LeafKind, TreeDef, tree};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_str, to_string};

/// Asserts that a value has a text, which is read as the same value.
#[track_caller]
fn is_written<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, json: &str) {
    assert_eq!(to_string(value).unwrap(), json);
    assert_eq!(&from_str::<T>(json).unwrap(), value);
}

#[track_caller]
fn refused<T: DeserializeOwned + Debug>(json: &str) -> String {
    from_str::<T>(json).unwrap_err().to_string()
}

#[test]
fn names_are_texts() {
    is_written(&DType::BF16, r#""bf16""#);
    is_written(
        &"layers[1].weight".parse::<KeyPath>().unwrap(),
        r#""layers[1].weight""#,
    );
    is_written(&KeyPath::root(), r#""""#);
    is_written(&LeafKind::Param, r#""Param""#);
    is_written(&FieldKind::Static, r#""Static""#);
    is_written(&LeafKind::of::<BatchStat>(), r#"{"State":"BatchStat"}"#);
    let keys = CollectionId::named("Cache").unwrap().child("a.b").unwrap();
    is_written(&keys, r#""Cache.'a.b'""#);
    is_written(&FieldKind::ParamIn(keys), r#"{"ParamIn":"Cache.'a.b'"}"#);
}

#[test]
fn settings_are_read_with_their_defaults() {
    is_written(&Activation::Relu, r#""Relu""#);
    is_written(&Activation::LeakyRelu(0.1), r#"{"LeakyRelu":0.1}"#);
    is_written(&Momentum::Nesterov, r#""Nesterov""#);
    is_written(&Initializer::Normal(0.02), r#"{"Normal":0.02}"#);
    let options: AdamOptions = from_str(r#"{"beta2":0.95}"#).unwrap();
    assert_eq!(
        options,
        AdamOptions {
            beta2: 0.95,
            ..AdamOptions::default()
        }
    );
    assert!(
        refused::<AdamOptions>(r#"{"beta_2":0.95}"#)
            .contains("unknown field `beta_2`, expected one of `beta1`")
    );
}

#[test]
fn treedefs_survive_text_and_bytes() {
    let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
    let of_model = graph::flatten::<Tensor, _>(&model).1;
    for treedef in [of_model, tree!({"a": 1, "b": (2, None)}).treedef().clone()] {
        let text = to_string(&treedef).unwrap();
        assert!(text.starts_with("\"50595444"), "the digits of PYTD: {text}");
        assert_eq!(from_str::<TreeDef>(&text).unwrap(), treedef);
    }
}

#[test]
fn wrong_data_are_errors() {
    assert_eq!(
        refused::<DType>(r#""f8""#),
        "expected a dtype, one of bool, i8, i16, i32, i64, u8, u16, u32, bf16, f16, f32, f64, found `f8` at line 1 column 4"
    );
    assert!(
        refused::<DType>("8")
            .starts_with("invalid type: integer `8`, expected the name of a dtype")
    );
    assert!(refused::<KeyPath>(r#""a[""#).contains("a["));
    let long = serde_json::Value::String("[".repeat(1 << 20)).to_string();
    assert!(refused::<KeyPath>(&long).len() < 1000);
    assert!(refused::<CollectionId>(r#""""#).contains("found an empty text"));
    assert!(refused::<CollectionId>(r#""a[0]""#).contains("found `[0]`"));
    let long = format!("\"{}\"", "a".repeat(100));
    assert!(refused::<CollectionId>(&long).contains("at most 46 bytes"));
    for digits in ["5", "zz", "+1", "", "5059544403", "\u{e9}"] {
        refused::<TreeDef>(&format!("\"{digits}\""));
    }
}

/// Each byte of a treedef is changed and removed: nothing panics, and nothing is read that cannot be written.
#[test]
fn damaged_treedefs_are_errors_or_other_treedefs() {
    let text = to_string(tree!({"a": 1, "b": [2, 3]}).treedef()).unwrap();
    for at in 1..text.len() - 1 {
        for digit in "07f".chars() {
            let mut changed = text.clone();
            changed.replace_range(at..=at, &digit.to_string());
            if let Ok(treedef) = from_str::<TreeDef>(&changed) {
                let again = to_string(&treedef).unwrap();
                assert_eq!(from_str::<TreeDef>(&again).unwrap(), treedef);
            }
        }
        refused::<TreeDef>(&format!("{}\"", &text[..at]));
    }
}
