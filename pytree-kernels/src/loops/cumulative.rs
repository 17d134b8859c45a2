//! Cumulative reductions along an axis. Each result combines an element with all elements before this element.

mod running;

use std::sync::Arc;

use self::running::{Rows, in_blocks, one_by_one};
use crate::base::array::Array;
use crate::base::combine::{Number, Ordered, with_number, with_ordered};
use crate::base::dtype::DType;
use crate::base::elementary;

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

/// Reduces an array along the axis with one of the kernels. Overwrites the array if there is no other handle of its memory.
fn scan<T: Number>(run: Run, operand: Arc<Array>, kernel: impl Fn(&mut [T], Rows)) -> Array {
    let (mut result, rows) = run.begin(operand);
    for part in T::of_mut(&mut result).chunks_exact_mut((rows.length * rows.inner).max(1)) {
        kernel(part, rows);
    }
    result
}

impl Run {
    /// Returns the array that is overwritten, and its rows.
    fn begin(self, operand: Arc<Array>) -> (Array, Rows) {
        let info = operand.info.clone();
        let rows = Rows {
            length: info.shape[self.axis],
            inner: info.shape[self.axis + 1..].iter().product(),
            reverse: self.reverse,
        };
        let data = Array::into_data(operand);
        (Array::from_data(info, data), rows)
    }
}

/// Returns the cumulative sums of an array.
pub fn sum(run: Run, operand: Arc<Array>) -> Array {
    match operand.dtype() {
        DType::F32 => scan(run, operand, |part, rows| in_blocks(part, rows, f32::plus)),
        DType::F64 => scan(run, operand, |part, rows| in_blocks(part, rows, f64::plus)),
        DType::I64 => scan(run, operand, |part, rows| one_by_one(part, rows, i64::plus)),
        _ => scan(run, operand, |part, rows| one_by_one(part, rows, i32::plus)),
    }
}

/// Returns a cumulative reduction of an array.
pub fn reduce(cumulation: Cumulation, run: Run, operand: Arc<Array>) -> Array {
    let dtype = operand.dtype();
    match cumulation {
        // Products are not computed in blocks, because the product of a block may overflow although no result
        // overflows.
        Cumulation::Prod => with_number!(dtype, T => {
            scan::<T>(run, operand, |part, rows| one_by_one(part, rows, <T as Number>::times))
        }),
        Cumulation::Max => with_ordered!(dtype, T => {
            scan::<T>(run, operand, |part, rows| one_by_one(part, rows, T::greater))
        }),
        Cumulation::Min => with_ordered!(dtype, T => {
            scan::<T>(run, operand, |part, rows| one_by_one(part, rows, T::lesser))
        }),
        Cumulation::LogSumExp if dtype == DType::F32 => scan::<f32>(run, operand, |part, rows| {
            in_blocks(part, rows, elementary::Elementary::log_add_exp);
        }),
        Cumulation::LogSumExp => scan::<f64>(run, operand, |part, rows| {
            in_blocks(part, rows, elementary::Elementary::log_add_exp);
        }),
    }
}
