//! Parts of tensors: slices, padding, concatenation and reversal.

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::array::{Array, row_major_strides, with_type};
use crate::dtype::{AbstractArray, DType, Shape, TensorElement};
use crate::error::{TensorError, or_panic};
use crate::primitive::{Linear, Operands, Outputs, Primitive, one};
use crate::primitives::elementwise::{align_batch, aligned_axis, take};
use crate::primitives::select::select;
use crate::primitives::shape::{Tuple, batch_axis_first, batched_axis, broadcast_in_dim, gather, reused};
use crate::primitives::{create, reduce};
use crate::tensor::Tensor;
use crate::trace::bind_one;

/// Along each axis every `stride`-th element from `start` to before `limit`.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) start: Shape,
    pub(crate) limit: Shape,
    pub(crate) stride: Shape,
}

/// Along each axis `interior` padding values between neighbours, then `low` before and `high` behind;
/// negative ones take elements away. The operands are the tensor and the padding value.
#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pub(crate) low: SmallVec<[isize; 4]>,
    pub(crate) high: SmallVec<[isize; 4]>,
    pub(crate) interior: Shape,
}

/// Tensors one behind the other along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concatenate {
    pub(crate) axis: usize,
}

/// The elements backwards along some axes.
#[derive(Clone, Debug)]
pub(crate) struct Reverse {
    pub(crate) axes: Shape,
}

/// [`Slice`] of a tensor; itself if nothing is left out.
#[track_caller]
pub(crate) fn slice(operand: &Tensor, start: &[usize], limit: &[usize], stride: &[usize]) -> Result<Tensor, TensorError> {
    let slice = Slice { start: Shape::from_slice(start), limit: Shape::from_slice(limit), stride: Shape::from_slice(stride) };
    if operand.shape() == limit && start.iter().all(|&start| start == 0) && stride.iter().all(|&stride| stride == 1) {
        return Ok(operand.clone());
    }
    bind_one(&slice, &[operand])
}

/// [`Pad`] of a tensor with a value without axes; itself if nothing changes.
#[track_caller]
pub(crate) fn pad(
    operand: &Tensor,
    value: &Tensor,
    low: &[isize],
    high: &[isize],
    interior: &[usize],
) -> Result<Tensor, TensorError> {
    let unchanged = low.iter().chain(high).all(|&padding| padding == 0) && interior.iter().all(|&padding| padding == 0);
    if unchanged && low.len() == operand.rank() {
        return Ok(operand.clone());
    }
    let pad = Pad { low: SmallVec::from_slice(low), high: SmallVec::from_slice(high), interior: Shape::from_slice(interior) };
    bind_one(&pad, &[operand, value])
}

/// Tensors one behind the other along an axis.
#[track_caller]
pub(crate) fn concatenate(operands: &[&Tensor], axis: usize) -> Result<Tensor, TensorError> {
    bind_one(&Concatenate { axis }, operands)
}

/// The elements backwards along `axes`; the tensor itself if there are none.
#[track_caller]
pub(crate) fn reverse(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    if axes.is_empty() {
        return Ok(operand.clone());
    }
    bind_one(&Reverse { axes: Shape::from_slice(axes) }, &[operand])
}

fn refused(operation: &'static str, operands: &[&AbstractArray], problem: String, mend: &str) -> TensorError {
    let found = operands.iter().map(|&operand| operand.clone()).collect();
    TensorError::Shape { operation, found, problem, mend: mend.to_owned() }
}

impl Slice {
    fn result_shape(&self) -> Shape {
        let bounds = self.start.iter().zip(&self.limit).zip(&self.stride);
        bounds.map(|((&start, &limit), &stride)| (limit - start).div_ceil(stride)).collect()
    }
}

impl Primitive for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> Result<Outputs<AbstractArray>, TensorError> {
        let operand = operands[0];
        let Self { start, limit, stride } = self;
        let fits = [start.len(), limit.len(), stride.len()] == [operand.rank(); 3]
            && (0..operand.rank())
                .all(|axis| start[axis] <= limit[axis] && limit[axis] <= operand.shape[axis] && stride[axis] > 0);
        if !fits {
            let problem = format!("{start:?} to {limit:?} in steps of {stride:?} is not within it");
            return Err(refused("slice", operands, problem, "keep 0 ≤ start ≤ limit ≤ length on each axis, and steps above 0"));
        }
        Ok(one(AbstractArray { dtype: operand.dtype, shape: self.result_shape() }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let strides = row_major_strides(operand.shape());
        let offset = self.start.iter().zip(&strides).map(|(start, stride)| start * stride).sum();
        let steps: SmallVec<[isize; 4]> =
            self.stride.iter().zip(&strides).map(|(step, stride)| (step * stride).cast_signed()).collect();
        one(gather(&operand, &self.result_shape(), &steps, offset))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let tangent = tangents[0].as_ref().map(|tangent| or_panic(slice(tangent, &self.start, &self.limit, &self.stride)));
        (one(or_panic(slice(&primals[0], &self.start, &self.limit, &self.stride))), one(tangent))
    }

    /// Zeros take the place of what was left out.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        let operand = operands[0].info();
        let low: SmallVec<[isize; 4]> = self.start.iter().map(|start| start.cast_signed()).collect();
        let interior: Shape = self.stride.iter().map(|stride| stride - 1).collect();
        let spread = self.result_shape();
        let high: SmallVec<[isize; 4]> = (0..operand.rank())
            .map(|axis| {
                let taken = self.start[axis] + (spread[axis] + spread[axis].saturating_sub(1) * interior[axis]);
                operand.shape[axis].cast_signed() - taken.cast_signed()
            })
            .collect();
        let zero = Tensor::constant(operand.dtype, 0.0);
        smallvec![cotangents[0].as_ref().map(|cotangent| or_panic(pad(cotangent, &zero, &low, &high, &interior)))]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let batch = axes[0].unwrap_or(0);
        let operand = or_panic(batched(&operands[0], axes[0], size));
        let (start, limit, stride) =
            (inserted(&self.start, batch, 0), inserted(&self.limit, batch, size), inserted(&self.stride, batch, 1));
        (one(or_panic(slice(&operand, &start, &limit, &stride))), one(Some(batch)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, limit, stride } = self;
        write!(f, "limit_indices={} start_indices={}", Tuple(limit), Tuple(start))?;
        if stride.iter().all(|&stride| stride == 1) { Ok(()) } else { write!(f, " strides={}", Tuple(stride)) }
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }
}

/// The tensor itself if it has a batch axis, otherwise with one in front.
fn batched(operand: &Tensor, axis: Option<usize>, size: usize) -> Result<Tensor, TensorError> {
    if axis.is_some() { Ok(operand.clone()) } else { batch_axis_first(operand, None, size) }
}

/// The numbers with one more at a place.
fn inserted<T: Copy>(numbers: &SmallVec<[T; 4]>, place: usize, number: T) -> SmallVec<[T; 4]> {
    let mut numbers = numbers.clone();
    numbers.insert(place, number);
    numbers
}

/// Where the elements of one axis go under padding.
struct PaddedAxis {
    /// The first element that is kept, and how many are.
    first: usize,
    count: usize,
    /// Where the first goes, and how far apart neighbours then are, in elements of the result.
    place: usize,
    step: usize,
    stride: usize,
}

impl Pad {
    fn length(&self, axis: usize, length: usize) -> Option<usize> {
        let spread = length + length.saturating_sub(1) * self.interior[axis];
        usize::try_from(spread.cast_signed() + self.low[axis] + self.high[axis]).ok()
    }

    fn result_shape(&self, operand: &[usize]) -> Option<Shape> {
        operand.iter().enumerate().map(|(axis, &length)| self.length(axis, length)).collect()
    }

    fn padded_axes(&self, operand: &[usize], result: &[usize]) -> Vec<PaddedAxis> {
        let (strides, steps) = (row_major_strides(operand), row_major_strides(result));
        let axis = |axis: usize| {
            let (low, step) = (self.low[axis], self.interior[axis] + 1);
            let first = (-low).max(0).cast_unsigned().div_ceil(step);
            let place = low + (first * step).cast_signed();
            let room = usize::try_from(result[axis].cast_signed() - place).unwrap_or(0);
            let count = operand[axis].saturating_sub(first).min(room.div_ceil(step));
            PaddedAxis { first, count, place: place.cast_unsigned() * steps[axis], step: step * steps[axis], stride: strides[axis] }
        };
        (0..operand.len()).map(axis).collect()
    }
}

/// Writes the kept elements to their places.
fn place<T: Copy>(source: &[T], target: &mut [T], axes: &[PaddedAxis]) {
    let Some((axis, inner)) = axes.split_first() else {
        target[0] = source[0];
        return;
    };
    if axis.count == 0 {
        return;
    }
    let (source, target) = (&source[axis.first * axis.stride..], &mut target[axis.place..]);
    if inner.is_empty() && axis.step == 1 {
        target[..axis.count].copy_from_slice(&source[..axis.count]);
        return;
    }
    for index in 0..axis.count {
        place(&source[index * axis.stride..], &mut target[index * axis.step..], inner);
    }
}

fn pad_array<T: TensorElement>(operand: &Array, value: T, shape: &Shape, axes: &[PaddedAxis]) -> Array {
    let mut target = reused(shape.iter().product());
    target.fill(value);
    if !axes.iter().any(|axis| axis.count == 0) {
        place(operand.elements::<T>(), &mut target, axes);
    }
    Array::new(shape, target)
}

impl Primitive for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> Result<Outputs<AbstractArray>, TensorError> {
        let (operand, value) = (operands[0], operands[1]);
        if operand.dtype != value.dtype {
            let found = vec![operand.clone(), value.clone()];
            return Err(TensorError::DType { operation: "pad", found, expected: "a padding value of the same element type" });
        }
        let paddings = [self.low.len(), self.high.len(), self.interior.len()];
        let shape = if paddings == [operand.rank(); 3] { self.result_shape(&operand.shape) } else { None };
        match shape {
            Some(shape) if value.rank() == 0 => Ok(one(AbstractArray { dtype: operand.dtype, shape })),
            _ => {
                let Self { low, high, interior } = self;
                let problem = format!("low {low:?}, high {high:?} and interior {interior:?} do not fit");
                let mend = "give each axis one of each, the value no axes, and take no more away than there is";
                Err(refused("pad", operands, problem, mend))
            }
        }
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand, value] = take(operands);
        let shape = self.result_shape(operand.shape()).unwrap_or_default();
        let axes = self.padded_axes(operand.shape(), &shape);
        one(with_type!(operand.dtype(), T => pad_array::<T>(&operand, value.elements::<T>()[0], &shape, &axes)))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let padded = |operand: &Tensor, value: &Tensor| or_panic(pad(operand, value, &self.low, &self.high, &self.interior));
        let tangent = match (&tangents[0], &tangents[1]) {
            (None, None) => None,
            (operand, value) => {
                let operand = operand.clone().unwrap_or_else(|| Tensor::zeros_like(&primals[0]));
                let value = value.clone().unwrap_or_else(|| Tensor::constant(operand.dtype(), 0.0));
                Some(padded(&operand, &value))
            }
        };
        (one(padded(&primals[0], &primals[1])), one(tangent))
    }

    /// Negative padding undoes padding; what then is missing of the sum belongs to the value.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        let Some(cotangent) = &cotangents[0] else { return smallvec![None, None] };
        let axes: Shape = (0..cotangent.rank()).collect();
        let negated = |paddings: &[isize]| paddings.iter().map(|padding| -padding).collect::<SmallVec<[isize; 4]>>();
        let zero = Tensor::constant(cotangent.dtype(), 0.0);
        let none: Shape = smallvec![0; axes.len()];
        let cropped = or_panic(pad(cotangent, &zero, &negated(&self.low), &negated(&self.high), &none));
        let stride: Shape = self.interior.iter().map(|interior| interior + 1).collect();
        let of_operand = or_panic(slice(&cropped, &none, cropped.shape(), &stride));
        let of_value = operands[1].is_unknown().then(|| {
            let all = or_panic(reduce::sum(cotangent, &axes));
            all - or_panic(reduce::sum(&of_operand, &axes))
        });
        smallvec![operands[0].is_unknown().then_some(of_operand), of_value]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let batch = axes[0].unwrap_or(0);
        let operand = or_panic(batched(&operands[0], axes[0], size));
        let (low, high, interior) = (inserted(&self.low, batch, 0), inserted(&self.high, batch, 0), inserted(&self.interior, batch, 0));
        let padded = |operand: &Tensor, value: &Tensor| or_panic(pad(operand, value, &low, &high, &interior));
        let result = if axes[1].is_none() {
            padded(&operand, &operands[1])
        } else {
            // Each example has its own value, so the values are laid out and the elements put over them.
            let zeros = padded(&operand, &Tensor::constant(operand.dtype(), 0.0));
            let inside = or_panic(create::full(DType::Bool, operand.shape(), 1.0));
            let inside = padded(&inside, &Tensor::constant(DType::Bool, 0.0));
            let values = or_panic(broadcast_in_dim(&operands[1], zeros.shape(), &[batch]));
            or_panic(select(&inside, &zeros, &values))
        };
        (one(result), one(Some(batch)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("padding_config=(")?;
        for (axis, ((low, high), interior)) in self.low.iter().zip(&self.high).zip(&self.interior).enumerate() {
            write!(f, "{}({low}, {high}, {interior})", if axis == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.low.len() == 1 { ",)" } else { ")" })
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }
}

impl Primitive for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> Result<Outputs<AbstractArray>, TensorError> {
        let Some(&first) = operands.first() else {
            return Err(refused("concatenate", operands, "there are no tensors".to_owned(), "give at least one"));
        };
        if self.axis >= first.rank() {
            let axis = self.axis.cast_signed();
            return Err(TensorError::Axis { operation: "concatenate", found: first.clone(), axis });
        }
        if operands.iter().any(|operand| operand.dtype != first.dtype) {
            let found = operands.iter().map(|&operand| operand.clone()).collect();
            return Err(TensorError::DType { operation: "concatenate", found, expected: "one element type" });
        }
        let others = |operand: &AbstractArray| reduce::without_axes(&operand.shape, &[self.axis]);
        if operands.iter().any(|operand| operand.rank() != first.rank() || others(operand) != others(first)) {
            let problem = format!("the shapes differ outside of axis {}", self.axis);
            return Err(refused("concatenate", operands, problem, "make the other axes equal, or choose another axis"));
        }
        let mut shape = first.shape.clone();
        shape[self.axis] = operands.iter().map(|operand| operand.shape[self.axis]).sum();
        Ok(one(AbstractArray { dtype: first.dtype, shape }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut shape = operands[0].info.shape.clone();
        shape[self.axis] = operands.iter().map(|operand| operand.shape()[self.axis]).sum();
        let outer: usize = shape[..self.axis].iter().product();
        one(with_type!(operands[0].dtype(), T => {
            let mut elements = reused::<T>(shape.iter().product());
            let mut at = 0;
            for row in 0..outer {
                for operand in &operands {
                    let part = operand.elements::<T>();
                    let length = part.len() / outer;
                    elements[at..at + length].copy_from_slice(&part[row * length..][..length]);
                    at += length;
                }
            }
            Array::new(&shape, elements)
        }))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let joined = |parts: &[Tensor]| or_panic(concatenate(&parts.iter().collect::<Vec<_>>(), self.axis));
        let tangent = tangents.iter().any(Option::is_some).then(|| {
            let part = |(primal, tangent): (&Tensor, &Option<Tensor>)| match tangent {
                Some(tangent) => tangent.clone(),
                None => Tensor::zeros_like(primal),
            };
            joined(&primals.iter().zip(tangents).map(part).collect::<Vec<_>>())
        });
        (one(joined(primals)), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        let Some(cotangent) = &cotangents[0] else { return operands.iter().map(|_| None).collect() };
        let stride: Shape = smallvec![1; cotangent.rank()];
        let mut start: Shape = smallvec![0; cotangent.rank()];
        let mut limit = Shape::from_slice(cotangent.shape());
        let mut parts = SmallVec::new();
        for operand in operands {
            limit[self.axis] = start[self.axis] + operand.info().shape[self.axis];
            parts.push(operand.is_unknown().then(|| or_panic(slice(cotangent, &start, &limit, &stride))));
            start[self.axis] = limit[self.axis];
        }
        parts
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let aligned = align_batch(operands, axes, size);
        let batch = aligned_axis(axes);
        let parts: Vec<&Tensor> = aligned.iter().collect();
        (one(or_panic(concatenate(&parts, batched_axis(self.axis, batch)))), one(Some(batch)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension={}", self.axis)
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(*self)
    }
}

impl Primitive for Reverse {
    fn name(&self) -> &'static str {
        "rev"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> Result<Outputs<AbstractArray>, TensorError> {
        let operand = operands[0];
        match self.axes.iter().find(|&&axis| axis >= operand.rank()) {
            Some(axis) => Err(TensorError::Axis { operation: "reverse", found: operand.clone(), axis: axis.cast_signed() }),
            None => Ok(one(operand.clone())),
        }
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        if operand.info.is_empty() {
            return one(Array::clone(&operand));
        }
        let mut offset = 0;
        let mut steps: SmallVec<[isize; 4]> = row_major_strides(operand.shape()).iter().map(|stride| stride.cast_signed()).collect();
        for &axis in &self.axes {
            offset += (operand.shape()[axis] - 1) * steps[axis].cast_unsigned();
            steps[axis] = -steps[axis];
        }
        one(gather(&operand, operand.shape(), &steps, offset))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let tangent = tangents[0].as_ref().map(|tangent| or_panic(reverse(tangent, &self.axes)));
        (one(or_panic(reverse(&primals[0], &self.axes))), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], _: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        smallvec![cotangents[0].as_ref().map(|cotangent| or_panic(reverse(cotangent, &self.axes)))]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let shifted: Shape = self.axes.iter().map(|&axis| axes[0].map_or(axis, |batch| batched_axis(axis, batch))).collect();
        (one(or_panic(reverse(&operands[0], &shifted))), one(axes[0]))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimensions={}", Tuple(&self.axes))
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::rule_checks::{check_batching, check_tangent, check_transpose, noise};

    fn shape_of(lengths: &[usize]) -> Shape {
        Shape::from_slice(lengths)
    }

    fn slice_of(start: [usize; 2], limit: [usize; 2], stride: [usize; 2]) -> Slice {
        Slice { start: shape_of(&start), limit: shape_of(&limit), stride: shape_of(&stride) }
    }

    fn pad_of(low: [isize; 2], high: [isize; 2], interior: [usize; 2]) -> Pad {
        Pad { low: SmallVec::from_slice(&low), high: SmallVec::from_slice(&high), interior: shape_of(&interior) }
    }

    #[test]
    fn padding_goes_between_before_and_behind() {
        let x = Tensor::from([1, 2, 3]);
        let padded = |low, high, interior| pad(&x, &Tensor::from(0), &[low], &[high], &[interior]).unwrap().to_vec::<i32>();
        assert_eq!(padded(1, 2, 1), [0, 1, 0, 2, 0, 3, 0, 0]);
        assert_eq!(padded(-1, 0, 0), [2, 3]);
        assert_eq!(padded(-1, 0, 1), [0, 2, 0, 3]);
        assert_eq!(padded(-2, -2, 1), [2]);
        assert_eq!(padded(-3, 2, 0), [0, 0]);
        assert_eq!(padded(2, -4, 0), [0]);
        assert!(pad(&x, &Tensor::from(0), &[-2], &[-2], &[0]).is_err());
        let nothing = Tensor::zeros(DType::I32, [0]);
        assert_eq!(pad(&nothing, &Tensor::from(7), &[1], &[1], &[5]).unwrap(), Tensor::from([7, 7]));
    }

    #[test]
    fn slices_stay_within() {
        let x = noise(&[4, 5], 1);
        assert!(slice(&x, &[0, 0], &[4, 6], &[1, 1]).is_err());
        assert!(slice(&x, &[3, 0], &[2, 5], &[1, 1]).is_err());
        assert!(slice(&x, &[0, 0], &[4, 5], &[0, 1]).is_err());
        assert_eq!(slice(&x, &[4, 0], &[4, 5], &[1, 1]).unwrap().shape(), [0, 5]);
        assert!(slice(&x, &[0, 0], &[4, 5], &[1, 1]).unwrap().same_handle(&x));
    }

    #[test]
    fn reversal_runs_backwards() {
        let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
        assert_eq!(reverse(&x, &[1]).unwrap(), Tensor::from([[3, 2, 1], [6, 5, 4]]));
        assert_eq!(reverse(&x, &[0, 1]).unwrap(), Tensor::from([[6, 5, 4], [3, 2, 1]]));
    }

    #[test]
    fn concatenation_says_what_differs() {
        let error = concatenate(&[&noise(&[2, 3], 1), &noise(&[2, 4], 2)], 0).unwrap_err().to_string();
        assert!(error.contains("f64[2,3] and f64[2,4]: the shapes differ outside of axis 0"), "{error}");
        assert!(concatenate(&[], 0).is_err());
        let y = concatenate(&[&noise(&[2, 0], 1), &noise(&[2, 3], 2), &noise(&[2, 1], 3)], 1).unwrap();
        assert_eq!(y.shape(), [2, 4]);
    }

    #[test]
    fn rules_of_slices_and_reversals_agree_with_evaluation() {
        let slices = [slice_of([1, 0], [3, 5], [1, 2]), slice_of([0, 2], [4, 2], [3, 3]), slice_of([2, 1], [4, 4], [1, 1])];
        let reverse = Reverse { axes: shape_of(&[1]) };
        let primitives = slices.iter().map(|slice| slice as &dyn Primitive).chain([&reverse as &dyn Primitive]);
        for primitive in primitives {
            check_transpose(primitive, &[noise(&[4, 5], 1)], 0);
            check_tangent(primitive, &[noise(&[4, 5], 1)]);
            for (axis, shape) in [(0, [3, 4, 5]), (1, [4, 3, 5]), (2, [4, 5, 3])] {
                check_batching(primitive, &[noise(&shape, 1)], &[Some(axis)]);
            }
        }
    }

    #[test]
    fn rules_of_padding_agree_with_evaluation() {
        for pad in [pad_of([1, 0], [0, 2], [0, 0]), pad_of([-1, 1], [2, -1], [1, 2]), pad_of([0, -2], [-1, 3], [0, 1])] {
            let operands = [noise(&[4, 5], 1), noise(&[], 2)];
            check_transpose(&pad, &operands, 0);
            check_transpose(&pad, &operands, 1);
            check_tangent(&pad, &operands);
            for (axis, shape) in [(0, [3, 4, 5]), (1, [4, 3, 5]), (2, [4, 5, 3])] {
                check_batching(&pad, &[noise(&shape, 1), noise(&[], 2)], &[Some(axis), None]);
                check_batching(&pad, &[noise(&shape, 1), noise(&[3], 2)], &[Some(axis), Some(0)]);
            }
            check_batching(&pad, &[noise(&[4, 5], 1), noise(&[3], 2)], &[None, Some(0)]);
        }
    }

    #[test]
    fn rules_of_concatenation_agree_with_evaluation() {
        let concatenate = Concatenate { axis: 1 };
        let operands = [noise(&[2, 3], 1), noise(&[2, 1], 2), noise(&[2, 2], 3)];
        (0..3).for_each(|operand| check_transpose(&concatenate, &operands, operand));
        check_tangent(&concatenate, &operands);
        check_batching(&concatenate, &[noise(&[5, 2, 3], 1), noise(&[5, 2, 1], 2)], &[Some(0), Some(0)]);
        check_batching(&concatenate, &[noise(&[2, 3, 5], 1), noise(&[2, 1, 5], 2)], &[Some(2), Some(2)]);
        check_batching(&concatenate, &[noise(&[2, 5, 3], 1), noise(&[2, 1], 2)], &[Some(1), None]);
    }
}
