//! Instructions that move elements.

use super::values::{Code, Place, Values};
use crate::base::bits::with_bits;
use crate::base::target::Target;

/// Neighbouring elements of a result, which are at equal distances in an operand.
struct Run {
    operand: usize,
    from: usize,
    step: isize,
    to: usize,
    count: usize,
}

/// Returns the longest runs of the positions of elements in some operands, of which each has a number of elements.
fn runs(lengths: &[usize], positions: &[usize]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (to, &position) in positions.iter().enumerate() {
        let (mut operand, mut from) = (0, position);
        while from >= lengths[operand] {
            from -= lengths[operand];
            operand += 1;
        }
        if let Some(run) = runs.last_mut().filter(|run| run.operand == operand) {
            let last = run.from.cast_signed() + run.step * (run.count - 1).cast_signed();
            let step = from.cast_signed() - last;
            if run.count == 1 || step == run.step {
                (run.step, run.count) = (step, run.count + 1);
                continue;
            }
        }
        runs.push(Run {
            operand,
            from,
            step: 0,
            to,
            count: 1,
        });
    }
    runs
}

impl Values {
    /// Adds a move: the elements of the result are those of the operands at `positions`, which count the elements of all operands, one
    /// after the other.
    pub fn moved(
        &mut self,
        operands: &[Place],
        positions: &[usize],
        result: Place,
        code: &mut Code,
    ) {
        let lengths: Vec<usize> = operands.iter().map(|&operand| self.len(operand)).collect();
        let runs = runs(&lengths, positions);
        with_bits!(self.info(result).dtype, T => {
            let operands: Vec<Target<'static, T>> = operands.iter().map(|&operand| self.target(operand)).collect();
            let mut result = self.target::<T>(result);
            code.push(Box::new(move |_| {
                for run in &runs {
                    let from = &operands[run.operand];
                    let to = result.slice_mut(run.to, run.count);
                    match run.step {
                        1 => to.copy_from_slice(from.slice(run.from, run.count)),
                        0 => to.fill(from.slice(run.from, 1)[0]),
                        step => {
                            let mut at = run.from;
                            for element in to {
                                *element = from.slice(at, 1)[0];
                                at = at.wrapping_add_signed(step);
                            }
                        }
                    }
                }
            }));
        });
    }
}
