//! Parts of tensors: slices, padding, concatenation and reversal.
use crate::dtype::Shape;
use crate::error::TensorError;
use crate::tensor::Tensor;

#[derive(Clone, Debug)]
pub(crate) struct Slice { pub(crate) start: Shape, pub(crate) limit: Shape, pub(crate) stride: Shape }
#[derive(Clone, Debug)]
pub(crate) struct Pad { pub(crate) low: Vec<isize>, pub(crate) high: Vec<isize>, pub(crate) interior: Vec<usize> }
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concatenate { pub(crate) axis: usize }
#[derive(Clone, Debug)]
pub(crate) struct Reverse { pub(crate) axes: Shape }
#[track_caller]
pub(crate) fn slice(_operand: &Tensor, _start: &[usize], _limit: &[usize], _stride: &[usize]) -> Result<Tensor, TensorError> { unimplemented!() }
#[track_caller]
pub(crate) fn pad(_operand: &Tensor, _value: &Tensor, _low: &[isize], _high: &[isize], _interior: &[usize]) -> Result<Tensor, TensorError> { unimplemented!() }
#[track_caller]
pub(crate) fn concatenate(_operands: &[&Tensor], _axis: usize) -> Result<Tensor, TensorError> { unimplemented!() }
#[track_caller]
pub(crate) fn reverse(_operand: &Tensor, _axes: &[usize]) -> Result<Tensor, TensorError> { unimplemented!() }
