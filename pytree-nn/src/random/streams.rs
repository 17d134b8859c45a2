//! The streams of a whole model, wherever they are.

use std::collections::HashSet;

use pytree_core::field::NodeShapes;
use pytree_core::shape::NodeShape;
use pytree_core::{
    Identity, Leaf, Pytree, PytreeOf, SharedVisit, StaticRef, TreeError, Visitor, graph,
};
use pytree_transform::Tensor;

use crate::error::or_panic;
use crate::random::{Key, RngStream};

/// The model with each of its streams replaced by what `change` makes of it: `nnx.with_rngs`.
///
/// What `change` does to the stream that it is given is done to the streams of `model`: one that is split, forked or
/// broadcast has drawn a key. Streams are told apart by their [tags](RngStream::tag); one that is to stay is cloned. All
/// else in the model is the same in both.
///
/// # Examples
/// Each example of a batch drops others:
/// ```
/// use pytree_core::{Filter, kind::RngState};
/// use pytree_nn::{Dropout, Rngs, with_rngs};
/// use pytree_transform::{Axes, DType, Tensor, vmap_mut};
/// let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
/// let mut each = with_rngs(&mut dropout, |stream| stream.split([4]));
/// let axes = Axes::filter([(Filter::state::<RngState>(), Some(0)), (Filter::everything(), None)]);
/// let drop = vmap_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x)).in_axes((axes, 0));
/// let y = drop((&mut each, Tensor::ones(DType::F32, [4, 8])));
/// assert_eq!(y.shape(), [4, 8]);
/// assert_eq!(dropout.stream().count().item::<u32>(), 1);
/// ```
/// A rule for each name, the first that fits:
/// ```
/// use pytree_nn::{Rngs, with_rngs};
/// let mut rngs = Rngs::with([("params", 0), ("dropout", 1), ("noise", 2)]);
/// let split = with_rngs(&mut rngs, |stream| match stream.tag() {
///     "params" => stream.split([4]),
///     "dropout" => stream.fork(),
///     _ => stream.clone(),
/// });
/// let shapes: Vec<_> = split.streams().map(|(_, stream)| stream.key().data().rank()).collect();
/// assert_eq!(shapes, [1, 1, 2]); // of dropout, noise and params
/// ```
///
/// # Panics
/// If `change` does: a stream that was split can't be split, forked or broadcast again unless it is mapped over.
#[must_use = "the streams of the model itself only advance"]
#[track_caller]
pub fn with_rngs<M: PytreeOf<Tensor>>(
    model: &mut M,
    mut change: impl FnMut(&mut RngStream) -> RngStream,
) -> M {
    let places = places_of(model);
    let (mut before, treedef) = graph::flatten::<Tensor, M>(model);
    let mut after = before.clone();
    for place in &places {
        let mut stream = place.read(&before);
        let changed = change(&mut stream);
        place.write(&stream, &mut before);
        place.write(&changed, &mut after);
    }
    let rebuilt = |leaves| -> Result<M, TreeError> { graph::unflatten(&treedef, leaves) };
    *model = or_panic(rebuilt(before));
    or_panic(rebuilt(after))
}

/// Where the leaves of a stream are among those of a model in the graph form.
pub(crate) struct StreamPlace {
    pub(crate) tag: String,
    key: usize,
    count: usize,
}

impl StreamPlace {
    pub(crate) fn read(&self, leaves: &[Tensor]) -> RngStream {
        let key = Key::from_data(leaves[self.key].clone());
        RngStream::from_parts(self.tag.clone(), key, leaves[self.count].clone())
    }

    pub(crate) fn write(&self, stream: &RngStream, leaves: &mut [Tensor]) {
        leaves[self.key] = stream.key().data().clone();
        leaves[self.count] = stream.count().clone();
    }
}

/// The places of all streams, in order. One of which leaves are in another part of a partition has none.
pub(crate) fn places_of(model: &impl Pytree) -> Vec<StreamPlace> {
    let mut streams = Streams::default();
    model.visit(&mut streams);
    let places = streams.found.into_iter().filter_map(|(tag, leaves)| {
        let &[key, count] = leaves.as_slice() else {
            return None;
        };
        Some(StreamPlace {
            tag: tag?,
            key,
            count,
        })
    });
    places.collect()
}

/// Finds the leaves of all streams, in the order of the graph form.
#[derive(Default)]
struct Streams {
    /// For each stream its tag and leaves: the key, then the count.
    found: Vec<(Option<String>, Vec<usize>)>,
    position: usize,
    /// For each open node whether it is a stream.
    open: Vec<bool>,
    seen: HashSet<Identity>,
}

impl Streams {
    /// The stream that encloses the walk directly.
    fn innermost(&mut self) -> Option<&mut (Option<String>, Vec<usize>)> {
        if self.open.last() == Some(&true) {
            return self.found.last_mut();
        }
        None
    }
}

impl<'a> Visitor<'a> for Streams {
    fn enter(&mut self, shape: &'static NodeShape, _: usize) {
        let is_stream = <RngStream as NodeShapes>::SHAPES.contains(shape);
        if is_stream {
            self.found.push((None, Vec::new()));
        }
        self.open.push(is_stream);
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if let Some((tag, _)) = self.innermost() {
            *tag = value.downcast_ref::<String>().cloned();
        }
    }
    fn leaf(&mut self, _: &'a dyn Leaf) {
        let position = self.position;
        if let Some((_, leaves)) = self.innermost() {
            leaves.push(position);
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
