//! Adafactor, which approximates a matrix of mean squares by a row and a column, and stores only this row and column.

use pytree_core::axes::AxisRole;
use pytree_core::{TreeError, partition};

use crate::layers::roles_of;
use crate::optimizers::amsgrad::BiasCorrection;
use crate::optimizers::clip::clip_by_block_rms;
use crate::optimizers::ema::ema_with;
use crate::optimizers::error::OptimizerError;
use crate::optimizers::prelude::*;
use crate::optimizers::ranges::strength;
use crate::optimizers::rate::{scale, scale_by_schedule};
use crate::optimizers::transformation::{chain, check_number};
use crate::optimizers::weight_decay::{WeightDecay, add_decayed_weights};

/// The options of [`adafactor_with`], with the defaults of `optax.adafactor`.
#[derive(Clone, Debug, Defaults)]
pub struct AdafactorOptions {
    /// The options of the mean squares.
    pub factored: FactoredRmsOptions,
    /// The limit of the root mean square of each update; by default 1. `None` means no limit.
    #[default(Some(1.0))]
    pub clipping_threshold: Option<f64>,
    /// The factor of the updates, which may depend on the parameter; by default [`ParameterScale::RootMeanSquare`].
    #[default(ParameterScale::RootMeanSquare)]
    pub parameter_scale: ParameterScale,
    /// The decay of a running mean of the updates; by default `None`, which means no running mean.
    pub momentum: Option<f64>,
    /// The weight decay, which is not multiplied by the learning rate; by default `None`, which means no weight decay.
    pub weight_decay: Option<WeightDecay>,
}

/// The factor by which [`adafactor_with`] multiplies an update.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ParameterScale {
    /// The root mean square of the parameter, but at least 10⁻³.
    #[default]
    RootMeanSquare,
    /// The factor 1. With this factor, the update does not depend on the size of the parameter.
    One,
}

/// Returns Adafactor with its default options (Shazeer and Stern 2018, "Adafactor: adaptive learning rates with
/// sublinear memory cost", algorithm 4).
///
/// The chain consists of [`scale_by_factored_rms`], [`clip_by_block_rms`], a multiplication by the learning rate, and a
/// multiplication by the root mean square of the parameter.
///
/// # Examples
/// ```
/// use pytree_nn::adafactor;
/// let adafactor = adafactor(1e-2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.adafactor", "torch.optim.Adafactor"))]
#[track_caller]
pub fn adafactor(learning_rate: impl Into<Schedule>) -> Chain {
    adafactor_with(learning_rate, AdafactorOptions::default())
}

/// Returns Adafactor with options: see [`adafactor`]. A learning rate of 1 is the same as `learning_rate=None` in
/// optax.
///
/// # Examples
/// ```
/// use pytree_nn::{AdafactorOptions, adafactor_with};
/// let options = AdafactorOptions { momentum: Some(0.9), ..AdafactorOptions::default() };
/// let adafactor = adafactor_with(1e-2, options);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adafactor_with(learning_rate: impl Into<Schedule>, options: AdafactorOptions) -> Chain {
    let learning_rate = learning_rate.into();
    strength("adafactor_with", "learning_rate", &learning_rate);
    let mut parts = vec![scale_by_factored_rms(options.factored)];
    // A closure in `Option::map` would hide the line of the caller.
    if let Some(threshold) = options.clipping_threshold {
        parts.push(clip_by_block_rms(threshold));
    }
    parts.push(scale_by_schedule(learning_rate));
    if options.parameter_scale == ParameterScale::RootMeanSquare {
        parts.push(Chain::of(ScaleByParameterRms));
    }
    if let Some(decay) = options.momentum {
        parts.push(ema_with(decay, BiasCorrection::Uncorrected));
    }
    if let Some(weight_decay) = options.weight_decay {
        parts.push(add_decayed_weights(weight_decay));
    }
    parts.push(scale(-1.0));
    chain(parts)
}

/// The options of [`scale_by_factored_rms`], with the defaults of `optax.adafactor`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct FactoredRmsOptions {
    /// The exponent c of the decay 1 - t⁻ᶜ; by default 0.8.
    #[default(0.8)]
    pub decay_exponent: f64,
    /// The mean square of a matrix is factored into a row and a column if the matrix has at least this number of rows and
    /// of columns; by default `Some(128)`. `None` means that no mean square is factored.
    #[default(Some(128))]
    pub min_factored_length: Option<usize>,
    /// The number that is added to the squared gradients; by default 10⁻³⁰.
    #[default(1e-30)]
    pub epsilon: f64,
}

impl FactoredRmsOptions {
    /// Returns whether the mean square of a parameter may be factored, depending on its roles.
    fn may_factor(&self, parameter: &Tensor) -> bool {
        let shape = parameter.shape();
        self.min_factored_length.is_some_and(|least| match shape {
            [rows, columns] => *rows.min(columns) >= least,
            _ => shape.len() > 2 && parameter.len() / least.max(1) >= least,
        })
    }

    /// Returns the axes of each parameter whose mean square is factored.
    ///
    /// # Errors
    /// [`TreeError::Roles`] if a field does not declare the roles of a parameter that may be factored.
    fn factored_axes(
        &self,
        parameters: &Tree<Tensor>,
    ) -> Result<Vec<Option<FactoredAxes>>, TreeError> {
        let roles = roles_of(parameters, |parameter| self.may_factor(parameter))?;
        let pairs = roles.into_iter().zip(parameters.leaves());
        let axes = pairs.map(|(roles, parameter)| {
            FactoredAxes::of(&roles?, parameter.shape(), self.min_factored_length?)
        });
        Ok(axes.collect())
    }
}

/// The axes of a parameter whose mean square is factored: the axes of its rows, and the axes of its columns. The longer
/// of both comes second.
#[derive(Static, Clone, Debug, PartialEq, Eq, Hash)]
struct FactoredAxes {
    shorter: Vec<isize>,
    longer: Vec<isize>,
}

impl FactoredAxes {
    /// Returns the axes, or `None` if the parameter is not a matrix with at least `least` rows and columns. Each position
    /// of a kernel has a matrix of its own, as in optax.
    fn of(roles: &[AxisRole], shape: &[usize], least: usize) -> Option<Self> {
        let axes = |is: fn(AxisRole) -> bool| -> Vec<usize> {
            let axes = 0..shape.len().min(roles.len());
            axes.filter(|&axis| is(roles[axis])).collect()
        };
        let length = |axes: &[usize]| -> usize { axes.iter().map(|&axis| shape[axis]).product() };
        let rows = axes(|role| role.is_row() && role != AxisRole::Kernel);
        let columns = axes(AxisRole::is_column);
        let (row_length, column_length) = (length(&rows), length(&columns));
        let is_matrix = !rows.is_empty()
            && !columns.is_empty()
            && !roles.contains(&AxisRole::Feature)
            && row_length.min(column_length) >= least;
        let (shorter, longer) = if row_length > column_length {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let signed = |axes: Vec<usize>| axes.into_iter().map(usize::cast_signed).collect();
        is_matrix.then(|| Self {
            shorter: signed(shorter),
            longer: signed(longer),
        })
    }

    /// Returns the positions of the shorter axes after the longer axes were removed.
    fn reduced(&self) -> Vec<isize> {
        let removed_before =
            |axis: isize| self.longer.iter().filter(|&&other| other < axis).count();
        let axes = self.shorter.iter();
        axes.map(|&axis| axis - removed_before(axis).cast_signed())
            .collect()
    }
}

/// Divides gradients by the root of their mean square. The mean square of a large matrix is approximated by a row and a
/// column.
#[derive(Module, Clone, Debug)]
struct ScaleByFactoredRms {
    #[state(OptState)]
    count: Tensor,
    /// The means over the longer of rows and columns, for parameters whose mean square is factored.
    #[state(OptState)]
    rows: Tree<Tensor>,
    /// The means over the other one, for the same parameters.
    #[state(OptState)]
    columns: Tree<Tensor>,
    /// The mean squares of the other parameters.
    #[state(OptState)]
    whole: Tree<Tensor>,
    #[r#static]
    options: FactoredRmsOptions,
    /// The axes of each parameter whose mean square is factored.
    #[r#static]
    axes: Vec<Option<FactoredAxes>>,
}

/// Returns the transformation that divides gradients by the root of their factored mean square (Shazeer and Stern 2018,
/// algorithms 1 and 4), like `optax.scale_by_factored_rms`.
///
/// With d = 1 - t⁻ᶜ and s = g² + ε, the mean square is v ← d v + (1 - d) s. The update is g / √v. For a large
/// matrix, the optimizer stores only the mean r of v over the longer of its rows and columns, and the mean c of v over the
/// other one. The update of such a parameter is g √(mean(r) / r) / √c.
///
/// The roles of the axes of a parameter determine the rows and the columns: inputs, and items of a table, are rows; outputs
/// are columns; heads belong to the features whose heads they are. Each position of a kernel has a matrix of its own. So a
/// weight `[512, 8, 64]` of attention is a matrix with 512 rows and 512 columns. (optax chooses the two longest axes,
/// which is the same for matrices, and for convolutions with more channels than positions.)
///
/// # Examples
/// ```
/// use pytree_nn::{FactoredRmsOptions, scale_by_factored_rms};
/// assert_eq!(scale_by_factored_rms(FactoredRmsOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If the exponent of the decay or ε is negative or not finite.
#[doc(alias = "optax.scale_by_factored_rms")]
#[track_caller]
pub fn scale_by_factored_rms(options: FactoredRmsOptions) -> Chain {
    not_negative(
        "scale_by_factored_rms",
        "decay_exponent",
        options.decay_exponent,
    );
    not_negative("scale_by_factored_rms", "epsilon", options.epsilon);
    Chain::of(ScaleByFactoredRms {
        count: Tensor::from(0_u32),
        rows: Tree::none(),
        columns: Tree::none(),
        whole: Tree::none(),
        options,
        axes: Vec::new(),
    })
}

/// If `is_factored` is true, returns the parameters whose mean square is factored. Otherwise, returns the other
/// parameters.
fn part(
    parameters: &Tree<Tensor>,
    axes: &[Option<FactoredAxes>],
    is_factored: bool,
) -> Tree<Tensor> {
    let keep = |position: usize| axes[position].is_some() == is_factored;
    partition::select::<(), Tensor>(parameters.treedef(), parameters.leaves(), keep).into_tree()
}

impl ScaleByFactoredRms {
    /// Updates the row and the column that approximate the mean square of a gradient. Returns the update of the parameter.
    fn factored(
        gradient: &Tensor,
        square: &Tensor,
        (row, column): (&mut Tensor, &mut Tensor),
        axes: &FactoredAxes,
        (decay, rest): (&Tensor, &Tensor),
    ) -> Tensor {
        *row = decay * &*row + rest * square.mean_axes(&axes.longer);
        *column = decay * &*column + rest * square.mean_axes(&axes.shorter);
        let row_factor = (&*row / row.mean_keep(axes.reduced())).rsqrt();
        let row_factor = row_factor.expand_dims(&axes.longer);
        gradient * row_factor * column.rsqrt().expand_dims(&axes.shorter)
    }
}

impl GradientTransformation for ScaleByFactoredRms {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        let axes = self.options.factored_axes(parameters);
        axes.map(drop).map_err(OptimizerError::Factored)
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.axes = match self.options.factored_axes(parameters) {
            Ok(axes) => axes,
            Err(error) => panic!("{}", OptimizerError::Factored(error)),
        };
        let factored = part(parameters, &self.axes, true);
        let all: Vec<FactoredAxes> = self.axes.iter().flatten().cloned().collect();
        let without = |axes_of: fn(&FactoredAxes) -> &[isize]| {
            let mut all = all.iter();
            factored.map(|parameter| match all.next() {
                Some(axes) => Tensor::zeros_like(&parameter.sum_axes(axes_of(axes))),
                None => parameter.clone(),
            })
        };
        self.rows = without(|axes| &axes.longer);
        self.columns = without(|axes| &axes.shorter);
        self.whole = part(parameters, &self.axes, false).map(Tensor::zeros_like);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        check_number("states", self.axes.len(), parameters.len());
        let positions = (0..parameters.len()).filter(|position| self.axes[*position].is_none());
        let positions: Vec<usize> = positions.collect();
        let whole: Vec<Tensor> = positions
            .iter()
            .map(|position| parameters[*position].clone())
            .collect();
        let others = differing(self.whole.leaves(), &whole).into_iter();
        others
            .map(|(position, expected)| (positions[position], expected))
            .collect()
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        check_number("states", self.axes.len(), gradients.len());
        self.count = &self.count + 1;
        let time = self.count.convert(DType::F64);
        let power = (time.log() * -self.options.decay_exponent).exp();
        let (mut decay, mut rest) = (Scalar::new(1.0 - &power), Scalar::new(power));
        let mut rows = self.rows.leaves_mut().iter_mut();
        let mut columns = self.columns.leaves_mut().iter_mut();
        let mut whole = self.whole.leaves_mut().iter_mut();
        let mut updates = Vec::new();
        for (gradient, axes) in gradients.iter().zip(&self.axes) {
            let dtype = gradient.dtype();
            let weights = (&decay.of_type(dtype), &rest.of_type(dtype));
            let square = gradient.square() + self.options.epsilon;
            let update = match axes {
                Some(axes) => rows
                    .next()
                    .zip(columns.next())
                    .map(|means| Self::factored(gradient, &square, means, axes, weights)),
                None => whole.next().map(|mean| {
                    *mean = weights.0 * &*mean + weights.1 * square;
                    gradient * mean.rsqrt()
                }),
            };
            updates.extend(update);
        }
        updates
    }
}

/// Multiplies each update by the root mean square of its parameter.
#[derive(Module, Clone, Debug)]
struct ScaleByParameterRms;

/// The least factor by which [`ScaleByParameterRms`] multiplies, as in optax.
const MIN_SCALE: f64 = 1e-3;

impl GradientTransformation for ScaleByParameterRms {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let pairs = gradients.iter().zip(parameters);
        pairs
            .map(|(gradient, parameter)| {
                let square = parameter.square().mean();
                gradient * square.maximum(MIN_SCALE * MIN_SCALE).sqrt()
            })
            .collect()
    }
}
