//! Random checkpoint files, and ten thousand damaged files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use pytree::checkpoint::LoadOptions;
use pytree::prelude::*;
use pytree::{AnyLeaf, TreeDef};

use crate::random::Random;
use crate::treedefs::{holds_together, stored};
use crate::{fuzz, read};

type State = BTreeMap<String, Tensor>;

fn state() -> State {
    BTreeMap::from([
        (
            "weight".to_owned(),
            Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]),
        ),
        ("step".to_owned(), Tensor::from(7_i64)),
    ])
}

/// The state as a tree of ndarrays and numbers, with the same paths.
fn arrays() -> Tree<AnyLeaf> {
    pytree_core::tree!({"weight": Array2::<f32>::zeros((2, 2)), "step": 0_i64})
}

/// A file that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("pytree-hostile-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(unique))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What the bytes hold, if they are a checkpoint of the state.
fn loaded(path: &Path, bytes: &[u8], template: &State) -> Option<State> {
    std::fs::write(path, bytes).unwrap();
    read(bytes.len(), || {
        let _ = checkpoint::inspect(path).map_err(|error| error.to_string());
        let options = LoadOptions::new().allow_missing().allow_unused();
        if let Err(error) = checkpoint::load_with(path, template, &options) {
            assert!(error.to_string().len() < 20_000, "{error}");
        }
        let loaded = checkpoint::load(path, template);
        let arrays = checkpoint::load(path, &arrays());
        assert_eq!(loaded.is_ok(), arrays.is_ok());
        let loaded = loaded.map_err(|error| assert!(!error.to_string().is_empty()));
        loaded.ok()
    })
}

/// A header that may be one of safetensors, and some data.
fn written(random: &mut Random) -> Vec<u8> {
    let names = [
        "['weight']",
        "['step']",
        "weight",
        "",
        "a.b",
        "é",
        "\\u0000",
        "__metadata__",
    ];
    let dtypes = ["F32", "I64", "BOOL", "F64", "BF16", "F4", "X", "U8"];
    let numbers = [
        "0",
        "1",
        "2",
        "4",
        "8",
        "16",
        "24",
        "-1",
        "1e9",
        "18446744073709551615",
        "4611686018427387904",
    ];
    let mut entries = Vec::new();
    for _ in 0..random.below(4) {
        let shape: Vec<&str> = (0..random.below(4))
            .map(|_| *random.pick(&numbers))
            .collect();
        entries.push(format!(
            "\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            random.pick(&names),
            random.pick(&dtypes),
            shape.join(","),
            random.pick(&numbers),
            random.pick(&numbers)
        ));
    }
    if random.one_in(2) {
        let keys = [
            "pytree.kinds",
            "pytree.version",
            "pytree.checksum",
            "format",
        ];
        let values = ["1", "2", "3", "99999999999", "['weight']\\tParam\\n", ""];
        entries.push(format!(
            "\"__metadata__\":{{\"{}\":\"{}\"}}",
            random.pick(&keys),
            random.pick(&values)
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let length = match random.below(8) {
        0 => random.bits(),
        1 => header.len() as u64 + 1,
        _ => header.len() as u64,
    };
    let data = vec![random.bits() as u8; random.below(40)];
    [&length.to_le_bytes()[..], header.as_bytes(), &data].concat()
}

#[test]
fn checkpoints_are_read_or_refused() {
    let scratch = Scratch::new("fuzz");
    let template = state();
    checkpoint::save(&scratch.0, &template).unwrap();
    let mut stored = stored("checkpoint-");
    stored.push(std::fs::read(&scratch.0).unwrap());
    fuzz("checkpoints_are_read_or_refused", |random| {
        let bytes = if random.one_in(2) {
            written(random)
        } else {
            let mut bytes = random.pick(&stored).clone();
            random.change(&mut bytes);
            bytes
        };
        loaded(&scratch.0, &bytes, &template);
    });
}

#[test]
fn ten_thousand_damaged_files_are_refused() {
    let scratch = Scratch::new("damaged");
    let template = state();
    checkpoint::save(&scratch.0, &template).unwrap();
    let whole = std::fs::read(&scratch.0).unwrap();
    let zeros: State = template
        .iter()
        .map(|(name, leaf)| (name.clone(), Tensor::zeros_like(leaf)))
        .collect();
    let mut damaged = 0;
    for length in 0..whole.len() {
        assert_eq!(
            loaded(&scratch.0, &whole[..length], &zeros),
            None,
            "{length} bytes"
        );
        damaged += 1;
    }
    let mut blanks = 0;
    for at in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        // A space at the end of the header may become another blank.
        if let Some(loaded) = loaded(&scratch.0, &bytes, &zeros) {
            assert_eq!(loaded, template, "bit {at}");
            blanks += 1;
        }
        damaged += 1;
    }
    assert!(blanks <= 16, "{blanks} changes were not seen");
    for bytes in stored("treedef-") {
        for length in 0..bytes.len() {
            assert!(TreeDef::from_bytes(&bytes[..length]).is_err());
            damaged += 1;
        }
        for at in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            holds_together(&bytes);
            damaged += 1;
        }
    }
    let mut random = Random::new(0);
    while damaged < 10_000 {
        let mut bytes = whole.clone();
        bytes.truncate(1 + random.below(whole.len()));
        let at = random.below(8 * bytes.len());
        bytes[at / 8] ^= 1 << (at % 8);
        if let Some(loaded) = loaded(&scratch.0, &bytes, &zeros) {
            assert_eq!(loaded, template);
        }
        damaged += 1;
    }
}
