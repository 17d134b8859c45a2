//! Sliding windows over axes, and their transpose, which adds overlapping elements. Convolutions and pooling use these
//! two primitives.

use std::fmt;
use std::sync::Arc;

use crate::base::array::{Array, reused, row_major_strides};
use crate::base::dtype::{AbstractArray, DType, Tuple};
use crate::base::error::{TensorError, or_panic};
use crate::base::shape::{AxisList, PerAxis, Shape};
use crate::primitives::shape::{add_by_strides, gather, move_axis, reshape};
use crate::tensor::Tensor;
use crate::tensor::primitive::LinearPrimitive;
use crate::tensor::stablehlo::{Block, GatherAxes, Value};
use crate::tensor::trace::bind_one;

/// The geometry of windows that slide over neighbouring axes. Each field except `first` has one number for each of
/// these axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sliding {
    /// The first axis over which windows slide.
    pub(crate) first: usize,
    /// The lengths of the axes over which windows slide.
    pub(crate) lengths: PerAxis,
    /// The number of elements in a window.
    pub(crate) sizes: PerAxis,
    /// The distance between neighbouring windows.
    pub(crate) strides: PerAxis,
    /// The distance between neighbouring elements of a window.
    pub(crate) dilations: PerAxis,
}

/// Extracts all windows: `[before…, lengths…, after…]` becomes `[before…, counts…, sizes…, after…]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Windows(Sliding);

/// Adds each element of a window to its original position. This is the transpose of [`Windows`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OverlapAdd(Sliding);

/// Returns the windows of a tensor.
#[track_caller]
pub(crate) fn windows(operand: &Tensor, sliding: &Sliding) -> Result<Tensor, TensorError> {
    Windows(sliding.within()).apply(operand)
}

impl Sliding {
    /// Returns the same windows with strides and dilations clamped to the lengths of the axes. Larger values would give
    /// the same windows, but their products could overflow.
    fn within(&self) -> Self {
        let limited = |numbers: &[usize]| {
            let limits = self.lengths.iter().map(|&length| length.max(1));
            let lengths = limits.chain(std::iter::repeat(usize::MAX));
            numbers
                .iter()
                .zip(lengths)
                .map(|(&x, y)| x.min(y))
                .collect()
        };
        Self {
            strides: limited(&self.strides),
            dilations: limited(&self.dilations),
            ..self.clone()
        }
    }

    fn axes(&self) -> std::ops::Range<usize> {
        0..self.lengths.len()
    }

    /// Returns the number of elements along an axis from the first to the last element of a window.
    fn span(&self, axis: usize) -> usize {
        match self.sizes[axis] {
            0 => 0,
            size => (size - 1)
                .saturating_mul(self.dilations[axis])
                .saturating_add(1),
        }
    }

    /// Returns the number of window positions along each axis.
    pub(crate) fn counts(&self) -> PerAxis {
        let count = |axis: usize| match self.lengths[axis].checked_sub(self.span(axis)) {
            Some(room) => room / self.strides[axis] + 1,
            None => 0,
        };
        self.axes().map(count).collect()
    }

    /// Returns the shape of the result of [`Windows`] for an operand of the shape `whole`.
    fn of_windows(&self, whole: &[usize]) -> Shape {
        let after = &whole[self.first + self.lengths.len()..];
        let parts = [&whole[..self.first], &self.counts(), &self.sizes, after];
        parts.concat().into_iter().collect()
    }

    /// Returns the shape of the operand for which the result of [`Windows`] has the shape `windows`.
    fn of_whole(&self, windows: &[usize]) -> Shape {
        let after = &windows[self.first + 2 * self.lengths.len()..];
        let parts = [&windows[..self.first], &self.lengths, after];
        parts.concat().into_iter().collect()
    }

    /// Returns, for each axis of the windows, the distance between neighbours in the memory of a tensor of the shape
    /// `whole`.
    fn steps(&self, whole: &[usize]) -> PerAxis<isize> {
        let strides = row_major_strides(whole);
        let (before, rest) = strides.split_at(self.first);
        let (inside, after) = rest.split_at(self.lengths.len());
        let times = |factors: &[usize]| -> Vec<usize> {
            inside.iter().zip(factors).map(|(x, y)| x * y).collect()
        };
        [
            before,
            &times(&self.strides),
            &times(&self.dilations),
            after,
        ]
        .concat()
        .into_iter()
        .map(usize::cast_signed)
        .collect()
    }

    /// Writes the position of each element of each window, and returns how the axes of the positions correspond to those
    /// of a tensor with `rank` axes.
    fn lower_indices(&self, block: &mut Block<'_>, rank: usize) -> (Value, GatherAxes) {
        let count = self.lengths.len();
        let counts = self.counts();
        let shape: Shape = counts.iter().chain(&self.sizes).copied().collect();
        let positions = AbstractArray::new(DType::I32, &shape);
        let with_component: Shape = shape.iter().copied().chain([1]).collect();
        let components: Vec<Value> = self
            .axes()
            .map(|axis| {
                let window = block.positions(&positions, axis);
                let start =
                    block.binary_with("stablehlo.multiply", &window, self.strides[axis] as f64);
                let element = block.positions(&positions, count + axis);
                let offset =
                    block.binary_with("stablehlo.multiply", &element, self.dilations[axis] as f64);
                let position = block.binary("stablehlo.add", &start, &offset);
                block.reshaped(&position, &with_component)
            })
            .collect();
        let indices = block.concatenated(&components, 2 * count);
        let over: AxisList = (self.first..self.first + count).collect();
        let axes = GatherAxes {
            offset: (0..self.first)
                .chain(self.first + 2 * count..rank + count)
                .collect(),
            collapsed: over.clone(),
            indexed: over,
            components: 2 * count,
            ..GatherAxes::default()
        };
        (indices, axes)
    }

    /// Returns whether each window holds one element, and each element is in exactly one window.
    fn is_reshape(&self) -> bool {
        self.sizes
            .iter()
            .chain(&self.strides)
            .all(|&number| number == 1)
    }

    fn refused(&self, found: &AbstractArray) -> TensorError {
        TensorError::shape(
            "slide windows over",
            &[found],
            format!(
                "windows of size {:?} with the strides {:?} and the dilations {:?} do not fit the lengths {:?} of the axes from axis {} on",
                self.sizes, self.strides, self.dilations, self.lengths, self.first
            ),
            "pass a size, a stride and a dilation above 0 for each axis",
        )
    }

    /// Returns whether each axis has a size, a stride and a dilation, all above 0.
    fn is_whole(&self) -> bool {
        let rank = self.lengths.len();
        [&self.sizes, &self.strides, &self.dilations]
            .iter()
            .all(|numbers| numbers.len() == rank && numbers.iter().all(|&number| number > 0))
    }

    fn batched(&self) -> Self {
        Self {
            first: self.first + 1,
            ..self.clone()
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "first={} window_dimensions={} window_strides={} window_dilation={}",
            self.first,
            Tuple(&self.sizes),
            Tuple(&self.strides),
            Tuple(&self.dilations)
        )
    }
}

impl LinearPrimitive for Windows {
    fn name(&self) -> &'static str {
        "windows"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let sliding = &self.0;
        let last = sliding.first + sliding.lengths.len();
        let over = operand.shape.get(sliding.first..last);
        if over != Some(&sliding.lengths[..]) || !sliding.is_whole() {
            return Err(sliding.refused(operand));
        }
        Ok(AbstractArray {
            dtype: operand.dtype,
            shape: sliding.of_windows(&operand.shape),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let shape = self.0.of_windows(operand.shape());
        gather(&operand, &shape, &self.0.steps(operand.shape()), 0)
    }

    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(OverlapAdd(self.0.clone()).apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        (or_panic(windows(&operand, &self.0.batched())), 0)
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operand: &Value,
        result: &AbstractArray,
    ) -> Result<Value, TensorError> {
        let (indices, axes) = self.0.lower_indices(block, operand.rank());
        Ok(block.gathered(operand, &indices, &axes, result))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }

    fn apply(&self, operand: &Tensor) -> Result<Tensor, TensorError> {
        if self.0.is_reshape() && self.0.is_whole() {
            return reshape(operand, &self.0.of_windows(operand.shape()));
        }
        bind_one(self, &[operand])
    }
}

impl LinearPrimitive for OverlapAdd {
    fn name(&self) -> &'static str {
        "overlap_add"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let sliding = &self.0;
        let middle = sliding.first + sliding.lengths.len();
        let counts = operand.shape.get(sliding.first..middle);
        let sizes = operand.shape.get(middle..middle + sliding.lengths.len());
        let fits = sliding.is_whole()
            && counts == Some(&sliding.counts()[..])
            && sizes == Some(&sliding.sizes[..]);
        if !fits {
            return Err(sliding.refused(operand));
        }
        if operand.dtype == DType::Bool {
            return Err(TensorError::dtype(
                "add up windows of",
                &[operand],
                "numbers",
            ));
        }
        Ok(AbstractArray {
            dtype: operand.dtype,
            shape: sliding.of_whole(&operand.shape),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let whole = self.0.of_whole(operand.shape());
        let steps = self.0.steps(&whole);
        macro_rules! added {
            ($element:ty, $add:expr) => {{
                let mut target = reused::<$element>(whole.iter().product());
                target.fill(<$element>::default());
                let source = operand.elements::<$element>();
                add_by_strides(source, &mut target, operand.shape(), &steps, $add);
                Array::new(&whole, target)
            }};
        }
        match operand.dtype() {
            DType::I32 => added!(i32, i32::wrapping_add),
            DType::I64 => added!(i64, i64::wrapping_add),
            DType::U32 => added!(u32, u32::wrapping_add),
            DType::F32 => added!(f32, |sum, term| sum + term),
            _ => added!(f64, |sum, term| sum + term),
        }
    }

    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(windows(cotangent, &self.0))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let sum = Self(self.0.batched());
        (or_panic(sum.apply(&operand)), 0)
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operand: &Value,
        result: &AbstractArray,
    ) -> Result<Value, TensorError> {
        let zeros = block.number(result, 0.0);
        if operand.info.is_empty() {
            return Ok(zeros);
        }
        let (indices, axes) = self.0.lower_indices(block, result.rank());
        block.scattered("stablehlo.add", &zeros, &indices, operand, &axes)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }

    fn apply(&self, operand: &Tensor) -> Result<Tensor, TensorError> {
        if self.0.is_reshape() && self.0.is_whole() {
            return reshape(operand, &self.0.of_whole(operand.shape()));
        }
        bind_one(self, &[operand])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::rule_checks::{
        all_indices, check_batching, check_tangent, check_transpose, noise,
    };
    use crate::tensor::primitive::Primitive;

    fn sliding(
        first: usize,
        lengths: &[usize],
        sizes: &[usize],
        strides: &[usize],
        dilations: &[usize],
    ) -> Sliding {
        Sliding {
            first,
            lengths: PerAxis::from_slice(lengths),
            sizes: PerAxis::from_slice(sizes),
            strides: PerAxis::from_slice(strides),
            dilations: PerAxis::from_slice(dilations),
        }
    }

    fn cases() -> Vec<(Vec<usize>, Sliding)> {
        vec![
            (vec![5], sliding(0, &[5], &[2], &[1], &[1])),
            (vec![2, 7, 3], sliding(1, &[7], &[3], &[2], &[2])),
            (
                vec![2, 5, 6, 2],
                sliding(1, &[5, 6], &[2, 3], &[3, 1], &[1, 2]),
            ),
            (vec![3, 4], sliding(0, &[3, 4], &[3, 1], &[1, 4], &[1, 1])),
            (vec![2, 3], sliding(1, &[3], &[5], &[1], &[1])),
            (vec![2, 3], sliding(1, &[3], &[1], &[1], &[1])),
        ]
    }

    #[test]
    fn windows_match_definition() {
        for (shape, sliding) in cases() {
            let x = noise(&shape, 1);
            let y = windows(&x, &sliding).unwrap();
            let (x, y) = (x.view::<f64>().unwrap(), y.view::<f64>().unwrap());
            let (first, rank) = (sliding.first, sliding.lengths.len());
            for index in all_indices(y.shape()) {
                let place = |axis: usize| {
                    index[first + axis] * sliding.strides[axis]
                        + index[first + rank + axis] * sliding.dilations[axis]
                };
                let inside: Vec<usize> = (0..rank).map(place).collect();
                let source = [&index[..first], &inside, &index[first + 2 * rank..]].concat();
                assert_eq!(y[&index[..]].to_bits(), x[&source[..]].to_bits());
            }
        }
    }

    #[test]
    fn rules_agree_with_evaluation() {
        for (shape, sliding) in cases() {
            let counted = sliding.of_windows(&shape);
            let (windows, sum) = (Windows(sliding.clone()), OverlapAdd(sliding));
            let pairs: [(&dyn Primitive, &[usize]); 2] = [(&windows, &shape), (&sum, &counted)];
            for (primitive, shape) in pairs {
                check_transpose(primitive, &[noise(shape, 1)], 0);
                check_tangent(primitive, &[noise(shape, 1)]);
                for axis in 0..=shape.len() {
                    let mut shape = shape.to_vec();
                    shape.insert(axis, 3);
                    check_batching(primitive, &[noise(&shape, 1)], &[Some(axis)]);
                }
            }
        }
    }

    #[test]
    fn invalid_windows_are_an_error() {
        let x = noise(&[4], 1);
        assert!(windows(&x, &sliding(0, &[5], &[2], &[1], &[1])).is_err());
        assert!(windows(&x, &sliding(0, &[4], &[2], &[0], &[1])).is_err());
        assert!(windows(&x, &sliding(1, &[4], &[2], &[1], &[1])).is_err());
    }
}
