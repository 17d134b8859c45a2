//! Initializers of parameters, as in `jax.nn.initializers`.

use pytree_core::Static;
use pytree_transform::extend::check_memory;
use pytree_transform::indexing::Index;
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::error::or_panic;
use crate::functions::rounding::rounded;
use crate::random::{Key, Rngs};

/// The distribution of a parameter's initial values.
///
/// [`VarianceScaling`](Self::VarianceScaling) treats the last two axes of a parameter as the inputs and the outputs of
/// the layer, and all axes before them as the receptive field of the layer.
///
/// # Examples
/// ```
/// use pytree_nn::{Initializer, Key};
/// use pytree_transform::DType;
/// let weight = Initializer::lecun_normal().initialize(&Key::new(0), DType::F32, &[64, 10]);
/// assert_eq!(weight.shape(), [64, 10]);
/// ```
#[derive(Static, Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Initializer {
    /// All elements are 0.
    #[doc(alias("jax.nn.initializers.zeros", "nn.init.zeros_"))]
    Zeros,
    /// All elements are 1.
    #[doc(alias("jax.nn.initializers.ones", "nn.init.ones_"))]
    Ones,
    /// All elements are the given number.
    #[doc(alias("jax.nn.initializers.constant", "nn.init.constant_"))]
    Constant(f64),
    /// The normal distribution with mean 0 and the given standard deviation.
    #[doc(alias("jax.nn.initializers.normal", "nn.init.normal_"))]
    Normal(f64),
    /// The uniform distribution over [0, b), where b is the given number.
    #[doc(alias("jax.nn.initializers.uniform", "nn.init.uniform_"))]
    Uniform(f64),
    /// The standard normal distribution, truncated at two standard deviations, times the given number. Because of the
    /// truncation, the standard deviation is 0.8796 times the given number.
    #[doc(alias("jax.nn.initializers.truncated_normal", "nn.init.trunc_normal_"))]
    TruncatedNormal(f64),
    /// The normal distribution with mean 0 and the standard deviation `deviation`, truncated at multiples of
    /// `deviation`.
    TruncatedNormalBetween {
        /// The standard deviation before the truncation.
        deviation: f64,
        /// The lower bound, as a multiple of the deviation.
        low: f64,
        /// The upper bound, as a multiple of the deviation.
        high: f64,
    },
    /// A random orthogonal matrix, times a number (Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of
    /// learning in deep linear neural networks"). The columns of the matrix are along one axis of the parameter, and
    /// its rows are along all other axes. If there are fewer rows than columns, only the rows are orthonormal. If there
    /// are fewer columns than rows, only the columns are orthonormal: see [`Key::orthogonal`].
    Orthogonal {
        /// The number by which the matrix is multiplied. The default in JAX is 1.
        scale: f64,
        /// The axis of the columns. The default in JAX is -1. A negative axis counts from the end.
        column_axis: isize,
    },
    /// An orthogonal matrix at the middle of the window of a convolution, and zeros elsewhere (Xiao et al. 2018,
    /// "Dynamical isometry and a mean field theory of CNNs", section 3.3). The parameter has one to three window axes,
    /// an axis of inputs and an axis of outputs. The number of outputs must be at least the number of inputs.
    DeltaOrthogonal {
        /// The number by which the matrix is multiplied. The default in JAX is 1.
        scale: f64,
        /// The axis of the columns of the matrix. The default in JAX is -1.
        column_axis: isize,
    },
    /// A distribution with the variance scale / fan.
    #[doc(alias = "jax.nn.initializers.variance_scaling")]
    VarianceScaling {
        /// The numerator of the variance.
        scale: f64,
        /// The denominator of the variance.
        fan: Fan,
        /// The type of the distribution.
        distribution: Distribution,
    },
}

/// The number of connections of a layer. [`Initializer::VarianceScaling`] divides the variance by this number.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Fan {
    /// The number of inputs that each output depends on (fan in).
    In,
    /// The number of outputs that each input affects (fan out).
    Out,
    /// The mean of fan in and fan out.
    Average,
    /// The geometric mean of fan in and fan out: the square root of their product.
    GeometricAverage,
}

/// The axes of a parameter that are inputs, outputs or batches of a layer. All other axes are the receptive field of
/// the layer. Negative axes count from the end.
///
/// # Examples
/// ```
/// use pytree_nn::{FanAxes, Initializer, Key};
/// use pytree_transform::DType;
/// // The product of three heads, each from 64 inputs to 16 outputs.
/// let axes = FanAxes { inputs: &[1], outputs: &[2], batch: &[0] };
/// let key = Key::new(0);
/// let weight = Initializer::lecun_normal().initialize_over(&key, DType::F32, &[3, 64, 16], axes);
/// assert_eq!(weight.shape(), [3, 64, 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanAxes<'a> {
    /// The axes of the inputs; by default the second last axis.
    pub inputs: &'a [isize],
    /// The axes of the outputs; by default the last axis.
    pub outputs: &'a [isize],
    /// The axes along which independent parameters are stacked; by default none. These axes do not count as inputs or
    /// as outputs.
    pub batch: &'a [isize],
}

impl Default for FanAxes<'_> {
    fn default() -> Self {
        Self {
            inputs: &[-2],
            outputs: &[-1],
            batch: &[],
        }
    }
}

/// The type of a distribution.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Distribution {
    /// The normal distribution, truncated at two standard deviations and rescaled to the required
    /// variance.
    TruncatedNormal,
    /// The normal distribution.
    Normal,
    /// The uniform distribution, symmetric around 0.
    Uniform,
}

/// Returns a new parameter of a layer, or `None` without an initializer. Draws a key of the stream `params` only for a parameter.
///
/// # Panics
/// If there is no stream to draw from, or in the same cases as [`Initializer::initialize`].
#[track_caller]
pub(crate) fn optional(
    initializer: Option<Initializer>,
    dtype: DType,
    shape: impl AsRef<[usize]>,
    rngs: &mut Rngs,
) -> Option<Tensor> {
    Some(initializer?.initialize(&rngs.params(), dtype, shape))
}

impl Initializer {
    /// Returns the truncated normal distribution with variance 1 / fan in (Lecun et al. 1998, "Efficient backprop",
    /// section 4.6).
    #[doc(alias = "jax.nn.initializers.lecun_normal")]
    pub const fn lecun_normal() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Returns the uniform distribution with variance 1 / fan in (Lecun et al. 1998, "Efficient backprop", section
    /// 4.6).
    #[doc(alias = "jax.nn.initializers.lecun_uniform")]
    pub const fn lecun_uniform() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::Uniform)
    }

    /// Returns the truncated normal distribution with variance 2 / fan in (He et al. 2015, "Delving deep into
    /// rectifiers", equation 10).
    #[doc(alias = "jax.nn.initializers.he_normal")]
    pub const fn he_normal() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Returns the uniform distribution with variance 2 / fan in (He et al. 2015, "Delving deep into rectifiers",
    /// equation 10).
    #[doc(alias = "jax.nn.initializers.he_uniform")]
    pub const fn he_uniform() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::Uniform)
    }

    /// Returns the truncated normal distribution with variance 2 / (fan in + fan out) (Glorot and Bengio 2010, equation
    /// 12).
    #[doc(alias = "jax.nn.initializers.glorot_normal")]
    pub const fn glorot_normal() -> Self {
        Self::scaling(1.0, Fan::Average, Distribution::TruncatedNormal)
    }

    /// Returns the uniform distribution with variance 2 / (fan in + fan out) (Glorot and Bengio 2010, equation 16).
    #[doc(alias = "jax.nn.initializers.glorot_uniform")]
    pub const fn glorot_uniform() -> Self {
        Self::scaling(1.0, Fan::Average, Distribution::Uniform)
    }

    /// Returns [`glorot_normal`](Self::glorot_normal). Xavier is the first name of the author Glorot.
    #[doc(alias = "nn.init.xavier_normal_")]
    pub const fn xavier_normal() -> Self {
        Self::glorot_normal()
    }

    /// Returns [`glorot_uniform`](Self::glorot_uniform). Xavier is the first name of the author Glorot.
    #[doc(alias = "nn.init.xavier_uniform_")]
    pub const fn xavier_uniform() -> Self {
        Self::glorot_uniform()
    }

    /// Returns [`he_normal`](Self::he_normal). Kaiming is the first name of the author He.
    #[doc(alias = "nn.init.kaiming_normal_")]
    pub const fn kaiming_normal() -> Self {
        Self::he_normal()
    }

    /// Returns [`he_uniform`](Self::he_uniform). Kaiming is the first name of the author He.
    #[doc(alias = "nn.init.kaiming_uniform_")]
    pub const fn kaiming_uniform() -> Self {
        Self::he_uniform()
    }

    /// Returns [`Orthogonal`](Self::Orthogonal) with the factor 1 and the columns along the last axis.
    #[doc(alias("jax.nn.initializers.orthogonal", "nn.init.orthogonal_"))]
    pub const fn orthogonal() -> Self {
        Self::Orthogonal {
            scale: 1.0,
            column_axis: -1,
        }
    }

    /// Returns [`DeltaOrthogonal`](Self::DeltaOrthogonal) with the factor 1 and the columns along the last axis.
    #[doc(alias = "jax.nn.initializers.delta_orthogonal")]
    pub const fn delta_orthogonal() -> Self {
        Self::DeltaOrthogonal {
            scale: 1.0,
            column_axis: -1,
        }
    }

    const fn scaling(scale: f64, fan: Fan, distribution: Distribution) -> Self {
        Self::VarianceScaling {
            scale,
            fan,
            distribution,
        }
    }

    /// Returns a new parameter of shape `shape`, drawn from the distribution.
    ///
    /// # Panics
    /// - If the distribution is random, and `dtype` is not a float or `key` is a stack of keys.
    /// - For [`VarianceScaling`](Self::VarianceScaling) and [`Orthogonal`](Self::Orthogonal), if the shape has fewer
    ///   than two axes.
    /// - For [`DeltaOrthogonal`](Self::DeltaOrthogonal), if the shape does not have three to five axes, or has more
    ///   inputs than outputs.
    /// - If the `column_axis` of an orthogonal matrix is out of range.
    #[track_caller]
    pub fn initialize(&self, key: &Key, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        self.initialize_over(key, dtype, shape, FanAxes::default())
    }

    /// Returns a new parameter like [`initialize`](Self::initialize), but with the given axes of inputs, outputs and
    /// batches, which are `in_axis`, `out_axis` and `batch_axis` in JAX. Only
    /// [`VarianceScaling`](Self::VarianceScaling) depends on these axes.
    ///
    /// # Panics
    /// In the same cases as [`initialize`](Self::initialize), or if an axis of `axes` is out of range.
    #[track_caller]
    pub fn initialize_over(
        &self,
        key: &Key,
        dtype: DType,
        shape: impl AsRef<[usize]>,
        axes: FanAxes<'_>,
    ) -> Tensor {
        let shape = shape.as_ref();
        match *self {
            Self::Zeros => Tensor::zeros(dtype, shape),
            Self::Ones => Tensor::ones(dtype, shape),
            Self::Constant(value) => Tensor::full(dtype, shape, value),
            Self::Normal(deviation) => key.normal(dtype, shape) * deviation,
            Self::Uniform(scale) => key.uniform(dtype, shape) * scale,
            Self::TruncatedNormal(deviation) => {
                key.truncated_normal(dtype, shape, -2.0, 2.0) * deviation
            }
            Self::TruncatedNormalBetween {
                deviation,
                low,
                high,
            } => key.truncated_normal(dtype, shape, low, high) * deviation,
            Self::Orthogonal { scale, column_axis } => {
                orthogonal(key, dtype, shape, column_axis) * rounded(dtype, scale)
            }
            Self::DeltaOrthogonal { scale, column_axis } => {
                delta_orthogonal(key, dtype, shape, column_axis) * rounded(dtype, scale)
            }
            Self::VarianceScaling {
                scale,
                fan,
                distribution,
            } => {
                or_panic(check_memory(
                    "initialize",
                    &AbstractArray::new(dtype, shape),
                ));
                let connections = connections(shape, fan, axes);
                let variance = if connections == 0.0 {
                    0.0
                } else {
                    scale / connections
                };
                scaled(key, dtype, shape, rounded(dtype, variance), distribution)
            }
        }
    }
}

/// Draws a parameter whose elements have the given variance. Each step is rounded as in JAX.
#[track_caller]
fn scaled(
    key: &Key,
    dtype: DType,
    shape: &[usize],
    variance: f64,
    distribution: Distribution,
) -> Tensor {
    let deviation = rounded(dtype, variance.sqrt());
    match distribution {
        Distribution::TruncatedNormal => {
            let deviation = deviation / rounded(dtype, DEVIATION_WITHIN_TWO);
            key.truncated_normal(dtype, shape, -2.0, 2.0) * rounded(dtype, deviation)
        }
        Distribution::Normal => key.normal(dtype, shape) * deviation,
        Distribution::Uniform => {
            let limit = rounded(dtype, rounded(dtype, 3.0 * variance).sqrt());
            key.uniform_between(dtype, shape, -1.0, 1.0) * limit
        }
    }
}

/// The standard deviation of the standard normal distribution truncated at two standard deviations.
const DEVIATION_WITHIN_TWO: f64 = 0.879_625_661_034_239_8;

/// Returns `axis` counted from the front.
#[track_caller]
fn from_front(axis: isize, shape: &[usize]) -> usize {
    let rank = shape.len().cast_signed();
    let counted = if axis < 0 { axis + rank } else { axis };
    assert!(
        (0..rank).contains(&counted),
        "cannot initialize a parameter of shape {shape:?}: axis {axis} is out of range"
    );
    counted.cast_unsigned()
}

#[track_caller]
fn connections(shape: &[usize], fan: Fan, axes: FanAxes<'_>) -> f64 {
    assert!(
        shape.len() >= 2 || axes != FanAxes::default(),
        "cannot scale the initial values of a parameter of shape {shape:?} by its numbers of inputs and outputs: expected at least two axes; use `Initializer::Normal` or `Initializer::Zeros`"
    );
    let mut sizes = [1.0; 3];
    for (size, axes) in sizes
        .iter_mut()
        .zip([axes.inputs, axes.outputs, axes.batch])
    {
        for &axis in axes {
            *size *= shape[from_front(axis, shape)] as f64;
        }
    }
    let [inputs, outputs, batch] = sizes;
    let counted = inputs * outputs * batch;
    let elements: f64 = shape.iter().map(|&length| length as f64).product();
    let field = if counted == 0.0 {
        0.0
    } else {
        elements / counted
    };
    let (fan_in, fan_out) = (inputs * field, outputs * field);
    match fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
        Fan::Average => f64::midpoint(fan_in, fan_out),
        Fan::GeometricAverage => (fan_in * fan_out).sqrt(),
    }
}

/// Returns a parameter that is an orthogonal matrix with its columns along `column_axis`.
#[track_caller]
fn orthogonal(key: &Key, dtype: DType, shape: &[usize], column_axis: isize) -> Tensor {
    assert!(
        shape.len() >= 2,
        "cannot initialize a parameter of shape {shape:?} by an orthogonal matrix: expected at least two axes"
    );
    let axis = from_front(column_axis, shape);
    if shape.contains(&0) {
        return Tensor::zeros(dtype, shape);
    }
    let columns = shape[axis];
    let rows = shape.iter().product::<usize>() / columns;
    let mut moved = shape.to_vec();
    moved.remove(axis);
    moved.push(columns);
    let matrix = key.orthogonal(dtype, rows, columns);
    matrix.reshape(moved).move_axis(-1, axis.cast_signed())
}

/// Returns a parameter that is an orthogonal matrix at the middle of the window axes, and 0 elsewhere.
#[track_caller]
fn delta_orthogonal(key: &Key, dtype: DType, shape: &[usize], column_axis: isize) -> Tensor {
    assert!(
        (3..=5).contains(&shape.len()),
        "cannot initialize a parameter of shape {shape:?} with `delta_orthogonal`: expected one to three window axes, followed by an axis of the inputs and an axis of the outputs"
    );
    let (window, ends) = shape.split_at(shape.len() - 2);
    assert!(
        ends[0] <= ends[1],
        "cannot initialize a parameter of shape {shape:?} with `delta_orthogonal`: the number of inputs must not exceed the number of outputs, found {} inputs and {} outputs",
        ends[0],
        ends[1]
    );
    let matrix = orthogonal(key, dtype, ends, column_axis);
    if window.contains(&0) {
        return Tensor::zeros(dtype, shape);
    }
    let middle = window.iter().map(|&length| (length - 1) / 2);
    let places: Vec<Index> = middle.map(|place| Index::At(place.cast_signed())).collect();
    Tensor::zeros(dtype, shape).at(places).set(&matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "expected at least two axes")]
    fn scaling_by_inputs_needs_two_axes() {
        let _ = Initializer::he_normal().initialize(&Key::new(0), DType::F32, [3]);
    }

    #[test]
    fn fans_count_the_receptive_field() {
        let count = |fan| connections(&[3, 4, 6], fan, FanAxes::default());
        assert!((count(Fan::In) - 12.0).abs() < 1e-12);
        assert!((count(Fan::Out) - 18.0).abs() < 1e-12);
        assert!((count(Fan::Average) - 15.0).abs() < 1e-12);
    }

    #[test]
    #[should_panic(expected = "the number of inputs must not exceed the number of outputs")]
    fn delta_needs_enough_outputs() {
        let delta = Initializer::delta_orthogonal();
        let _ = delta.initialize(&Key::new(0), DType::F32, [3, 4, 2]);
    }

    #[test]
    fn constants_need_no_axes() {
        assert!(
            (Initializer::Constant(2.5)
                .initialize(&Key::new(0), DType::F64, [])
                .item::<f64>()
                - 2.5)
                .abs()
                < 1e-300
        );
    }
}
