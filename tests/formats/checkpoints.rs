//! Checkpoints of all versions.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use pytree::PytreeOf;
use pytree::checkpoint::Entry;
use pytree::prelude::*;

use crate::formats::fixture;

/// Name, dtype, shape and kind of a leaf.
type Row<'a> = (&'a str, &'a str, &'a [usize], Option<&'a str>);

/// Returns the version of a file. Files of the first version have none in their metadata.
fn version(path: &Path) -> u32 {
    let bytes = std::fs::read(path).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&rest[..length]).unwrap();
    match &header["__metadata__"]["pytree.version"] {
        serde_json::Value::String(version) => version.parse().unwrap(),
        _ => 1,
    }
}

fn scratch(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("pytree-formats-{}-{name}", std::process::id()))
}

/// Dtype, shape and bits of each leaf.
fn bits<T: PytreeOf<Tensor>>(value: &T) -> Vec<(DType, Vec<usize>, Vec<u64>)> {
    let leaves = graph::leaves::<Tensor, T>(value);
    let bits = |tensor: &Tensor| match tensor.dtype() {
        DType::Bool => tensor.to_vec::<bool>().into_iter().map(u64::from).collect(),
        DType::I32 => tensor
            .to_vec::<i32>()
            .into_iter()
            .map(|x| x as u64)
            .collect(),
        DType::I64 => tensor
            .to_vec::<i64>()
            .into_iter()
            .map(|x| x as u64)
            .collect(),
        DType::U32 => tensor.to_vec::<u32>().into_iter().map(u64::from).collect(),
        DType::F32 => tensor
            .to_vec::<f32>()
            .into_iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::F64 => tensor
            .to_vec::<f64>()
            .into_iter()
            .map(f64::to_bits)
            .collect(),
        other => panic!("{other:?}"),
    };
    let described = |tensor: &&Tensor| (tensor.dtype(), tensor.shape().to_vec(), bits(tensor));
    leaves.iter().map(described).collect()
}

/// The value is what every version's file of that name holds; the template has other numbers.
fn in_all_versions<T: PytreeOf<Tensor> + Debug>(
    name: &str,
    value: &T,
    template: &T,
    entries: &[Row<'_>],
) {
    let now = scratch(name);
    checkpoint::save(&now, value).unwrap();
    let current = version(&now);
    std::fs::remove_file(&now).unwrap();
    for version in 1..=current {
        let file = format!("checkpoint-v{version}-{name}.safetensors");
        let path = fixture(&file, version == current, |path| {
            checkpoint::save(path, value).unwrap();
        });
        assert_eq!(self::version(&path), version, "{file}");
        let loaded = checkpoint::load(&path, template).unwrap();
        assert_eq!(bits(&loaded), bits(value), "{file}");
        let found = checkpoint::inspect(&path).unwrap();
        let found: Vec<_> = found.iter().map(described).collect();
        assert_eq!(found, entries, "{file}");
    }
}

fn described(entry: &Entry) -> Row<'_> {
    (
        &entry.name,
        &entry.dtype,
        &entry.shape,
        entry.kind.as_deref(),
    )
}

fn zeros<T: PytreeOf<Tensor> + Clone>(value: &T) -> T {
    let (leaves, treedef) = graph::flatten::<Tensor, T>(value);
    graph::unflatten(
        &treedef,
        leaves.iter().map(Tensor::zeros_like).collect::<Vec<_>>(),
    )
    .unwrap()
}

#[test]
fn every_dtype_keeps_its_bits() {
    let value = vec![
        Tensor::from([true, false]),
        Tensor::from([i32::MIN, -1, 7]),
        Tensor::from([[i64::MAX, i64::MIN]]),
        Tensor::from([u32::MAX, 0]),
        Tensor::from([f32::from_bits(0x7FC0_1234), -0.0, f32::INFINITY, 1e-45]),
        Tensor::from([f64::from_bits(0x7FF8_0000_0000_1234), -0.0]),
        Tensor::from(1.5_f32),
        Tensor::zeros(DType::F32, [0, 3]),
    ];
    let entries: [Row<'_>; 8] = [
        ("[0]", "bool", &[2], None),
        ("[1]", "i32", &[3], None),
        ("[2]", "i64", &[1, 2], None),
        ("[3]", "u32", &[2], None),
        ("[4]", "f32", &[4], None),
        ("[5]", "f64", &[2], None),
        ("[6]", "f32", &[], None),
        ("[7]", "f32", &[0, 3], None),
    ];
    in_all_versions("dtypes", &value, &zeros(&value), &entries);
}

/// A type of this file's own: those of the library may get other fields, and the format is the same.
#[derive(Clone, Debug, Module)]
struct Layer {
    #[param]
    weight: Tensor,
    #[state(BatchStat)]
    mean: Option<Tensor>,
    #[r#static]
    size: usize,
}

#[test]
fn leaves_with_kinds_load() {
    let layer = |number: f32, mean: Option<[f64; 2]>| Layer {
        weight: Tensor::from([[number], [-2.0]]),
        mean: mean.map(Tensor::from),
        size: 2,
    };
    let layers = vec![layer(0.5, Some([1.0, -0.0])), layer(1e-45, None)];
    let value = (layers, Tensor::from(3_u32));
    let entries: [Row<'_>; 4] = [
        ("[0][0].mean", "f64", &[2], Some("BatchStat")),
        ("[0][0].weight", "f32", &[2, 1], Some("Param")),
        ("[0][1].weight", "f32", &[2, 1], Some("Param")),
        ("[1]", "u32", &[], None),
    ];
    in_all_versions("kinds", &value, &zeros(&value), &entries);
}

#[test]
fn names_of_any_characters_load() {
    let keys = [
        "",
        "a.b[0]",
        "it's",
        "new\nline",
        "\"quoted\"",
        "é漢🦀",
        "\\",
    ];
    let value: BTreeMap<&str, Tensor> = keys
        .into_iter()
        .zip(1..)
        .map(|(key, number)| (key, Tensor::from(number)))
        .collect();
    let entries: [Row<'_>; 7] = [
        ("[\"it's\"]", "i32", &[], None),
        ("['\"quoted\"']", "i32", &[], None),
        ("['']", "i32", &[], None),
        ("['\\\\']", "i32", &[], None),
        ("['a.b[0]']", "i32", &[], None),
        ("['new\\nline']", "i32", &[], None),
        ("['é漢🦀']", "i32", &[], None),
    ];
    in_all_versions("names", &value, &zeros(&value), &entries);
}

#[test]
fn shared_leaves_load_shared() {
    let shared = Shared::new(vec![Tensor::from([1_i64, 2])]);
    let value = (shared.clone(), shared);
    in_all_versions(
        "shared",
        &value,
        &zeros(&value),
        &[("[0][0]", "i64", &[2], None)],
    );
}

#[test]
fn one_tensor_and_none_load() {
    let value = Tensor::from([[1.0_f64, -2.0]]);
    in_all_versions(
        "single",
        &value,
        &zeros(&value),
        &[("value", "f64", &[1, 2], None)],
    );
    in_all_versions("empty", &Vec::<Tensor>::new(), &Vec::new(), &[]);
}

#[test]
fn later_version_is_refused() {
    let value = Tensor::from([[1.0_f64, -2.0]]);
    let present =
        std::fs::read(fixture("checkpoint-v2-single.safetensors", false, |_| ())).unwrap();
    let (old, new) = (b"\"pytree.version\":\"2\"", b"\"pytree.version\":\"9\"");
    let at = present
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    let mut later = present;
    later[at..at + new.len()].copy_from_slice(new);
    let path = scratch("later");
    std::fs::write(&path, later).unwrap();
    let error = checkpoint::load(&path, &value).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        error.contains("found version 9; load it with a later version"),
        "{error}"
    );
}

#[test]
fn options_are_loaded_from_both_forms() {
    let path = scratch("options");
    let tensor = |value: f32| Tensor::from(value);
    let value = (Some(tensor(1.0)), vec![None, Some(tensor(2.0))]);
    let own: Tree<Tensor> = Tree::from_value(&value);
    let plain = own.clone().without_some();
    assert_ne!(own.treedef(), plain.treedef());
    let zeros = |tree: &Tree<Tensor>| tree.map(|_| tensor(0.0));
    for saved in [&own, &plain] {
        checkpoint::save(&path, saved).unwrap();
        for template in [&own, &plain] {
            let loaded = checkpoint::load(&path, &zeros(template)).unwrap();
            assert_eq!(loaded.treedef(), template.treedef());
            assert_eq!(bits(&loaded), bits(&own));
        }
        let template = (Some(tensor(0.0)), vec![None, Some(tensor(0.0))]);
        let loaded = checkpoint::load(&path, &template).unwrap();
        assert_eq!(bits(&loaded), bits(&value));
    }
    std::fs::remove_file(path).unwrap();
}
