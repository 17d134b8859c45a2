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

#[test]
fn folder_of_version_2() {
    let square = Mesh::new(&Held(0..4), [("data", 2), ("model", 2)]);
    let path = fixture("checkpoint-v2-by-shards", true, |path| {
        checkpoint::save_sharded(path, &state(&square, 0.5)).unwrap();
    });
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
