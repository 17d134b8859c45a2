//! The traits a value implements to be a pytree, and the visitor they speak to.
//!
//! A value is visited in preorder: a node announces its shape and the number of its children, then its
//! static values and keys, then the children. Traversal is object-safe, so that a `Box<dyn Layer>` is a
//! module like any other. What a derive generates is this and nothing else.

use std::sync::Arc;

use crate::base::error::TreeError;
use crate::base::identity::Identity;
use crate::base::path::{Key, KeyPath};
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::handles::AnyReference;
use crate::contract::unflatten::{DEPTH_LIMIT, Unflattener, unflatten_unchecked};
use crate::node::leaf::Leaf;
use crate::node::shape::{DynamicShape, NodeShape, OwnedShape, Shape};
use crate::node::statics::StaticRef;
use crate::treedef::{Step, TreeDef};

/// A tree of leaves: a leaf, a container of pytrees, or a struct whose fields are pytrees.
///
/// Implemented by `#[derive(Module)]` and `#[derive(Pytree)]`, by numbers, strings, arrays, and the
/// standard containers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pytree",
    label = "a pytree is needed here",
    note = "write `#[derive(Module)]` on the type if it is a model, `#[derive(Pytree)]` if it is a plain container, `#[derive(Leaf)]` if it is a leaf"
)]
pub trait Pytree: 'static {
    /// Shows the tree to `visitor` in preorder.
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// Builds a value from the treedef and leaves of `source`.
    ///
    /// # Errors
    /// If the treedef at this place is of another type, or a leaf is.
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError>
    where
        Self: Sized;
}

/// A pytree all of whose leaves are `L`: `PytreeOf<Tensor>` can be traced.
///
/// The derive implements it for every `L` that all fields hold, so that a type of ndarray leaves derives
/// like any other and is refused only where tensors are asked for.
#[diagnostic::on_unimplemented(
    message = "expected every leaf to be `{L}`, found `{Self}`",
    label = "a pytree whose leaves are all `{L}` is needed here",
    note = "change the fields that hold other leaves to `{L}`, or make them static; a `Tree` of mixed leaves becomes one of `{L}` by `tree.cast::<{L}>()?`"
)]
pub trait PytreeOf<L: Leaf + Clone>: Pytree + Sized {
    /// Calls `visit` with each leaf, in order; a shared node is visited at each of its places.
    ///
    /// The derive writes the walk over the fields; the default goes by [`Pytree::visit`].
    ///
    /// # Panics
    /// If a trait object in the tree holds a leaf of another type.
    #[track_caller]
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.visit(&mut EachLeaf {
            visit: |leaf| visit(typed(leaf)),
            open: Vec::new(),
        });
    }

    /// The value with each leaf replaced by what `function` makes of it, in order; a shared node becomes one at
    /// each of its places.
    ///
    /// The derive writes the walk over the fields; the default takes the tree apart and puts it together.
    ///
    /// # Panics
    /// If a trait object in the tree holds a leaf of another type.
    #[must_use]
    #[track_caller]
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let treedef = Flatten::new(Sharing::Duplicate, |leaf| {
            leaves.push(function(typed(leaf)));
        })
        .with_arena(&arena)
        .run(self);
        rebuilt(unflatten_unchecked(&treedef, leaves.into_iter()))
    }
}

/// The leaf as an `L`; the type of the tree promises that it is one, but for trait objects.
#[track_caller]
pub(crate) fn typed<L: Leaf>(leaf: &dyn Leaf) -> &L {
    // The upcast saves a virtual call; what is inside an `AnyLeaf` is found the other way.
    let direct: &dyn std::any::Any = leaf;
    match direct.downcast_ref().or_else(|| leaf.downcast_ref()) {
        Some(leaf) => leaf,
        None => panic!(
            "cannot flatten: expected every leaf to be of type {}, found {}; a trait object or a tree of mixed leaves holds it",
            short_name(std::any::type_name::<L>()),
            short_name(leaf.type_name()),
        ),
    }
}

/// A tree that was just taken apart goes together again.
#[track_caller]
pub(crate) fn rebuilt<T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(tree) => tree,
        Err(error @ TreeError::TooDeep { .. }) => panic!("{error}"),
        Err(error) => panic!(
            "a tree does not go together again as it came apart: {error}; an impl of `Pytree` visits and unflattens differently"
        ),
    }
}

/// Visits the leaves and nothing else.
struct EachLeaf<F> {
    visit: F,
    /// The nodes that began and have not ended, with the number of the children that are over.
    open: Vec<(OwnedShape, usize)>,
}

impl<F> EachLeaf<F> {
    #[track_caller]
    fn begin(&mut self, shape: OwnedShape) {
        assert!(
            self.open.len() < DEPTH_LIMIT,
            "{}",
            crate::base::error::too_deep(DEPTH_LIMIT, &self.path())
        );
        self.open.push((shape, 0));
    }

    /// A child of the node that began last is over.
    fn ended(&mut self) {
        if let Some((_, over)) = self.open.last_mut() {
            *over += 1;
        }
    }

    /// Where the next node is; the children of maps are told by their positions.
    fn path(&self) -> KeyPath {
        let nodes = self
            .open
            .iter()
            .filter(|(shape, _)| !shape.get().kind().is_transparent());
        let key = |(shape, over): &(OwnedShape, usize)| match shape.get().field_key(*over) {
            Some(key) => key,
            None => Key::Index(i128::try_from(*over).unwrap_or(i128::MAX)),
        };
        nodes.map(key).collect()
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for EachLeaf<F> {
    fn enter(&mut self, shape: &'static NodeShape, _: usize) {
        self.begin(OwnedShape::Static(shape));
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, _: usize) {
        self.begin(OwnedShape::Dynamic(Arc::clone(shape)));
    }
    fn aux(&mut self, _: StaticRef<'a>) {}
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        (self.visit)(leaf);
        self.ended();
    }
    fn exit(&mut self) {
        self.open.pop();
        self.ended();
    }
    fn keep(&mut self, _: Arc<dyn Pytree + Send + Sync>) -> &'a dyn Pytree {
        panic!("{}", crate::base::error::behind_a_reference(&self.path()));
    }
    fn weak(&mut self, target: Option<Identity>) {
        assert!(
            target.is_none(),
            "{}",
            crate::base::error::weak_in_a_tree(&self.path())
        );
        self.ended();
    }
    fn tree(&mut self, _: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        leaves.for_each(&mut self.visit);
        self.ended();
    }
}

/// What a visitor wants of a shared node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedVisit {
    /// Show what is below it.
    Descend,
    /// It was seen before.
    Skip,
}

/// A shared node, whatever it holds.
pub trait SharedNode {
    /// What tells it from others.
    fn identity(&self) -> Identity;

    /// A handle that keeps it alive.
    fn handle(&self) -> Arc<dyn std::any::Any + Send + Sync>;
}

/// A mutable reference, whatever it holds.
pub trait ReferenceNode {
    /// What tells it from others.
    fn identity(&self) -> Identity;

    /// A handle of it.
    fn handle(&self) -> AnyReference;
}

/// Receives a tree in preorder.
pub trait Visitor<'a> {
    /// A node with `arity` children begins; its static values and keys follow, then the children, then
    /// [`exit`](Self::exit).
    fn enter(&mut self, shape: &'static NodeShape, arity: usize);

    /// As [`enter`](Self::enter), of a node whose shape was made at run time.
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize);

    /// As [`enter`](Self::enter), of a node of any shape.
    fn enter_shape(&mut self, shape: Shape<'_>, arity: usize) {
        match shape {
            Shape::Static(shape) => self.enter(shape, arity),
            Shape::Dynamic(shape) => self.enter_dynamic(shape, arity),
        }
    }

    /// A static value or, for maps, a key of the node that began last.
    fn aux(&mut self, value: StaticRef<'a>);

    /// A leaf.
    fn leaf(&mut self, leaf: &'a dyn Leaf);

    /// A place whose leaf is in another part.
    fn absent(&mut self) {
        self.enter(&crate::node::shape::ABSENT, 0);
        self.exit();
    }

    /// The node that began last and has not ended, ends.
    fn exit(&mut self);

    /// A dynamic tree is met, which is flat already. The default shows it node by node.
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        treedef.show_nodes(leaves, |step| match step {
            Step::Enter(shape, arity) => self.enter_shape(shape, arity),
            Step::Aux(value) => self.aux(value),
            Step::Leaf(leaf) => self.leaf(leaf),
            Step::Absent => self.absent(),
            Step::Alias(_) => {
                self.enter(&crate::node::shape::ALIAS, 0);
                self.exit();
            }
            Step::Exit => self.exit(),
        });
    }

    /// A shared node is met. The default is to descend at each place, as trees do.
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        let _ = identity;
        SharedVisit::Descend
    }

    /// A shared node is met, of which a handle can be had. The default needs none.
    fn shared_node(&mut self, node: &dyn SharedNode) -> SharedVisit {
        self.shared(node.identity())
    }

    /// A mutable reference is met. The default takes it for a shared node.
    fn reference(&mut self, reference: &dyn ReferenceNode) -> SharedVisit {
        self.shared(reference.identity())
    }

    /// Keeps what a reference holds at the moment for as long as leaves are borrowed from it.
    ///
    /// # Panics
    /// If the visitor keeps nothing, which is the default: it lends its leaves out, and those of a reference may be
    /// replaced while they are borrowed.
    fn keep(&mut self, content: Arc<dyn Pytree + Send + Sync>) -> &'a dyn Pytree {
        drop(content);
        panic!(
            "{}",
            crate::base::error::behind_a_reference(&KeyPath::root())
        );
    }

    /// A weak edge is met: the node it leads to, if it leads anywhere.
    ///
    /// # Panics
    /// If it leads somewhere and the visitor sees a tree, which is the default.
    fn weak(&mut self, target: Option<Identity>) {
        assert!(
            target.is_none(),
            "{}",
            crate::base::error::weak_in_a_tree(&KeyPath::root())
        );
        self.enter(&crate::node::shape::WEAK, 1);
        self.enter(&crate::node::shape::ALIAS, 0);
        self.exit();
        self.exit();
    }
}
