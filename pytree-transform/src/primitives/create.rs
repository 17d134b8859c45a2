//! Primitives that create tensors without operands, and broadcasts: a broadcast number is created, and a tensor that is created on a
//! device is a broadcast number. Under `jit` these primitives are recorded, so the tensors are not stored as constants.

use std::hash::{Hash, Hasher};

use pytree_base::lists::Tuple;
use pytree_kernels::base::array::fits_memory;
use pytree_kernels::base::data::Data;
use pytree_kernels::base::shape::{AxisList, Shape};
use pytree_kernels::loops::create;

use crate::primitives::prelude::*;
use crate::tensor::device;
use crate::tensor::scalar::Scalar;
use crate::tensor::trace::is_staging;

/// Creates a tensor whose elements all equal one value.
#[derive(Clone, Debug)]
pub(crate) struct Full {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// The value of all elements, which is converted to the dtype like Rust's `as`. If the dtype is bool, a nonzero
    /// value becomes `true`.
    pub(crate) value: f64,
}

impl PartialEq for Full {
    /// Compares the bits of the values, so that -0 differs from 0.
    fn eq(&self, other: &Self) -> bool {
        (self.dtype, self.value.to_bits()) == (other.dtype, other.value.to_bits())
            && self.shape == other.shape
    }
}

impl Eq for Full {}

impl Hash for Full {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.dtype.hash(hasher);
        self.shape.hash(hasher);
        self.value.to_bits().hash(hasher);
    }
}

/// Creates a tensor in which each element is its own position along an axis: 0, 1, 2, …
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Iota {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) axis: usize,
}

/// Returns a tensor with all elements equal to `value`.
#[track_caller]
pub(crate) fn full(dtype: DType, shape: &[usize], value: f64) -> Result<Tensor, TensorError> {
    if device::is_chosen() && !is_staging() {
        return repeated_on_device(&Tensor::constant(dtype, value), shape);
    }
    bind_one(
        &Full {
            dtype,
            shape: Shape::from(shape),
            value,
        },
        &[],
    )
}

/// Returns a tensor with all elements equal to a Rust number, which an integer dtype must hold exactly if it is an
/// integer.
#[track_caller]
pub(crate) fn filled(dtype: DType, shape: &[usize], value: Scalar) -> Result<Tensor, TensorError> {
    let element = value.tensor(dtype).ok_or_else(|| {
        TensorError::shape(
            "fill",
            &[&AbstractArray::new(dtype, shape)],
            format!("{dtype} cannot represent {value}"),
            "use a wider dtype, or another number",
        )
    })?;
    match value.exact() {
        Some(number) => full(dtype, shape, number),
        None if device::is_chosen() && !is_staging() => repeated_on_device(&element, shape),
        None => broadcast_to(&element, shape),
    }
}

/// Returns a tensor on the chosen device with all elements equal to `value`. Transfers the value to the device, because
/// an operation that contains the value would be compiled again for each new value.
#[cold]
#[track_caller]
fn repeated_on_device(value: &Tensor, shape: &[usize]) -> Result<Tensor, TensorError> {
    broadcast_to(&device::chosen().put(value)?, shape)
}

/// Returns zeros with the given dtype and shape, for use in rules.
#[track_caller]
pub(crate) fn zeros(info: &AbstractArray) -> Tensor {
    or_panic(full(info.dtype, &info.shape, 0.0))
}

/// Returns zeros with the dtype and shape of a tensor, for use in rules.
#[track_caller]
pub(crate) fn zeros_like(tensor: &Tensor) -> Tensor {
    zeros(tensor.info())
}

/// Returns ones with the dtype and shape of a tensor, for use in rules.
#[track_caller]
pub(crate) fn ones_like(tensor: &Tensor) -> Tensor {
    or_panic(full(tensor.dtype(), tensor.shape(), 1.0))
}

/// Returns `tensor`, or zeros with the dtype and shape `info` if `tensor` is `None`.
#[track_caller]
pub(crate) fn or_zeros(tensor: Option<&Tensor>, info: &AbstractArray) -> Tensor {
    match tensor {
        Some(tensor) => tensor.clone(),
        None => zeros(info),
    }
}

/// Returns a tensor in which each element is its own position along `axis`.
#[track_caller]
pub(crate) fn iota(dtype: DType, shape: &[usize], axis: usize) -> Result<Tensor, TensorError> {
    bind_one(
        &Iota {
            dtype,
            shape: Shape::from(shape),
            axis,
        },
        &[],
    )
}

impl Primitive for Full {
    fn name(&self) -> &'static str {
        "full"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(one(AbstractArray::new(self.dtype, &self.shape)))
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        one(create::full(self.dtype, &self.shape, self.value))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        smallvec![]
    }

    fn batch(&self, operands: &[Tensor], _: &[Option<usize>], _: &BatchAxis) -> Batched {
        alone(self, operands)
    }

    fn lower(&self, block: &mut Block<'_>, _: &[Value], results: &Infos<'_>) -> Lowered {
        Ok(one(block.number(results[0], self.value)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dtype={} shape={} value={:?}",
            self.dtype,
            Tuple(&self.shape),
            self.value
        )
    }
}

impl Primitive for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        let result = AbstractArray::new(self.dtype, &self.shape);
        if self.dtype == DType::Bool {
            return Err(TensorError::dtype("count in", &[&result], "numbers"));
        }
        if self.axis >= self.shape.len() {
            return Err(TensorError::axis("count along", &result, self.axis));
        }
        let last = self.shape[self.axis].saturating_sub(1);
        let holds_last = match self.dtype.integer_range() {
            Some((_, greatest)) => i64::try_from(last).is_ok_and(|last| last <= greatest),
            // Other floats are rounded, but an infinity is no position.
            None => self
                .dtype
                .element()
                .float_range()
                .is_none_or(|(_, greatest)| last as f64 <= greatest),
        };
        if !holds_last && fits_memory(&result) {
            return Err(TensorError::shape(
                "count along",
                &[&result],
                format!("{} cannot represent the position {last}", self.dtype),
                "use i64 as the element type",
            ));
        }
        Ok(one(result))
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        one(create::iota(self.dtype, &self.shape, self.axis))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        smallvec![]
    }

    fn batch(&self, operands: &[Tensor], _: &[Option<usize>], _: &BatchAxis) -> Batched {
        alone(self, operands)
    }

    fn lower(&self, block: &mut Block<'_>, _: &[Value], results: &Infos<'_>) -> Lowered {
        Ok(one(block.positions(results[0], self.axis)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dtype={} shape={} dimension={}",
            self.dtype,
            Tuple(&self.shape),
            self.axis
        )
    }
}

/// Maps axis `i` of the operand to axis `axes[i]` of the result. Repeats the operand along the other axes of the
/// result, and along axes of length 1. Equivalent to `lax.broadcast_in_dim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Broadcast {
    pub(crate) shape: Shape,
    pub(crate) axes: AxisList,
}

/// Applies [`Broadcast`] to a tensor, or returns the tensor itself if nothing changes.
#[track_caller]
pub(crate) fn broadcast_in_dim(
    operand: &Tensor,
    shape: &[usize],
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    if operand.shape() == shape && is_identity(axes) {
        return Ok(operand.clone());
    }
    // Create a `full` instead of a broadcast, because under `jit` a recorded `full` stores only its value. A broadcast
    // constant would be stored with all its elements.
    if let Some(value) = known_scalar(operand) {
        return full(operand.dtype(), shape, value);
    }
    bind_one(
        &Broadcast {
            shape: Shape::from(shape),
            axes: AxisList::from_slice(axes),
        },
        &[operand],
    )
}

/// Broadcasts a tensor to a shape by NumPy's rule: the tensor's axes align with the trailing axes of the shape.
#[track_caller]
pub(crate) fn broadcast_to(operand: &Tensor, shape: &[usize]) -> Result<Tensor, TensorError> {
    let Some(missing) = shape.len().checked_sub(operand.rank()) else {
        return Err(TensorError::shape(
            "broadcast",
            &[operand.info()],
            format!("the tensor has more axes than the shape {shape:?}"),
            "remove axes with `squeeze`, or sum over them",
        ));
    };
    let axes: AxisList = (missing..shape.len()).collect();
    broadcast_in_dim(operand, shape, &axes)
}

pub(super) fn is_identity(axes: &[usize]) -> bool {
    axes.iter()
        .enumerate()
        .all(|(position, &axis)| position == axis)
}

/// Returns the value of a concrete tensor without axes, if an f64 represents it exactly.
pub(crate) fn known_scalar(operand: &Tensor) -> Option<f64> {
    let array = operand.array().filter(|_| operand.rank() == 0)?;
    match array.data() {
        Data::I64(elements) if elements[0].unsigned_abs() >= 1 << 53 => None,
        data => data.to_f64().first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_convert_to_dtype() {
        assert_eq!(
            full(DType::I32, &[2], -1.9).unwrap(),
            Tensor::from([-1, -1])
        );
        assert_eq!(full(DType::Bool, &[1], 0.5).unwrap(), Tensor::from([true]));
        assert_eq!(full(DType::U32, &[], 3.0).unwrap(), Tensor::from(3_u32));
        assert_eq!(full(DType::F32, &[0, 2], 3.0).unwrap().shape(), [0, 2]);
    }

    #[test]
    fn iota_counts_along_its_axis() {
        assert_eq!(
            iota(DType::I32, &[2, 3], 0).unwrap(),
            Tensor::from([[0, 0, 0], [1, 1, 1]])
        );
        assert_eq!(
            iota(DType::F32, &[2, 2], 1).unwrap(),
            Tensor::from([[0.0_f32, 1.0], [0.0, 1.0]])
        );
        assert!(iota(DType::F32, &[2], 1).is_err());
        assert!(iota(DType::Bool, &[2], 0).is_err());
        assert!(iota(DType::I8, &[128], 0).is_ok());
        let error = iota(DType::I8, &[129], 0).unwrap_err().to_string();
        assert!(
            error.contains("i8 cannot represent the position 128"),
            "{error}"
        );
        // The greatest f16 is 65,504.
        assert!(iota(DType::F16, &[65_505], 0).is_ok());
        assert!(iota(DType::F16, &[70_000], 0).is_err());
    }
}
