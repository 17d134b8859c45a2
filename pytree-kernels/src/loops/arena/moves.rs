//! Instructions that move elements.

use super::code::Code;
use super::values::{Place, Values};
use crate::base::bits::with_bits;
use crate::base::target::Target;

/// An element of a value: its place, and the position of the element.
pub type Source = (Place, usize);

/// The least mean number of elements of a run. Shorter runs are moved element by element.
const SHORTEST: usize = 3;

/// Neighbouring elements of a result, which are at equal distances in a value.
struct Run {
    source: Source,
    step: isize,
    to: usize,
    count: usize,
}

/// Returns the longest runs of elements.
fn runs(sources: &[Source]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (to, &(place, from)) in sources.iter().enumerate() {
        if let Some(run) = runs.last_mut().filter(|run| run.source.0 == place) {
            let last = run.source.1.cast_signed() + run.step * (run.count - 1).cast_signed();
            let step = from.cast_signed() - last;
            if run.count == 1 || step == run.step {
                (run.step, run.count) = (step, run.count + 1);
                continue;
            }
        }
        let source = (place, from);
        runs.push(Run {
            source,
            step: 0,
            to,
            count: 1,
        });
    }
    runs
}

impl Values {
    /// Adds a move: the elements of the result are those of other values.
    pub fn moved(&self, sources: &[Source], result: Place, code: &mut Code) {
        let runs = runs(sources);
        with_bits!(self.info(result).dtype, T => {
            let mut to = self.target::<T>(result);
            if runs.len() * SHORTEST > sources.len() {
                let sources = sources.iter().map(|&(place, at)| self.target::<T>(place).offset(at));
                let sources: Vec<Target<'static, T>> = sources.collect();
                return code.push(move |_| {
                    for (element, source) in to.slice_mut(0, sources.len()).iter_mut().zip(&sources) {
                        *element = source.read();
                    }
                });
            }
            let runs = runs.into_iter().map(|run| (self.target::<T>(run.source.0), run));
            let runs: Vec<(Target<'static, T>, Run)> = runs.collect();
            code.push(move |_| {
                for (from, Run { source: (_, first), step, to: start, count }) in &runs {
                    let to = to.slice_mut(*start, *count);
                    match step {
                        1 => to.copy_from_slice(from.slice(*first, *count)),
                        0 => to.fill(from.slice(*first, 1)[0]),
                        _ => {
                            let mut at = *first;
                            for element in to {
                                *element = from.slice(at, 1)[0];
                                at = at.wrapping_add_signed(*step);
                            }
                        }
                    }
                }
            });
        });
    }
}
