//! What static fields accept, and `#[derive(Static)]`.

use std::collections::BTreeMap;

use pytree_core::{Module, Static, StaticValue, tree};

use crate::derive::{rebuilt, shown};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hashed(String);

#[derive(Clone, Debug, PartialEq)]
struct Compared(f32);

#[derive(Static, Clone)]
struct Setting {
    rate: f32,
    pair: (usize, Option<Hashed>),
    inner: Vec<Setting>,
}

#[derive(Static, Clone, PartialEq, Debug)]
enum Padding {
    Same,
    Explicit(Vec<usize>),
    Named { left: Compared, right: Hashed },
}

#[derive(Static, Clone, PartialEq, Debug)]
struct Of<T> {
    value: T,
}

#[derive(Module, Clone)]
struct Statics {
    #[r#static]
    number: f32,
    #[r#static]
    numbers: Vec<f64>,
    #[r#static]
    text: String,
    #[r#static]
    hashed: Vec<Hashed>,
    #[r#static]
    compared: Option<Compared>,
    #[r#static]
    setting: Setting,
    #[r#static]
    padding: BTreeMap<String, Padding>,
    #[r#static]
    plain: fn(f32) -> f32,
    #[r#static]
    higher_ranked: fn(&String) -> usize,
    #[r#static]
    of: Of<u8>,
}

fn statics(rate: f32) -> Statics {
    Statics {
        number: f32::NAN,
        numbers: vec![0.5],
        text: "text".to_owned(),
        hashed: vec![Hashed("h".to_owned())],
        compared: Some(Compared(1.0)),
        setting: Setting {
            rate,
            pair: (1, None),
            inner: vec![],
        },
        padding: BTreeMap::from([(
            "p".to_owned(),
            Padding::Named {
                left: Compared(0.0),
                right: Hashed(String::new()),
            },
        )]),
        plain: f32::abs,
        higher_ranked: String::len,
        of: Of { value: 1 },
    }
}

#[test]
fn static_fields_are_compared_by_value() {
    let structure = |rate| tree::structure(&statics(rate));
    assert_eq!(structure(0.5), structure(0.5));
    assert_ne!(structure(0.5), structure(0.25));
    let again = rebuilt(&statics(0.5));
    assert_eq!((again.higher_ranked)(&"four".to_owned()), 4);
    assert_eq!(tree::structure(&again), structure(0.5));
}

#[test]
fn static_values_show_as_written_in_python_inside_rust_types() {
    let shown = shown(&statics(0.5));
    for part in [
        "number = nan",
        "hashed = [Hashed(\"h\")]",
        "setting = Setting { rate: 0.5, pair: (1, None), inner: [] }",
        "padding = {'p': Named { left: Compared(0.0), right: Hashed(\"\") }}",
        "of = Of { value: 1 }",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}

#[test]
fn static_variants_differ() {
    assert!(Padding::Same.static_eq(&Padding::Same));
    assert!(!Padding::Same.static_eq(&Padding::Explicit(vec![])));
    assert!(!Padding::Explicit(vec![1]).static_eq(&Padding::Explicit(vec![2])));
}
