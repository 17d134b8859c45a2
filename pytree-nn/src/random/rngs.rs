//! Named streams of keys, as in Flax NNX.
//!
//! A stream is a key and a count of the keys drawn from it. Both are leaves, so that streams can be part
//! of a model, go through `jit` and into checkpoints.

use std::collections::BTreeMap;
use std::fmt;

use pytree_core::Module;
use pytree_core::kind::RngState;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};
use thiserror::Error;

use crate::random::Key;

/// The stream that stands in for those that are not there.
const DEFAULT: &str = "default";

/// There is no key to draw.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RngError {
    /// A stream that is not there, without a default stream.
    #[error("no stream `{name}` and no stream `default`, found {}; add one, for instance with `Rngs::with([(\"{name}\", 0)])`", list(.found))]
    NoStream {
        /// The stream asked for.
        name: String,
        /// The streams that are there.
        found: Vec<String>,
    },
}

impl fmt::Debug for RngError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// One stream of keys: a key, and the count of the keys drawn from it.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct RngStream {
    /// What the keys are made from.
    #[state(RngState)]
    key: Key,
    /// How many were drawn: `u32[]`.
    #[state(RngState)]
    count: Tensor,
    /// The name under which it was made; a fork keeps it.
    #[r#static]
    tag: String,
}

impl RngStream {
    /// A stream of keys made from one.
    pub fn new(tag: impl Into<String>, key: Key) -> Self {
        let stack = &key.data().shape()[..key.data().rank() - 1];
        let count = Tensor::zeros(DType::U32, stack);
        Self {
            key,
            count,
            tag: tag.into(),
        }
    }

    /// A stream of which keys were drawn.
    pub(crate) fn from_parts(tag: String, key: Key, count: Tensor) -> Self {
        Self { key, count, tag }
    }

    /// The key that the stream's keys are made from.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The number of keys that were drawn: `u32[]`.
    pub fn count(&self) -> &Tensor {
        &self.count
    }

    /// The name under which the stream was made.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The next key: the stream's key with the count folded in.
    ///
    /// # Panics
    /// If the stream was split and is not mapped over.
    #[track_caller]
    pub fn next_key(&mut self) -> Key {
        assert!(
            self.count.rank() == 0,
            "cannot draw a key from the stream `{}`, which was split into {}: map over what holds it with `vmap` or `vmap_mut`",
            self.tag,
            self.key.data().info()
        );
        let key = self.key.fold_in(self.count.clone());
        self.count = &self.count + 1;
        key
    }

    /// A new stream, made from the next key.
    ///
    /// # Panics
    /// As [`next_key`](Self::next_key).
    #[must_use]
    #[track_caller]
    pub fn fork(&mut self) -> Self {
        Self::new(self.tag.clone(), self.next_key())
    }

    /// A stack of new streams, made from the next key, to map over.
    ///
    /// # Panics
    /// As [`next_key`](Self::next_key).
    #[must_use]
    #[track_caller]
    pub fn split(&mut self, shape: impl AsRef<[usize]>) -> Self {
        Self::new(self.tag.clone(), self.next_key().split_shaped(shape))
    }

    /// A stack of new streams that all draw the same, made from the next key, to map over.
    ///
    /// # Panics
    /// As [`next_key`](Self::next_key).
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

/// Named streams of keys, from which layers draw when they are made and when they run.
///
/// A stream that is not there falls back to `default`. The name of a stream does not enter its keys.
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
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Rngs {
    streams: BTreeMap<String, RngStream>,
}

impl Rngs {
    /// One stream for everything.
    pub fn new(seed: u64) -> Self {
        Self::with([(DEFAULT, seed)])
    }

    /// A stream for each name, from its seed.
    pub fn with<N: Into<String>>(streams: impl IntoIterator<Item = (N, u64)>) -> Self {
        let streams = streams.into_iter().map(|(name, seed)| {
            let name = name.into();
            (name.clone(), RngStream::new(name, Key::new(seed)))
        });
        Self {
            streams: streams.collect(),
        }
    }

    /// The next key of the stream `params`, from which parameters are initialised.
    ///
    /// # Panics
    /// As [`next`](Self::next).
    #[track_caller]
    pub fn params(&mut self) -> Key {
        self.next("params")
    }

    /// The next key of the stream `dropout`.
    ///
    /// # Panics
    /// As [`next`](Self::next).
    #[track_caller]
    pub fn dropout(&mut self) -> Key {
        self.next("dropout")
    }

    /// The next key of a stream, or of `default` if there is none of that name.
    ///
    /// # Panics
    /// If there is neither, or if the streams were split and are not mapped over.
    ///
    /// # Errors
    /// [`RngError::NoStream`] if there is neither. Streams that were split panic here, too.
    #[panicking_twin(next)]
    #[track_caller]
    pub fn try_next(&mut self, name: &str) -> Result<Key, RngError> {
        self.stream_mut(name).map(RngStream::next_key)
    }

    /// The stream of a name, or `default`.
    ///
    /// # Errors
    /// [`RngError::NoStream`] if there is neither.
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

    /// New seeds for the streams that were made under the given names, as [`reseed`](crate::reseed()) does
    /// for a whole model.
    pub fn reseed<'s>(&mut self, seeds: impl IntoIterator<Item = (&'s str, u64)>) {
        *self = crate::random::reseed(self, seeds);
    }

    /// The streams with their names, in the order of the names.
    pub fn streams(&self) -> impl Iterator<Item = (&str, &RngStream)> {
        self.streams
            .iter()
            .map(|(name, stream)| (name.as_str(), stream))
    }

    /// Numbers evenly distributed in [0, 1), from the next key of `default`: `[..shape]`.
    ///
    /// # Panics
    /// As [`next`](Self::next), or if `dtype` is not a float.
    #[track_caller]
    pub fn uniform(&mut self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        self.next(DEFAULT).uniform(dtype, shape)
    }

    /// Numbers of the standard normal distribution, from the next key of `default`: `[..shape]`.
    ///
    /// # Panics
    /// As [`next`](Self::next), or if `dtype` is not a float.
    #[track_caller]
    pub fn normal(&mut self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        self.next(DEFAULT).normal(dtype, shape)
    }

    /// Stacks of `count` new streams, each made from the next key of its parent, to map over.
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
    /// If the streams are split already and not mapped over.
    #[must_use]
    #[track_caller]
    pub fn split(&mut self, count: usize) -> Self {
        self.split_shaped([count])
    }

    /// As [`split`](Self::split), for a stack of any shape.
    ///
    /// # Panics
    /// If the streams are split already and not mapped over.
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

    /// New streams, each made from the next key of its parent.
    ///
    /// # Panics
    /// If the streams were split and are not mapped over.
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
    fn a_stream_that_is_not_there_is_named_with_those_that_are() {
        let error = Rngs::with([("params", 1)]).try_next("dropout").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no stream `dropout` and no stream `default`, found `params`; add one, for instance with `Rngs::with([(\"dropout\", 0)])`"
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
    fn a_fork_leaves_its_parent_ahead_by_one() {
        let mut rngs = Rngs::new(0);
        let mut forked = rngs.fork();
        assert_eq!(forked.params(), Key::new(0).fold_in(0).fold_in(0));
        assert_eq!(rngs.params(), Key::new(0).fold_in(1));
    }
}
