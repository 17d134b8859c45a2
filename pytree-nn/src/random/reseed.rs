//! `reseed`: sets new seeds for the random streams of a whole model.

use pytree_core::{PytreeOf, graph};
use pytree_transform::Tensor;

use crate::error::or_panic;
use crate::random::rngs::{RngStream, Rngs};
use crate::random::streams::places_of;

/// Returns the model with new seeds for all streams with the given tags, like `nnx.reseed`.
///
/// The tag of a stream is the name under which the stream was created. A fork has the same tag. For each tag, a new
/// [`Rngs`] with the given seed draws one key for each stream with this tag, in the order of the streams in the model.
/// If the model was created with the same seed, and its layers were created in this order, the streams get their
/// original keys. All counts restart at 0. A stream that was split gets as many keys as before, which are split from
/// its new key.
///
/// # Panics
/// If the keys of the model are traced and their transformation has finished.
///
/// # Examples
/// ```
/// use pytree_nn::{Dropout, Rngs, reseed};
/// let mut rngs = Rngs::with([("dropout", 1)]);
/// let layers = vec![Dropout::new(0.5, &mut rngs), Dropout::new(0.5, &mut rngs)];
/// let other = reseed(&layers, [("dropout", 7)]);
/// assert_ne!(other[0].stream().key(), other[1].stream().key());
/// assert_eq!(reseed(&other, [("dropout", 1)]), layers);
/// ```
#[doc(alias = "nnx.reseed")]
#[must_use]
#[track_caller]
pub fn reseed<'s, M: PytreeOf<Tensor>>(
    model: &M,
    seeds: impl IntoIterator<Item = (&'s str, u64)>,
) -> M {
    let mut rngs = Rngs::with(seeds);
    let (mut leaves, treedef) = graph::flatten::<Tensor, M>(model);
    for place in places_of(&treedef) {
        if !rngs.streams().any(|(name, _)| name == place.tag) {
            continue;
        }
        let shape = place.read(&leaves).count().shape().to_vec();
        let key = rngs.next(&place.tag);
        let key = if shape.is_empty() {
            key
        } else {
            key.split_shaped(&shape)
        };
        place.write(&RngStream::new(place.tag.clone(), key), &mut leaves);
    }
    or_panic(graph::unflatten(&treedef, leaves))
}

impl Rngs {
    /// Sets new seeds for the streams that were created under the given names, as [`reseed`](crate::reseed())
    /// does for a whole model.
    pub fn reseed<'s>(&mut self, seeds: impl IntoIterator<Item = (&'s str, u64)>) {
        *self = reseed(self, seeds);
    }
}
