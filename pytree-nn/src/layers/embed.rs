//! Embeddings: a table with one vector for each item of a finite set.

use pytree_derive::Defaults;

use crate::initializers::{Distribution, Fan, Initializer};
use crate::layers::prelude::*;

const EMBED: &str = "Embed";

/// A table with a row for each word, class or other item that has an index.
///
/// [`forward`](Self::forward) returns rows, and [`attend`](Self::attend) returns the dot products of a vector with all
/// rows. With both methods, a language model can use the same table for its input and its output (Press and Wolf 2017).
///
/// If two modules need the table, store a `Shared<Embed>` in both modules. The gradient of a shared table is the sum
/// over both uses. The table is counted, optimised and saved once.
///
/// # Examples
/// ```
/// use pytree_core::{Module, Shared};
/// use pytree_nn::{Embed, Rngs, softmax_cross_entropy, summary};
/// use pytree_transform::{Tensor, grad};
///
/// #[derive(Module, Clone, Debug)]
/// struct Encoder { words: Shared<Embed> }
///
/// #[derive(Module, Clone, Debug)]
/// struct Head { words: Shared<Embed> }
///
/// let words = Shared::new(Embed::new(5, 3, &mut Rngs::new(0)));
/// let model = (Encoder { words: words.clone() }, Head { words });
/// let next = |(encoder, head): &(Encoder, Head)| {
///     let x = encoder.words.forward(&Tensor::from([0, 4]));
///     softmax_cross_entropy(&head.words.attend(&x), &Tensor::from([4, 1])).mean()
/// };
/// assert_eq!(summary(&model).elements(), 15);
/// let (encoder, head) = grad(next)(&model);
/// assert_eq!((encoder.len(), head.len()), (1, 0)); // one gradient, at the first place
/// ```
#[doc(alias("nnx.Embed", "nn.Embedding"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Embed {
    /// The table, with a row for each item.
    #[param("T[embeddings features]", roles(item, output))]
    pub embedding: Tensor,
}

fallible_forward!(Embed);

/// The options of a new [`Embed`] table, with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{Embed, EmbedOptions, Rngs};
/// use pytree_transform::DType;
/// let options = EmbedOptions { param_dtype: DType::F64, ..EmbedOptions::default() };
/// let embed = Embed::with_options(5, 3, options, &mut Rngs::new(0));
/// assert_eq!(embed.embedding.dtype(), DType::F64);
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct EmbedOptions {
    /// The dtype of the table. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the table. The default is the normal distribution with variance 1 / features.
    #[default(Initializer::VarianceScaling {
        scale: 1.0,
        fan: Fan::Out,
        distribution: Distribution::Normal,
    })]
    pub embedding_init: Initializer,
}

impl Embed {
    /// Creates an f32 table with normally distributed elements of variance 1 / features, as in Flax.
    ///
    /// Draws a key of the stream `params`.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(embeddings: usize, features: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(embeddings, features, EmbedOptions::default(), rngs)
    }

    /// Creates a table with the given options.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        embeddings: usize,
        features: usize,
        options: EmbedOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let initializer = options.embedding_init;
        let shape = [embeddings, features];
        Self {
            embedding: initializer.initialize(&rngs.params(), options.param_dtype, shape),
        }
    }

    /// Returns the rows at `indices`. Negative indices count from the end.
    ///
    /// Under `jit` and `vmap`, the indices are not checked. The row of an out-of-range index is then NaN, as in Flax.
    ///
    /// # Panics
    /// If the indices are not integers, or if an index is out of range.
    #[shapes(indices = "int[*shape]", return = "T[*shape features]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, indices: &Tensor) -> Result<Tensor, InputError> {
        self.rows(indices)
    }

    #[track_caller]
    fn rows(&self, indices: &Tensor) -> Result<Tensor, InputError> {
        let length = self.embedding.shape().first().copied().unwrap_or_default();
        let inside = InputError::inside(EMBED);
        if !indices.is_traced() {
            check_indices(indices, length)?;
            return self
                .embedding
                .at_indices(indices, 0)
                .try_get()
                .map_err(inside);
        }
        let rows = self
            .embedding
            .at_indices(indices, 0)
            .try_get()
            .map_err(&inside)?;
        // A table has at most `i64::MAX` rows.
        let end = Tensor::from(i64::try_from(length).unwrap_or(i64::MAX));
        let at = indices.convert(DType::I64);
        let is_there = at.less(&end) & at.greater_equal(-end);
        let missing = Tensor::full_like(&rows, f64::NAN);
        is_there
            .expand_dims(-1)
            .try_select(&rows, &missing)
            .map_err(inside)
    }

    /// Returns the dot products of queries with all rows.
    ///
    /// # Panics
    /// If the length of the last axis of `query` is not the number of features, or if the dtypes differ.
    #[shapes(query = "T[... features]", return = "T[... embeddings]")]
    #[panicking_twin(attend)]
    pub fn try_attend(&self, query: &Tensor) -> Result<Tensor, InputError> {
        query
            .try_tensordot(&self.embedding, (&[-1], &[1]))
            .map_err(InputError::inside(EMBED))
    }
}

/// Checks that all indices are in `-length..length`. The indices must not be traced.
fn check_indices(indices: &Tensor, length: usize) -> Result<(), InputError> {
    let indices = indices.convert(DType::I64);
    let values = indices.read::<i64>().map_err(InputError::inside(EMBED))?;
    let end = i64::try_from(length).unwrap_or(i64::MAX);
    match values.iter().position(|index| !(-end..end).contains(index)) {
        Some(position) => Err(InputError::Index {
            what: EMBED,
            length,
            index: values[position],
            position,
        }),
        None => Ok(()),
    }
}
