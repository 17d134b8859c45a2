//! The block of a transformer.

use pytree_core::Static;
use pytree_derive::Defaults;

use super::multi_head::MultiHeadAttention;
use super::options::{AttentionDirection, MultiHeadAttentionOptions};
use crate::layers::activation::Activation;
use crate::layers::dropout::Dropout;
use crate::layers::mlp::Mlp;
use crate::layers::normalization::{LayerNorm, NormOptions};
use crate::layers::prelude::*;

/// Where a [`TransformerBlock`] normalises.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NormOrder {
    /// Before the attention and before the perceptron: x + part(norm(x)), as in GPT-2. Such a block trains without a
    /// warm-up of the learning rate (Xiong et al. 2020).
    #[default]
    Pre,
    /// After each sum: norm(x + part(x)), as in the first transformer (Vaswani et al. 2017).
    Post,
}

/// The options of a new [`TransformerBlock`].
///
/// # Examples
/// ```
/// use pytree_nn::{MultiHeadAttentionOptions, NormOrder, Rngs, TransformerBlock, TransformerBlockOptions};
/// let attention = MultiHeadAttentionOptions { kv_heads: Some(1), ..MultiHeadAttentionOptions::default() };
/// let options = TransformerBlockOptions {
///     norm_order: NormOrder::Post,
///     dropout_rate: 0.1,
///     attention,
///     ..TransformerBlockOptions::default()
/// };
/// let block = TransformerBlock::with_options(32, 4, options, &mut Rngs::new(0));
/// assert_eq!(block.mlp.layers[0].weight.shape(), [32, 128]);
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct TransformerBlockOptions {
    /// The options of the attention. The perceptron has the same `linear` options, and the normalisations have the
    /// `param_dtype` of these options.
    pub attention: MultiHeadAttentionOptions,
    /// The number of hidden units of the perceptron; by default `None`, which means four times the number of features
    /// (Vaswani et al. 2017, section 3.3).
    pub hidden: Option<usize>,
    /// The activation of the perceptron; by default [`Activation::Gelu`], as in GPT-2.
    #[default(Activation::Gelu)]
    pub activation: Activation,
    /// The probability that a result element is dropped, both after the attention and after the perceptron. By
    /// default, the probability is 0. The rate for attention weights is an option of the attention.
    #[default(0.0)]
    pub dropout_rate: f64,
    /// Where the block normalises; by default [`NormOrder::Pre`].
    #[default(NormOrder::Pre)]
    pub norm_order: NormOrder,
    /// The options of both normalisations; by default the defaults of [`LayerNorm`]. The `param_dtype` of these options
    /// is ignored: see `attention`.
    pub norm: NormOptions,
}

/// Applies self-attention and then a perceptron, and adds the input of each part to its result (Vaswani et al. 2017,
/// section 3.1).
///
/// By default, the block computes y = x + attention(norm(x)), and returns y + mlp(norm(y)). See [`NormOrder`] for the
/// other order. Dropout is applied to the results of the attention and of the perceptron.
///
/// # Examples
/// ```
/// use pytree_nn::{Rngs, TransformerBlock, with_cache};
/// use pytree_transform::{DType, ix};
/// let mut rngs = Rngs::new(0);
/// let mut block = TransformerBlock::causal(16, 4, &mut rngs);
/// let x = rngs.normal(DType::F32, [2, 5, 16]);
/// let y = block.forward(&x);
/// // The same, with the tokens one by one.
/// let mut decoder = with_cache(&block, [2], 5);
/// for token in 0..5 {
///     let next = decoder.forward(&x.index(ix![.., token..=token]));
///     assert!((next - y.index(ix![.., token..=token])).abs().max().item::<f32>() < 1e-5);
/// }
/// ```
#[doc(alias = "nn.TransformerEncoderLayer")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct TransformerBlock {
    /// The normalisation before or after the attention.
    pub attention_norm: LayerNorm,
    /// The attention.
    pub attention: MultiHeadAttention,
    /// The dropout of the result of the attention. `None` if the rate is 0.
    pub attention_dropout: Option<Dropout>,
    /// The normalisation before or after the perceptron.
    pub mlp_norm: LayerNorm,
    /// The perceptron, with one hidden layer.
    pub mlp: Mlp,
    /// The dropout of the result of the perceptron. `None` if the rate is 0.
    pub mlp_dropout: Option<Dropout>,
    /// Where the block normalises.
    #[r#static]
    pub norm_order: NormOrder,
}

fallible_forward!(TransformerBlock);

impl TransformerBlock {
    /// Creates an f32 block in which all tokens attend to all tokens, with the defaults of [`TransformerBlockOptions`].
    ///
    /// # Panics
    /// If `heads` does not divide `features`, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, heads: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(features, heads, TransformerBlockOptions::default(), rngs)
    }

    /// Creates an f32 block in which each token attends only to itself and earlier tokens, as in GPT-2.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new).
    #[track_caller]
    pub fn causal(features: usize, heads: usize, rngs: &mut Rngs) -> Self {
        let attention = MultiHeadAttentionOptions {
            direction: AttentionDirection::Causal,
            ..MultiHeadAttentionOptions::default()
        };
        let options = TransformerBlockOptions {
            attention,
            ..TransformerBlockOptions::default()
        };
        Self::with_options(features, heads, options, rngs)
    }

    /// Creates a block with the given options. Draws keys in the order of the fields.
    ///
    /// # Panics
    /// In the same cases as [`MultiHeadAttention::with_options`] and [`Dropout::new`].
    #[track_caller]
    pub fn with_options(
        features: usize,
        heads: usize,
        options: TransformerBlockOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let linear = options.attention.linear;
        let norm = NormOptions {
            param_dtype: linear.param_dtype,
            ..options.norm
        };
        let hidden = options.hidden.unwrap_or(4 * features);
        let widths = [
            options.attention.out_features.unwrap_or(features),
            hidden,
            features,
        ];
        let attention_norm = LayerNorm::with_options(features, norm, rngs);
        let attention = MultiHeadAttention::with_options(features, heads, options.attention, rngs);
        let attention_dropout = dropout(options.dropout_rate, rngs);
        let mlp_norm = LayerNorm::with_options(features, norm, rngs);
        let mlp = Mlp::with_options(&widths, options.activation, linear, rngs);
        let mlp_dropout = dropout(options.dropout_rate, rngs);
        Self {
            attention_norm,
            attention,
            attention_dropout,
            mlp_norm,
            mlp,
            mlp_dropout,
            norm_order: options.norm_order,
        }
    }

    /// Applies the block to `x: [*batch, tokens, features]`. The result has the shape of `x`. If the attention has a
    /// cache, `x` contains only the next tokens of each sequence: see [`MultiHeadAttention::forward`].
    ///
    /// # Panics
    /// In the same cases as [`MultiHeadAttention::forward`].
    #[shapes(
        x = "T: float[*batch tokens features]",
        return = "T[*batch tokens features]"
    )]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, None)
    }

    /// Applies the block like [`forward`](Self::forward), but no token attends to a key where `mask` is false: see
    /// [`MultiHeadAttention::forward_masked`].
    ///
    /// # Panics
    /// In the same cases as [`MultiHeadAttention::forward_masked`].
    #[shapes(
        x = "T: float[*batch tokens features]",
        mask = "bool[...]",
        return = "T[*batch tokens features]"
    )]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, Some(mask))
    }

    #[track_caller]
    fn apply(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let inside = InputError::inside("TransformerBlock");
        let is_first = self.norm_order == NormOrder::Pre;
        let input = before(is_first, &self.attention_norm, x)?;
        let mixed = match mask {
            Some(mask) => self.attention.try_forward_masked(&input, mask)?,
            None => self.attention.try_forward(&input)?,
        };
        let mixed = dropped(self.attention_dropout.as_mut(), mixed)?;
        let sum = x.try_add(&mixed).map_err(&inside)?;
        let x = before(!is_first, &self.attention_norm, &sum)?;
        let inner = self
            .mlp
            .try_forward(&before(is_first, &self.mlp_norm, &x)?)?;
        let inner = dropped(self.mlp_dropout.as_mut(), inner)?;
        let sum = x.try_add(&inner).map_err(&inside)?;
        before(!is_first, &self.mlp_norm, &sum)
    }
}

#[track_caller]
fn dropout(rate: f64, rngs: &mut Rngs) -> Option<Dropout> {
    match rate {
        0.0 => None,
        rate => Some(Dropout::new(rate, rngs)),
    }
}

#[track_caller]
fn dropped(dropout: Option<&mut Dropout>, x: Tensor) -> Result<Tensor, InputError> {
    match dropout {
        Some(dropout) => dropout.try_forward(&x),
        None => Ok(x),
    }
}

/// Applies the normalisation if `is_here` is true, and otherwise returns `x`.
#[track_caller]
fn before(is_here: bool, norm: &LayerNorm, x: &Tensor) -> Result<Tensor, InputError> {
    if is_here {
        norm.try_forward(x)
    } else {
        Ok(x.clone())
    }
}
