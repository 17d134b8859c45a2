//! Layers without parameters: [`Flatten`] merges axes, and [`Lambda`] applies a function.

use crate::layers::prelude::*;

/// Merges all axes after the first `kept` axes into one axis. For example, a [`Linear`](crate::Linear) layer after a
/// convolution needs such an input.
///
/// The default `kept` is 1, which keeps the batch axis: `x: [batch, a, b, …]` becomes `[batch, a · b · …]`. Set `kept`
/// to 0 if `x` has no batch axis, as under `vmap`.
///
/// # Examples
/// ```
/// use pytree_nn::Flatten;
/// use pytree_transform::{DType, Tensor};
/// let x = Tensor::ones(DType::F32, [8, 4, 4, 3]);
/// assert_eq!(Flatten::default().forward(&x).shape(), [8, 48]);
/// assert_eq!(Flatten { kept: 2 }.forward(&x).shape(), [8, 4, 12]);
/// assert_eq!(Flatten { kept: 0 }.forward(&x).shape(), [384]);
/// ```
#[doc(alias = "nn.Flatten")]
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// The number of leading axes that are not merged. The default is 1, as in PyTorch.
    #[r#static]
    pub kept: usize,
}

fallible_forward!(Flatten);

impl Default for Flatten {
    fn default() -> Self {
        Self { kept: 1 }
    }
}

impl Flatten {
    /// Merges the axes of `x` after the first `kept` axes. If `x` has only `kept` axes, adds an axis of length 1.
    ///
    /// # Panics
    /// If `x` has fewer than `kept` axes.
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        if x.rank() < self.kept {
            return Err(InputError::input(
                "Flatten",
                format!("x with at least {} axes, which it keeps", self.kept),
                x,
                "pass x with its batch axes, or set `kept` to the number of batch axes of x",
            ));
        }
        let (kept, merged) = x.shape().split_at(self.kept);
        let length: usize = merged.iter().product();
        Ok(x.reshape([kept, &[length]].concat()))
    }
}

/// Applies a function without parameters, so that a [`Sequential`](crate::Sequential) can contain the function.
///
/// The function is a static value, so a closure must not capture variables. If the function of a `Lambda` in a model
/// changes, `jit` compiles the model again.
///
/// # Examples
/// ```
/// use pytree_nn::{Lambda, sequential};
/// use pytree_transform::{DType, Tensor};
/// let mut model = sequential![Lambda(|x| x.mean_axes([1, 2])), Lambda(Tensor::exp)];
/// assert_eq!(model.forward(&Tensor::ones(DType::F32, [8, 4, 4, 3])).shape(), [8, 3]);
/// ```
#[derive(Module, Clone, Copy, Debug)]
pub struct Lambda(
    /// The function.
    #[r#static]
    pub fn(&Tensor) -> Tensor,
);

crate::forward!(Lambda);

impl Lambda {
    /// Applies the function to `x`.
    ///
    /// # Panics
    /// If the function panics.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        (self.0)(x)
    }
}
