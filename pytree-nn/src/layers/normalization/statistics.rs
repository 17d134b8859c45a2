//! Computes the mean and the variance for all normalisation layers, and normalises with both.

use pytree_base::bug::expect_some;
use pytree_transform::{Tensor, pmean};

use crate::convert_floats::at_least_f32;
use crate::error::InputError;
use crate::layers::normalization::options::VarianceFormula;

/// The statistics of an input over the reduction axes, which are kept with length 1.
pub(super) struct Statistics {
    /// The input without its mean, at least in f32.
    pub(super) centred: Tensor,
    /// The mean, or `None` if the normalisation subtracts no mean.
    pub(super) mean: Option<Tensor>,
    /// The variance, or the mean square if the normalisation subtracts no mean.
    pub(super) variance: Tensor,
}

/// The configuration of a normalisation.
#[derive(Clone, Copy)]
pub(super) struct Normalization<'a> {
    pub(super) layer: &'static str,
    /// An array of the layer with one element for each feature. The number of its elements is compared with the input.
    pub(super) array: Option<&'a Tensor>,
    pub(super) scale: Option<&'a Tensor>,
    pub(super) bias: Option<&'a Tensor>,
    pub(super) epsilon: f64,
    /// Whether the mean is subtracted.
    pub(super) is_centred: bool,
    pub(super) variance_formula: VarianceFormula,
    /// The name of a batch axis of an enclosing `vmap`. Statistics are also taken over this axis.
    pub(super) axis_name: Option<&'a str>,
    /// The axes over which statistics are taken.
    pub(super) reduction_axes: &'a [isize],
    /// The axes of the features, which have their own parameters.
    pub(super) feature_axes: &'a [isize],
}

/// The invariant that [`Normalization::check`] ensures. The panic message of a library bug names this invariant.
pub(super) const CHECKED: &str = "the input of the layer to have the axes of the layer";

impl<'a> Normalization<'a> {
    /// Returns the configuration of a layer that normalises over the last axis.
    pub(super) fn new(
        layer: &'static str,
        scale: Option<&'a Tensor>,
        bias: Option<&'a Tensor>,
        epsilon: f64,
    ) -> Self {
        Self {
            layer,
            array: scale.or(bias),
            scale,
            bias,
            epsilon,
            is_centred: true,
            variance_formula: VarianceFormula::default(),
            axis_name: None,
            reduction_axes: &[-1],
            feature_axes: &[-1],
        }
    }

    /// Checks the input of a layer, and returns the mask broadcast to the shape of `x`.
    ///
    /// # Errors
    /// Returns [`InputError`] if `x` lacks the layer's axes or features, or if the mask does not broadcast to `x`.
    #[track_caller]
    pub(super) fn check(
        &self,
        x: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Option<Tensor>, InputError> {
        self.check_features(x)?;
        let axes = self.reduction_axes.iter().chain(self.feature_axes);
        let is_absent = |axis: &isize| positions(x, &[*axis]).is_none();
        let mut absent: Vec<isize> = axes.copied().filter(is_absent).collect();
        absent.dedup();
        if !absent.is_empty() {
            let expected = format!("x to have the axes {absent:?}");
            let fix = "add axes to x, or choose axes for the layer that x has";
            return Err(InputError::input(self.layer, expected, x, fix));
        }
        let Some(mask) = mask else { return Ok(None) };
        // The axes of the mask are matched with the axes of `x` from the last axis backwards. The length of each axis
        // of the mask must be 1 or the length of the matching axis of `x`.
        let mut lengths = mask.shape().iter().rev().zip(x.shape().iter().rev());
        let fits = mask.rank() <= x.rank() && lengths.all(|(&mask, &x)| mask == x || mask == 1);
        if !fits {
            let expected = format!("a bool mask that broadcasts to the shape {:?}", x.shape());
            let fix = "set the mask to true for each element to use; an axis of length 1 repeats the mask along that axis";
            return Err(InputError::input(self.layer, expected, mask, fix));
        }
        Ok(Some(mask.broadcast_to(x.shape())))
    }

    /// Checks the number of features of `x`. A pattern in `#[shapes]` could not express this check, because the feature
    /// axes are chosen at run time.
    fn check_features(&self, x: &Tensor) -> Result<(), InputError> {
        let Some(array) = self.array else {
            return Ok(());
        };
        let length = |axes: Vec<usize>| axes.iter().map(|&axis| x.shape()[axis]).product();
        let expected = array.len();
        if positions(x, self.feature_axes).map(length) == Some(expected) {
            return Ok(());
        }
        let expected = match self.feature_axes {
            [-1] => format!("x: [.., {expected}]"),
            [axis] => format!("x with {expected} features along axis {axis}"),
            axes => format!("x with {expected} features in total along the axes {axes:?}"),
        };
        let fix = "create the layer with the number of features of x, or set the feature axis of the layer to the axis of x that holds the features";
        Err(InputError::input(self.layer, expected, x, fix))
    }

    /// Returns the statistics of `x` over the reduction axes and the named batch axis. Elements where `mask` is false do
    /// not count.
    ///
    /// The sum of squared deviations of n elements is divided by n, not by n - 1. If rounding makes the variance
    /// negative, the result is 0. Statistics of half-precision floats are computed and returned in f32, as in Flax.
    ///
    /// For [`VarianceFormula::Accurate`], a first mean m is a constant that is subtracted from x. The difference is exact
    /// if |x| is much larger than its deviation, and mean and variance of the difference are small numbers, so no digits
    /// cancel. Neither the result nor its derivative depends on m, so m needs no derivative.
    #[track_caller]
    pub(super) fn statistics(&self, x: &Tensor, mask: Option<&Tensor>) -> Statistics {
        let x = at_least_f32(x);
        if !self.is_centred {
            let variance = self.mean(&x.square(), mask);
            return Statistics {
                centred: x,
                mean: None,
                variance,
            };
        }
        let shift = match self.variance_formula {
            VarianceFormula::Fast => None,
            VarianceFormula::Accurate => Some(self.mean(&x, mask).stop_gradient()),
        };
        let shifted = match &shift {
            None => x,
            Some(shift) => x - shift,
        };
        let mean = self.mean(&shifted, mask);
        let variance = (self.mean(&shifted.square(), mask) - mean.square()).maximum(0.0);
        Statistics {
            centred: shifted - &mean,
            mean: Some(match shift {
                None => mean,
                Some(shift) => shift + mean,
            }),
            variance,
        }
    }

    #[track_caller]
    fn mean(&self, values: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let axes = self.reduction_axes;
        let mean = match mask {
            None => values.mean_keep(axes),
            Some(mask) => {
                let chosen = mask.select(values, Tensor::zeros_like(values));
                chosen.sum_keep(axes) / mask.convert(values.dtype()).sum_keep(axes)
            }
        };
        match self.axis_name {
            Some(name) => pmean(&mean, name),
            None => mean,
        }
    }

    /// Returns `centred` / √(variance + ε) · scale + bias in the dtype of `x`, where `centred` is x without its mean.
    /// Half-precision floats are computed in f32, and the result is rounded once.
    #[track_caller]
    pub(super) fn normalize(&self, x: &Tensor, centred: &Tensor, variance: &Tensor) -> Tensor {
        let parameter = |parameter: &Tensor| {
            let along = self.along_features(parameter, x);
            // A parameter of another dtype is not converted, so that the next operation reports the mismatch.
            if parameter.dtype() == x.dtype() {
                at_least_f32(&along)
            } else {
                along
            }
        };
        let mut factor = (at_least_f32(variance) + self.epsilon).rsqrt();
        if let Some(scale) = self.scale {
            factor *= parameter(scale);
        }
        let mut y = centred * factor;
        if let Some(bias) = self.bias {
            y += parameter(bias);
        }
        y.convert(x.dtype())
    }

    /// Reshapes a vector with one element per feature so that the vector broadcasts to `x`.
    #[track_caller]
    pub(super) fn along_features(&self, vector: &Tensor, x: &Tensor) -> Tensor {
        let mut shape = vec![1; x.rank()];
        for axis in expect_some(positions(x, self.feature_axes), CHECKED) {
            shape[axis] = x.shape()[axis];
        }
        vector.reshape(shape)
    }

    /// Normalises by the statistics of `x`.
    ///
    /// # Errors
    /// Returns [`InputError`] if `x` or the mask does not fit the layer.
    #[track_caller]
    pub(super) fn apply(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let mask = self.check(x, mask)?;
        let found = self.statistics(x, mask.as_ref());
        Ok(self.normalize(x, &found.centred, &found.variance))
    }
}

/// Returns the sorted, unique positions of axes of `x`, or `None` if an axis is out of range. Negative axes count from
/// the end.
pub(in crate::layers) fn positions(x: &Tensor, axes: &[isize]) -> Option<Vec<usize>> {
    let rank = x.rank();
    let mut positions = Vec::with_capacity(axes.len());
    for &axis in axes {
        let position = if axis < 0 {
            rank.checked_sub(axis.unsigned_abs())?
        } else {
            axis.unsigned_abs()
        };
        if position >= rank {
            return None;
        }
        positions.push(position);
    }
    positions.sort_unstable();
    positions.dedup();
    Some(positions)
}
