//! The two networks that the page trains: plain structs, whose fields have kinds.

use pytree::nn::{Flatten, Pool};
use pytree::prelude::*;

/// The classes of the digits.
const CLASSES: usize = 10;

/// A network for images of 8 × 8 pixels, `[count, 64]`. Which one it is, is part of the treedef.
#[derive(Module, Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a page has one network")]
pub(crate) enum Network {
    /// Three linear layers.
    Mlp { mlp: Mlp },
    /// Two convolutions and a linear layer.
    Cnn { cnn: Cnn },
}

/// A small convolutional network.
#[derive(Module, Clone, Debug)]
pub(crate) struct Cnn {
    convolutions: [Conv; 2],
    norms: [BatchNorm; 2],
    head: Linear,
    #[r#static]
    activation: Activation,
}

impl Cnn {
    fn new(activation: Activation, rngs: &mut Rngs) -> Self {
        Self {
            convolutions: [
                Conv::new(1, 16, [3, 3], rngs),
                Conv::new(16, 32, [3, 3], rngs),
            ],
            norms: [BatchNorm::new(16, rngs), BatchNorm::new(32, rngs)],
            head: Linear::new(2 * 2 * 32, CLASSES, rngs),
            activation,
        }
    }

    /// In training, the norms write their running means and variances.
    fn forward(&mut self, images: &Tensor) -> Tensor {
        let mut x = images.reshape([images.shape()[0], 8, 8, 1]);
        let halve = Pool::max([2, 2]).strides(2);
        for (convolution, norm) in self.convolutions.iter().zip(&mut self.norms) {
            let y = norm.forward(&convolution.forward(&x));
            x = halve.forward(&self.activation.apply(&y));
        }
        self.head.forward(&Flatten::default().forward(&x))
    }
}

impl Network {
    /// Returns a new network: `mlp` or `cnn`.
    pub(crate) fn new(name: &str, activation: Activation, rngs: &mut Rngs) -> Result<Self, String> {
        match name {
            "mlp" => Ok(Self::Mlp {
                mlp: Mlp::new(&[64, 128, 128, CLASSES], activation, rngs),
            }),
            "cnn" => Ok(Self::Cnn {
                cnn: Cnn::new(activation, rngs),
            }),
            _ => Err(format!(
                "there is no network `{name}`: choose `mlp` or `cnn`"
            )),
        }
    }

    /// Returns the logits of the classes: `[count, 10]`.
    pub(crate) fn forward(&mut self, images: &Tensor) -> Tensor {
        match self {
            Self::Mlp { mlp } => mlp.forward(images),
            Self::Cnn { cnn } => cnn.forward(images),
        }
    }

    /// Sets the activation, which is static: a compiled step traces again.
    pub(crate) fn set_activation(&mut self, activation: Activation) {
        match self {
            Self::Mlp { mlp } => mlp.activation = activation,
            Self::Cnn { cnn } => cnn.activation = activation,
        }
    }
}
