//! The padding of convolution layers.

use pytree_core::Static;
use pytree_transform::Tensor;
use pytree_transform::convolution::Padding;
use pytree_transform::indexing::{Index, Step};

/// The padding of the spatial axes of a convolution layer.
///
/// With the kernel size k and the kernel dilation d of an axis, a window covers (k - 1) · d + 1 elements.
#[derive(Static, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ConvPadding {
    /// Pads with zeros so that there are `⌈length / stride⌉` windows along each axis: `SAME`. If the number of padding
    /// elements is odd, there is one more padding element after the axis than before it.
    #[default]
    Same,
    /// Does not pad, so all windows are inside the input: `VALID`.
    Valid,
    /// Continues each axis with the elements from its other end: `CIRCULAR`. A window of s elements has ⌊(s - 1) / 2⌋
    /// padding elements before the axis and ⌊s / 2⌋ after it.
    Circular,
    /// Mirrors each axis at its first and last element, which are not repeated: `REFLECT`. There are as many padding
    /// elements as for [`Circular`](Self::Circular).
    Reflect,
    /// Pads the only spatial axis with (k - 1) · d zeros before its first element, so that no result depends on later
    /// elements: `CAUSAL`.
    Causal,
    /// Pads each axis with the given numbers of zeros before and after the axis. A negative number removes elements.
    Explicit(Vec<(isize, isize)>),
}

impl<const N: usize> From<[(isize, isize); N]> for ConvPadding {
    fn from(pairs: [(isize, isize); N]) -> Self {
        Self::Explicit(pairs.to_vec())
    }
}

impl ConvPadding {
    /// Panics if explicit or causal padding does not fit the number of axes of the kernel.
    #[track_caller]
    pub(super) fn check(&self, layer: &str, kernel: &[usize]) {
        let axes = kernel.len();
        match self {
            Self::Explicit(pairs) => assert!(
                pairs.len() == axes,
                "{layer} expects one pair of paddings for each of the {axes} axes of the kernel {kernel:?}, found {pairs:?}; \
                 write {axes} pairs `(before, after)`"
            ),
            Self::Causal => assert!(
                axes == 1,
                "{layer} expects a kernel with one axis for causal padding, found {kernel:?}; time is one axis: \
                 write one kernel size, or give explicit pairs `(before, after)`"
            ),
            _ => {}
        }
    }

    /// Pads `x: [batch, space…, features]` if the convolution operation does not support this padding. Returns the
    /// tensor, and the padding that the operation still has to apply. `spans` has the number of elements that a window
    /// covers along each axis.
    #[track_caller]
    pub(super) fn apply(&self, x: &Tensor, spans: &[usize]) -> (Tensor, Padding) {
        match self {
            Self::Same => (x.clone(), Padding::Same),
            Self::Valid => (x.clone(), Padding::Valid),
            Self::Explicit(pairs) => (x.clone(), Padding::Explicit(pairs.clone())),
            Self::Causal => {
                let before = |span: &usize| ((span - 1).cast_signed(), 0);
                let pairs = spans.iter().map(before).collect();
                (x.clone(), Padding::Explicit(pairs))
            }
            Self::Circular => (continued(x, spans, wrapped), Padding::Valid),
            Self::Reflect => (continued(x, spans, reflected), Padding::Valid),
        }
    }
}

/// Pads each spatial axis with its own elements. For a position outside the axis and the length of the axis, `source`
/// returns the position of the element to copy.
#[track_caller]
fn continued(x: &Tensor, spans: &[usize], source: fn(isize, isize) -> isize) -> Tensor {
    let mut padded = x.clone();
    for (number, &span) in spans.iter().enumerate() {
        let axis = number + 1;
        let length = padded.shape()[axis];
        let (before, after) = ((span - 1) / 2, span / 2);
        if length == 0 || before + after == 0 {
            continue;
        }
        let length = length.cast_signed();
        let positions = (-before.cast_signed())..(length + after.cast_signed());
        let sources: Vec<isize> = positions.map(|at| source(at, length)).collect();
        let parts: Vec<Tensor> = runs(&sources)
            .into_iter()
            .map(|run| slice(&padded, axis, run))
            .collect();
        padded = Tensor::concatenate(&parts, axis.cast_signed());
    }
    padded
}

fn wrapped(at: isize, length: isize) -> isize {
    at.rem_euclid(length)
}

fn reflected(at: isize, length: isize) -> isize {
    let period = (2 * (length - 1)).max(1);
    let at = at.rem_euclid(period);
    at.min(period - at).min(length - 1)
}

/// Splits positions into runs that rise or fall by 1. Returns the first and the last position of each run.
fn runs(positions: &[isize]) -> Vec<(isize, isize)> {
    let mut runs: Vec<(isize, isize)> = Vec::new();
    for &at in positions {
        match runs.last_mut() {
            Some((first, last))
                if (at - *last).abs() == 1 && (at - *last) == direction(*first, *last, at) =>
            {
                *last = at;
            }
            _ => runs.push((at, at)),
        }
    }
    runs
}

/// Returns the direction of a run, 1 or -1. A run of one element takes the direction of the next position.
fn direction(first: isize, last: isize, next: isize) -> isize {
    if first == last {
        next - last
    } else {
        (last - first).signum()
    }
}

/// Returns the elements of an axis at the positions of a run.
#[track_caller]
fn slice(x: &Tensor, axis: usize, (first, last): (isize, isize)) -> Tensor {
    let mut indices: Vec<Index> = vec![Index::from(..); axis];
    indices.push(if first <= last {
        Index::from(first..last + 1)
    } else {
        Index::from(Step(last..first + 1, -1))
    });
    x.index(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_continued_as_often_as_needed() {
        let x = Tensor::from([1, 2, 3]).reshape([1, 3, 1]);
        let padded = |source| continued(&x, &[10], source).to_vec::<i32>();
        assert_eq!(padded(wrapped), [3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(padded(reflected), [1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2]);
        let single = Tensor::from([7]).reshape([1, 1, 1]);
        assert_eq!(
            continued(&single, &[4], reflected).to_vec::<i32>(),
            [7, 7, 7, 7]
        );
    }

    #[test]
    fn runs_end_where_the_direction_turns() {
        assert_eq!(runs(&[2, 1, 0, 1, 2, 1]), [(2, 0), (1, 2), (1, 1)]);
        assert_eq!(runs(&[2, 0, 1, 2, 0]), [(2, 2), (0, 2), (0, 0)]);
    }
}
