//! Checkpoints by shards: what a mesh writes loads on other meshes, several processes write together, and damaged
//! folders are refused.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod damage;
mod folders;
pub(crate) mod mesh;
mod meshes;
mod writers;

use std::path::{Path, PathBuf};

use pytree::data::{Batches, Position};
use pytree::device::{Mesh, PartitionSpec, device_put};
use pytree::prelude::*;

/// A folder that is removed at the end of the test.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let unique = format!("pytree-shards-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// Returns the names of the files, in order.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub fn index(&self) -> PathBuf {
        self.0.join("model.safetensors.index.json")
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a mesh whose devices all belong to this process.
pub fn mesh<const N: usize>(axes: [(&str, usize); N]) -> Mesh {
    Mesh::new(&mesh::Held(0..usize::MAX), axes)
}

/// A training run: the model, its optimizer, and the position in the data.
pub type Run = (Mlp, Optimizer<Mlp>, Position);

/// Returns a run after some steps, so that the moments of the optimizer are not zero.
pub fn run(seed: u64) -> Run {
    let mut model = Mlp::new(&[8, 12, 4], Activation::Tanh, &mut Rngs::new(seed));
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let x = Rngs::new(seed + 1).normal(DType::F32, [6, 8]);
    let y = Rngs::new(seed + 2).normal(DType::F32, [6, 4]);
    for _ in 0..3 {
        let gradient = grad(|model: &Mlp| mse(&model.forward(&x), &y))(&model);
        optimizer.update(&mut model, &gradient);
    }
    let batches = Batches::new((x, y), 2).shuffle(&Key::new(seed));
    let position = batches.resume(&batches.start()).nth(1).unwrap().0;
    (model, optimizer, position)
}

/// Divides the axes of each tensor by the axes of a mesh, where the lengths fit.
pub fn divided<T: pytree::transform::Traceable>(value: &T, mesh: &Mesh) -> T {
    graph::map(value, |x: &Tensor| {
        device_put(x, mesh.divided(spec(x, mesh)))
    })
}

/// Returns the spec of a tensor that [`divided`] chooses.
pub fn spec(x: &Tensor, mesh: &Mesh) -> PartitionSpec {
    let axes = mesh.axes().zip(x.shape());
    let fits = axes.map(|((name, devices), length)| {
        let fits = length.is_multiple_of(devices);
        fits.then_some(name)
    });
    fits.collect::<Vec<_>>().into()
}

/// Checks that the leaves of two values have the same bits.
pub fn assert_same_bits<T: pytree::transform::Traceable>(found: &T, expected: &T) {
    let bits = |value: &T| -> Vec<(String, Vec<u64>)> {
        let leaves = graph::leaves::<Tensor, T>(value);
        let leaf = |leaf: &Tensor| {
            let info = leaf.info().to_string();
            let bits = match leaf.dtype() {
                DType::F32 => leaf
                    .to_vec::<f32>()
                    .iter()
                    .map(|x| x.to_bits().into())
                    .collect(),
                _ => leaf
                    .to_host()
                    .convert(DType::I64)
                    .to_vec::<i64>()
                    .iter()
                    .map(|x| *x as u64)
                    .collect(),
            };
            (info, bits)
        };
        leaves.into_iter().map(leaf).collect()
    };
    assert_eq!(bits(found), bits(expected));
}
