//! The convolution layer.

use pytree_transform::convolution::Convolution;

use super::batch_axes::{with_batch_axes, with_one_batch_axis};
use crate::initializers::optional;
use crate::layers::convolution::options::ConvOptions;
use crate::layers::convolution::padding::ConvPadding;
use crate::layers::linear::with_bias;
use crate::layers::prelude::*;

const CONV: &str = "Conv";

/// Multiplies each window of the input by the weight, and adds the bias (Lecun et al. 1998, "Gradient-based learning
/// applied to document recognition").
///
/// The number of spatial axes is the number of kernel sizes: one for sequences, two for images, three for volumes. With
/// the stride s and the kernel dilation d, `y[b, i, o] = Σ x[b, i · s + j · d, c] · weight[j, c, o] + bias[o]`, where
/// the sum is over the kernel positions j and the input features c. Both i and j are positions along all spatial axes.
/// As is usual in deep learning, the kernel is not flipped.
///
/// # Examples
/// ```
/// use pytree_nn::{Conv, ConvOptions, ConvPadding, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let conv = Conv::new(3, 16, [3, 3], &mut rngs);
/// assert_eq!(conv.forward(&Tensor::ones(DType::F32, [8, 28, 28, 3])).shape(), [8, 28, 28, 16]);
///
/// let options = ConvOptions { padding: ConvPadding::Causal, ..ConvOptions::default() };
/// let causal = Conv::with_options(4, 6, [5], options, &mut rngs);
/// assert_eq!(causal.forward(&Tensor::ones(DType::F32, [100, 4])).shape(), [100, 6]);
/// ```
#[doc(alias("nnx.Conv", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Conv {
    /// The kernel: `[kernel…, in / groups, out]`.
    #[param("T[*kernel in out]", roles(kernel, input, output))]
    pub weight: Tensor,
    /// The vector that is added to the result of each window. `None` means that the layer has no bias.
    #[param("T[out]", roles(output))]
    pub bias: Option<Tensor>,
    /// The distance between neighbouring windows along each spatial axis.
    #[r#static]
    pub strides: Vec<usize>,
    /// The padding of the spatial axes.
    #[r#static]
    pub padding: ConvPadding,
    /// The distance between neighbouring input elements along each spatial axis.
    #[r#static]
    pub input_dilation: Vec<usize>,
    /// The distance between neighbouring kernel elements along each spatial axis.
    #[r#static]
    pub kernel_dilation: Vec<usize>,
    /// The number of groups into which the input features are divided.
    #[r#static]
    pub groups: usize,
}

fallible_forward!(Conv);

impl Conv {
    /// Creates an f32 layer with stride 1 and [`ConvPadding::Same`].
    ///
    /// As in Flax, the initializers are [`Initializer::lecun_normal`](crate::Initializer::lecun_normal) for the weight
    /// and zeros for the bias. `kernel` has the size of the kernel along each spatial axis.
    ///
    /// Draws two keys of the stream `params`.
    ///
    /// # Panics
    /// If a size of the kernel is 0, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl AsRef<[usize]>,
        rngs: &mut Rngs,
    ) -> Self {
        Self::with_options(inputs, outputs, kernel, ConvOptions::default(), rngs)
    }

    /// Creates a layer with the given options. Draws a key for the weight, and then a key for the bias if the layer has
    /// a bias.
    ///
    /// # Panics
    /// If a size of the kernel, a stride or a dilation is 0, if the length of a list in the options is not the number
    /// of kernel sizes, if the number of groups does not divide the numbers of inputs and outputs, if a kernel with
    /// several axes has the padding [`ConvPadding::Causal`], if there is no stream to draw from, or if `param_dtype` is
    /// not a float.
    #[track_caller]
    pub fn with_options(
        inputs: usize,
        outputs: usize,
        kernel: impl AsRef<[usize]>,
        options: ConvOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let kernel = kernel.as_ref();
        check_kernel(CONV, kernel);
        options.padding.check(CONV, kernel);
        let groups = options.groups;
        assert!(
            groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups),
            "Conv expects the number of groups to divide the numbers of inputs and outputs, found {groups} groups, {inputs} inputs \
             and {outputs} outputs; choose a number of groups that divides both"
        );
        let shape = [kernel, &[inputs / groups, outputs]].concat();
        let weight = options.weight_init;
        let weight = weight.initialize(&rngs.params(), options.param_dtype, &shape);
        let bias = optional(options.bias_init, options.param_dtype, [outputs], rngs);
        Self {
            weight,
            bias,
            strides: options.strides.numbers(CONV, "strides", kernel),
            padding: options.padding,
            input_dilation: options
                .input_dilation
                .numbers(CONV, "input dilations", kernel),
            kernel_dilation: options
                .kernel_dilation
                .numbers(CONV, "kernel dilations", kernel),
            groups,
        }
    }

    /// Applies the layer: `x: [batch…, space…, in]` to `[batch…, space…, out]`.
    ///
    /// There may be any number of batch axes, including zero. The lengths of the spatial axes of the result depend on
    /// the padding and the strides: see [`ConvPadding`].
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of inputs, if `x` has too few axes, or if the dtypes
    /// differ.
    #[shapes(x = "T: float[... _]", return = "T[... out]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let (flat, batch) = with_one_batch_axis(CONV, x, self.strides.len())?;
        self.check_features(x)?;
        let spans = spans(self.weight.shape(), &self.kernel_dilation);
        let (padded, padding) = self.padding.apply(&flat, &spans);
        let convolution = Convolution::new(&self.strides, padding)
            .input_dilation(&self.input_dilation)
            .kernel_dilation(&self.kernel_dilation)
            .feature_groups(self.groups);
        let product = convolution.try_apply(&padded, &self.weight);
        let y = with_bias(CONV, product, self.bias.as_ref())?;
        Ok(with_batch_axes(&y, &batch))
    }
}

impl Conv {
    /// Checks the features of `x: [batch…, space…, features]`. A pattern in `#[shapes]` could not express this check,
    /// because the weight has an axis only for the inputs of one group.
    fn check_features(&self, x: &Tensor) -> Result<(), InputError> {
        let axes = self.strides.len();
        let lengths = &x.shape()[x.rank() - 1 - axes..];
        let features = lengths[axes];
        let inputs = self.weight.shape().get(axes).copied().unwrap_or(0) * self.groups;
        if features == inputs {
            return Ok(());
        }
        // The last axis of an image without an axis of features is a spatial axis, and no number of inputs.
        let mut fix = if inputs == 1 {
            "if x has no axis of features, add it with `x.expand_dims(-1)`; otherwise pass x with 1 feature on its last axis"
                .to_owned()
        } else {
            format!(
                "pass x with {inputs} features on its last axis, or make the Conv with {features} inputs"
            )
        };
        if lengths[0] == inputs {
            fix += "; the first spatial axis has this length: if this axis is the feature axis, move it to the end with `move_axis`";
        }
        let expected = format!("x: [batch.., {axes} spatial axes, {inputs}]");
        Err(InputError::input(CONV, expected, x, &fix))
    }
}

/// Checks the sizes of a kernel.
#[track_caller]
pub(super) fn check_kernel(layer: &str, kernel: &[usize]) {
    assert!(
        !kernel.is_empty() && !kernel.contains(&0),
        "{layer} expects a kernel with a size above 0 for each spatial axis, found {kernel:?}; write for instance `[3, 3]` for images"
    );
}

/// Returns the number of elements that a dilated kernel covers along each spatial axis.
pub(super) fn spans(kernel: &[usize], dilation: &[usize]) -> Vec<usize> {
    let sizes = kernel.iter().zip(dilation);
    sizes
        .map(|(&size, &dilation)| size.saturating_sub(1) * dilation + 1)
        .collect()
}
