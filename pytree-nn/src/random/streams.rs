//! `with_rngs`: replaces all random streams of a model.

use pytree_base::bug::{LEAVES, bug, expect_at, expect_next};
use pytree_core::boundary::{flatten_with_references, unflatten_changed};
use pytree_core::shape::NodeKind;
use pytree_core::{PytreeOf, StaticData, TreeDef, graph, nodes};
use pytree_transform::Tensor;

use crate::error::or_panic;
use crate::random::key::Key;
use crate::random::rngs::RngStream;

/// Returns a copy of the model in which each stream is replaced by the result of `change`, like `nnx.with_rngs`.
///
/// Each change of the argument of `change` is written to `model`. For example, [`split`](RngStream::split) draws a key,
/// so the count of the stream in `model` increases. Distinguish streams by their [tags](RngStream::tag), and return a
/// clone of a stream that must not change. All other values are the same in both models. The copy has its own references and
/// shared nodes, and `model` keeps the references and the shared nodes that hold no changed stream.
///
/// A layer that is called on the copy writes its other states, such as running statistics, to the copy. To keep these
/// states, copy all states except the streams from the copy, here called `each`, into `model`:
/// `partition::update(&mut model, &partition::filter(&each, &!Filter::state::<RngState>()))?`.
///
/// # Examples
/// Under `vmap`, each example of a batch drops different elements:
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
/// Here, the change of a stream depends on its tag:
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
/// If `change` panics, for example because `change` splits, forks or broadcasts a stream that was split before.
#[doc(alias("nnx.split_rngs", "nnx.fork_rngs", "nnx.with_rngs"))]
#[must_use = "the streams of the model itself only advance"]
#[track_caller]
pub fn with_rngs<M: PytreeOf<Tensor>>(
    model: &mut M,
    mut change: impl FnMut(&mut RngStream) -> RngStream,
) -> M {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(model);
    let (mut before, mut after) = (leaves.clone(), leaves.clone());
    for place in places_of(&treedef) {
        let mut stream = place.read(&leaves);
        let changed = change(&mut stream);
        place.write(&stream, &mut before);
        place.write(&changed, &mut after);
    }
    let changed: Vec<bool> = leaves
        .iter()
        .zip(&before)
        .map(|(old, new)| !old.same(new))
        .collect();
    // The result has new references.
    *model = or_panic(unflatten_changed(&treedef, before, &references, |leaf| {
        *expect_at(&changed, leaf, LEAVES)
    }));
    or_panic(graph::unflatten(&treedef, after))
}

/// The tag of a stream, and the positions of the stream's leaves among all leaves of the model, in graph order.
pub(crate) struct StreamPlace {
    pub(crate) tag: String,
    /// The position of the stream's key. The stream's count is the next leaf.
    key: usize,
}

impl StreamPlace {
    pub(crate) fn read(&self, leaves: &[Tensor]) -> RngStream {
        let key = Key::from_data(leaves[self.key].clone());
        RngStream::from_parts(self.tag.clone(), key, leaves[self.key + 1].clone())
    }

    pub(crate) fn write(&self, stream: &RngStream, leaves: &mut [Tensor]) {
        leaves[self.key] = stream.key().data().clone();
        leaves[self.key + 1] = stream.count().clone();
    }
}

/// Returns the leaf positions of all streams of a model in graph order. A stream without leaves is skipped: its leaves
/// are in another part of a partition.
pub(crate) fn places_of(treedef: &TreeDef) -> Vec<StreamPlace> {
    let mut places = Vec::new();
    let mut position = 0;
    for node in treedef.nodes() {
        if node.kind() == NodeKind::Leaf {
            position += 1;
        } else if nodes::is_of_type::<RngStream>(&node) && node.num_leaves() == 2 {
            let (_, tag) = expect_next(&mut node.statics(), "the tag of a stream");
            // In a structure that was read from bytes, the tag is a `StaticData` and not a `String`.
            let StaticData::Text(tag) = tag.data() else {
                bug(format_args!(
                    "the tag of a stream to be a text, found {}",
                    tag.data()
                ))
            };
            places.push(StreamPlace { tag, key: position });
        }
    }
    places
}
