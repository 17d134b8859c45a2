//! The linear layer.

use pytree_derive::Defaults;
use pytree_transform::TensorError;

use crate::initializers::{Initializer, optional};
use crate::layers::prelude::*;

/// Applies x · weight + bias over the last axis of `x`.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let linear = Linear::new(2, 3, &mut Rngs::new(0));
/// let y = linear.forward(&Tensor::ones(DType::F32, [5, 2]));
/// assert_eq!(y.shape(), [5, 3]);
/// ```
#[doc(alias("nnx.Linear", "nn.Linear"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Linear {
    /// The matrix by which the input is multiplied.
    #[param("T[in out]", roles(input, output))]
    pub weight: Tensor,
    /// The vector that is added to the product. `None` means that the layer has no bias.
    #[param("T[out]", roles(output))]
    pub bias: Option<Tensor>,
}

fallible_forward!(Linear);

/// The options of a new [`Linear`] layer, with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Linear, LinearOptions, Mlp, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let options = LinearOptions { param_dtype: DType::F64, ..LinearOptions::default() };
/// let linear = Linear::with_options(2, 3, options, &mut rngs);
/// assert_eq!(linear.forward(&Tensor::ones(DType::F64, [2])).dtype(), DType::F64);
/// let mlp = Mlp::with_options(&[2, 8, 3], Activation::Tanh, options, &mut rngs);
/// assert_eq!(mlp.forward(&Tensor::ones(DType::F64, [2])).dtype(), DType::F64);
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct LinearOptions {
    /// The dtype of the parameters. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the weight. The default is [`Initializer::lecun_normal`].
    #[default(Initializer::lecun_normal())]
    pub weight_init: Initializer,
    /// The initializer of the bias. The default is zeros. `None` means that the layer has no bias.
    #[default(Some(Initializer::Zeros))]
    pub bias_init: Option<Initializer>,
}

impl Linear {
    /// Creates an f32 layer, with [`Initializer::lecun_normal`] for the weight and zeros for the bias, as in
    /// Flax.
    ///
    /// Draws two keys of the stream `params`.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(inputs, outputs, LinearOptions::default(), rngs)
    }

    /// Creates an f32 layer like [`new`](Self::new), but without a bias. Draws one key of the stream `params`.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Self {
        let options = LinearOptions {
            bias_init: None,
            ..LinearOptions::default()
        };
        Self::with_options(inputs, outputs, options, rngs)
    }

    /// Creates a layer with the given options. Draws a key for the weight, and then a key for the bias if the layer has
    /// a bias.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        inputs: usize,
        outputs: usize,
        options: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let dtype = options.param_dtype;
        let weight = options.weight_init;
        let weight = weight.initialize(&rngs.params(), dtype, [inputs, outputs]);
        let bias = optional(options.bias_init, dtype, [outputs], rngs);
        Self { weight, bias }
    }

    /// Applies the layer to the last axis of `x`.
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of inputs, or if the dtypes differ.
    #[shapes(x = "T[... in]", return = "T[... out]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        with_bias("Linear", x.try_matmul(&self.weight), self.bias.as_ref())
    }
}

/// Returns a product with the bias of a layer added, if it has one. An error names the layer.
#[track_caller]
pub(super) fn with_bias(
    layer: &'static str,
    product: Result<Tensor, TensorError>,
    bias: Option<&Tensor>,
) -> Result<Tensor, InputError> {
    let y = match (product, bias) {
        (Ok(product), Some(bias)) => product.try_add(bias),
        (product, _) => product,
    };
    y.map_err(InputError::inside(layer))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn linear() -> Linear {
        Linear::new(64, 3, &mut Rngs::new(0))
    }

    #[test]
    fn wrong_input_reports_expected_shape() {
        let error = linear()
            .try_forward(&Tensor::zeros(DType::F32, [32, 65]))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Linear::forward: x is f32[32,65], expected T[... in] with in = 64 (from weight: f32[64,3] as T[in out]); pass x with in = 64, or make the Linear with in = 65"
        );
        let error = linear()
            .try_forward(&Tensor::zeros(DType::F64, [32, 64]))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Linear::forward: x is f64[32,64], expected T[... in] with T = f32 (from weight: f32[64,3] as T[in out]); convert x to f32, or make the Linear of f64"
        );
        assert!(linear().try_forward(&Tensor::from(1.0_f32)).is_err());
    }

    #[test]
    fn the_panic_is_at_the_callers_line() {
        let line = Arc::new(Mutex::new(0));
        let (seen, thread) = (Arc::clone(&line), std::thread::current().id());
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == thread {
                *seen.lock().unwrap() = info.location().map_or(0, std::panic::Location::line);
            }
        }));
        let (layer, x) = (linear(), Tensor::zeros(DType::F32, [65]));
        let here = line!() + 1;
        let call = || layer.forward(&x);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        std::panic::set_hook(hook);
        assert!(outcome.is_err());
        assert_eq!(*line.lock().unwrap(), here);
    }

    #[test]
    fn leading_axes_are_arbitrary() {
        for shape in [vec![64], vec![2, 64], vec![2, 3, 64]] {
            let y = linear().forward(&Tensor::ones(DType::F32, &shape));
            assert_eq!(y.rank(), shape.len());
            assert_eq!(y.shape().last(), Some(&3));
        }
    }

    #[test]
    fn without_a_bias_one_key_is_drawn() {
        let mut rngs = Rngs::new(0);
        assert!(Linear::without_bias(2, 2, &mut rngs).bias.is_none());
        assert_eq!(rngs.params(), crate::Key::new(0).fold_in(1));
    }
}
