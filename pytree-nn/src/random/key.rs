//! Random keys.
//!
//! The generator is threefry2x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") with JAX's
//! partitionable counters: element `i` of any shape is computed from the counter `i`. All functions of keys use tensor
//! operations, so `vmap`, `grad` and `jit` can trace keys.

use std::fmt;

use crate::error::or_panic;
use pytree_core::{Pytree, PytreeOf, SelectPart, Tree, TreeError, Unflattener, Visitor};
use pytree_transform::extend::{called, check_memory, threefry2x32};
use pytree_transform::{AbstractArray, DType, Tensor, ix, stack};

/// A random key of two words, which is one leaf of a pytree.
///
/// A key gives the same numbers as the same key in JAX 0.10: bits, integers and uniform `f32` numbers are equal, and other
/// real numbers are equal up to rounding. All methods run under `jit` and `vmap`. Use a key only once. To get more keys,
/// [`split`](Self::split) a key.
///
/// The tensor of a key is `u32[2]`. A stack of keys has a tensor `u32[.., 2]`, and [`vmap`](pytree_transform::vmap) can
/// map over the stack.
///
/// # Examples
/// ```
/// use pytree_nn::Key;
/// use pytree_transform::{DType, vmap};
/// let key = Key::new(0);
/// let numbers = key.uniform(DType::F32, [2, 3]);
/// assert_eq!(numbers.to_vec::<f32>()[..2], [0.947667, 0.9785799]);
/// let rows = vmap(|key: Key| key.normal(DType::F32, [3]))(key.split_stacked(4));
/// assert_eq!(rows.shape(), [4, 3]);
/// ```
#[doc(alias("jax.random.key", "jax.random.PRNGKey", "torch.Generator"))]
#[derive(Clone, PartialEq)]
pub struct Key(Tensor);

impl From<Vec<Key>> for Key {
    /// Stacks keys, so that `vmap` maps over them.
    ///
    /// # Panics
    /// If there are no keys.
    #[track_caller]
    fn from(keys: Vec<Self>) -> Self {
        stack(&keys, 0)
    }
}

impl Key {
    /// Returns the key of a seed, like `jax.random.key(seed)`.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the two halves of the seed are the two words"
    )]
    pub fn new(seed: u64) -> Self {
        Self(Tensor::from([(seed >> 32) as u32, seed as u32]))
    }

    /// Creates a key, or a stack of keys, from a tensor of two words for each key: `u32[.., 2]`.
    ///
    /// # Panics
    /// If `data` is not of dtype u32, or if its last axis does not have length 2.
    #[doc(alias = "jax.random.wrap_key_data")]
    #[track_caller]
    pub fn from_data(data: Tensor) -> Self {
        assert!(
            data.dtype() == DType::U32 && data.shape().last() == Some(&2),
            "cannot make a key of a tensor: expected u32[.., 2], found {}; to make a key from a seed, use `Key::new`",
            data.info()
        );
        Self(data)
    }

    /// Returns the two words of the key, or of each key of a stack: `u32[.., 2]`.
    #[doc(alias = "jax.random.key_data")]
    pub fn data(&self) -> &Tensor {
        &self.0
    }

    /// Returns `count` new keys. For `vmap`, see [`split_stacked`](Self::split_stacked).
    ///
    /// # Panics
    /// If this is a stack of keys.
    #[doc(alias = "jax.random.split")]
    #[track_caller]
    pub fn split(&self, count: usize) -> Vec<Self> {
        let _called = called("split");
        let stacked = self.split_stacked(count).0;
        (0..count)
            .map(|position| Self(stacked.index(ix![position])))
            .collect()
    }

    /// Returns `count` new keys in a stack, over which `vmap` maps: `u32[count, 2]`.
    ///
    /// # Panics
    /// If this is a stack of keys.
    #[must_use]
    #[track_caller]
    pub fn split_stacked(&self, count: usize) -> Self {
        let _called = called("split_stacked");
        self.split_shaped([count])
    }

    /// Returns new keys in a stack of any shape: `u32[..shape, 2]`.
    ///
    /// # Panics
    /// If this is a stack of keys.
    #[must_use]
    #[track_caller]
    pub fn split_shaped(&self, shape: impl AsRef<[usize]>) -> Self {
        let _called = called("split_shaped");
        let (high, low) = self.words(shape.as_ref(), "split");
        Self(Tensor::stack(&[high, low], -1))
    }

    /// Returns a new key that is computed from this key and an integer, for example the number of the training step.
    ///
    /// `data` is a Rust integer, for instance a `u32` or `usize`, or a scalar integer tensor, which may be traced. As in
    /// JAX, 32 bits of it count: a negative number is taken modulo 2³².
    ///
    /// # Panics
    /// If this is a stack of keys, if `data` is a tensor other than a single integer, or if `data` is a Rust integer that
    /// 32 bits do not hold.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// let key = Key::new(0);
    /// let epochs: Vec<usize> = vec![0, 1];
    /// assert_ne!(key.fold_in(epochs[0]), key.fold_in(epochs[1]));
    /// assert_eq!(key.fold_in(epochs[1]), key.fold_in(1_u32));
    /// ```
    #[doc(alias = "jax.random.fold_in")]
    #[must_use]
    #[track_caller]
    pub fn fold_in(&self, data: impl FoldIn) -> Self {
        let _called = called("fold_in");
        let data = data.data();
        assert!(
            data.rank() == 0 && !data.dtype().is_float() && data.dtype() != DType::Bool,
            "cannot fold {} into a key: expected a single integer; to fold in several integers, use `vmap`",
            data.info()
        );
        let (key0, key1) = self.halves("fold into");
        let data = data.convert(DType::U32);
        let (high, low) = threefry2x32(&key0, &key1, &Tensor::zeros_like(&data), &data);
        Self(Tensor::stack(&[high, low], -1))
    }

    /// Returns two random words for each element of a shape.
    #[track_caller]
    pub(super) fn words(&self, shape: &[usize], operation: &str) -> (Tensor, Tensor) {
        or_panic(check_memory("draw", &AbstractArray::new(DType::U32, shape)));
        let count = shape.iter().product();
        self.words_at(&Tensor::arange(DType::U32, count).reshape(shape), operation)
    }

    /// Returns two random words for each counter in `counts`.
    #[track_caller]
    pub(super) fn words_at(&self, counts: &Tensor, operation: &str) -> (Tensor, Tensor) {
        let (key0, key1) = self.halves(operation);
        threefry2x32(
            &key0.broadcast_to(counts.shape()),
            &key1.broadcast_to(counts.shape()),
            &Tensor::zeros_like(counts),
            counts,
        )
    }

    pub(super) fn is_traced(&self) -> bool {
        self.0.is_traced()
    }

    /// Returns the two words of the key.
    #[track_caller]
    fn halves(&self, operation: &str) -> (Tensor, Tensor) {
        assert!(
            self.0.rank() == 1,
            "cannot {operation} a stack of keys {}: expected a single key; map over the stack with `vmap`",
            self.0.info()
        );
        (self.0.index(ix![0]), self.0.index(ix![1]))
    }
}

/// An integer that [`Key::fold_in`] takes: a Rust integer, or a scalar tensor of integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be folded into a key",
    label = "expected an integer, or a tensor of one integer",
    note = "pass a Rust integer such as a `u32` or `usize`, a `Tensor` or a `&Tensor`"
)]
pub trait FoldIn {
    /// Returns the integer as a tensor.
    #[doc(hidden)]
    fn data(self) -> Tensor;
}

impl FoldIn for Tensor {
    fn data(self) -> Tensor {
        self
    }
}

impl FoldIn for &Tensor {
    fn data(self) -> Tensor {
        self.clone()
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl FoldIn for $integer {
            #[track_caller]
            fn data(self) -> Tensor {
                let word = u32::try_from(self).ok();
                let signed = || i32::try_from(self).ok().map(i32::cast_unsigned);
                let Some(word) = word.or_else(signed) else {
                    panic!(
                        "cannot fold {self} into a key: 32 bits do not hold it; fold its upper and its lower 32 bits in, \
                         one after the other"
                    )
                };
                Tensor::from(word)
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.0).finish()
    }
}

impl Pytree for Key {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Tensor::unflatten(source).map(Self)
    }
}
impl PytreeOf<Tensor> for Key {}
impl SelectPart<Tensor> for Key {
    type Part = Tensor;
    fn select_part(tree: Tree<Tensor>) -> Result<Tensor, TreeError> {
        Tensor::select_part(tree)
    }
}
pytree_core::leaf_field!(state Key);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fills_both_words() {
        assert_eq!(Key::new(7 << 32 | 5).data().to_vec::<u32>(), [7, 5]);
    }

    #[test]
    fn splitting_is_folding_in_the_position() {
        let key = Key::new(3);
        let keys = key.split(3);
        assert_eq!(keys[2], key.fold_in(2));
        assert_eq!(keys[1], key.fold_in(Tensor::from(1_u32)));
        assert_eq!(keys[1], key.fold_in(1_usize));
        assert_eq!(keys[1], key.fold_in(1_i64));
        assert_eq!(key.fold_in(-1_i64), key.fold_in(u32::MAX));
    }

    #[test]
    #[should_panic(expected = "cannot fold 4294967296 into a key: 32 bits do not hold it")]
    fn integers_above_32_bits_are_refused() {
        let _ = Key::new(0).fold_in(1_usize << 32);
    }

    #[test]
    #[should_panic(expected = "cannot make a key of a tensor: expected u32[.., 2], found f32[2]")]
    fn a_key_has_two_words() {
        let _ = Key::from_data(Tensor::from([1.0_f32, 2.0]));
    }
}
