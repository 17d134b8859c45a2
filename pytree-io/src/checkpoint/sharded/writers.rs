//! The processes that write one checkpoint together.

use pytree_core::LeafError;
use pytree_store::parts::Writers;
use pytree_transform::device::{Mesh, SpecAxis};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};

/// The processes that write one checkpoint together: those of the mesh on which the tensors are.
pub(super) struct MeshWriters {
    rank: usize,
    count: usize,
    /// The mesh, and the number of its devices that each process holds. `None` if this process writes alone.
    mesh: Option<(Mesh, usize)>,
}

impl MeshWriters {
    /// Returns the processes that hold parts of the given tensors. They are the same in all processes, because all save the
    /// same pytree.
    pub(super) fn of(leaves: &[Tensor]) -> Self {
        let writers = leaves.iter().filter_map(|leaf| {
            let mesh = Mesh::of(leaf)?;
            let own: Vec<usize> = mesh.own_devices().collect();
            let first = *own.first()?;
            (own.len() < mesh.devices()).then(|| Self {
                rank: first / own.len(),
                count: mesh.devices() / own.len(),
                mesh: Some((mesh, own.len())),
            })
        });
        let alone = Self {
            rank: 0,
            count: 1,
            mesh: None,
        };
        writers.into_iter().next().unwrap_or(alone)
    }
}

impl Writers for MeshWriters {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    /// A tensor with one number for each device is gathered, so the mesh does what the exchange needs.
    fn exchange(&self, number: i64) -> Result<Vec<i64>, LeafError> {
        let Some((mesh, own)) = &self.mesh else {
            return Ok(vec![number]);
        };
        let along_all = SpecAxis::Along(mesh.axes().map(|(name, _)| name.into()).collect());
        let whole = AbstractArray::new(DType::I64, [mesh.devices()]);
        let part = |_: &[_]| Ok::<Tensor, TensorError>(Tensor::from([number]));
        let numbers = mesh.try_tensor_from_callback(&whole, [along_all], part)?;
        let numbers = numbers.try_to_vec::<i64>()?;
        Ok(numbers.into_iter().step_by(*own).collect())
    }
}
