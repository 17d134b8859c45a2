//! The processes that write one checkpoint together.

use pytree_transform::device::{Mesh, SpecAxis};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};

/// The processes that write one checkpoint together: those of the mesh on which the tensors are.
pub(super) struct Writers {
    rank: usize,
    count: usize,
    /// The mesh, and the number of its devices that each process holds. `None` if this process writes alone.
    mesh: Option<(Mesh, usize)>,
}

impl Writers {
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

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number that the process of rank 0 passes.
    pub(super) fn of_first(&self, number: i64) -> Result<i64, TensorError> {
        Ok(self.all(number)?[0])
    }

    /// Waits for all processes. Returns the first rank that passes false, if there is one.
    pub(super) fn first_failed(&self, is_done: bool) -> Result<Option<usize>, TensorError> {
        let all = self.all(i64::from(is_done))?;
        Ok(all.iter().position(|&is_done| is_done == 0))
    }

    /// Sends a number to all processes, and returns the numbers of all processes in the order of the ranks. A tensor with one
    /// number for each device is gathered, so the mesh does what the exchange needs.
    fn all(&self, number: i64) -> Result<Vec<i64>, TensorError> {
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
