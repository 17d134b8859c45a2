//! Checkpoints: bytes as they are, and a header with its length before it, so that the fuzzer can write headers.

#![no_main]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ndarray::Array2;
use pytree::AnyLeaf;
use pytree::checkpoint::LoadOptions;
use pytree::prelude::*;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("pytree-fuzz-{}.safetensors", std::process::id());
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    folder.join(name)
});

type State = BTreeMap<String, Tensor>;

fn check(template: &State) {
    let _ = checkpoint::inspect(&*FILE).map_err(|error| error.to_string());
    let options = LoadOptions::new().allow_missing().allow_unused();
    let _ = checkpoint::load_with(&*FILE, template, &options).map_err(|error| error.to_string());
    let arrays: Tree<AnyLeaf> = pytree_core::tree!({"weight": Array2::<f32>::zeros((2, 2)), "step": 0_i64});
    let loaded = checkpoint::load(&*FILE, template);
    assert_eq!(checkpoint::load(&*FILE, &arrays).is_ok(), loaded.is_ok());
    if let Ok(loaded) = loaded {
        let shapes = |state: &State| -> Vec<_> {
            state
                .values()
                .map(|leaf| (leaf.dtype(), leaf.shape().to_vec()))
                .collect()
        };
        assert_eq!(shapes(&loaded), shapes(template));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let weight = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let state = State::from([
        ("weight".to_owned(), weight),
        ("step".to_owned(), Tensor::from(7_i64)),
    ]);
    match bytes.split_first() {
        Some((b'{', _)) => {
            let end = bytes
                .iter()
                .rposition(|&byte| byte == b'}')
                .map_or(0, |end| end + 1);
            let length = (end as u64).to_le_bytes();
            std::fs::write(&*FILE, [&length[..], bytes].concat())
        }
        _ => std::fs::write(&*FILE, bytes),
    }
    .expect("the scratch file is written");
    check(&state);
});
