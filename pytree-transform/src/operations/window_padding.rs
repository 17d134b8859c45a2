//! What is put around the axes that windows slide over, for convolutions and pooling.

use crate::base::error::Mistake;

/// What is put around the axes that windows slide over.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Padding {
    /// So much that there are `⌈length / stride⌉` windows, the larger half behind. The default, as in Flax.
    #[default]
    Same,
    /// As [`Padding::Same`], with the larger half before.
    SameLower,
    /// Nothing: windows stay inside.
    Valid,
    /// So much before and behind, for each axis; less than nothing takes away.
    Explicit(Vec<(isize, isize)>),
}

/// `⌈length / stride⌉` windows of this span: how much is missing, and the two halves of it.
fn same(length: usize, span: usize, stride: usize) -> (isize, isize) {
    let windows = length.div_ceil(stride);
    let needed = (windows.saturating_sub(1) * stride)
        .saturating_add(span)
        .saturating_sub(length);
    (signed(needed / 2), signed(needed - needed / 2))
}

/// A number of padding elements; of more than there can be, the most.
pub(super) fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}

impl Padding {
    /// Explicit padding that is not for so many axes.
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

    /// Before and behind, for each axis; explicit padding is for as many.
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
