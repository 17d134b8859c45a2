//! Checkpoints of several files: the bytes of an index, and the header of a file with parts. A byte 0 separates them.

#![no_main]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ndarray::Array2;
use pytree::AnyLeaf;
use pytree::checkpoint::LoadOptions;
use pytree::prelude::*;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let folder = folder.join(format!("pytree-fuzz-folder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder is created");
    folder
});

type State = BTreeMap<String, Tensor>;

fuzz_target!(|bytes: &[u8]| {
    let template = State::from([
        ("x".to_owned(), Tensor::zeros(DType::U8, [2, 4])),
        ("y".to_owned(), Tensor::from(7_i64)),
    ]);
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let index = parts.next().unwrap_or_default();
    let file = parts.next().unwrap_or_default();
    // The numbers follow the last brace of the header.
    let end = file.iter().rposition(|&byte| byte == b'}');
    let length = (end.map_or(0, |end| end + 1) as u64).to_le_bytes();
    let written = std::fs::write(FOLDER.join("model.safetensors.index.json"), index);
    written.expect("the index is written");
    let written = std::fs::write(FOLDER.join("a.safetensors"), [&length[..], file].concat());
    written.expect("the file is written");
    let _ = checkpoint::inspect(&*FOLDER).map_err(|error| error.to_string());
    let _ = checkpoint::tensors(&*FOLDER).map_err(|error| error.to_string());
    let options = LoadOptions::new().allow_missing().allow_unused();
    let _ = checkpoint::load_with(&*FOLDER, &template, &options).map_err(|error| error.to_string());
    let arrays: Tree<AnyLeaf> = pytree_core::tree!({"x": Array2::<u8>::zeros((2, 4)), "y": 0_i64});
    let loaded = checkpoint::load(&*FOLDER, &template);
    assert_eq!(checkpoint::load(&*FOLDER, &arrays).is_ok(), loaded.is_ok());
    if let Ok(loaded) = loaded {
        let infos =
            |state: &State| -> Vec<_> { state.values().map(|leaf| leaf.info().clone()).collect() };
        assert_eq!(infos(&loaded), infos(&template));
    }
});
