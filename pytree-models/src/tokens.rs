//! Batches of tokens.

use pytree_core::Pytree;
use pytree_transform::{DType, Tensor};

/// Sequences of tokens, padded at their ends to the length of the longest, which is at least 1.
///
/// # Examples
/// ```
/// use pytree_models::Tokens;
/// let tokens = Tokens::new(&[vec![101, 7592, 102], vec![101, 102]]);
/// assert_eq!(tokens.ids.shape(), [2, 3]);
/// assert_eq!(tokens.mask.to_vec::<bool>(), [true, true, true, true, true, false]);
/// ```
#[derive(Pytree, Clone, Debug, PartialEq)]
pub struct Tokens {
    /// The tokens, `i32[batch, tokens]`; 0 at padding.
    pub ids: Tensor,
    /// The number of the text that a token belongs to, 0 or 1 if two texts are compared, `i32[batch, tokens]`.
    pub types: Tensor,
    /// True at tokens and false at padding, `bool[batch, tokens]`.
    pub mask: Tensor,
}

impl Tokens {
    /// Creates a batch of sequences, all of whose tokens have the type 0.
    pub fn new(sequences: &[Vec<i32>]) -> Self {
        let length = sequences
            .iter()
            .map(Vec::len)
            .max()
            .unwrap_or_default()
            .max(1);
        let shape = [sequences.len(), length];
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for sequence in sequences {
            let token = |place: usize| sequence.get(place).copied();
            ids.extend((0..length).map(|place| token(place).unwrap_or_default()));
            mask.extend((0..length).map(|place| token(place).is_some()));
        }
        Self {
            ids: Tensor::new(shape, ids),
            types: Tensor::zeros(DType::I32, shape),
            mask: Tensor::new(shape, mask),
        }
    }
}
