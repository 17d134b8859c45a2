//! New seeds for the streams of a whole model.

use std::collections::HashSet;

use pytree_core::field::NodeShapes;
use pytree_core::shape::NodeShape;
use pytree_core::{Identity, Leaf, PytreeOf, SharedVisit, StaticRef, Visitor, graph};
use pytree_transform::{DType, Tensor};

use crate::random::{Key, RngStream};

/// The model with new seeds for all streams of the given tags, wherever they are: `nnx.reseed`.
///
/// A stream's tag is the name it was made under; what a layer forked from a stream keeps its tag. The
/// count starts at 0 again.
///
/// # Examples
/// ```
/// use pytree_nn::{Dropout, Rngs, reseed};
/// let mut rngs = Rngs::with([("dropout", 1)]);
/// let layers = vec![Dropout::new(0.5, &mut rngs), Dropout::new(0.5, &mut rngs)];
/// let layers = reseed(&layers, [("dropout", 7)]);
/// assert_eq!(layers[0].stream().key(), layers[1].stream().key());
/// ```
#[must_use]
#[track_caller]
pub fn reseed<'s, M: PytreeOf<Tensor>>(
    model: &M,
    seeds: impl IntoIterator<Item = (&'s str, u64)>,
) -> M {
    let keys: Vec<(&str, Key)> = seeds
        .into_iter()
        .map(|(tag, seed)| (tag, Key::new(seed).fold_in(0)))
        .collect();
    let mut streams = Streams::default();
    model.visit(&mut streams);
    let mut leaf = 0;
    graph::map(model, |tensor: &Tensor| {
        let found = streams.leaves.iter().find(|found| found.position == leaf);
        leaf += 1;
        let key = found.and_then(|found| keys.iter().find(|(tag, _)| *tag == found.tag));
        match (found, key) {
            (Some(found), Some((_, key))) if found.is_key => key.data().clone(),
            (Some(_), Some(_)) => Tensor::zeros(DType::U32, []),
            _ => tensor.clone(),
        }
    })
}

/// A leaf of a stream.
struct StreamLeaf {
    position: usize,
    tag: String,
    is_key: bool,
}

/// Finds the leaves of all streams, in the order of the graph form.
#[derive(Default)]
struct Streams {
    leaves: Vec<StreamLeaf>,
    position: usize,
    /// For each open node whether it is a stream, and its tag.
    open: Vec<(bool, Option<String>)>,
    seen: HashSet<Identity>,
}

impl<'a> Visitor<'a> for Streams {
    fn enter(&mut self, shape: &'static NodeShape, _: usize) {
        self.open
            .push((*shape == <RngStream as NodeShapes>::SHAPES[0], None));
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if let Some((true, tag)) = self.open.last_mut() {
            *tag = value.downcast_ref::<String>().cloned();
        }
    }
    fn leaf(&mut self, _: &'a dyn Leaf) {
        if let Some((true, Some(tag))) = self.open.last() {
            // The key comes first, then the count.
            let is_key = self
                .leaves
                .last()
                .is_none_or(|last| last.position + 1 != self.position || !last.is_key);
            self.leaves.push(StreamLeaf {
                position: self.position,
                tag: tag.clone(),
                is_key,
            });
        }
        self.position += 1;
    }
    fn exit(&mut self) {
        self.open.pop();
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.seen.insert(identity) {
            SharedVisit::Descend
        } else {
            SharedVisit::Skip
        }
    }
}
