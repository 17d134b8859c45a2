//! Tensors on a mesh from the data that each process has.

use std::ops::Range;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;

use super::indexing::Index;
use crate::base::error::{Mistake, TensorError};
use crate::tensor::Tensor;
use crate::tensor::device::{Mesh, PartitionSpec, Sharding, problems_of_spec, problems_of_tensor};

impl Mesh {
    /// Returns a tensor on this mesh from the data of this process, for instance its part of a batch. JAX calls this
    /// function `make_array_from_process_local_data`.
    ///
    /// `local` has the elements that devices of this process hold, in one block. So with a mesh of one process, `local` is
    /// the whole tensor. With a mesh of four processes whose axis divides axis 0, the result is four times as long as
    /// `local`. All processes pass tensors of the same dtype and shape; if they do not, the run ends with a message that has the
    /// shape of each process.
    ///
    /// # Panics
    /// Panics if the tensor is traced, if the spec names an axis that the mesh does not have or has more members than
    /// `local` has axes, if the parts of this process are not next to each other, if the length of an axis is not a
    /// multiple of the number of parts, or if a device reports an error.
    ///
    /// # Examples
    /// On a mesh of four processes, the result would have twelve rows:
    /// ```
    /// use pytree_transform::device::{Device, Mesh};
    /// use pytree_transform::{DType, Tensor};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let rows = Tensor::ones(DType::F32, [3, 2]);
    /// let x = mesh.tensor_from_process_data(&rows, "data");
    /// assert_eq!(x.shape(), [3, 2]);
    /// ```
    #[doc(alias = "jax.make_array_from_process_local_data")]
    #[panicking_twin(tensor_from_process_data, Sharding | Traced | Device)]
    pub fn try_tensor_from_process_data(
        &self,
        local: &Tensor,
        spec: impl Into<PartitionSpec>,
    ) -> Result<Tensor, TensorError> {
        let (local, spec) = (local.try_to_host()?, spec.into());
        self.compare_parts(local.info())?;
        let (whole, starts) = self.around(local.info(), &spec).map_err(|mistakes| {
            let operation = format!("use {} as the part of this process on {self}", local.info());
            TensorError::sharding(operation, mistakes)
        })?;
        self.try_tensor_from_callback(&whole, spec, |index| {
            let ranges = index.iter().zip(&starts);
            let ranges = ranges.map(|(range, start)| range.start - start..range.end - start);
            local.try_index(ranges.map(Index::from).collect::<Vec<_>>())
        })
    }

    /// Returns the whole tensor of which this process holds the part `local`, and where the part starts on each axis.
    fn around(
        &self,
        local: &AbstractArray,
        spec: &PartitionSpec,
    ) -> Result<(AbstractArray, Vec<usize>), Vec<Mistake>> {
        let axes = self.mesh_axes();
        let mut mistakes = problems_of_spec(spec, Some(axes));
        mistakes.extend(problems_of_tensor(spec, None, ("the data", local)));
        let sharding = match Sharding::of_spec(axes.axes(), spec) {
            Some(sharding) if mistakes.is_empty() => sharding,
            _ => return Err(mistakes),
        };
        let mut whole = local.clone();
        let mut starts = vec![0; local.rank()];
        for (axis, length) in whole.shape.iter_mut().enumerate() {
            match self.along(&sharding, axis, *length) {
                Ok(found) => (starts[axis], *length) = found,
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if mistakes.is_empty() {
            Ok((whole, starts))
        } else {
            Err(mistakes)
        }
    }

    /// Returns where the part of this process starts on an axis of the tensor, and the length of the whole axis. `length` is
    /// the length of the part.
    fn along(
        &self,
        sharding: &Sharding,
        axis: usize,
        length: usize,
    ) -> Result<(usize, usize), Mistake> {
        let own = self.own_positions(sharding, axis)?;
        if length.is_multiple_of(own.len()) {
            let part = length / own.len();
            return Ok((own.start * part, part * sharding.parts(axis)));
        }
        let (names, count) = (sharding.names(axis), own.len());
        let problem = format!(
            "axis {axis} of the data has length {length}, which is not a multiple of the {count} parts of this process along {names}"
        );
        Err(Mistake::new(problem, "pass data of another length"))
    }

    /// Returns the positions along an axis of the tensor of the parts that this process holds.
    fn own_positions(&self, sharding: &Sharding, axis: usize) -> Result<Range<usize>, Mistake> {
        let own = self.own_devices();
        let mut positions: Vec<usize> = own.map(|device| sharding.position(device, axis)).collect();
        positions.sort_unstable();
        positions.dedup();
        let range = match positions[..] {
            [first, .., last] => first..last + 1,
            [only] => only..only + 1,
            [] => 0..1,
        };
        if positions.len().max(1) == range.len() {
            return Ok(range);
        }
        let names = sharding.names(axis);
        let problem = format!(
            "the parts {positions:?} of this process on axis {axis} along {names} have gaps"
        );
        let fix = "give the parts one by one, with `tensor_from_callback`";
        Err(Mistake::new(problem, fix))
    }
}
