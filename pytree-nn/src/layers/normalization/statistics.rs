//! Computes mean and variance over axes, and normalises by them. All layers of this family use it.

use pytree_core::bug::expect_some;
use pytree_transform::{DType, Tensor, pmean};

use crate::error::InputError;
use crate::initializers::Initializer;
use crate::random::Rngs;

/// The configuration of a normalisation.
#[derive(Clone, Copy)]
pub(super) struct Normalization<'a> {
    pub(super) layer: &'static str,
    pub(super) scale: Option<&'a Tensor>,
    pub(super) bias: Option<&'a Tensor>,
    pub(super) epsilon: f64,
    /// Whether the mean is subtracted.
    pub(super) is_centred: bool,
    pub(super) use_fast_variance: bool,
    /// The batch axis of an enclosing `vmap` over which statistics are also taken.
    pub(super) axis_name: Option<&'a str>,
    /// The axes over which statistics are taken.
    pub(super) reduction_axes: &'a [isize],
    /// The axes along which there are parameters.
    pub(super) feature_axes: &'a [isize],
}

/// Mean and variance. The reduced axes are kept with length 1.
pub(super) struct Statistics {
    pub(super) mean: Option<Tensor>,
    pub(super) variance: Tensor,
}

/// The condition that [`Normalization::check`] ensures.
pub(super) const CHECKED: &str = "the axes of a layer in the tensor that it was given";

impl Normalization<'_> {
    /// Checks the input of a layer.
    ///
    /// # Errors
    /// Returns [`InputError`] if `x` lacks the layer's axes, features or dtype.
    pub(super) fn check(&self, x: &Tensor) -> Result<(), InputError> {
        let parameter = self.scale.or(self.bias);
        let dtype = parameter.map(Tensor::dtype);
        if dtype.map_or(!x.dtype().is_float(), |dtype| x.dtype() != dtype) {
            return Err(wrong_type(self.layer, x, dtype));
        }
        let axes = || self.reduction_axes.iter().chain(self.feature_axes).copied();
        let mut absent: Vec<isize> = axes()
            .filter(|&axis| positions(x, &[axis]).is_none())
            .collect();
        if !absent.is_empty() {
            absent.dedup();
            return Err(InputError::input(
                self.layer,
                format!("x with the axes {absent:?}, too"),
                x,
                "give x more axes, or set the layer's axes to those of x",
            ));
        }
        let features = expect_some(positions(x, self.feature_axes), CHECKED);
        let length: usize = features.iter().map(|&axis| x.shape()[axis]).product();
        match parameter.map(Tensor::len) {
            Some(expected) if expected != length => {
                Err(wrong_features(self.layer, x, expected, self.feature_axes))
            }
            _ => Ok(()),
        }
    }

    /// Computes mean and variance of `x` over the reduction axes and the named batch axis, where `mask` is true.
    ///
    /// Variances are divided by the number of elements, not by that number less one. The fast
    /// variance is `E[x²] - E[x]²`. Rounding may make it negative; the result is then 0.
    #[track_caller]
    pub(super) fn statistics(&self, x: &Tensor, mask: Option<&Tensor>) -> Statistics {
        if !self.is_centred {
            return Statistics {
                mean: None,
                variance: self.mean(&x.square(), mask),
            };
        }
        let mean = self.mean(x, mask);
        let variance = if self.use_fast_variance {
            (self.mean(&x.square(), mask) - mean.square()).maximum(0.0)
        } else {
            self.mean(&(x - &mean).square(), mask)
        };
        Statistics {
            mean: Some(mean),
            variance,
        }
    }

    #[track_caller]
    fn mean(&self, values: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let axes = self.reduction_axes;
        let mean = match mask {
            None => values.mean_keep(axes),
            Some(mask) => {
                let chosen = mask.select(values, &Tensor::zeros_like(values));
                chosen.sum_keep(axes) / mask.convert(values.dtype()).sum_keep(axes)
            }
        };
        match self.axis_name {
            Some(name) => pmean(&mean, name),
            None => mean,
        }
    }

    /// Applies (x - mean) / √(variance + ε) · scale + bias.
    #[track_caller]
    pub(super) fn normalize(&self, x: &Tensor, statistics: &Statistics) -> Tensor {
        let mut factor = (&statistics.variance + self.epsilon).rsqrt();
        if let Some(scale) = self.scale {
            factor = factor * self.along_features(scale, x);
        }
        let mut y = match &statistics.mean {
            Some(mean) => (x - mean) * factor,
            None => x * factor,
        };
        if let Some(bias) = self.bias {
            y = y + self.along_features(bias, x);
        }
        y
    }

    /// Broadcasts a vector with one element per feature to the axes of `x`.
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
        self.check(x)?;
        let mask = mask_for(self.layer, x, mask)?;
        Ok(self.normalize(x, &self.statistics(x, mask.as_ref())))
    }
}

/// Returns the sorted, unique positions of axes of `x`; negative axes count from the end. `None` if an axis is
/// out of range.
pub(super) fn positions(x: &Tensor, axes: &[isize]) -> Option<Vec<usize>> {
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

/// Broadcasts the mask to the shape of `x`.
///
/// # Errors
/// Returns [`InputError`] if the mask is not a bool tensor, or does not broadcast to `x`.
#[track_caller]
pub(super) fn mask_for(
    layer: &'static str,
    x: &Tensor,
    mask: Option<&Tensor>,
) -> Result<Option<Tensor>, InputError> {
    let Some(mask) = mask else { return Ok(None) };
    // Counted from the last axis, each length is that of `x` or 1.
    let mut lengths = mask.shape().iter().rev().zip(x.shape().iter().rev());
    let fits = mask.rank() <= x.rank() && lengths.all(|(&mask, &x)| mask == x || mask == 1);
    if mask.dtype() != DType::Bool || !fits {
        return Err(InputError::input(
            layer,
            format!("a mask of bools that broadcasts to {:?}", x.shape()),
            mask,
            "give true where an element counts, and an axis of length 1 where it does not matter",
        ));
    }
    Ok(Some(mask.broadcast_to(x.shape())))
}

pub(super) fn wrong_type(layer: &'static str, x: &Tensor, dtype: Option<DType>) -> InputError {
    match dtype {
        Some(dtype) => InputError::input(
            layer,
            format!("x of {dtype}, like its own arrays"),
            x,
            "convert x with `.convert(…)`, or make the layer of that type with `with_initializers`",
        ),
        None => InputError::input(
            layer,
            "x of floats",
            x,
            "convert x, for instance with `.convert(DType::F32)`",
        ),
    }
}

pub(super) fn wrong_features(
    layer: &'static str,
    x: &Tensor,
    expected: usize,
    feature_axes: &[isize],
) -> InputError {
    let expected = match feature_axes {
        [-1] => format!("x: [.., {expected}]"),
        [axis] => format!("x with {expected} features along axis {axis}"),
        axes => format!("x with {expected} features along the axes {axes:?} together"),
    };
    let fix = "give the layer as many features as x has, or set the axis on which x has them";
    InputError::input(layer, expected, x, fix)
}

/// Creates the parameters of a layer: `[features]` each. Draws a key for each existing parameter, as Flax does.
#[track_caller]
pub(super) fn parameters(
    features: usize,
    dtype: DType,
    scale: Option<Initializer>,
    bias: Option<Initializer>,
    rngs: &mut Rngs,
) -> [Option<Tensor>; 2] {
    let mut made = [None, None];
    // In a closure, a panic would not report the caller's line.
    for (parameter, initializer) in made.iter_mut().zip([scale, bias]) {
        if let Some(initializer) = initializer {
            *parameter = Some(initializer.initialize(&rngs.params(), dtype, &[features]));
        }
    }
    made
}
