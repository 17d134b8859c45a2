//! The trait of layers from one tensor to one tensor, which can be put in a row.

use pytree_core::module_object;
use pytree_transform::Tensor;

use crate::error::InputError;
use crate::layers::{
    Activation, BatchNorm, Bidirectional, Conv, ConvTranspose, Dropout, Einsum, Embed, Flatten,
    GroupNorm, HeadProjection, Identity, InstanceNorm, Lambda, LayerNorm, LearnedPositions, Linear,
    LinearGeneral, Lora, Mlp, MultiHeadAttention, OutputProjection, PRelu, Pool, RecurrentCell,
    RmsNorm, Rnn, Sequential, SinusoidalPositions, SpectralNorm, TransformerBlock, WeightNorm,
};
use crate::model::Model;

/// A layer that computes one tensor from one tensor. [`Sequential`] puts such layers in a row.
///
/// The method takes `&mut self`, because some layers change when they run: batch normalisation writes its running
/// statistics, and dropout counts its draws. A layer that does not change may have a method `forward` of its own that
/// takes `&self`. Rust then calls this method of the layer where the layer is known, and the method of the trait inside
/// of a `Box<dyn Forward>` or in a function of any `F: Forward`.
///
/// A layer of your own joins with one line, [`forward!`](crate::forward!):
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
/// The layer must be `Clone`, `Send` and `Sync`. A layer that needs more than a tensor, such as a mask, is no
/// `Forward`: call it in the `forward` of your own struct.
#[module_object]
pub trait Forward: std::fmt::Debug {
    /// Applies the layer to `x`.
    ///
    /// # Panics
    /// If the shape or the dtype of `x` does not fit the layer.
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor;

    /// Applies the layer to `x`, and returns an error if `x` does not fit. By default, calls
    /// [`forward`](Self::forward), which panics.
    ///
    /// # Errors
    /// Returns [`InputError`] with what the layer expects, what it found, and how to fix it.
    #[track_caller]
    fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        Ok(self.forward(x))
    }
}

/// Implements [`Forward`](crate::Forward) for types that have a method `forward(&self, &Tensor) -> Tensor`, or the same
/// with `&mut self`.
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

/// Implements [`Forward`] for layers that have `try_forward`, too.
macro_rules! fallible_forward {
    ($($layer:ty),+ $(,)?) => {$(
        impl Forward for $layer {
            #[track_caller]
            fn forward(&mut self, x: &Tensor) -> Tensor {
                <$layer>::forward(self, x)
            }
            #[track_caller]
            fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
                <$layer>::try_forward(self, x)
            }
        }
    )+};
}

forward!(Activation, Identity, Lambda);
fallible_forward!(
    HeadProjection,
    LearnedPositions,
    MultiHeadAttention,
    OutputProjection,
    SinusoidalPositions,
    TransformerBlock,
    BatchNorm,
    Conv,
    ConvTranspose,
    Dropout,
    Einsum,
    Embed,
    Flatten,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Linear,
    LinearGeneral,
    Mlp,
    PRelu,
    Pool,
    RmsNorm,
    Sequential,
);

/// Applies the layer in the box, so that functions of any layer take a box, too.
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

/// Returns the outputs at all times.
impl<C: RecurrentCell + Clone + Send + Sync + std::fmt::Debug> Forward for Rnn<C> {
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        Self::forward(self, x)
    }
    #[track_caller]
    fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        Self::try_forward(self, x)
    }
}

/// Returns the merged outputs at all times.
impl<F, B> Forward for Bidirectional<F, B>
where
    F: RecurrentCell + Clone + Send + Sync + std::fmt::Debug,
    B: RecurrentCell + Clone + Send + Sync + std::fmt::Debug,
{
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        Self::forward(self, x)
    }
    #[track_caller]
    fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        Self::try_forward(self, x)
    }
}

/// Implements [`Forward`] for wrappers of a model that is a layer.
macro_rules! wrapper_forward {
    ($($layer:ident),+) => {$(
        impl<M: Model + Forward + std::fmt::Debug> Forward for $layer<M> {
            #[track_caller]
            fn forward(&mut self, x: &Tensor) -> Tensor {
                Self::forward(self, x)
            }
            #[track_caller]
            fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
                Self::try_forward(self, x)
            }
        }
    )+};
}

wrapper_forward!(Lora, SpectralNorm, WeightNorm);
