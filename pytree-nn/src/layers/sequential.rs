//! A chain of layers, in which each layer receives the result of the layer before it.

use crate::layers::forward::Forward;
use crate::layers::prelude::*;

/// Applies layers one after another. The layers may have different types. Each type implements [`Forward`].
///
/// The macro [`sequential!`](crate::sequential!) creates a `Sequential` from layers. A `Sequential` is an ordinary
/// module, which works under `jit`, `vmap` and `grad`, in checkpoints and in summaries. [`train`](crate::train()) and
/// [`eval`](crate::eval()) set the modes of all its layers. The weight of the first layer has the path
/// `layers[0].weight`.
///
/// `forward` takes `&mut self`, because some layers change when they run: see [`Forward`]. To differentiate a loss that
/// calls `forward`, use [`value_and_grad_mut`](pytree_transform::value_and_grad_mut).
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Conv, Dropout, Flatten, Linear, Pool, Rngs, eval, sequential};
/// use pytree_transform::{DType, Tensor, value_and_grad_mut};
/// let mut rngs = Rngs::new(0);
/// let mut model = sequential![
///     Conv::new(1, 8, [3, 3], &mut rngs),
///     Activation::Relu,
///     Pool::max([2, 2]).strides(2),
///     Flatten::default(),
///     Dropout::new(0.5, &mut rngs),
///     Linear::new(4 * 4 * 8, 10, &mut rngs),
/// ];
/// let images = Tensor::ones(DType::F32, [2, 8, 8, 1]);
/// let (_, gradient) = value_and_grad_mut(|model: &mut pytree_nn::Sequential| {
///     model.forward(&images).square().mean()
/// })(&mut model);
/// assert_eq!(gradient["layers[0].weight"].shape(), [3, 3, 1, 8]);
/// assert_eq!(eval(&model).forward(&images).shape(), [2, 10]);
/// ```
#[doc(alias("nnx.Sequential", "nn.Sequential"))]
#[derive(Module, Clone, Debug, Default)]
pub struct Sequential {
    /// The layers, from input to output.
    pub layers: Vec<Box<dyn Forward>>,
}

fallible_forward!(Sequential);

impl Sequential {
    /// Creates a model from boxed layers.
    pub fn new(layers: Vec<Box<dyn Forward>>) -> Self {
        Self { layers }
    }

    /// Adds a layer after the last layer.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Activation, Linear, Rngs, Sequential};
    /// let mut rngs = Rngs::new(0);
    /// let mut model = Sequential::default();
    /// for _ in 0..3 {
    ///     model.push(Linear::new(4, 4, &mut rngs));
    ///     model.push(Activation::Tanh);
    /// }
    /// assert_eq!(model.layers.len(), 6);
    /// ```
    pub fn push(&mut self, layer: impl Forward + 'static) {
        self.layers.push(Box::new(layer));
    }

    /// Applies the layers from the first to the last. If there are no layers, returns `x`.
    ///
    /// # Panics
    /// If an input does not fit its layer. The message ends with the path of the layer.
    ///
    /// # Errors
    /// Returns the error of the layer, with the path of the layer. A layer that implements only `forward` panics and
    /// returns no error.
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let mut x = x.clone();
        for (position, layer) in self.layers.iter_mut().enumerate() {
            x = match layer.try_forward(&x) {
                Ok(y) => y,
                Err(error) => return Err(error.in_layer(position)),
            };
        }
        Ok(x)
    }
}

/// Creates a [`Sequential`](crate::Sequential) from layers of different types.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Linear, Rngs, sequential};
/// use pytree_transform::Tensor;
/// let mut rngs = Rngs::new(0);
/// let mut model = sequential![Linear::new(2, 8, &mut rngs), Activation::Relu, Linear::new(8, 1, &mut rngs)];
/// assert_eq!(model.forward(&Tensor::from([1.0_f32, 2.0])).shape(), [1]);
/// ```
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => {
        $crate::Sequential::new(::std::vec![$(::std::boxed::Box::new($layer) as ::std::boxed::Box<dyn $crate::Forward>),*])
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use crate::{Activation, Linear, Rngs, Sequential};
    use pytree_transform::{DType, Tensor};

    #[test]
    fn error_ends_with_the_path_of_the_layer() {
        let mut rngs = Rngs::new(0);
        let inner = sequential![Activation::Relu, Linear::new(3, 2, &mut rngs)];
        let mut model = sequential![Linear::new(4, 5, &mut rngs), inner];
        let error = model
            .try_forward(&Tensor::ones(DType::F32, [7, 4]))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Linear::forward: x is f32[7,5], expected T[... in] with in = 3 (from weight: f32[3,2] as T[in out]); \
             pass x with in = 3, or make the Linear with in = 5; in layers[1].layers[1] of the Sequential"
        );
    }

    #[test]
    fn without_layers_the_input_is_returned() {
        let x = Tensor::from([1, 2]);
        assert_eq!(Sequential::default().forward(&x), x);
    }
}
