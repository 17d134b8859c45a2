//! Checkpoints by shards of all versions.

use pytree::device::{Mesh, device_put};
use pytree::prelude::*;

use crate::formats::fixture;
use crate::shards::mesh::Held;

/// A matrix that a mesh divides into four parts, a vector of two parts, and a number.
fn state(mesh: &Mesh, factor: f32) -> (Tensor, Tensor, Tensor) {
    let matrix = Tensor::new(
        [4, 6],
        (0..24).map(|x| x as f32 * factor).collect::<Vec<_>>(),
    );
    let vector = Tensor::new([4], [1_i64, -1, i64::MAX, i64::MIN]);
    (
        device_put(&matrix, mesh.divided(("data", "model"))),
        device_put(&vector, mesh.divided("model")),
        Tensor::from(7_u32),
    )
}

/// The version of the index that is written now.
const CURRENT: u32 = 3;

#[test]
fn folders_of_all_versions() {
    for version in 2..=CURRENT {
        folder_of_version(version);
    }
}

fn folder_of_version(version: u32) {
    let square = Mesh::new(&Held(0..4), [("data", 2), ("model", 2)]);
    let name = format!("checkpoint-v{version}-by-shards");
    let path = fixture(&name, version == CURRENT, |path| {
        checkpoint::save_sharded(path, &state(&square, 0.5)).unwrap();
    });
    let index = std::fs::read_to_string(path.join("model.safetensors.index.json")).unwrap();
    assert!(
        index.contains(&format!("\"pytree.version\": \"{version}\"")),
        "{index}"
    );
    let row = Mesh::new(&Held(0..2), [("data", 1), ("model", 2)]);
    for mesh in [&square, &row] {
        let (matrix, vector, number) = checkpoint::load(&path, &state(mesh, 0.0)).unwrap();
        let expected: Vec<f32> = (0..24).map(|x| x as f32 * 0.5).collect();
        assert_eq!(matrix.to_vec::<f32>(), expected);
        assert_eq!(vector.to_vec::<i64>(), [1, -1, i64::MAX, i64::MIN]);
        assert_eq!(number.item::<u32>(), 7);
    }
    let entries = checkpoint::inspect(&path).unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.name, &*entry.dtype, &entry.shape[..]))
        .collect();
    let expected = [
        ("[0]", "f32", &[4, 6][..]),
        ("[1]", "i64", &[4]),
        ("[2]", "u32", &[]),
    ];
    assert_eq!(found, expected);
}
