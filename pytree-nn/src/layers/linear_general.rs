//! A linear layer that sums over several axes of its input.

use pytree_core::axes::{AxisRole, StaticFields};
use pytree_derive::Defaults;

use crate::initializers::Initializer;
use crate::layers::normalization::positions;
use crate::layers::prelude::*;

const LINEAR_GENERAL: &str = "LinearGeneral";

/// Multiplies several axes of `x` by a weight, and adds a bias.
///
/// `x: [batch…, other…, in…]` becomes `[batch…, other…, out…]`. The layer sums over the axes `in`, which by default are
/// the last axes of `x`. [`LinearGeneralOptions::axes`] selects other axes of `x`. The axes `out` are the last axes of
/// the result. If the layer has batch axes, each index along the batch axes has its own weight.
///
/// # Examples
/// ```
/// use pytree_nn::{LinearGeneral, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let split = LinearGeneral::new([6], [2, 4], &mut rngs);
/// let heads = split.forward(&Tensor::ones(DType::F32, [8, 5, 6]));
/// assert_eq!(heads.shape(), [8, 5, 2, 4]);
/// let join = LinearGeneral::new([2, 4], [6], &mut rngs);
/// assert_eq!(join.forward(&heads).shape(), [8, 5, 6]);
/// ```
#[doc(alias = "nnx.LinearGeneral")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LinearGeneral {
    /// The weight: `[batch…, in…, out…]`.
    #[param("T[...]", roles = weight_roles)]
    pub weight: Tensor,
    /// The bias `[batch…, out…]`, which is added to the product. `None` means that the layer has no bias.
    #[param("T[...]", roles = bias_roles)]
    pub bias: Option<Tensor>,
    /// The axes of the input that are summed over. The order of this list has no effect, as in Flax. The axes `in` of
    /// the weight have the same order as these axes in the input.
    #[r#static]
    pub axes: Vec<isize>,
    /// The number of batch axes, which are the first axes of the input and of the weight. The default is 0.
    #[r#static]
    pub batch_axes: usize,
}

fallible_forward!(LinearGeneral);

/// Returns the roles of the weight: its last axes are the outputs.
fn weight_roles(fields: &StaticFields<'_>, rank: usize) -> Option<Vec<AxisRole>> {
    let inputs = fields.get::<Vec<isize>>("axes")?.len();
    let mut roles = vec![AxisRole::Batch; fields.get("batch_axes")?];
    roles.resize(roles.len() + inputs, AxisRole::Input);
    roles.resize(roles.len().max(rank), AxisRole::Output);
    Some(roles)
}

/// Returns the roles of the bias.
fn bias_roles(fields: &StaticFields<'_>, rank: usize) -> Option<Vec<AxisRole>> {
    let mut roles = vec![AxisRole::Batch; fields.get("batch_axes")?];
    roles.resize(roles.len().max(rank), AxisRole::Output);
    Some(roles)
}

/// The options of a new [`LinearGeneral`] layer, with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{LinearGeneral, LinearGeneralOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// // Each of five experts has a matrix of its own.
/// let options = LinearGeneralOptions { batch: vec![5], ..LinearGeneralOptions::default() };
/// let experts = LinearGeneral::with_options([3], [4], options, &mut Rngs::new(0));
/// assert_eq!(experts.weight.shape(), [5, 3, 4]);
/// assert_eq!(experts.forward(&Tensor::ones(DType::F32, [5, 8, 3])).shape(), [5, 8, 4]);
/// ```
#[derive(Clone, Debug, Defaults, PartialEq)]
pub struct LinearGeneralOptions {
    /// The axes of the input that are summed over. The default is the last n axes of the input, where n is the number
    /// of lengths in `inputs`.
    pub axes: Option<Vec<isize>>,
    /// The lengths of the batch axes. There are none by default.
    pub batch: Vec<usize>,
    /// The dtype of the parameters. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the weight. The weight is initialized as a matrix `[batch · in, out]`, and then reshaped. The
    /// default is [`Initializer::lecun_normal`].
    #[default(Initializer::lecun_normal())]
    pub weight_init: Initializer,
    /// The initializer of the bias. The default is zeros. `None` means that the layer has no bias.
    #[default(Some(Initializer::Zeros))]
    pub bias_init: Option<Initializer>,
}

impl LinearGeneral {
    /// Creates an f32 layer that replaces the last axes of its input, of lengths `inputs`, by axes of lengths
    /// `outputs`.
    ///
    /// Draws two keys of the stream `params`.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(inputs: impl AsRef<[usize]>, outputs: impl AsRef<[usize]>, rngs: &mut Rngs) -> Self {
        Self::with_options(inputs, outputs, LinearGeneralOptions::default(), rngs)
    }

    /// Creates a layer with the given options. Draws a key for the weight, and then a key for the bias if the layer has
    /// a bias.
    ///
    /// # Panics
    /// If the number of axes in the options is not the number of lengths in `inputs`, if there is no stream to draw
    /// from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        inputs: impl AsRef<[usize]>,
        outputs: impl AsRef<[usize]>,
        options: LinearGeneralOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let (inputs, outputs) = (inputs.as_ref(), outputs.as_ref());
        let last = || {
            (1..=inputs.len())
                .map(|axis| -axis.cast_signed())
                .rev()
                .collect()
        };
        let axes: Vec<isize> = options.axes.unwrap_or_else(last);
        assert!(
            axes.len() == inputs.len(),
            "LinearGeneral expects one axis for each of the input lengths {inputs:?}, found the axes {axes:?}; write as many axes as lengths"
        );
        let batch = options.batch;
        let matrix = [
            batch.iter().chain(inputs).product(),
            outputs.iter().product(),
        ];
        let weight = options.weight_init;
        let weight = weight.initialize(&rngs.params(), options.param_dtype, matrix);
        // No closure is used here, because a panic in a closure would not report the caller's line.
        let bias = match options.bias_init {
            Some(initializer) => {
                let shape = [&batch, outputs].concat();
                let flat = [shape.iter().product()];
                let bias = initializer.initialize(&rngs.params(), options.param_dtype, flat);
                Some(bias.reshape(shape))
            }
            None => None,
        };
        Self {
            weight: weight.reshape([&batch, inputs, outputs].concat()),
            bias,
            axes,
            batch_axes: batch.len(),
        }
    }

    /// Multiplies the axes [`axes`](Self::axes) of `x` by the weight, and adds the bias.
    ///
    /// # Panics
    /// If `x` lacks an axis of the layer, if the length of such an axis differs from the weight, or if the dtypes
    /// differ.
    #[shapes(x = "T: float[...]", return = "T[...]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let (batch, summed) = (self.batch_axes, self.axes.len());
        let axes = positions(x, &self.axes).unwrap_or_default();
        let lengths = |shape: &[usize], axes: &[usize]| -> Vec<Option<usize>> {
            axes.iter().map(|&axis| shape.get(axis).copied()).collect()
        };
        let batch_axes: Vec<usize> = (0..batch).collect();
        let of_weight: Vec<usize> = (batch..batch + summed).collect();
        let fits = axes.len() == summed
            && axes.iter().all(|&axis| axis >= batch)
            && lengths(x.shape(), &batch_axes) == lengths(self.weight.shape(), &batch_axes)
            && lengths(x.shape(), &axes) == lengths(self.weight.shape(), &of_weight);
        if !fits {
            return Err(self.refused(x));
        }
        let signed = |axes: &[usize]| -> Vec<isize> {
            axes.iter().map(|&axis| axis.cast_signed()).collect()
        };
        let (batch_axes, contracted) = (signed(&batch_axes), (signed(&axes), signed(&of_weight)));
        let product = x.try_dot_general(
            &self.weight,
            (&contracted.0, &contracted.1),
            (&batch_axes, &batch_axes),
        );
        let y = match (product, &self.bias) {
            (Ok(product), Some(bias)) => {
                // The bias has length 1 along the axes `other` of `x`.
                let others = vec![1; x.rank() - batch - summed];
                let (first, last) = bias.shape().split_at(batch.min(bias.rank()));
                product.try_add(bias.reshape([first, &others, last].concat()))
            }
            (product, _) => product,
        };
        y.map_err(InputError::inside(LINEAR_GENERAL))
    }

    /// Returns the error for an input whose axes do not fit the layer.
    fn refused(&self, x: &Tensor) -> InputError {
        let (batch, summed) = (self.batch_axes, self.axes.len());
        let shape = self.weight.shape();
        let lengths = shape.get(batch..batch + summed).unwrap_or_default();
        let mut expected = format!(
            "x with the lengths {lengths:?} along the axes {:?}",
            self.axes
        );
        if batch > 0 {
            let lengths = shape.get(..batch).unwrap_or_default();
            expected = format!("{expected}, and with the first axes {lengths:?}");
        }
        let fix = "pass x with these lengths, or make the layer with the lengths and axes of x";
        InputError::input(LINEAR_GENERAL, expected, x, fix)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn wrong_lengths_are_reported_with_their_axes() {
        let layer = LinearGeneral::new([2, 3], [4], &mut Rngs::new(0));
        let error = layer
            .try_forward(&Tensor::ones(DType::F32, [5, 3, 2]))
            .unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with(
                "LinearGeneral expects x with the lengths [2, 3] along the axes [-2, -1], found f32[5,3,2]; \
                 pass x with these lengths, or make the layer with the lengths and axes of x"
            ),
            "{message}"
        );
        assert!(layer.try_forward(&Tensor::ones(DType::F32, [3])).is_err());
    }

    #[test]
    #[should_panic(
        expected = "LinearGeneral expects one axis for each of the input lengths [2, 3], found the axes [0]"
    )]
    fn each_input_needs_an_axis() {
        let options = LinearGeneralOptions {
            axes: Some(vec![0]),
            ..LinearGeneralOptions::default()
        };
        let _ = LinearGeneral::with_options([2, 3], [4], options, &mut Rngs::new(0));
    }
}
