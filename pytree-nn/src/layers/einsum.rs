//! A linear layer whose product is given as an einsum string.

use pytree_core::axes::{AxisRole, StaticFields};
use pytree_derive::Defaults;
use pytree_transform::try_einsum;

use crate::initializers::Initializer;
use crate::layers::prelude::*;

const EINSUM: &str = "Einsum";

/// Multiplies `x` by a weight with [`einsum`](pytree_transform::einsum()), and adds the bias if the layer has one.
///
/// # Examples
/// ```
/// use pytree_nn::{Einsum, EinsumOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let options = EinsumOptions { bias_shape: Some(vec![8, 4]), ..EinsumOptions::default() };
/// let heads = Einsum::with_options("nta,hab->nthb", [8, 2, 4], options, &mut rngs);
/// assert_eq!(heads.forward(&Tensor::ones(DType::F32, [16, 11, 2])).shape(), [16, 11, 8, 4]);
/// ```
#[doc(alias = "nnx.Einsum")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Einsum {
    /// The second operand of the product.
    #[param("T[...]", roles = weight_roles)]
    pub weight: Tensor,
    /// The bias, which is added to the product. The axes of the bias are the axes of the result that the weight also
    /// has, in the same order as in the result. `None` means that the layer has no bias.
    #[param("T[...]", roles = bias_roles)]
    pub bias: Option<Tensor>,
    /// The letters of the axes of the input, of the weight and of the result, such as `nta,hab->nthb`.
    #[r#static]
    pub subscripts: String,
}

fallible_forward!(Einsum);

/// Returns the roles of the weight. An axis that only the input has, too, is summed over. An axis that the input and the
/// result have counts independent copies.
fn weight_roles(fields: &StaticFields<'_>, _: usize) -> Option<Vec<AxisRole>> {
    let subscripts: String = fields.get("subscripts")?;
    let [input, weight, result] = parts(&subscripts)?;
    let roles =
        weight.chars().map(
            |letter| match (input.contains(letter), result.contains(letter)) {
                (true, true) => AxisRole::Batch,
                (false, true) => AxisRole::Output,
                (_, false) => AxisRole::Input,
            },
        );
    Some(roles.collect())
}

/// Returns the roles of the bias, whose axes are the axes of the result that the weight also has.
fn bias_roles(fields: &StaticFields<'_>, _: usize) -> Option<Vec<AxisRole>> {
    let subscripts: String = fields.get("subscripts")?;
    let [input, weight, result] = parts(&subscripts)?;
    let letters = result.chars().filter(|letter| weight.contains(*letter));
    let roles = letters.map(|letter| {
        if input.contains(letter) {
            AxisRole::Batch
        } else {
            AxisRole::Output
        }
    });
    Some(roles.collect())
}

/// The options of a new [`Einsum`] layer, with the defaults of Flax.
///
/// # Examples
/// See [`Einsum`].
#[derive(Clone, Debug, Defaults, PartialEq)]
pub struct EinsumOptions {
    /// The shape of the bias. The default is `None`, which means that the layer has no bias.
    pub bias_shape: Option<Vec<usize>>,
    /// The dtype of the parameters. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the weight. The default is [`Initializer::lecun_normal`].
    #[default(Initializer::lecun_normal())]
    pub weight_init: Initializer,
    /// The initializer of the bias. The default is zeros.
    #[default(Initializer::Zeros)]
    pub bias_init: Initializer,
}

impl Einsum {
    /// Creates an f32 layer without a bias.
    ///
    /// `subscripts` names the axes of the input, of the weight and of the result by letters, such as `nta,hab->nthb`.
    /// In the input and in the result, `...` means any number of axes.
    ///
    /// Draws a key of the stream `params`.
    ///
    /// # Panics
    /// If `subscripts` does not have two operands and a result, if `subscripts` does not have one letter for each axis
    /// of the weight, if the weight has fewer than two axes, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(
        subscripts: impl Into<String>,
        weight_shape: impl AsRef<[usize]>,
        rngs: &mut Rngs,
    ) -> Self {
        Self::with_options(subscripts, weight_shape, EinsumOptions::default(), rngs)
    }

    /// Creates a layer with the given options. Draws a key for the weight, and then a key for the bias if the layer has
    /// a bias.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new), and if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        subscripts: impl Into<String>,
        weight_shape: impl AsRef<[usize]>,
        options: EinsumOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let (subscripts, shape) = (subscripts.into(), weight_shape.as_ref());
        let letters = parts(&subscripts).map(|[_, weight, _]| weight.chars().collect::<Vec<_>>());
        assert!(
            letters.is_some_and(|letters| letters.len() == shape.len() && !letters.contains(&'.')),
            "Einsum expects the letters of the input, of the weight and of the result, with one letter for each axis of the \
             weight {shape:?}, found `{subscripts}`; write for instance `...a,ab->...b` for a weight of two axes"
        );
        let weight = options.weight_init;
        let weight = weight.initialize(&rngs.params(), options.param_dtype, shape);
        // No closure is used here, because a panic in a closure would not report the caller's line.
        let bias = match options.bias_shape {
            Some(shape) => {
                let key = rngs.params();
                let bias = options.bias_init;
                Some(bias.initialize(&key, options.param_dtype, &shape))
            }
            None => None,
        };
        Self {
            weight,
            bias,
            subscripts,
        }
    }

    /// Multiplies `x` by the weight, and adds the bias if the layer has one.
    ///
    /// # Panics
    /// If the axes of `x` do not match the letters, if the bias does not fit, or if the dtypes differ.
    #[shapes(x = "T: float[...]", return = "T[...]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let product = try_einsum(&self.subscripts, &[x, &self.weight]);
        let y = match (product, &self.bias) {
            (Ok(product), Some(bias)) => {
                let shape = self.bias_shape(product.rank());
                bias.try_reshape(shape)
                    .and_then(|bias| product.try_add(bias))
            }
            (product, _) => product,
        };
        y.map_err(InputError::inside(EINSUM))
    }

    /// Returns the shape to which the bias is reshaped before it is added to a result with `rank` axes. The length is 1
    /// along axes that the weight does not have.
    fn bias_shape(&self, rank: usize) -> Vec<usize> {
        let [_, weight, result] = parts(&self.subscripts).unwrap_or_default();
        let letters = result.chars().filter(|letter| *letter != '.').count();
        let mut shape = Vec::with_capacity(rank);
        for part in result.replace("...", ".").chars() {
            if part == '.' {
                shape.extend(vec![1; rank.saturating_sub(letters)]);
            } else {
                let axis = weight.find(part);
                shape.push(
                    axis.and_then(|axis| self.weight.shape().get(axis))
                        .map_or(1, |&length| length),
                );
            }
        }
        shape
    }
}

/// Returns the letters of the input, of the weight and of the result, without spaces.
fn parts(subscripts: &str) -> Option<[String; 3]> {
    let subscripts = subscripts.replace(' ', "");
    let (operands, result) = subscripts.split_once("->")?;
    let (input, weight) = operands.split_once(',')?;
    let is_one = !weight.contains(',') && !result.contains("->");
    is_one.then(|| [input, weight, result].map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(
        expected = "with one letter for each axis of the weight [2, 3, 4], found `ij,jk->ik`"
    )]
    fn letters_match_the_axes_of_the_weight() {
        let _ = Einsum::new("ij,jk->ik", [2, 3, 4], &mut Rngs::new(0));
    }
}
