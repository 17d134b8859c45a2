//! The primitive that calls a user function with the values of tensors.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::smallvec;

use crate::base::array::Array;
use crate::base::bits::with_bits;
use crate::base::dtype::AbstractArray;
use crate::base::error::or_panic;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind;

/// The user function, called with concrete values.
pub(crate) type Callback = dyn Fn(&[Tensor]) + Send + Sync;

/// Calls a user function with the values of its operands, once for each example of a batch.
#[derive(Clone)]
pub(crate) struct DebugCallback {
    pub(crate) callback: Arc<Callback>,
    /// The number of leading batch axes.
    pub(crate) batch_axes: usize,
}

impl PartialEq for DebugCallback {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.callback, &other.callback) && self.batch_axes == other.batch_axes
    }
}

impl Eq for DebugCallback {}

impl Hash for DebugCallback {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        Arc::as_ptr(&self.callback).hash(hasher);
        self.batch_axes.hash(hasher);
    }
}

impl fmt::Debug for DebugCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugCallback")
            .field("batch_axes", &self.batch_axes)
            .finish_non_exhaustive()
    }
}

/// Returns the example at `position` of a batch, without the batch axes.
fn example(array: &Array, batch_axes: usize, position: usize) -> Tensor {
    let shape = &array.shape()[batch_axes..];
    let length: usize = shape.iter().product();
    Tensor::from_array(with_bits!(array.dtype(), T => {
        let elements = &array.bits::<T>()[position * length..][..length];
        Array::from_bits(array.dtype(), shape, elements.to_vec())
    }))
}

impl Primitive for DebugCallback {
    fn name(&self) -> &'static str {
        "debug_callback"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(smallvec![])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let batch = operands
            .first()
            .map_or(&[][..], |operand| &operand.shape()[..self.batch_axes]);
        for position in 0..batch.iter().product() {
            let values: Vec<Tensor> = operands
                .iter()
                .map(|operand| match self.batch_axes {
                    0 => Tensor::from_shared(Arc::clone(operand)),
                    axes => example(operand, axes, position),
                })
                .collect();
            (self.callback)(&values);
        }
        smallvec![]
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let first = operands
            .iter()
            .zip(axes)
            .map(|(operand, axis)| or_panic(batch_axis_first(operand, *axis, size)))
            .collect::<Vec<_>>();
        let batched = Self {
            batch_axes: self.batch_axes + 1,
            ..self.clone()
        };
        or_panic(bind(&batched, &first.iter().collect::<Vec<_>>()));
        (smallvec![], smallvec![])
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Err(block.refused(
            operands,
            "a module runs outside of this program and cannot call one of its functions",
            "remove the callback or the print, or run the function on the host",
        ))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch_axes {
            0 => Ok(()),
            axes => write!(f, "batch_axes={axes}"),
        }
    }

    fn has_effect(&self) -> bool {
        true
    }
}
