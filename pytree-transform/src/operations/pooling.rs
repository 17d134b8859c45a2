//! Pooling: reductions of sliding windows, as in `flax.linen.pooling`.

use pytree_core::Static;
use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::reduce_window::Window;
use pytree_kernels::loops::reduction::Extremum;

use crate::base::error::{Mistake, TensorError, called};
use crate::operations::convolution::Padding;
use crate::primitives::create;
use crate::primitives::reduce_window::{extremum_of_windows, sum_windows};
use crate::tensor::Tensor;

/// A reduction of windows that slide over the spatial axes of a tensor `[batch…, space…, features]`. The window has one
/// size for each spatial axis. The batch axes and the feature axis do not change.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, convolution::Padding, pooling::Pooling};
/// let images = Tensor::ones(DType::F32, [8, 28, 28, 3]);
/// let halves = Pooling::new([2, 2]).strides([2, 2]);
/// assert_eq!(halves.max(&images).shape(), [8, 14, 14, 3]);
/// let same = Pooling::new([3, 3]).padding(Padding::Same);
/// assert_eq!(same.average(&images).shape(), [8, 28, 28, 3]);
/// ```
#[doc(alias = "lax.reduce_window")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pooling {
    window: PerAxis,
    strides: PerAxis,
    padding: Padding,
    padding_count: PaddingCount,
}

/// Whether an average counts padding elements, which are zeros: `count_include_pad` in Flax.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingCount {
    /// Divides by the size of the window, including padding elements (`count_include_pad=True`).
    #[default]
    Include,
    /// Divides by the number of input elements in the window (`count_include_pad=False`).
    Exclude,
}

impl Pooling {
    /// Creates a pooling with windows of the size `window`, stride 1 and no padding, which are the defaults of Flax.
    #[must_use]
    pub fn new(window: impl AsRef<[usize]>) -> Self {
        let window = PerAxis::from_slice(window.as_ref());
        Self {
            strides: window.iter().map(|_| 1).collect(),
            window,
            padding: Padding::Valid,
            padding_count: PaddingCount::Include,
        }
    }

    /// Sets the distance between neighbouring windows along each spatial axis. The default is 1, as in Flax.
    #[must_use]
    pub fn strides(self, strides: impl AsRef<[usize]>) -> Self {
        let strides = PerAxis::from_slice(strides.as_ref());
        Self { strides, ..self }
    }

    /// Sets the padding. A padding element counts as zero in a sum, and is ignored in a maximum or minimum. If a window
    /// contains only padding, its maximum is the least value of the dtype, and its minimum is the greatest. The default
    /// is no padding, as in Flax.
    #[must_use]
    pub fn padding(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// Sets whether an [`average`](Self::average) counts padding elements. By default, padding elements are counted, as
    /// in Flax.
    #[must_use]
    pub fn count_padding(self, padding_count: PaddingCount) -> Self {
        Self {
            padding_count,
            ..self
        }
    }

    /// Returns the maximum of each window. The first of equal maxima receives the gradient, as in JAX.
    ///
    /// # Panics
    /// Panics if the window, strides or padding do not match `x`, or if `x` contains bools.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, pooling::Pooling};
    /// let x = Tensor::from([1.0, 3.0, 2.0, 8.0]).reshape([4, 1]);
    /// assert_eq!(Pooling::new([2]).strides([2]).max(&x).flatten(), Tensor::from([3.0, 8.0]));
    /// ```
    #[must_use]
    #[panicking_twin(max, Shape | DType)]
    pub fn try_max(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        self.extremum("take the maximum of windows of", Extremum::Max, x)
    }

    /// Returns the minimum of each window. The first of equal minima receives the gradient, as in JAX.
    ///
    /// # Panics
    /// Panics if the window, strides or padding do not match `x`, or if `x` contains bools.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, pooling::Pooling};
    /// let x = Tensor::from([1.0, 3.0, 2.0, 8.0]).reshape([4, 1]);
    /// assert_eq!(Pooling::new([2]).strides([2]).min(&x).flatten(), Tensor::from([1.0, 2.0]));
    /// ```
    #[must_use]
    #[panicking_twin(min, Shape | DType)]
    pub fn try_min(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        self.extremum("take the minimum of windows of", Extremum::Min, x)
    }

    /// Returns the sum of the elements of each window.
    ///
    /// # Panics
    /// Panics if the window, strides or padding do not match `x`, or if `x` contains bools.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, pooling::Pooling};
    /// let x = Tensor::from([1.0, 3.0, 2.0, 8.0]).reshape([4, 1]);
    /// assert_eq!(Pooling::new([2]).strides([2]).sum(&x).flatten(), Tensor::from([4.0, 10.0]));
    /// ```
    #[must_use]
    #[panicking_twin(sum, Shape | DType)]
    pub fn try_sum(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let operation = "sum windows of";
        let _called = called(operation);
        sum_windows(x, self.windows(operation, x)?)
    }

    /// Returns the mean of the elements of each window.
    ///
    /// # Panics
    /// Panics if the window, strides or padding do not match `x`, or if `x` does not contain floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, pooling::Pooling};
    /// let x = Tensor::from([1.0, 3.0, 2.0, 8.0]).reshape([4, 1]);
    /// assert_eq!(Pooling::new([2]).strides([2]).average(&x).flatten(), Tensor::from([2.0, 5.0]));
    /// ```
    #[must_use]
    #[panicking_twin(average, Shape | DType)]
    pub fn try_average(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        if !x.dtype().is_float() {
            return Err(TensorError::dtype(
                "average windows of",
                &[x.info()],
                "a float dtype",
            ));
        }
        let _called = called("average windows of");
        let sums = self.try_sum(x)?;
        match self.padding_count {
            PaddingCount::Include => {
                let size: usize = self.window.iter().product();
                Ok(sums / size as f64)
            }
            PaddingCount::Exclude => {
                let ones = create::full(x.dtype(), x.shape(), 1.0)?;
                sums.try_divide(self.try_sum(&ones)?)
            }
        }
    }

    #[track_caller]
    fn extremum(
        &self,
        operation: &'static str,
        extremum: Extremum,
        x: &Tensor,
    ) -> Result<Tensor, TensorError> {
        let _called = called(operation);
        extremum_of_windows(extremum, x, self.windows(operation, x)?)
    }

    /// Returns all mistakes in the window, the strides and the padding.
    fn mistakes(&self) -> Vec<Mistake> {
        let axes = self.window.len();
        let mut mistakes = Vec::new();
        if self.window.contains(&0) {
            mistakes.push(Mistake::new(
                format!("the window {:?} has a size of 0", self.window),
                "give each axis of the window a size above 0",
            ));
        }
        if self.strides.len() != axes || self.strides.contains(&0) {
            mistakes.push(Mistake::new(
                format!(
                    "the strides are {:?}, expected {axes} numbers above 0",
                    self.strides
                ),
                "give each axis of the window a stride above 0",
            ));
        }
        mistakes.extend(self.padding.mistake(axes));
        mistakes
    }

    /// Returns the windows that slide over `x`. Along an axis that is not spatial, a window has one element.
    #[track_caller]
    fn windows(&self, operation: &'static str, x: &Tensor) -> Result<Window, TensorError> {
        let axes = self.window.len();
        if x.dtype() == DType::Bool {
            return Err(TensorError::dtype(operation, &[x.info()], "numbers"));
        }
        let Some(first) = x.rank().checked_sub(axes + 1) else {
            return Err(TensorError::shape(
                operation,
                &[x.info()],
                format!(
                    "a window of size {:?} needs a tensor with at least {} axes: {axes} spatial axes and one feature axis",
                    self.window,
                    axes + 1
                ),
                "add the missing axes with `expand_dims`",
            ));
        };
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(Mistake::joined(mistakes).error(operation, &[x.info()]));
        }
        let lengths = &x.shape()[first..first + axes];
        let pairs = self.padding.pairs(lengths, &self.window, &self.strides);
        Ok(Window {
            dimensions: around(first, &self.window, 1),
            strides: around(first, &self.strides, 1),
            padding: around(first, &pairs, (0, 0)),
        })
    }
}

/// Returns one number for each axis: `numbers` for the spatial axes, and `other` for the other axes. The spatial axes
/// begin at axis `first`.
fn around<T: Copy>(first: usize, numbers: &[T], other: T) -> PerAxis<T>
where
    [T; 4]: smallvec::Array<Item = T>,
{
    let before = std::iter::repeat_n(other, first);
    before
        .chain(numbers.iter().copied())
        .chain([other])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_pool_and_mistakes_are_reported() {
        let x = Tensor::from([[1], [5], [-3]]);
        let pooling = Pooling::new([2]).padding(Padding::Same);
        assert_eq!(pooling.max(&x), Tensor::from([[5], [5], [-3]]));
        assert_eq!(pooling.min(&x), Tensor::from([[1], [-3], [-3]]));
        assert_eq!(pooling.sum(&x), Tensor::from([[6], [2], [-3]]));
        assert!(pooling.try_average(&x).is_err());
        let error = Pooling::new([2]).strides([2, 2]).try_max(&x).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot take the maximum of windows of i32[3,1]: the strides are [2, 2], expected 1 numbers above 0; give each \
             axis of the window a stride above 0"
        );
        let wrong = Pooling::new([0]).padding(Padding::Explicit(vec![]));
        let error = wrong.try_sum(&x).unwrap_err().to_string();
        assert!(
            error.contains("a size above 0; give one pair `(before, after)` for each"),
            "{error}"
        );
        let error = Pooling::new([2, 2]).try_max(&x).unwrap_err().to_string();
        assert!(
            error.contains("a window of size [2, 2] needs a tensor with at least 3 axes"),
            "{error}"
        );
        assert_eq!(Pooling::new([4]).max(&x).shape(), [0, 1]);
    }

    #[test]
    fn mean_can_exclude_padding() {
        let x = Tensor::from([[2.0], [4.0]]);
        let pooling = Pooling::new([2]).padding(Padding::Same);
        assert_eq!(pooling.average(&x), Tensor::from([[3.0], [2.0]]));
        let pooling = pooling.count_padding(PaddingCount::Exclude);
        assert_eq!(pooling.average(&x), Tensor::from([[3.0], [4.0]]));
    }
}
