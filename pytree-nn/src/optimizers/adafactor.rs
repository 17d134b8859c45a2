//! Adafactor, which approximates a matrix of mean squares by a row and a column, and stores only this row and column.

use pytree_core::kind::OptState;
use pytree_core::{Module, Static, Tree, partition};
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::optimizers::ranges::{not_negative, strength};
use crate::optimizers::transformation::{Scalar, check_number, differing};
use crate::optimizers::{
    BiasCorrection, Chain, GradientTransformation, WeightDecay, add_decayed_weights, chain,
    clip_by_block_rms, ema_with, scale, scale_by_schedule,
};
use crate::schedules::Schedule;

/// The options of [`adafactor_with`], with the defaults of `optax.adafactor`.
#[derive(Clone, Debug)]
pub struct AdafactorOptions {
    /// The options of the mean squares.
    pub factored: FactoredRmsOptions,
    /// The limit of the root mean square of each update; by default 1. `None` means no limit.
    pub clipping_threshold: Option<f64>,
    /// The factor of the updates, which may depend on the parameter; by default [`ParameterScale::RootMeanSquare`].
    pub parameter_scale: ParameterScale,
    /// The decay of a running mean of the updates; by default `None`, which means no running mean.
    pub momentum: Option<f64>,
    /// The weight decay, which is not multiplied by the learning rate; by default `None`, which means no weight decay.
    pub weight_decay: Option<WeightDecay>,
}

impl Default for AdafactorOptions {
    fn default() -> Self {
        Self {
            factored: FactoredRmsOptions::default(),
            clipping_threshold: Some(1.0),
            parameter_scale: ParameterScale::RootMeanSquare,
            momentum: None,
            weight_decay: None,
        }
    }
}

/// The factor by which [`adafactor_with`] multiplies an update.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
#[derive(Static, Clone, Copy, Debug, PartialEq)]
pub struct FactoredRmsOptions {
    /// The exponent c of the decay 1 - t⁻ᶜ; by default 0.8.
    pub decay_exponent: f64,
    /// The mean square of a parameter is factored into a row and a column if the second longest axis has at least this
    /// length; by default `Some(128)`. `None` means that no mean square is factored.
    pub min_factored_length: Option<usize>,
    /// The number that is added to the squared gradients; by default 10⁻³⁰.
    pub epsilon: f64,
}

impl Default for FactoredRmsOptions {
    fn default() -> Self {
        Self {
            decay_exponent: 0.8,
            min_factored_length: Some(128),
            epsilon: 1e-30,
        }
    }
}

impl FactoredRmsOptions {
    /// Returns the second longest and the longest axis of a parameter of this shape, or `None` if its mean square is
    /// not factored.
    fn factored_axes(&self, shape: &[usize]) -> Option<(usize, usize)> {
        let least = self.min_factored_length?;
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        axes.sort_by_key(|axis| shape[*axis]);
        let [.., second, longest] = axes[..] else {
            return None;
        };
        (shape[second] >= least).then_some((second, longest))
    }
}

/// Divides gradients by the root of their mean square. The mean square of a large matrix is approximated by a row and a
/// column.
#[derive(Module, Clone, Debug)]
struct ScaleByFactoredRms {
    #[state(OptState)]
    count: Tensor,
    /// The means over the longest axis, for parameters whose mean square is factored.
    #[state(OptState)]
    rows: Tree<Tensor>,
    /// The means over the second longest axis, for the same parameters.
    #[state(OptState)]
    columns: Tree<Tensor>,
    /// The mean squares of the other parameters.
    #[state(OptState)]
    whole: Tree<Tensor>,
    #[r#static]
    options: FactoredRmsOptions,
    /// The second longest and the longest axis of each parameter whose mean square is factored.
    #[r#static]
    axes: Vec<Option<(usize, usize)>>,
}

/// Returns the transformation that divides gradients by the root of their factored mean square (Shazeer and Stern 2018,
/// algorithms 1 and 4), like `optax.scale_by_factored_rms`.
///
/// With d = 1 - t⁻ᶜ and s = g² + ε, the mean square is v ← d v + (1 - d) s. The update is g / √v. For a parameter with
/// two long axes, the optimizer stores only the mean r of v over the longest axis and the mean c of v over the second
/// longest axis. The update of such a parameter is g √(mean(r) / r) / √c.
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
    axes: &[Option<(usize, usize)>],
    is_factored: bool,
) -> Tree<Tensor> {
    let keep = |position: usize| axes[position].is_some() == is_factored;
    partition::select::<(), Tensor>(parameters.treedef(), parameters.leaves(), keep).into_tree()
}

/// Converts an axis to the list of signed axes that a reduction takes.
fn signed(axis: usize) -> [isize; 1] {
    [isize::try_from(axis).unwrap_or(isize::MAX)]
}

impl ScaleByFactoredRms {
    /// Updates the row and the column that approximate the mean square of a gradient with two long axes. Returns the
    /// update of the parameter.
    fn factored(
        gradient: &Tensor,
        square: &Tensor,
        (row, column): (&mut Tensor, &mut Tensor),
        (second, longest): (usize, usize),
        (decay, rest): (&Tensor, &Tensor),
    ) -> Tensor {
        *row = decay * &*row + rest * square.mean_axes(signed(longest));
        *column = decay * &*column + rest * square.mean_axes(signed(second));
        let reduced = if second > longest { second - 1 } else { second };
        let row_factor = (&*row / row.mean_keep(signed(reduced))).rsqrt();
        let row_factor = row_factor.expand_dims(signed(longest));
        gradient * row_factor * column.rsqrt().expand_dims(signed(second))
    }
}

impl GradientTransformation for ScaleByFactoredRms {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        let leaves = parameters.leaves().iter();
        self.axes = leaves
            .map(|leaf| self.options.factored_axes(leaf.shape()))
            .collect();
        let pairs: Vec<(usize, usize)> = self.axes.iter().flatten().copied().collect();
        let factored = part(parameters, &self.axes, true);
        let without = |axis: fn((usize, usize)) -> usize| {
            let mut axes = pairs.iter();
            factored.map(|parameter| match axes.next() {
                Some(pair) => Tensor::zeros_like(&parameter.sum_axes(signed(axis(*pair)))),
                None => parameter.clone(),
            })
        };
        self.rows = without(|(_, longest)| longest);
        self.columns = without(|(second, _)| second);
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
                    .map(|means| Self::factored(gradient, &square, means, *axes, weights)),
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
