//! Tensors on a mesh from the data that each process has.

use std::ops::Range;

use pytree_derive::panicking_twin;

use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::operations::indexing::Index;
use crate::tensor::Tensor;
use crate::tensor::device::{Mesh, Sharding};

impl Mesh {
    /// Returns a tensor on this mesh from the data of this process, for instance its part of a batch. JAX calls this
    /// function `make_array_from_process_local_data`.
    ///
    /// `local` has the elements that devices of this process hold, in one block. So with a mesh of one process, `local` is
    /// the whole tensor. With a mesh of four processes whose axis divides axis 0, the result is four times as long as
    /// `local`. All processes pass tensors of the same dtype and shape.
    ///
    /// # Panics
    /// Panics if the tensor is traced, if the sharding belongs to another mesh, if the parts of this process are not next
    /// to each other, if the length of an axis is not a multiple of the number of parts, or if a device reports an error.
    ///
    /// # Examples
    /// On a mesh of four processes, the result would have twelve rows:
    /// ```
    /// use pytree_transform::device::{Device, Mesh};
    /// use pytree_transform::{DType, Tensor};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let own = Tensor::ones(DType::F32, [3, 2]);
    /// let x = mesh.tensor_from_process_data(&own, &mesh.sharding([("data", 0)]));
    /// assert_eq!(x.shape(), [3, 2]);
    /// ```
    #[panicking_twin(tensor_from_process_data, Sharding | Traced | Device)]
    pub fn try_tensor_from_process_data(
        &self,
        local: &Tensor,
        sharding: &Sharding,
    ) -> Result<Tensor, TensorError> {
        let local = local.try_to_host()?;
        let mut shape = local.shape().to_vec();
        let mut starts = vec![0; shape.len()];
        for (axis, length) in shape.iter_mut().enumerate() {
            let own = self.own_positions(sharding, axis)?;
            if !length.is_multiple_of(own.len()) {
                let (names, count, info) = (sharding.names(axis), own.len(), local.info());
                let problem = format!(
                    "axis {axis} of {info} has length {length}, which is not a multiple of the {count} parts of this process along {names}"
                );
                return Err(self.not_divided(problem, "pass data of another length"));
            }
            let part = *length / own.len();
            starts[axis] = own.start * part;
            *length = part * sharding.parts(axis);
        }
        let whole = AbstractArray::new(local.dtype(), shape);
        self.try_tensor_from_callback(&whole, sharding, |index| {
            let ranges = index.iter().zip(&starts);
            let ranges = ranges.map(|(range, start)| range.start - start..range.end - start);
            local.try_index(ranges.map(Index::from).collect::<Vec<_>>())
        })
    }

    /// Returns the positions along an axis of the tensor of the parts that this process holds.
    fn own_positions(&self, sharding: &Sharding, axis: usize) -> Result<Range<usize>, TensorError> {
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
        let problem = format!("the parts {positions:?} of this process along {names} have gaps");
        let fix = "give the parts one by one, with `tensor_from_callback`";
        Err(self.not_divided(problem, fix))
    }
}
