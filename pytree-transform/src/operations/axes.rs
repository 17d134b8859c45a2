//! Checks of the axes that operations take: one axis or several, counted from the front or from the end.

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::AxisList;

use crate::base::error::{Mistake, TensorError, valid_axes};

/// One axis of a tensor, or several axes. This trait is implemented for `isize`, and for arrays, slices and vectors of
/// `isize`. A negative axis counts from the end.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor};
/// let x = Tensor::ones(DType::F32, [2, 3, 4]);
/// assert_eq!(x.sum_axes(-1).shape(), [2, 3]);
/// assert_eq!(x.sum_axes([0, 2]).shape(), [3]);
/// assert_eq!(x.sum_axes(vec![0, 1]).shape(), [4]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an axis or a list of axes",
    label = "expected `isize`, `[isize; N]`, `&[isize]` or `Vec<isize>`",
    note = "axes may be negative, so they are of type `isize`; convert a `usize` with `.cast_signed()`"
)]
pub trait TensorAxes {
    /// Returns the axes as the caller wrote them, which may be negative.
    #[doc(hidden)]
    fn axes(&self) -> &[isize];
}

impl TensorAxes for isize {
    fn axes(&self) -> &[isize] {
        std::slice::from_ref(self)
    }
}
impl TensorAxes for [isize] {
    fn axes(&self) -> &[isize] {
        self
    }
}
impl<const N: usize> TensorAxes for [isize; N] {
    fn axes(&self) -> &[isize] {
        self
    }
}
impl TensorAxes for Vec<isize> {
    fn axes(&self) -> &[isize] {
        self
    }
}
impl<T: TensorAxes + ?Sized> TensorAxes for &T {
    fn axes(&self) -> &[isize] {
        (**self).axes()
    }
}

/// Returns `axis` counted from the front. A negative axis counts from the end.
pub(crate) fn axis_of(
    operation: &'static str,
    found: &AbstractArray,
    axis: isize,
) -> Result<usize, TensorError> {
    place_of(axis, found.rank()).ok_or_else(|| TensorError::axis(operation, found, axis))
}

/// Returns `axes` counted from the front. Negative axes count from the end. Each axis may occur only once.
pub(crate) fn axes_of(
    operation: &'static str,
    found: &AbstractArray,
    axes: &[isize],
) -> Result<AxisList, TensorError> {
    distinct_places(axes, found.rank()).ok_or_else(|| wrong_axes(operation, found, axes, |_| None))
}

/// Returns `axes` like [`axes_of`]. `mistake` returns a further mistake of an axis, or `None`. The error reports all
/// mistakes.
pub(crate) fn axes_where(
    operation: &'static str,
    found: &AbstractArray,
    axes: &[isize],
    mistake: impl Fn(usize) -> Option<Mistake>,
) -> Result<AxisList, TensorError> {
    distinct_places(axes, found.rank())
        .filter(|places| places.iter().all(|&place| mistake(place).is_none()))
        .ok_or_else(|| wrong_axes(operation, found, axes, mistake))
}

#[cold]
fn wrong_axes(
    operation: &'static str,
    found: &AbstractArray,
    axes: &[isize],
    mistake: impl Fn(usize) -> Option<Mistake>,
) -> TensorError {
    let rank = found.rank();
    let mistakes = mistakes_of(axes, rank, mistake, |axis| {
        Mistake::new(format!("axis {axis} is out of range"), valid_axes(rank))
    });
    let absent = axes.iter().find(|&&axis| place_of(axis, rank).is_none());
    match (mistakes.len(), absent) {
        (1, Some(&axis)) => TensorError::axis(operation, found, axis),
        _ => Mistake::joined(mistakes).error(operation, &[found]),
    }
}

/// Returns the position of a new axis in the result, counted from the front. A negative axis counts from the end of the
/// result.
pub(crate) fn new_axis_of(
    operation: &'static str,
    found: &AbstractArray,
    axis: isize,
) -> Result<usize, TensorError> {
    place_of(axis, found.rank() + 1).ok_or_else(|| wrong_new_axes(operation, found, &[axis]))
}

/// Returns the positions of new axes in the result, counted from the front. Negative axes count from the end of the
/// result. Each axis may occur only once.
#[inline]
pub(crate) fn new_axes_of(
    operation: &'static str,
    found: &AbstractArray,
    axes: &[isize],
) -> Result<AxisList, TensorError> {
    distinct_places(axes, found.rank() + axes.len())
        .ok_or_else(|| wrong_new_axes(operation, found, axes))
}

#[cold]
fn wrong_new_axes(operation: &'static str, found: &AbstractArray, axes: &[isize]) -> TensorError {
    let rank = found.rank() + axes.len();
    let out_of_range = |axis| {
        Mistake::new(
            format!("axis {axis} is out of range for a new axis in a result of {rank} axes"),
            format!("use an axis from -{rank} to {}", rank - 1),
        )
    };
    let mistakes = mistakes_of(axes, rank, |_| None, out_of_range);
    Mistake::joined(mistakes).error(operation, &[found])
}

/// Returns the position `place` counted from the front. A negative `place` counts from the end. Returns `None` if
/// `place` is out of range for `count` positions.
fn place_of(place: isize, count: usize) -> Option<usize> {
    let place = if place < 0 {
        count.checked_sub(place.unsigned_abs())?
    } else {
        place.cast_unsigned()
    };
    (place < count).then_some(place)
}

/// Returns the positions of `axes` counted from the front. Returns `None` if an axis is out of range or occurs twice.
#[inline]
fn distinct_places(axes: &[isize], rank: usize) -> Option<AxisList> {
    let mut places = AxisList::new();
    for &axis in axes {
        let place = place_of(axis, rank)?;
        if places.contains(&place) {
            return None;
        }
        places.push(place);
    }
    Some(places)
}

/// Returns each mistake of `axes` once. Axes that are out of range and axes that occur twice are mistakes. `mistake`
/// finds further mistakes.
#[cold]
fn mistakes_of(
    axes: &[isize],
    rank: usize,
    mistake: impl Fn(usize) -> Option<Mistake>,
    out_of_range: impl Fn(isize) -> Mistake,
) -> Vec<Mistake> {
    let (mut absent, mut places, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
    for &axis in axes {
        match place_of(axis, rank) {
            Some(place) => places.push(place),
            None if absent.contains(&axis) => {}
            None => {
                absent.push(axis);
                mistakes.push(out_of_range(axis));
            }
        }
    }
    places.sort_unstable();
    for equal in places.chunk_by(PartialEq::eq) {
        let place = equal[0];
        let count = match equal.len() {
            1 => None,
            2 => Some("twice".to_owned()),
            count => Some(format!("{count} times")),
        };
        let repeated = count.map(|count| {
            Mistake::new(
                format!("axis {place} is given {count} in {axes:?}"),
                "give each axis once",
            )
        });
        mistakes.extend(repeated);
        mistakes.extend(mistake(place));
    }
    mistakes
}
