//! What [`Generator`](crate::Generator) asks of a model.

use std::cell::Cell;

use pytree_nn::{Model, Quantized, with_cache};
use pytree_transform::{Tensor, eval_shape};

/// A model that predicts the next token of a text. [`Generator`](crate::Generator) continues texts with it.
///
/// A quantized language model is one, too.
///
/// # Examples
/// The layers after the table of tokens could be any that attend to earlier tokens only:
/// ```
/// use pytree_core::Module;
/// use pytree_models::{GenerateOptions, Generator, LanguageModel, Tokens};
/// use pytree_nn::{Embed, MultiHeadAttention, Rngs};
/// use pytree_transform::Tensor;
///
/// #[derive(Module, Clone)]
/// struct Small {
///     tokens: Embed,
///     attention: MultiHeadAttention,
/// }
///
/// impl LanguageModel for Small {
///     fn features(&mut self, tokens: &Tensor) -> Tensor {
///         self.attention.forward(&self.tokens.forward(tokens))
///     }
///     fn logits(&self, features: &Tensor) -> Tensor {
///         self.tokens.attend(features)
///     }
/// }
///
/// let mut rngs = Rngs::new(0);
/// let small = Small { tokens: Embed::new(10, 8, &mut rngs), attention: MultiHeadAttention::causal(8, 2, &mut rngs) };
/// let options = GenerateOptions { max_tokens: 3, ..GenerateOptions::default() };
/// let texts = Generator::new(&small, options)?.generate(&Tokens::new(&[vec![1, 2], vec![3]]))?;
/// assert_eq!(texts.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
pub trait LanguageModel: Model {
    /// Returns the features of tokens before the last layer: `i32[batch, tokens]` to `[batch, tokens, features]`. The features of a
    /// token depend on this token and on earlier ones only.
    #[track_caller]
    fn features(&mut self, tokens: &Tensor) -> Tensor;

    /// Applies the last layer: `[.., features]` to `[.., vocabulary]`.
    #[track_caller]
    fn logits(&self, features: &Tensor) -> Tensor;

    /// Returns the largest number of tokens of a text, or `None` if there is no limit. The default is `None`.
    fn context(&self) -> Option<usize> {
        None
    }

    /// Returns the model with empty caches for `length` tokens of each sequence: [`pytree_nn::with_cache`]. A leaf of a cache is a state of
    /// the kind `Cache`. It has the axes of the batch in front, or is the number of tokens in the cache, `i32[]`.
    #[must_use]
    #[track_caller]
    fn with_cache(&self, batch: &[usize], length: usize) -> Self {
        with_cache(self, batch, length)
    }
}

impl<M: LanguageModel> LanguageModel for Quantized<M> {
    #[track_caller]
    fn features(&mut self, tokens: &Tensor) -> Tensor {
        self.with_model(|model| model.features(tokens))
    }

    #[track_caller]
    fn logits(&self, features: &Tensor) -> Tensor {
        self.model().logits(features)
    }

    // Recorded and not computed, so no weight is made from its integers.
    fn context(&self) -> Option<usize> {
        let context = Cell::new(None);
        eval_shape(
            |quantized: &Self| context.set(quantized.model().context()),
            self,
        );
        context.into_inner()
    }

    fn with_cache(&self, batch: &[usize], length: usize) -> Self {
        let batch = batch.to_vec();
        self.map_rest(move |model| model.with_cache(&batch, length))
    }
}
