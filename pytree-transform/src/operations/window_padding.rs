//! The padding of the axes that windows slide over, for convolutions and pooling.

use crate::base::error::Mistake;

/// The padding of the axes that windows slide over.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Padding {
    /// Pads so that there are `⌈length / stride⌉` windows, with the larger half after. The default, as in Flax.
    #[default]
    Same,
    /// Pads like [`Padding::Same`], with the larger half before.
    SameLower,
    /// No padding: all windows are inside of the tensor.
    Valid,
    /// The number of elements before and after, for each axis. A negative number removes elements.
    Explicit(Vec<(isize, isize)>),
}

/// Returns the two halves of the padding that gives `⌈length / stride⌉` windows of this span.
fn same(length: usize, span: usize, stride: usize) -> (isize, isize) {
    let windows = length.div_ceil(stride);
    let needed = (windows.saturating_sub(1) * stride)
        .saturating_add(span)
        .saturating_sub(length);
    (signed(needed / 2), signed(needed - needed / 2))
}

/// Converts a number of padding elements to `isize`, saturating.
pub(super) fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}

impl Padding {
    /// Reports explicit padding that does not have one pair per axis.
    pub(super) fn mistake(&self, axes: usize) -> Option<Mistake> {
        let Self::Explicit(pairs) = self else {
            return None;
        };
        (pairs.len() != axes).then(|| {
            Mistake::new(
                format!("the padding {pairs:?} is not a pair for each of {axes} axes"),
                "give one pair for each axis",
            )
        })
    }

    /// Returns the padding before and after each axis. Explicit padding must have one pair per axis.
    pub(super) fn pairs(
        &self,
        lengths: &[usize],
        spans: &[usize],
        strides: &[usize],
    ) -> Vec<(isize, isize)> {
        let axes = lengths.iter().zip(spans).zip(strides);
        let halves = axes.map(|((&length, &span), &stride)| same(length, span, stride));
        match self {
            Self::Same => halves.collect(),
            Self::SameLower => halves.map(|(less, more)| (more, less)).collect(),
            Self::Valid => vec![(0, 0); lengths.len()],
            Self::Explicit(pairs) => pairs.clone(),
        }
    }
}
