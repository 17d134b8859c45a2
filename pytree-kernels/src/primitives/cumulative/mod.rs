//! Cumulative reductions along an axis. Each result combines an element with all elements before this element.

mod running;

use std::sync::Arc;

use self::running::{Rows, in_blocks, one_by_one};
use crate::base::array::Array;
use crate::base::dtype::{ArrayElement, DType};
use crate::base::shape::Shape;

/// The axis and the direction of a cumulative reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The axis.
    pub axis: usize,
    /// If true, each result combines an element with all elements after this element.
    pub reverse: bool,
}

/// How a cumulative reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cumulation {
    /// The product.
    Prod,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// Computes log(eˣ + eʸ).
    LogSumExp,
}

impl Run {
    /// Reduces an array along the axis. Overwrites the array if there is no other handle of its memory.
    fn scan<T: ArrayElement>(self, operand: Arc<Array>, kernel: impl Fn(&mut [T], Rows)) -> Array {
        let shape = Shape::from(operand.shape());
        let rows = Rows {
            length: shape[self.axis],
            inner: shape[self.axis + 1..].iter().product(),
            reverse: self.reverse,
        };
        let mut elements = Array::into_elements::<T>(operand);
        for block in elements.chunks_exact_mut((rows.length * rows.inner).max(1)) {
            kernel(block, rows);
        }
        Array::new(shape, elements)
    }
}

/// Runs a cumulative reduction with the kernel and the combining function for the operand's dtype.
macro_rules! scan {
    ($run:expr, $operand:expr, $kernel:ident, $integer:ident, |$x:ident, $y:ident| $float:expr) => {
        match $operand.dtype() {
            DType::I32 => {
                $run.scan::<i32>($operand, |part, rows| one_by_one(part, rows, i32::$integer))
            }
            DType::I64 => {
                $run.scan::<i64>($operand, |part, rows| one_by_one(part, rows, i64::$integer))
            }
            DType::U32 => {
                $run.scan::<u32>($operand, |part, rows| one_by_one(part, rows, u32::$integer))
            }
            DType::F32 => {
                $run.scan::<f32>($operand, |part, rows| $kernel(part, rows, |$x, $y| $float))
            }
            _ => $run.scan::<f64>($operand, |part, rows| $kernel(part, rows, |$x, $y| $float)),
        }
    };
}

/// Returns the cumulative sums of an array.
pub fn sum(run: Run, operand: Arc<Array>) -> Array {
    scan!(run, operand, in_blocks, wrapping_add, |x, y| x + y)
}

/// Computes log(eˣ + eʸ) without overflow.
macro_rules! log_add_exp {
    ($x:expr, $y:expr) => {{
        let difference = $x - $y;
        if difference.is_nan() {
            // Either both operands are infinities of the same sign, or one operand is NaN.
            $x + $y
        } else {
            $x.max($y) + (-difference.abs()).exp().ln_1p()
        }
    }};
}

/// Returns a cumulative reduction of an array.
pub fn reduce(cumulation: Cumulation, run: Run, operand: Arc<Array>) -> Array {
    match cumulation {
        // Products are not computed in blocks, because the product of a block may overflow although no result
        // overflows.
        Cumulation::Prod => scan!(run, operand, one_by_one, wrapping_mul, |x, y| x * y),
        Cumulation::Max => {
            scan!(
                run,
                operand,
                one_by_one,
                max,
                |x, y| if x > y || x.is_nan() { x } else { y }
            )
        }
        Cumulation::Min => {
            scan!(
                run,
                operand,
                one_by_one,
                min,
                |x, y| if x < y || x.is_nan() { x } else { y }
            )
        }
        Cumulation::LogSumExp => match operand.dtype() {
            DType::F32 => run.scan::<f32>(operand, |part, rows| {
                in_blocks(part, rows, |x, y| log_add_exp!(x, y));
            }),
            _ => run.scan::<f64>(operand, |part, rows| {
                in_blocks(part, rows, |x, y| log_add_exp!(x, y));
            }),
        },
    }
}
