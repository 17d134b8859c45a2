//! How the elements of a broadcast are found in its operand, without a copy of the repetitions.

use crate::base::shape::{AxisList, Shape};

/// The most elements of a column that are copied at a time before they are repeated.
const SOME: usize = 32;

/// How the elements of a view are found in its source, the value that the view reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The same elements in the same order.
    Same,
    /// A single element, repeated for all elements of the view.
    Scalar,
    /// A repeated row: element `i` of the view is element `i % period` of the source.
    Cycle {
        /// The length of the row.
        period: usize,
    },
    /// A repeated column: element `i` of the view is element `i / times` of the source.
    Stretch {
        /// How often each element is repeated.
        times: usize,
    },
}

impl Pattern {
    /// Returns how a broadcast to `shape` repeats an operand whose axes are `axes` of the result. Returns `None` if the repetitions
    /// have no pattern.
    pub fn of_broadcast(operand: &[usize], axes: &[usize], shape: &[usize]) -> Option<Self> {
        if is_single(operand) {
            return Some(if is_single(shape) {
                Self::Same
            } else {
                Self::Scalar
            });
        }
        // Axes of length 1 have no effect on the positions of elements. The other axes of the operand must keep their order
        // and lengths.
        let lengths = operand.iter().zip(axes);
        let kept: AxisList = lengths
            .filter(|(length, _)| **length != 1)
            .map(|(_, &axis)| axis)
            .collect();
        let rest: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
        if kept == rest {
            return Some(Self::Same);
        }
        let count: usize = operand.iter().product();
        // The number of elements of an empty shape may overflow on the way to 0.
        if shape.contains(&0) {
            return None;
        }
        if kept.len() <= rest.len() && kept[..] == rest[rest.len() - kept.len()..] {
            return Some(Self::Cycle { period: count });
        }
        (kept[..] == rest[..kept.len().min(rest.len())]).then(|| Self::Stretch {
            times: shape.iter().product::<usize>() / count,
        })
    }

    /// Returns how an operand is repeated in a result of elementwise operations, whose axes are aligned at the end.
    pub fn of_operand(operand: &[usize], shape: &[usize]) -> Option<Self> {
        let first = shape.len().checked_sub(operand.len())?;
        let axes: AxisList = (first..shape.len()).collect();
        Self::of_broadcast(operand, &axes, shape)
    }

    /// Fills a tile with the elements of the view from the position `start` on. `copy` copies elements of the source from a position
    /// on.
    #[inline(always)]
    pub(crate) fn fill<T: Copy + Default>(
        self,
        output: &mut [T],
        start: usize,
        copy: impl Fn(usize, &mut [T]),
    ) {
        match self {
            Self::Same => copy(start, output),
            Self::Scalar => {
                let mut element = [T::default()];
                copy(0, &mut element);
                output.fill(element[0]);
            }
            Self::Cycle { period } => {
                let mut at = start % period;
                let mut done = 0;
                while done < output.len() {
                    let run = (period - at).min(output.len() - done);
                    copy(at, &mut output[done..done + run]);
                    done += run;
                    at = 0;
                }
            }
            Self::Stretch { times } => {
                let (mut at, mut first) = (start / times, times - start % times);
                let mut some = [T::default(); SOME];
                let mut rest = output;
                while !rest.is_empty() {
                    let most = first + (SOME - 1) * times;
                    let (now, later) = rest.split_at_mut(most.min(rest.len()));
                    let count = 1 + now.len().saturating_sub(first).div_ceil(times);
                    copy(at, &mut some[..count]);
                    stretch(now, &some[..count], times, first);
                    (at, first, rest) = (at + count, times, later);
                }
            }
        }
    }
}

fn is_single(shape: &[usize]) -> bool {
    shape.iter().all(|&length| length == 1)
}

/// Repeats each element `times` times, and the first one `first` times, until the output is full.
#[inline(always)]
pub(crate) fn stretch<T: Copy>(mut output: &mut [T], elements: &[T], times: usize, first: usize) {
    let mut run = first;
    for &element in elements {
        let (now, later) = output.split_at_mut(run.min(output.len()));
        now.fill(element);
        (output, run) = (later, times);
        if output.is_empty() {
            return;
        }
    }
}

/// Returns the shape of the result of an elementwise operation on operands that are broadcast, if they can be.
pub fn common_shape<'a>(shapes: impl Iterator<Item = &'a [usize]> + Clone) -> Option<Shape> {
    let largest = shapes
        .clone()
        .max_by_key(|shape| (!is_single(shape), shape.len()))?;
    // The usual operands: tensors of one shape and numbers.
    let fits =
        |shape: &[usize]| shape == largest || is_single(shape) && shape.len() <= largest.len();
    if shapes.clone().all(fits) {
        return Some(Shape::from(largest));
    }
    let rank = shapes.clone().map(<[usize]>::len).max()?;
    let mut common: Shape = std::iter::repeat_n(1, rank).collect();
    for shape in shapes {
        let aligned = &mut common[rank - shape.len()..];
        for (length, &other) in aligned.iter_mut().zip(shape) {
            if *length == 1 {
                *length = other;
            } else if other != 1 && other != *length {
                return None;
            }
        }
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_any_part_of_a_view() {
        let source: Vec<usize> = (100..200).collect();
        let copy = |at: usize, output: &mut [usize]| {
            output.copy_from_slice(&source[at..at + output.len()]);
        };
        for pattern in [
            Pattern::Same,
            Pattern::Scalar,
            Pattern::Cycle { period: 7 },
            Pattern::Stretch { times: 1 },
            Pattern::Stretch { times: 3 },
            Pattern::Stretch { times: 50 },
        ] {
            for start in 0..12 {
                for count in [0, 1, 2, 3, 5, 28, 79] {
                    let expected: Vec<usize> = (start..start + count)
                        .map(|position| match pattern {
                            Pattern::Same => source[position],
                            Pattern::Scalar => source[0],
                            Pattern::Cycle { period } => source[position % period],
                            Pattern::Stretch { times } => source[position / times],
                        })
                        .collect();
                    let mut found = vec![0; count];
                    pattern.fill(&mut found, start, copy);
                    assert_eq!(found, expected, "{pattern:?} from {start} on");
                }
            }
        }
    }

    #[test]
    fn operands_have_the_shape_that_numpy_gives() {
        let common =
            |shapes: &[&[usize]]| common_shape(shapes.iter().copied()).map(|it| it.to_vec());
        assert_eq!(common(&[&[2, 1], &[3]]), Some(vec![2, 3]));
        assert_eq!(common(&[&[], &[0, 1], &[4]]), Some(vec![0, 4]));
        assert_eq!(common(&[&[2], &[3]]), None);
        let pattern = |operand: &[usize]| Pattern::of_operand(operand, &[2, 3, 4]);
        assert_eq!(pattern(&[2, 3, 4]), Some(Pattern::Same));
        assert_eq!(pattern(&[1, 1]), Some(Pattern::Scalar));
        assert_eq!(pattern(&[3, 4]), Some(Pattern::Cycle { period: 12 }));
        assert_eq!(pattern(&[2, 1, 1]), Some(Pattern::Stretch { times: 12 }));
        assert_eq!(pattern(&[2, 1, 4]), None);
        assert_eq!(pattern(&[1, 2, 3, 4]), None);
    }
}
