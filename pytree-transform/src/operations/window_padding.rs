//! The padding of the spatial axes, over which the windows of convolutions and pooling slide.

use pytree_core::Static;

use crate::base::error::Mistake;

/// The padding of the spatial axes, over which windows slide.
#[derive(Static, Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Padding {
    /// Pads so that there are `⌈length / stride⌉` windows along each axis. If the number of padding elements is odd,
    /// one more element is added after the axis than before it. `Same` is the default, as in Flax.
    #[default]
    Same,
    /// Pads like [`Padding::Same`]. If the number of padding elements is odd, one more element is added before the axis
    /// than after it.
    SameLower,
    /// Does not pad, so all windows are inside the tensor.
    Valid,
    /// Pads each axis with the given numbers of elements before and after the axis. A negative number removes elements.
    Explicit(Vec<(isize, isize)>),
}

/// Returns the padding before and after an axis so that `⌈length / stride⌉` windows of `span` elements fit. `length` is
/// the length of the axis.
fn same(length: usize, span: usize, stride: usize) -> (isize, isize) {
    let needed = match length.div_ceil(stride) {
        // The axis is empty. The padding is one stride shorter than a window, so no window fits.
        0 => span.saturating_sub(stride),
        windows => ((windows - 1) * stride)
            .saturating_add(span)
            .saturating_sub(length),
    };
    (signed(needed / 2), signed(needed - needed / 2))
}

/// Converts a number of padding elements to `isize`. A number that is too large becomes `isize::MAX`.
pub(super) fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}

impl Padding {
    /// Returns a mistake if explicit padding does not have one pair for each axis.
    pub(super) fn mistake(&self, axes: usize) -> Option<Mistake> {
        let Self::Explicit(pairs) = self else {
            return None;
        };
        (pairs.len() != axes).then(|| {
            Mistake::new(
                format!(
                    "the padding {pairs:?} has {} pairs, but there are {axes} spatial axes",
                    pairs.len()
                ),
                "give one pair `(before, after)` for each spatial axis",
            )
        })
    }

    /// Returns the padding before and after each axis. Explicit padding must have one pair for each axis.
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
