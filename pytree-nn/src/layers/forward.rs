//! The trait of layers that compute one tensor from one tensor. A [`Sequential`](crate::Sequential) chains such layers.

use pytree_core::module_object;
use pytree_transform::Tensor;

use crate::error::InputError;

/// A layer that computes one tensor from one tensor. A [`Sequential`](crate::Sequential) passes the result of each such layer to the next
/// layer.
///
/// The method takes `&mut self`, because some layers change when they run: batch normalisation writes its running
/// statistics, and dropout counts its draws. A layer that does not change may also have an inherent method `forward`
/// that takes `&self`. Rust calls the inherent method on a value of the layer's own type. Rust calls the trait method
/// on a `Box<dyn Forward>` and in generic functions over `F: Forward`.
///
/// Implement the trait for your own layer with the macro [`forward!`](crate::forward!):
///
/// ```
/// use pytree_core::Module;
/// use pytree_nn::{Forward, Linear, Rngs, forward, sequential};
/// use pytree_transform::{DType, Tensor};
///
/// #[derive(Module, Clone, Debug)]
/// struct Residual {
///     inner: Linear,
/// }
/// forward!(Residual);
///
/// impl Residual {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         x + self.inner.forward(x).tanh()
///     }
/// }
///
/// let mut rngs = Rngs::new(0);
/// let mut model = sequential![
///     Residual { inner: Linear::new(4, 4, &mut rngs) },
///     Linear::new(4, 2, &mut rngs),
/// ];
/// assert_eq!(model.forward(&Tensor::ones(DType::F32, [3, 4])).shape(), [3, 2]);
/// ```
///
/// The layer must be `Clone`, `Send` and `Sync`. A layer with further inputs, such as a mask, cannot implement
/// `Forward`. Call such a layer in the `forward` method of your own struct.
#[module_object]
pub trait Forward: std::fmt::Debug {
    /// Applies the layer to `x`.
    ///
    /// # Panics
    /// If the shape or the dtype of `x` does not fit the layer.
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor;

    /// Applies the layer to `x`, and returns an error if `x` does not fit the layer. The default implementation calls
    /// [`forward`](Self::forward), which panics if `x` does not fit.
    ///
    /// # Errors
    /// Returns [`InputError`] with the expected input, the found input and a fix.
    #[track_caller]
    fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        Ok(self.forward(x))
    }
}

/// Implements [`Forward`](crate::Forward) for types with a method `forward(&self, &Tensor) -> Tensor`. The method may
/// also take `&mut self`.
///
/// See [`Forward`](crate::Forward) for an example.
#[macro_export]
macro_rules! forward {
    ($($layer:ty),+ $(,)?) => {$(
        impl $crate::Forward for $layer {
            #[track_caller]
            fn forward(&mut self, x: &$crate::private::Tensor) -> $crate::private::Tensor {
                <$layer>::forward(self, x)
            }
        }
    )+};
}

/// Implements [`Forward`] for a layer that has both `forward` and `try_forward`. The parameters of a generic layer are before it, in
/// brackets.
macro_rules! fallible_forward {
    ([$($generics:tt)*] $layer:ty) => {
        impl<$($generics)*> $crate::layers::Forward for $layer {
            #[track_caller]
            fn forward(&mut self, x: &$crate::private::Tensor) -> $crate::private::Tensor {
                <$layer>::forward(self, x)
            }
            #[track_caller]
            fn try_forward(&mut self, x: &$crate::private::Tensor) -> Result<$crate::private::Tensor, $crate::InputError> {
                <$layer>::try_forward(self, x)
            }
        }
    };
    ($layer:ty) => {
        fallible_forward!([] $layer);
    };
}
pub(crate) use fallible_forward;

/// Applies the layer in the box. With this implementation, a generic function over `F: Forward` also accepts a
/// `Box<dyn Forward>`.
impl Forward for Box<dyn Forward> {
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
    #[track_caller]
    fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        (**self).try_forward(x)
    }
}
