//! Pooling: each window along the spatial axes is reduced to one number.

use pytree_core::Static;
use pytree_transform::convolution::Padding;
use pytree_transform::pooling::{PaddingCount, Pooling};

use crate::layers::convolution::PerAxis;
use crate::layers::prelude::*;

/// How a [`Pool`] reduces a window to one number.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Reduction {
    /// The maximum.
    #[default]
    Max,
    /// The minimum.
    Min,
    /// The mean.
    Average,
}

/// Reduces each window of the spatial axes to its maximum, minimum or mean. The layer has no parameters.
///
/// `x: [batch…, space…, features]` becomes `[batch…, space…, features]`, with one element for each window along the
/// spatial axes. The number of spatial axes is the number of sizes in `window`. There may be any number of batch axes.
///
/// The fields are public. Change a field by assignment, or write `Pool { strides: vec![2, 2], ..Pool::max([3, 3]) }`.
///
/// # Examples
/// ```
/// use pytree_nn::Pool;
/// use pytree_transform::{DType, Tensor, convolution::Padding};
/// let x = Tensor::from([1.0_f32, 3.0, 2.0, 8.0]).reshape([1, 4, 1]);
/// let pool = Pool::max([2]).strides(2);
/// assert_eq!(pool.forward(&x).to_vec::<f32>(), [3.0, 8.0]);
/// assert_eq!(Pool::average([2]).strides(2).forward(&x).to_vec::<f32>(), [2.0, 5.0]);
///
/// let images = Tensor::ones(DType::F32, [8, 28, 28, 3]);
/// let same = Pool::max([3, 3]).strides(2).padding(Padding::Same);
/// assert_eq!(same.forward(&images).shape(), [8, 14, 14, 3]);
/// ```
#[derive(Module, Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The size of a window along each spatial axis.
    #[r#static]
    pub window: Vec<usize>,
    /// The distance between neighbouring windows along each spatial axis. The default is 1, as in Flax. (In PyTorch,
    /// the default is the size of the window.)
    #[r#static]
    pub strides: Vec<usize>,
    /// The padding. The default is no padding, as in Flax. Padding elements are zeros in a mean, and are ignored in a
    /// maximum or a minimum.
    #[r#static]
    pub padding: Padding,
    /// Whether the divisor of a mean counts padding elements. By default, padding elements are counted, as in Flax and
    /// PyTorch.
    #[r#static]
    pub padding_count: PaddingCount,
    /// How a window is reduced.
    #[r#static]
    pub reduction: Reduction,
}

fallible_forward!(Pool);

impl Pool {
    /// Creates a layer that returns the maximum of each window. The first of equal maxima receives the gradient.
    ///
    /// # Panics
    /// If the window has no axes, or a size of 0.
    #[doc(alias("nn.MaxPool1d", "nn.MaxPool2d"))]
    #[must_use]
    #[track_caller]
    pub fn max(window: impl AsRef<[usize]>) -> Self {
        Self::new(Reduction::Max, window.as_ref())
    }

    /// Creates a layer that returns the minimum of each window. The first of equal minima receives the gradient.
    ///
    /// # Panics
    /// If the window has no axes, or a size of 0.
    #[must_use]
    #[track_caller]
    pub fn min(window: impl AsRef<[usize]>) -> Self {
        Self::new(Reduction::Min, window.as_ref())
    }

    /// Creates a layer that returns the mean of each window.
    ///
    /// # Panics
    /// If the window has no axes, or a size of 0.
    #[doc(alias("nn.AvgPool1d", "nn.AvgPool2d"))]
    #[must_use]
    #[track_caller]
    pub fn average(window: impl AsRef<[usize]>) -> Self {
        Self::new(Reduction::Average, window.as_ref())
    }

    #[track_caller]
    fn new(reduction: Reduction, window: &[usize]) -> Self {
        assert!(
            !window.is_empty() && !window.contains(&0),
            "Pool expects a window with a size above 0 for each spatial axis, found {window:?}; write for instance `[2, 2]` for images"
        );
        Self {
            strides: vec![1; window.len()],
            window: window.to_vec(),
            padding: Padding::Valid,
            padding_count: PaddingCount::Include,
            reduction,
        }
    }

    /// Sets the distance between neighbouring windows: a number for all axes, or a list with a number for each axis.
    ///
    /// # Panics
    /// If a number is 0, or if the list does not have one number for each axis of the window.
    #[must_use]
    #[track_caller]
    pub fn strides(self, strides: impl Into<PerAxis>) -> Self {
        let strides = strides.into().numbers("Pool", "strides", &self.window);
        Self { strides, ..self }
    }

    /// Sets the padding.
    #[must_use]
    pub fn padding(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// Sets whether the divisor of a mean counts padding elements: `count_include_pad` in Flax and PyTorch.
    #[must_use]
    pub fn count_padding(self, padding_count: PaddingCount) -> Self {
        Self {
            padding_count,
            ..self
        }
    }

    /// Reduces each window of `x: [batch…, space…, features]`.
    ///
    /// # Panics
    /// If `x` has too few axes for the window and the features, if explicit padding does not have one pair for each
    /// axis of the window, or if `x` is not a tensor of floats.
    #[shapes(x = "T: float[... features]", return = "T[... features]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let pooling = Pooling::new(&self.window)
            .strides(&self.strides)
            .padding(self.padding.clone())
            .count_padding(self.padding_count);
        let y = match self.reduction {
            Reduction::Max => pooling.try_max(x),
            Reduction::Min => pooling.try_min(x),
            Reduction::Average => pooling.try_average(x),
        };
        y.map_err(InputError::inside("Pool"))
    }
}

/// Returns the maximum of each window of `x: [batch…, space…, features]`, without padding. See [`Pool`] for all
/// options.
///
/// # Examples
/// ```
/// use pytree_nn::max_pool;
/// use pytree_transform::{DType, Tensor};
/// let images = Tensor::ones(DType::F32, [8, 28, 28, 3]);
/// assert_eq!(max_pool(&images, [2, 2], [2, 2]).shape(), [8, 14, 14, 3]);
/// ```
///
/// # Panics
/// If the window or the strides do not fit `x`, or if `x` is not a tensor of floats.
#[doc(alias("nnx.max_pool", "F.max_pool2d"))]
#[must_use]
#[track_caller]
pub fn max_pool(x: &Tensor, window: impl AsRef<[usize]>, strides: impl Into<PerAxis>) -> Tensor {
    Pool::max(window).strides(strides).forward(x)
}

/// Returns the minimum of each window of `x: [batch…, space…, features]`, without padding. See [`Pool`] for all
/// options.
///
/// # Examples
/// ```
/// use pytree_nn::min_pool;
/// use pytree_transform::Tensor;
/// let x = Tensor::from([1.0_f32, 3.0, 2.0, 8.0]).reshape([4, 1]);
/// assert_eq!(min_pool(&x, [2], 2).to_vec::<f32>(), [1.0, 2.0]);
/// ```
///
/// # Panics
/// If the window or the strides do not fit `x`, or if `x` is not a tensor of floats.
#[doc(alias = "nnx.min_pool")]
#[must_use]
#[track_caller]
pub fn min_pool(x: &Tensor, window: impl AsRef<[usize]>, strides: impl Into<PerAxis>) -> Tensor {
    Pool::min(window).strides(strides).forward(x)
}

/// Returns the mean of each window of `x: [batch…, space…, features]`, without padding. See [`Pool`] for all options.
///
/// # Examples
/// ```
/// use pytree_nn::avg_pool;
/// use pytree_transform::Tensor;
/// let x = Tensor::from([1.0_f32, 3.0, 2.0, 8.0]).reshape([4, 1]);
/// assert_eq!(avg_pool(&x, [2], 2).to_vec::<f32>(), [2.0, 5.0]);
/// ```
///
/// # Panics
/// If the window or the strides do not fit `x`, or if `x` is not a tensor of floats.
#[doc(alias("nnx.avg_pool", "F.avg_pool2d"))]
#[must_use]
#[track_caller]
pub fn avg_pool(x: &Tensor, window: impl AsRef<[usize]>, strides: impl Into<PerAxis>) -> Tensor {
    Pool::average(window).strides(strides).forward(x)
}
