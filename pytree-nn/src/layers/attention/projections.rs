//! The linear maps of attention: from features to heads, and from heads to features.

use super::scores::Mixed;
use crate::initializers::optional;
use crate::layers::linear::{LinearOptions, with_bias};
use crate::layers::prelude::*;

/// Maps features to the query, key or value of each head: x · weight + bias over the last axis of `x`.
///
/// # Examples
/// ```
/// use pytree_nn::{HeadProjection, LinearOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let projection = HeadProjection::new(16, 2, 8, LinearOptions::default(), &mut Rngs::new(0));
/// assert_eq!(projection.forward(&Tensor::ones(DType::F32, [3, 5, 16])).shape(), [3, 5, 2, 8]);
/// ```
#[derive(Module, Clone, Debug, PartialEq)]
pub struct HeadProjection {
    /// The tensor by which the input is multiplied: the `kernel` in Flax.
    #[param("T[in heads head_dim]", roles(input, output_head, output))]
    pub weight: Tensor,
    /// The matrix that is added to the product. `None` means that the projection has no bias.
    #[param("T[heads head_dim]", roles(output_head, output))]
    pub bias: Option<Tensor>,
}

fallible_forward!(HeadProjection);

impl HeadProjection {
    /// Creates a projection. Draws a key of the stream `params` for the weight, and then a key for the bias if the
    /// options have one. The weight is initialized as a matrix `[in, heads*head_dim]`, as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if the `param_dtype` of the options is not a float.
    #[track_caller]
    pub fn new(
        inputs: usize,
        heads: usize,
        head_dim: usize,
        options: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let matrix = [inputs, heads * head_dim];
        let (weight, bias) = initial(matrix, options, rngs);
        Self {
            weight: weight.reshape([inputs, heads, head_dim]),
            bias: bias.map(|bias| bias.reshape([heads, head_dim])),
        }
    }

    /// Applies the projection to the last axis of `x`.
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of inputs, or if the dtypes differ.
    #[shapes(x = "T[... in]", return = "T[... heads head_dim]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let product = x.try_tensordot(&self.weight, (&[-1], &[0]));
        with_bias("HeadProjection", product, self.bias.as_ref())
    }
}

/// Maps the results of all heads to features: multiplies the result of each head by its weight, and adds the products
/// of all heads and the bias.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct OutputProjection {
    /// The tensor by which the results are multiplied: the `kernel` in Flax.
    #[param("T[heads head_dim out]", roles(input_head, input, output))]
    pub weight: Tensor,
    /// The vector that is added to the product. `None` means that the projection has no bias.
    #[param("T[out]", roles(output))]
    pub bias: Option<Tensor>,
}

fallible_forward!(OutputProjection);

impl OutputProjection {
    /// Creates a projection. Draws a key of the stream `params` for the weight, and then a key for the bias if the
    /// options have one. The weight is initialized as a matrix `[heads*head_dim, out]`, as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if the `param_dtype` of the options is not a float.
    #[track_caller]
    pub fn new(
        heads: usize,
        head_dim: usize,
        outputs: usize,
        options: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let (weight, bias) = initial([heads * head_dim, outputs], options, rngs);
        Self {
            weight: weight.reshape([heads, head_dim, outputs]),
            bias,
        }
    }

    /// Applies the projection: `x: [.., heads, head_dim]` to `[.., out]`.
    ///
    /// # Panics
    /// If the last two axes of `x` do not match the weight, or if the dtypes differ.
    #[shapes(x = "T[... heads head_dim]", return = "T[... out]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let product = x.try_tensordot(&self.weight, (&[-2, -1], &[0, 1]));
        with_bias("OutputProjection", product, self.bias.as_ref())
    }

    /// Applies the projection like [`try_forward`](Self::try_forward), without a transpose of the mixed values.
    #[track_caller]
    pub(super) fn try_apply(&self, mixed: &Mixed) -> Result<Tensor, InputError> {
        let product = mixed.try_project(&self.weight);
        with_bias("OutputProjection", product, self.bias.as_ref())
    }
}

/// Returns a weight of the shape `matrix`, and a bias for its columns if the options have one.
#[track_caller]
fn initial(
    matrix: [usize; 2],
    options: LinearOptions,
    rngs: &mut Rngs,
) -> (Tensor, Option<Tensor>) {
    let dtype = options.param_dtype;
    let weight = options
        .weight_init
        .initialize(&rngs.params(), dtype, matrix);
    let bias = optional(options.bias_init, dtype, [matrix[1]], rngs);
    (weight, bias)
}
