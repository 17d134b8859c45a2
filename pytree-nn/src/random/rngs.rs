//! Named streams of keys, as in Flax NNX.
//!
//! A stream is a key and the number of keys drawn from it. The key and the number are leaves, so streams can be part of
//! a model, pass through `jit`, and be saved in checkpoints.

use std::collections::BTreeMap;

use pytree_core::Module;
use pytree_core::kind::RngState;
use pytree_derive::panicking_twin;
use pytree_transform::extend::{is_same_for_all_examples, note_created_key};
use pytree_transform::{DType, Tensor};
use thiserror::Error;

use crate::random::key::Key;

/// The name of the stream that is used if no stream has the requested name.
const DEFAULT: &str = "default";

/// The error if no stream can provide a key.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RngError {
    /// Neither the requested stream nor the stream `default` exists.
    #[error("cannot find a stream `{name}` or a stream `default`, found {}; add a stream, for instance with `Rngs::with([(\"{name}\", 0)])`", list(.found))]
    NoStream {
        /// The name of the requested stream.
        name: String,
        /// The names of the existing streams.
        found: Vec<String>,
    },
}

pytree_base::debug_as_display!(RngError);

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A stream of keys: a key, and the number of keys drawn from it.
#[doc(alias = "nnx.RngStream")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct RngStream {
    /// The key of the stream. All keys that the stream returns are derived from this key.
    #[state(RngState)]
    key: Key,
    /// The number of drawn keys: `u32[]`.
    #[state(RngState)]
    count: Tensor,
    /// The name under which the stream was created. A fork has the same tag.
    #[r#static]
    tag: String,
}

impl RngStream {
    /// Creates a stream from a key.
    pub fn new(tag: impl Into<String>, key: Key) -> Self {
        let stack = &key.data().shape()[..key.data().rank() - 1];
        let count = Tensor::zeros(DType::U32, stack);
        note_created_key(key.data());
        Self {
            key,
            count,
            tag: tag.into(),
        }
    }

    /// Creates a stream with the given count of drawn keys.
    pub(crate) fn from_parts(tag: String, key: Key, count: Tensor) -> Self {
        Self { key, count, tag }
    }

    /// Returns the key of the stream. All keys that the stream returns are derived from this key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the number of drawn keys: `u32[]`.
    pub fn count(&self) -> &Tensor {
        &self.count
    }

    /// Returns the name under which the stream was created.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the next key, which is computed by folding the count into the key of the stream.
    ///
    /// # Panics
    /// If the stream was split and `vmap` does not map over it.
    ///
    /// Also, under `vmap`, if the stream was created outside the `vmap` and is not mapped. All examples would get the
    /// same key from such a stream. To get different numbers, split the stream. To get equal numbers, use
    /// [`broadcast`](Self::broadcast). This mistake is not detected inside a traced function, such as a compiled
    /// function or the body of a loop.
    #[track_caller]
    pub fn next_key(&mut self) -> Key {
        assert!(
            self.count.rank() == 0,
            "cannot draw a key from the stream `{}`, because the stream was split into the keys {}: use `vmap` or `vmap_mut` to map over the value that holds the stream",
            self.tag,
            self.key.data().info()
        );
        assert!(
            !is_same_for_all_examples(self.key.data(), &self.count),
            "cannot draw a key from the stream `{}` inside of `vmap`: the stream is the same for all examples, so all would get the same random numbers; before the call, split the streams with `with_rngs(&mut model, |stream| stream.split([examples]))`, and map them with `.in_axes(…)` and `(Filter::state::<RngState>(), Some(0))`; if all examples should get the same numbers, write `stream.broadcast([examples])` instead of `split`",
            self.tag
        );
        let key = self.key.fold_in(self.count.clone());
        self.count = &self.count + 1;
        key
    }

    /// Returns a new stream with the next key of this stream as its key.
    ///
    /// # Panics
    /// See [`next_key`](Self::next_key).
    #[must_use]
    #[track_caller]
    pub fn fork(&mut self) -> Self {
        Self::new(self.tag.clone(), self.next_key())
    }

    /// Returns a stack of new streams for `vmap`. The keys of the new streams are split from the next key of this
    /// stream.
    ///
    /// # Panics
    /// See [`next_key`](Self::next_key).
    #[must_use]
    #[track_caller]
    pub fn split(&mut self, shape: impl AsRef<[usize]>) -> Self {
        Self::new(self.tag.clone(), self.next_key().split_shaped(shape))
    }

    /// Returns a stack of equal new streams for `vmap`. The key of all new streams is the next key of this stream.
    ///
    /// # Panics
    /// See [`next_key`](Self::next_key).
    #[must_use]
    #[track_caller]
    pub fn broadcast(&mut self, shape: impl AsRef<[usize]>) -> Self {
        let key = self.next_key();
        let shape = [shape.as_ref(), key.data().shape()].concat();
        Self::new(
            self.tag.clone(),
            Key::from_data(key.data().broadcast_to(shape)),
        )
    }
}

/// Named streams of keys. A layer draws keys from the streams when the layer is created. Layers such as dropout keep a
/// fork of a stream, and draw keys from the fork when they run.
///
/// If no stream has the requested name, the stream `default` is used. The name of a stream does not affect its keys.
///
/// # Examples
/// ```
/// use pytree_nn::{Key, Rngs};
/// let mut rngs = Rngs::with([("params", 1), ("dropout", 2)]);
/// assert_eq!(rngs.params(), Key::new(1).fold_in(0));
/// assert_eq!(rngs.params(), Key::new(1).fold_in(1));
/// assert_eq!(rngs.dropout(), Key::new(2).fold_in(0));
/// let mut one_for_all = Rngs::new(0);
/// assert_eq!(one_for_all.params(), Key::new(0).fold_in(0));
/// assert_eq!(one_for_all.dropout(), Key::new(0).fold_in(1));
/// ```
#[doc(alias = "nnx.Rngs")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Rngs {
    streams: BTreeMap<String, RngStream>,
}

/// Creates a single stream with the name `default`, whose keys are derived from this key. `Rngs::from(Key::new(0))` is
/// `Rngs::new(0)`.
///
/// # Examples
/// ```
/// use pytree_nn::{Key, Linear, Rngs};
/// use pytree_transform::{Tensor, vmap};
/// // Two layers with different weights, created under `vmap`.
/// let layers = vmap(|key: Key| Linear::new(3, 4, &mut Rngs::from(key)))(Key::new(0).split_stacked(2));
/// assert_eq!(layers.weight.shape(), [2, 3, 4]);
/// assert_eq!(Rngs::from(Key::new(7)).params(), Rngs::new(7).params());
/// ```
impl From<Key> for Rngs {
    fn from(key: Key) -> Self {
        let stream = RngStream::new(DEFAULT, key);
        Self {
            streams: BTreeMap::from([(DEFAULT.to_owned(), stream)]),
        }
    }
}

impl Rngs {
    /// Creates a single stream with the name `default` from a seed. All keys are drawn from this stream, for every
    /// requested name.
    pub fn new(seed: u64) -> Self {
        Self::with([(DEFAULT, seed)])
    }

    /// Creates a stream for each pair of a name and a seed.
    pub fn with<N: Into<String>>(streams: impl IntoIterator<Item = (N, u64)>) -> Self {
        let streams = streams.into_iter().map(|(name, seed)| {
            let name = name.into();
            (name.clone(), RngStream::new(name, Key::new(seed)))
        });
        Self {
            streams: streams.collect(),
        }
    }

    /// Returns the next key of the stream `params`, which initializes parameters.
    ///
    /// # Panics
    /// See [`next`](Self::next).
    #[track_caller]
    pub fn params(&mut self) -> Key {
        self.next("params")
    }

    /// Returns the next key of the stream `dropout`.
    ///
    /// # Panics
    /// See [`next`](Self::next).
    #[track_caller]
    pub fn dropout(&mut self) -> Key {
        self.next("dropout")
    }

    /// Returns the next key of the stream `name`, or of the stream `default` if no stream is named `name`.
    ///
    /// # Panics
    /// If neither the stream `name` nor the stream `default` exists, or if the stream was split and `vmap` does not map
    /// over it.
    ///
    /// # Errors
    /// Returns [`RngError::NoStream`] if neither the stream `name` nor the stream `default` exists. The method panics
    /// if the stream was split and `vmap` does not map over it.
    #[panicking_twin(next)]
    pub fn try_next(&mut self, name: &str) -> Result<Key, RngError> {
        self.stream_mut(name).map(RngStream::next_key)
    }

    /// Returns the stream `name`, or the stream `default` if no stream is named `name`.
    ///
    /// # Errors
    /// Returns [`RngError::NoStream`] if neither the stream `name` nor the stream `default` exists.
    pub fn stream_mut(&mut self, name: &str) -> Result<&mut RngStream, RngError> {
        let present = if self.streams.contains_key(name) {
            name
        } else {
            DEFAULT
        };
        let found = if self.streams.contains_key(present) {
            Vec::new()
        } else {
            self.streams.keys().cloned().collect()
        };
        self.streams
            .get_mut(present)
            .ok_or_else(|| RngError::NoStream {
                name: name.to_owned(),
                found,
            })
    }

    /// Iterates over the streams with their names, in the order of the names.
    pub fn streams(&self) -> impl Iterator<Item = (&str, &RngStream)> {
        self.streams
            .iter()
            .map(|(name, stream)| (name.as_str(), stream))
    }

    /// Returns a tensor of the given shape with uniform numbers in [0, 1). Uses the next key of the stream `default`.
    ///
    /// # Panics
    /// In the same cases as [`next`](Self::next), and if `dtype` is not a float.
    #[track_caller]
    pub fn uniform(&mut self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        self.next(DEFAULT).uniform(dtype, shape)
    }

    /// Returns a tensor of the given shape with numbers from the standard normal distribution. Uses the next key of the
    /// stream `default`.
    ///
    /// # Panics
    /// In the same cases as [`next`](Self::next), and if `dtype` is not a float.
    #[track_caller]
    pub fn normal(&mut self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        self.next(DEFAULT).normal(dtype, shape)
    }

    /// Returns a stack of `count` new streams for each stream of `self`, for use with `vmap`. The keys of a stack are
    /// split from the next key of its stream.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Rngs;
    /// use pytree_transform::{DType, vmap};
    /// let mut rngs = Rngs::new(0);
    /// let rows = vmap(|mut rngs: Rngs| rngs.normal(DType::F32, [3]))(rngs.split(5));
    /// assert_eq!(rows.shape(), [5, 3]);
    /// ```
    ///
    /// # Panics
    /// If the streams were split and `vmap` does not map over them.
    #[must_use]
    #[track_caller]
    pub fn split(&mut self, count: usize) -> Self {
        self.split_shaped([count])
    }

    /// Returns stacks of new streams like [`split`](Self::split), but with stacks of the given shape.
    ///
    /// # Panics
    /// If the streams were split and `vmap` does not map over them.
    #[must_use]
    #[track_caller]
    pub fn split_shaped(&mut self, shape: impl AsRef<[usize]>) -> Self {
        let shape = shape.as_ref();
        let mut split = BTreeMap::new();
        for (name, stream) in &mut self.streams {
            split.insert(name.clone(), stream.split(shape));
        }
        Self { streams: split }
    }

    /// Returns a new stream for each stream of `self`. The key of each new stream is the next key of its original
    /// stream.
    ///
    /// # Panics
    /// If the streams were split and `vmap` does not map over them.
    #[must_use]
    #[track_caller]
    pub fn fork(&mut self) -> Self {
        let mut forked = BTreeMap::new();
        for (name, stream) in &mut self.streams {
            forked.insert(name.clone(), stream.fork());
        }
        Self { streams: forked }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn missing_stream_lists_existing_streams() {
        let error = Rngs::with([("params", 1)]).try_next("dropout").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot find a stream `dropout` or a stream `default`, found `params`; add a stream, for instance with `Rngs::with([(\"dropout\", 0)])`"
        );
    }

    #[test]
    fn a_new_seed_is_folded_in_once() {
        let mut rngs = Rngs::with([("params", 1), ("dropout", 2)]);
        let _ = (rngs.params(), rngs.dropout());
        rngs.reseed([("dropout", 42)]);
        assert_eq!(rngs.dropout(), Key::new(42).fold_in(0).fold_in(0));
        assert_eq!(rngs.params(), Key::new(1).fold_in(1));
    }

    #[test]
    fn fork_leaves_its_parent_ahead_by_one() {
        let mut rngs = Rngs::new(0);
        let mut forked = rngs.fork();
        assert_eq!(forked.params(), Key::new(0).fold_in(0).fold_in(0));
        assert_eq!(rngs.params(), Key::new(0).fold_in(1));
    }
}
