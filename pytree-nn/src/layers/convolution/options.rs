//! The options of new convolutions.

use pytree_core::Static;
use pytree_derive::Defaults;
use pytree_transform::DType;

use crate::initializers::Initializer;
use crate::layers::convolution::padding::ConvPadding;

/// One number for each spatial axis: the same for all axes, or a list.
///
/// # Examples
/// ```
/// use pytree_nn::PerAxis;
/// assert_eq!(PerAxis::from(2), PerAxis::All(2));
/// assert_eq!(PerAxis::from([2, 1]), PerAxis::Each(vec![2, 1]));
/// ```
#[derive(Static, Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PerAxis {
    /// This number for all axes.
    All(usize),
    /// One number for each axis, in the order of the axes.
    Each(Vec<usize>),
}

impl Default for PerAxis {
    /// Returns 1 for all axes.
    fn default() -> Self {
        Self::All(1)
    }
}

pytree_base::conversions! { PerAxis:
    [] usize, |number| Self::All(number);
    [const N: usize] [usize; N], |numbers| Self::Each(numbers.to_vec());
    [] Vec<usize>, |numbers| Self::Each(numbers);
}

impl PerAxis {
    /// Returns one number for each axis of `window`. Messages name the layer and the option `what`, and show the sizes
    /// `window`.
    ///
    /// # Panics
    /// If a number is 0, or if the length of the list is not the number of axes of `window`.
    #[track_caller]
    pub(in crate::layers) fn numbers(
        &self,
        layer: &str,
        what: &str,
        window: &[usize],
    ) -> Vec<usize> {
        let numbers = match self {
            Self::All(number) => vec![*number; window.len()],
            Self::Each(numbers) => numbers.clone(),
        };
        assert!(
            numbers.len() == window.len() && !numbers.contains(&0),
            "{layer} expects {what} above 0, one for each of the {} axes of the window {window:?}, found {numbers:?}; \
             write one number for all axes, or a list of {} numbers",
            window.len(),
            window.len()
        );
        numbers
    }
}

/// The options of a new [`Conv`](crate::Conv), with the defaults of Flax.
///
/// # Examples
/// A depthwise convolution halves both spatial axes:
/// ```
/// use pytree_nn::{Conv, ConvOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let options = ConvOptions { strides: 2.into(), groups: 6, ..ConvOptions::default() };
/// let conv = Conv::with_options(6, 6, [3, 3], options, &mut Rngs::new(0));
/// assert_eq!(conv.weight.shape(), [3, 3, 1, 6]);
/// assert_eq!(conv.forward(&Tensor::ones(DType::F32, [8, 10, 10, 6])).shape(), [8, 5, 5, 6]);
/// ```
#[derive(Clone, Debug, Defaults, PartialEq)]
pub struct ConvOptions {
    /// The distance between neighbouring windows along each spatial axis. The default is 1.
    pub strides: PerAxis,
    /// The padding of the spatial axes. The default is [`ConvPadding::Same`].
    #[default(ConvPadding::Same)]
    pub padding: ConvPadding,
    /// The distance between neighbouring input elements, which are separated by zeros. The default is 1.
    pub input_dilation: PerAxis,
    /// The distance between neighbouring kernel elements. The default is 1.
    pub kernel_dilation: PerAxis,
    /// The number of groups into which the input features are divided: `feature_group_count` in Flax. The default is 1.
    /// Each group has its own output features. In a depthwise convolution, the number of groups is the number of input
    /// features.
    #[default(1)]
    pub groups: usize,
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

/// The options of a new [`ConvTranspose`](crate::ConvTranspose), with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{ConvPadding, ConvTranspose, ConvTransposeOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let options = ConvTransposeOptions {
///     strides: 2.into(),
///     padding: ConvPadding::Valid,
///     ..ConvTransposeOptions::default()
/// };
/// let conv = ConvTranspose::with_options(4, 3, [2, 2], options, &mut Rngs::new(0));
/// assert_eq!(conv.forward(&Tensor::ones(DType::F32, [1, 5, 5, 4])).shape(), [1, 10, 10, 3]);
/// ```
#[derive(Clone, Debug, Defaults, PartialEq)]
pub struct ConvTransposeOptions {
    /// The distance in the result between the windows of neighbouring input elements. The default is 1.
    pub strides: PerAxis,
    /// The padding. The default is [`ConvPadding::Same`]. See [`ConvTranspose`](crate::ConvTranspose) for the meaning.
    #[default(ConvPadding::Same)]
    pub padding: ConvPadding,
    /// The distance between neighbouring kernel elements. The default is 1.
    pub kernel_dilation: PerAxis,
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
