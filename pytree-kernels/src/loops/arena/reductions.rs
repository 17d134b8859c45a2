//! Instructions of reductions.

use super::code::{Code, Instruction};
use super::moves::Source;
use super::values::{LANES, Place, Values};
use crate::base::combine::{And, Combine, Max, Min, Or, Prod, Sum, with_number};
use crate::base::dtype::{AbstractArray, ArrayElement, DType, with_wide};
use crate::base::fold;
use crate::base::narrow::is_narrow;
use crate::base::target::Target;
use crate::loops::reduction::{Extremum, Grouped, Pass, Reduction, grouped, positions, run};

impl Values {
    /// Adds a reduction of an operand with this dtype and shape: a sum if `reduction` is `None`. Returns false if the operand must be
    /// converted or widened.
    pub fn reduced(
        &mut self,
        reduction: Option<Reduction>,
        (operand, info): (Place, &AbstractArray),
        axes: &[usize],
        result: Place,
        code: &mut Code,
    ) -> bool {
        let dtype = info.dtype;
        if dtype != self.info(result).dtype || is_narrow(dtype) {
            return false;
        }
        let groups = grouped(&info.shape, axes);
        let ends = [operand, result];
        match (reduction, dtype) {
            _ if groups.is_empty() => {
                let all: Vec<Source> = (0..info.len()).map(|at| (operand, at)).collect();
                self.moved(&all, result, code);
            }
            (Some(Reduction::And), DType::Bool) => self.folded::<bool, Min>(&groups, ends, code),
            (Some(Reduction::Or), DType::Bool) => self.folded::<bool, Max>(&groups, ends, code),
            (Some(Reduction::Max), _) => {
                with_wide!(dtype, T => self.folded::<T, Max>(&groups, ends, code));
            }
            (Some(Reduction::Min), _) => {
                with_wide!(dtype, T => self.folded::<T, Min>(&groups, ends, code));
            }
            (Some(Reduction::And), DType::I64) => self.folded::<i64, And>(&groups, ends, code),
            (Some(Reduction::And), _) => self.folded::<i32, And>(&groups, ends, code),
            (Some(Reduction::Or), DType::I64) => self.folded::<i64, Or>(&groups, ends, code),
            (Some(Reduction::Or), _) => self.folded::<i32, Or>(&groups, ends, code),
            (Some(Reduction::Prod), _) => {
                with_number!(dtype, T => self.folded::<T, Prod>(&groups, ends, code));
            }
            (None, _) => {
                with_number!(dtype, T => self.folded::<T, Sum>(&groups, ends, code));
            }
        }
        true
    }

    /// Adds the search for the positions of the first extrema along an axis. Returns false if the operand must be widened.
    pub fn argument(
        &self,
        extremum: Extremum,
        (operand, info): (Place, &AbstractArray),
        axis: usize,
        result: Place,
        code: &mut Code,
    ) -> bool {
        let pass = Pass::new(info.shape[axis], info.shape[axis + 1..].iter().product());
        let (length, count) = (info.len(), self.len(result));
        if is_narrow(info.dtype) {
            return false;
        }
        let mut to = self.target::<i32>(result);
        with_wide!(info.dtype, T => {
            let elements = self.target::<T>(operand);
            code.push(move |_| {
                positions::<T>(extremum, pass, elements.slice(0, length), to.slice_mut(0, count));
            });
        });
        true
    }

    fn folded<T: ArrayElement, C: Combine<T>>(
        &mut self,
        groups: &[Grouped],
        [operand, result]: [Place; 2],
        code: &mut Code,
    ) {
        let mut from = operand;
        for (number, &(pass, outer)) in groups.iter().enumerate() {
            let (length, count) = (outer * pass.length * pass.inner, outer * pass.inner);
            let to = if number + 1 == groups.len() {
                result
            } else {
                let dtype = self.info(operand).dtype;
                self.place(&AbstractArray::new(dtype, [count]))
            };
            let (elements, mut results) = (self.target::<T>(from), self.target::<T>(to));
            let has_leaf = const { size_of::<T>() == 4 && C::IS_WIDE };
            code.add(
                if has_leaf && pass.inner == 1 && pass.length <= fold::LANES {
                    rows::<T, C>(elements, results, [outer, pass.length])
                } else if has_leaf && pass.inner > 1 && pass.length <= fold::block_rows(pass.length)
                {
                    columns::<T, C>(elements, results, [outer, pass.length, pass.inner])
                } else {
                    Instruction::new(move |_| {
                        run::<T, C>(pass, elements.slice(0, length), results.slice_mut(0, count));
                    })
                },
            );
            from = to;
        }
    }
}

/// Returns the reduction of rows of at most as many elements as a part has lanes, in the order of [`fold::rows`].
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn rows<T: ArrayElement, C: Combine<T>>(
    elements: Target<'static, T>,
    results: Target<'static, T>,
    [count, length]: [usize; 2],
) -> Instruction {
    Instruction::leaf(
        #[inline(always)]
        move |_| {
            let mut row = 0;
            while row < count {
                let mut lanes = [C::START; fold::LANES];
                let mut first = 0;
                while first < length {
                    // SAFETY: the memory has a block after each element, and no reference to the elements exists.
                    let block = unsafe {
                        let at = elements.first().add(row * length + first);
                        at.cast::<[T; LANES]>().read()
                    };
                    for lane in 0..LANES {
                        let combined = C::combine(C::START, block[lane]);
                        let is_within = first + lane < length;
                        lanes[first + lane] = if is_within { combined } else { C::START };
                    }
                    first += LANES;
                }
                // SAFETY: as above.
                unsafe {
                    results
                        .first()
                        .add(row)
                        .write(fold::join_lanes::<T, C>(lanes));
                };
                row += 1;
            }
        },
    )
}

/// Returns the reduction of a few rows element by element, in the order of [`fold::columns`].
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn columns<T: ArrayElement, C: Combine<T>>(
    elements: Target<'static, T>,
    results: Target<'static, T>,
    [outer, length, inner]: [usize; 3],
) -> Instruction {
    Instruction::leaf(
        #[inline(always)]
        move |_| {
            let mut group = 0;
            while group < outer {
                // A block that is longer than the row is followed by the next row.
                let mut first = 0;
                while first < inner {
                    let (mut combined, mut row) = ([C::START; LANES], 0);
                    while row < length {
                        // SAFETY: the memory has a block after each element, and no reference to the elements exists.
                        let block = unsafe {
                            let at = (group * length + row) * inner + first;
                            elements.first().add(at).cast::<[T; LANES]>().read()
                        };
                        for lane in 0..LANES {
                            combined[lane] = C::combine(combined[lane], block[lane]);
                        }
                        row += 1;
                    }
                    // SAFETY: as above.
                    unsafe {
                        let to = results.first().add(group * inner + first);
                        to.cast::<[T; LANES]>().write(combined);
                    }
                    first += LANES;
                }
                group += 1;
            }
        },
    )
}
