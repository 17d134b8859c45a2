//! The transposed convolution layer.

use pytree_transform::convolution::{Convolution, Padding};

use super::batch_axes::{with_batch_axes, with_one_batch_axis};
use super::conv::check_kernel;
use crate::initializers::optional;
use crate::layers::convolution::options::ConvTransposeOptions;
use crate::layers::convolution::padding::ConvPadding;
use crate::layers::prelude::*;

const CONV_TRANSPOSE: &str = "ConvTranspose";

/// Computes a transposed convolution and adds the bias (Zeiler et al. 2010, "Deconvolutional networks").
///
/// Each input element, multiplied by the weight, is added to one window of the result. With a stride above 1, the
/// result is longer than the input.
///
/// The layer inserts stride - 1 zeros between neighbouring input elements, and then computes a convolution of stride 1,
/// like `jax.lax.conv_transpose` without `transpose_kernel`. So the weight `[kernel…, in, out]` is neither flipped nor
/// transposed. Flax can also apply the transpose of a [`Conv`](crate::Conv), with `transpose_kernel=True`. To do the
/// same for a `Conv` with the weight `w` over n spatial axes, set the weight to
/// [`turned(&w, n)`](pytree_transform::convolution::turned)`.swap_axes(-1, -2)`.
///
/// With the stride s and a window of k elements, the length of a spatial axis changes from n to:
///
/// | padding | length of the result |
/// |---|---|
/// | [`ConvPadding::Same`] | n · s |
/// | [`ConvPadding::Valid`] | n · s + max(k - s, 0) |
/// | [`ConvPadding::Circular`] | n · s; elements beyond one end are added at the other end |
/// | [`ConvPadding::Explicit`] | (n - 1) · s + 1 + before + after - (k - 1); the zeros surround the input, unlike PyTorch's `padding` |
///
/// # Examples
/// ```
/// use pytree_nn::{ConvTranspose, ConvTransposeOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let options = ConvTransposeOptions { strides: 2.into(), ..ConvTransposeOptions::default() };
/// let up = ConvTranspose::with_options(16, 3, [4, 4], options, &mut Rngs::new(0));
/// assert_eq!(up.forward(&Tensor::ones(DType::F32, [8, 14, 14, 16])).shape(), [8, 28, 28, 3]);
/// ```
#[doc(alias(
    "nnx.ConvTranspose",
    "nn.ConvTranspose1d",
    "nn.ConvTranspose2d",
    "nn.ConvTranspose3d"
))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct ConvTranspose {
    /// The kernel.
    #[param("T[*kernel in out]", roles(kernel, input, output))]
    pub weight: Tensor,
    /// The vector that is added to each element of the result. `None` means that the layer has no bias.
    #[param("T[out]", roles(output))]
    pub bias: Option<Tensor>,
    /// The distance in the result between the windows of neighbouring input elements.
    #[r#static]
    pub strides: Vec<usize>,
    /// The padding.
    #[r#static]
    pub padding: ConvPadding,
    /// The distance between neighbouring kernel elements along each spatial axis.
    #[r#static]
    pub kernel_dilation: Vec<usize>,
}

fallible_forward!(ConvTranspose);

impl ConvTranspose {
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
        Self::with_options(
            inputs,
            outputs,
            kernel,
            ConvTransposeOptions::default(),
            rngs,
        )
    }

    /// Creates a layer with the given options. Draws a key for the weight, and then a key for the bias if the layer has
    /// a bias.
    ///
    /// # Panics
    /// If a size of the kernel, a stride or a dilation is 0, if the length of a list in the options is not the number
    /// of kernel sizes, if the padding is [`ConvPadding::Causal`] or [`ConvPadding::Reflect`], if there is no stream to
    /// draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        inputs: usize,
        outputs: usize,
        kernel: impl AsRef<[usize]>,
        options: ConvTransposeOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let kernel = kernel.as_ref();
        check_kernel(CONV_TRANSPOSE, kernel);
        let padding = options.padding;
        assert!(
            !matches!(padding, ConvPadding::Causal | ConvPadding::Reflect),
            "ConvTranspose expects the padding Same, Valid, Circular or Explicit, found {padding:?}; \
             write explicit pairs `(before, after)`"
        );
        padding.check(CONV_TRANSPOSE, kernel);
        let shape = [kernel, &[inputs, outputs]].concat();
        let weight = options.weight_init;
        let weight = weight.initialize(&rngs.params(), options.param_dtype, &shape);
        let bias = optional(options.bias_init, options.param_dtype, [outputs], rngs);
        let dilation = options.kernel_dilation;
        Self {
            weight,
            bias,
            strides: options.strides.numbers(CONV_TRANSPOSE, "strides", kernel),
            padding,
            kernel_dilation: dilation.numbers(CONV_TRANSPOSE, "kernel dilations", kernel),
        }
    }

    /// Applies the layer: `x: [batch…, space…, in]` to `[batch…, space…, out]`. There may be any number of batch axes,
    /// including zero.
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of inputs, if `x` has too few axes, or if the dtypes
    /// differ.
    #[shapes(x = "T[... in]", return = "T[... out]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let (x, batch) = with_one_batch_axis(CONV_TRANSPOSE, x, self.strides.len())?;
        let padding = match &self.padding {
            ConvPadding::Same => Padding::Same,
            ConvPadding::Explicit(pairs) => Padding::Explicit(pairs.clone()),
            _ => Padding::Valid,
        };
        let convolution =
            Convolution::new(&self.strides, padding).kernel_dilation(&self.kernel_dilation);
        let mut y = convolution
            .try_apply_transposed(&x, &self.weight)
            .map_err(InputError::inside(CONV_TRANSPOSE))?;
        if self.padding == ConvPadding::Circular {
            y = self.wrapped(&y, &x);
        }
        if let Some(bias) = &self.bias {
            y = y
                .try_add(bias)
                .map_err(InputError::inside(CONV_TRANSPOSE))?;
        }
        Ok(with_batch_axes(&y, &batch))
    }

    /// Wraps the result for circular padding: adds all elements whose distance is a multiple of the period. The period
    /// is the length of the input times the stride. As in Flax, the elements are first centred in an odd number of
    /// periods.
    #[track_caller]
    fn wrapped(&self, y: &Tensor, x: &Tensor) -> Tensor {
        let mut wrapped = y.clone();
        for (number, &stride) in self.strides.iter().enumerate() {
            let axis = number + 1;
            let (length, period) = (wrapped.shape()[axis], x.shape()[axis] * stride);
            if period == 0 {
                continue;
            }
            let missing = (period.cast_signed() - length.cast_signed())
                .rem_euclid(2 * period.cast_signed())
                .cast_unsigned();
            let mut padding = vec![(0, 0, 0); wrapped.rank()];
            padding[axis] = (
                missing.div_ceil(2).cast_signed(),
                (missing / 2).cast_signed(),
                0,
            );
            let padded = wrapped.pad(0.0, padding);
            let mut shape = padded.shape().to_vec();
            shape.splice(axis..=axis, [(length + missing) / period, period]);
            wrapped = padded.reshape(shape).sum_axes([axis.cast_signed()]);
        }
        wrapped
    }
}
