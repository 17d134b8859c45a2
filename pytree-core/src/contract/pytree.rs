//! The traits of pytrees, and the visitor that walks them.
//!
//! A value is visited in preorder: a node announces its shape and the number of its children, then its static values
//! and keys, then the children. The traversal is object-safe, so a `Box<dyn Layer>` is a module like any other. A
//! derive generates the impls of these traits and nothing else.

use std::sync::Arc;

use crate::base::error::{ShapeError, TreeError};
use crate::base::identity::NodeIdentity;
use crate::base::path::{KeyPath, PathKey};
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::depth;
use crate::contract::flatten::{Flatten, Sharing, borrowing, mapping};
use crate::contract::handles::AnyReference;
use crate::contract::obstacle::{Obstacle, passed};
use crate::contract::unflatten::{Unflattener, unflatten_unchecked};
use crate::node::leaf::{ArrayInfo, Leaf};
use crate::node::shape::{DynamicShape, NodeShape, OwnedShape, Shape};
use crate::node::statics::StaticRef;
use crate::treedef::{Stacking, Step, TreeDef};

/// A tree of leaves: a leaf, a container of pytrees, or a struct whose fields are pytrees.
///
/// Implemented by `#[derive(Module)]` and `#[derive(Pytree)]`, by numbers, strings, arrays, and the
/// standard containers. If you write an impl by hand, check it in a test with
/// [`nodes::check_impl`](crate::nodes::check_impl).
#[doc(alias("jax.tree_util.register_pytree_node", "nnx.Pytree"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pytree",
    label = "a pytree is needed here",
    note = "write `#[derive(Module)]` on the type if it is a model, `#[derive(Pytree)]` if it is a plain container, `#[derive(Leaf)]` if it is a leaf"
)]
pub trait Pytree: 'static {
    /// Visits the tree in preorder with `visitor`.
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// Builds a value from the treedef and leaves of `source`.
    ///
    /// # Errors
    /// [`TreeError`] if the next node of the treedef or a leaf does not match the type.
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError>
    where
        Self: Sized;

    /// Compares all arrays of the value with the named axes of the fields that hold them, such as `#[param("in out")]`. Each
    /// module has a scope of its own.
    ///
    /// # Errors
    /// All arrays whose shapes do not match, with their key paths.
    fn check_shapes(&self) -> Result<(), ShapeError> {
        check_shapes(self, Stacking::Named(&[]))
    }

    /// Returns the array if the value is a single leaf. Code that needs only the shape of this array then need not
    /// visit the value.
    #[doc(hidden)]
    #[inline]
    fn __single(&self) -> Single<'_> {
        Single::Visit
    }

    /// Returns whether all values of the type have the same structure: no static values, lengths, variants or shared
    /// nodes differ. A walk that needs only the structure then visits one of several such values.
    #[doc(hidden)]
    #[inline]
    fn __is_uniform() -> bool
    where
        Self: Sized,
    {
        false
    }
}

/// Compares all arrays of a value with the named axes of its modules.
pub(crate) fn check_shapes<T: Pytree + ?Sized>(
    value: &T,
    stacking: Stacking<'_>,
) -> Result<(), ShapeError> {
    let arena = Arena::default();
    let mut leaves: Vec<&dyn Leaf> = Vec::new();
    let treedef = Flatten::new(Sharing::Preserve, borrowing(&mut leaves))
        .with_arena(&arena)
        .run(value);
    passed(treedef).check_shapes(&|leaf| leaves[leaf], stacking, &[])
}

/// The shape of a value that has at most one leaf.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Single<'a> {
    /// The dtype and shape of the only leaf. `None` if this leaf has no shape, or if the value has no leaf: the value
    /// is an `Option` that is `None`.
    Leaf(Option<ArrayInfo<&'a [usize]>>),
    /// The value may have several leaves. The caller must visit the value.
    Visit,
}

/// A pytree whose leaves are all of type `L`: a `PytreeOf<Tensor>` can be traced.
///
/// The derive implements this trait for an `L` if all fields implement the trait for this `L`. So a type with ndarray
/// leaves can derive `Module`, and is rejected only where tensors are required.
#[diagnostic::on_unimplemented(
    message = "expected every leaf to be `{L}`, found `{Self}`",
    label = "a pytree whose leaves are all `{L}` is needed here",
    note = "use a `{L}` for each field that is a leaf, such as a weight or a counter, and write `#[r#static]` on each field that is part of the structure; for ndarray arrays of several dimensions, use the functions of `arrays`",
    note = "to make your own type a pytree, write `#[derive(Module)]` or `#[derive(Pytree)]` on it; a Rust reference such as `&T` is not a pytree: pass the value itself; in a tuple of more than four arguments of `jit`, put the references first",
    note = "in a generic function over models, add the bound `Model` to the type parameter",
    note = "if the leaves of a model have several types, pass `&mixed(&model)` to the functions of `tree`, `graph` and `partition`: its leaves are all `AnyLeaf`"
)]
pub trait PytreeOf<L: Leaf + Clone>: Pytree + Sized {
    /// Calls `visit` with each leaf in order. Visits a shared node at each of its paths.
    ///
    /// The derive generates a walk over the fields. The default implementation uses [`Pytree::visit`].
    ///
    /// # Panics
    /// If a trait object in the tree holds a leaf of another type.
    #[track_caller]
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        passed(each_leaf(self, |leaf| typed(leaf).map(&mut *visit)));
    }

    /// Calls `visit` with each leaf and the leaf at the same path in `other`, in order. Visits a shared node at each of
    /// its paths. Returns whether the two values have the same structure. The walk ends at the first difference. By
    /// then, `visit` may have been called for earlier leaves.
    ///
    /// The derive generates a walk over the fields. The default implementation returns `false`, so that the caller
    /// compares the structures in another way.
    fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, _other: &'a Self, _visit: &mut F) -> bool {
        false
    }

    /// Returns whether values of the type consist only of leaves of the type `L` and nodes whose structure is known, so
    /// no value contains shared nodes, references, trait objects or dynamic trees. [`each_leaf`](Self::each_leaf) then
    /// visits the same leaves as [`Pytree::visit`], also in the graph form.
    #[doc(hidden)]
    #[inline]
    fn __is_plain() -> bool {
        false
    }

    /// Applies `function` to each leaf in order and returns the value with the new leaves. Copies a shared node to each
    /// of its paths.
    ///
    /// The derive generates a walk over the fields. The default implementation flattens and unflattens the tree.
    ///
    /// # Panics
    /// If a trait object in the tree holds a leaf of another type.
    #[must_use]
    #[track_caller]
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let treedef = Flatten::new(Sharing::Duplicate, mapping(&mut leaves, function))
            .with_arena(&arena)
            .run(self);
        rebuilt(unflatten_unchecked(&passed(treedef), leaves))
    }
}

/// Returns the leaf as an `L`.
///
/// # Errors
/// If the leaf has another type, which is possible only inside a trait object or in a tree of mixed leaves.
#[inline]
pub(crate) fn typed<L: Leaf>(leaf: &dyn Leaf) -> Result<&L, TreeError> {
    // The direct downcast saves a virtual call. `downcast_ref` of `dyn Leaf` also finds the leaf inside an `AnyLeaf`.
    let direct: &dyn std::any::Any = leaf;
    match direct.downcast_ref().or_else(|| leaf.downcast_ref()) {
        Some(leaf) => Ok(leaf),
        None => Err(other_type::<L>(leaf)),
    }
}

/// Returns the error for a leaf that is not an `L`.
#[cold]
fn other_type<L>(leaf: &dyn Leaf) -> TreeError {
    TreeError::LeafType {
        expected: short_name(std::any::type_name::<L>()),
        found: short_name(leaf.type_name()),
    }
}

/// Returns the value of `outcome`, the result of unflattening a tree that was just flattened. Panics if `outcome` is an
/// error.
#[track_caller]
pub(crate) fn rebuilt<T>(outcome: Result<T, TreeError>) -> T {
    passed(outcome.map_err(not_rebuilt::<T>))
}

/// Returns the error for a handwritten impl of `Pytree` that cannot rebuild a value from its own treedef and leaves.
#[cold]
pub fn not_rebuilt<T>(problem: TreeError) -> TreeError {
    match problem {
        problem @ TreeError::TooDeep { .. } => problem,
        problem => TreeError::NotRebuilt {
            value: short_name(std::any::type_name::<T>()),
            problem: Box::new(problem),
        },
    }
}

/// Calls `visit` with each leaf of a value. Visits a shared node at each of its paths.
///
/// # Errors
/// The obstacle that ends the walk, or the first error of `visit`.
pub(crate) fn each_leaf<'a, T: Pytree + ?Sized>(
    tree: &'a T,
    visit: impl FnMut(&'a dyn Leaf) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let mut visitor = EachLeaf {
        visit,
        obstacle: Obstacle::default(),
        open: Vec::new(),
    };
    tree.visit(&mut visitor);
    visitor.obstacle.or(|| ())
}

/// A visitor that calls `visit` with each leaf and ignores static values.
struct EachLeaf<F> {
    visit: F,
    obstacle: Obstacle,
    /// The open nodes, that is, the nodes whose visit has begun but not ended. Each has the number of its finished
    /// children.
    open: Vec<(OwnedShape, usize)>,
}

impl<F> EachLeaf<F> {
    fn begin(&mut self, shape: OwnedShape) -> Visit {
        if self.obstacle.is_met() {
            return self.obstacle.skip();
        }
        let above = self.open.iter().map(|(shape, _)| shape.get().kind());
        if let Err(limit) = depth::check(above, shape.get().kind()) {
            let path = self.path();
            self.obstacle.meet(TreeError::TooDeep { limit, path });
            return Visit::Skip;
        }
        self.open.push((shape, 0));
        Visit::Descend
    }

    /// Counts a finished child of the innermost open node.
    fn ended(&mut self) {
        if let Some((_, over)) = self.open.last_mut() {
            *over += 1;
        }
    }

    /// Returns the path of the next node to visit. In this path a child of a map is identified by its position, because
    /// this visitor does not store the keys of maps.
    fn path(&self) -> KeyPath {
        let nodes = self
            .open
            .iter()
            .filter(|(shape, _)| !shape.get().kind().is_transparent());
        let key = |(shape, over): &(OwnedShape, usize)| match shape.get().field_key(*over) {
            Some(key) => key,
            None => PathKey::Index(i128::try_from(*over).unwrap_or(i128::MAX)),
        };
        nodes.map(key).collect()
    }
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Visitor<'a> for EachLeaf<F> {
    fn enter(&mut self, shape: &'static NodeShape, _: usize) -> Visit {
        self.begin(OwnedShape::Static(shape))
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, _: usize) -> Visit {
        self.begin(OwnedShape::Dynamic(Arc::clone(shape)))
    }
    fn aux(&mut self, _: StaticRef<'a>) {}
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if !self.obstacle.is_met() {
            match (self.visit)(leaf) {
                Ok(()) => self.ended(),
                Err(error) => self.obstacle.meet(error),
            }
        }
    }
    fn exit(&mut self) {
        if !self.obstacle.is_met() {
            self.open.pop();
            self.ended();
        }
    }
    fn shared(&mut self, _: NodeIdentity) -> Visit {
        if self.obstacle.is_met() {
            return Visit::Skip;
        }
        Visit::Descend
    }
    fn keep(&mut self, _: Arc<dyn Pytree + Send + Sync>) -> &'a dyn Pytree {
        let path = self.path();
        self.obstacle.meet(TreeError::BehindReference { path });
        &()
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if target.is_some() {
            let path = self.path();
            self.obstacle.meet(TreeError::WeakEdge { path });
        }
        self.ended();
    }
    fn tree(&mut self, _: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        if self.obstacle.is_met() {
            return;
        }
        for leaf in leaves {
            if let Err(error) = (self.visit)(leaf) {
                return self.obstacle.meet(error);
            }
        }
        self.ended();
    }
    fn refuse(&mut self, error: TreeError) {
        self.obstacle.meet(error);
    }
}

/// The decision of a visitor about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Visit the content of the node.
    Descend,
    /// Skip the node: a shared node was visited before, or the walk has ended.
    Skip,
}

/// A shared node of any type.
pub trait SharedNode {
    /// Returns the identity of the node.
    fn identity(&self) -> NodeIdentity;

    /// Returns a handle that keeps the node alive.
    fn handle(&self) -> Arc<dyn std::any::Any + Send + Sync>;
}

/// A mutable reference to a value of any type.
pub trait ReferenceNode {
    /// Returns the identity of the reference.
    fn identity(&self) -> NodeIdentity;

    /// Returns a handle of the reference.
    fn handle(&self) -> AnyReference;
}

/// Receives a tree in preorder.
///
/// A visitor that meets an obstacle, such as a value nested too deep, records it, answers [`Visit::Skip`] and ignores
/// the rest of the walk. The function that began the walk returns the obstacle as an error.
pub trait Visitor<'a> {
    /// Begins a node with `arity` children. The next calls pass the static values and keys of the node, then the
    /// children. A call of [`exit`](Self::exit) ends the node.
    ///
    /// If the answer is [`Visit::Skip`], the walk has ended: make no further call for this node. An impl of
    /// [`Pytree::visit`] may ignore the answer unless it calls itself for nodes inside of nodes; the visitor ignores
    /// the calls that follow.
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit;

    /// Begins a node whose shape was created at run time; see [`enter`](Self::enter).
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit;

    /// Begins a node of any shape; see [`enter`](Self::enter).
    fn enter_shape(&mut self, shape: Shape<'_>, arity: usize) -> Visit {
        match shape {
            Shape::Static(shape) => self.enter(shape, arity),
            Shape::Dynamic(shape) => self.enter_dynamic(shape, arity),
        }
    }

    /// Receives a static value of the innermost node that was entered and not yet exited. The keys of a map are static
    /// values, too.
    fn aux(&mut self, value: StaticRef<'a>);

    /// Receives a leaf.
    fn leaf(&mut self, leaf: &'a dyn Leaf);

    /// Receives `count` more children of the innermost node. They have the structure of the last child, so a visitor that
    /// needs no leaves need not visit them. Returns whether the children were received. If not, which is the default,
    /// the caller visits them.
    #[doc(hidden)]
    fn __repeat(&mut self, count: usize) -> bool {
        let _ = count;
        false
    }

    /// Receives an absent leaf: the tree is a part of a partitioned tree, and another part holds the leaf.
    fn absent(&mut self) {
        self.enter(&crate::node::shape::ABSENT, 0);
        self.exit();
    }

    /// Ends the innermost node that was entered and not yet exited.
    fn exit(&mut self);

    /// Ends the walk, because the value cannot be visited. The function that began the walk returns `error`.
    ///
    /// # Panics
    /// If the visitor does not record errors, which is the default.
    fn refuse(&mut self, error: TreeError) {
        panic!("{error}");
    }

    /// Receives a dynamic tree, which is stored as a treedef and leaves. The default visits the tree node by node.
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        treedef.show_nodes(leaves, |step| match step {
            Step::Enter(shape, arity) => {
                self.enter_shape(shape, arity);
            }
            Step::Aux(value) => self.aux(value),
            Step::Leaf(leaf) => self.leaf(leaf),
            Step::Absent(_) => self.absent(),
            Step::Alias(_) => {
                self.enter(&crate::node::shape::ALIAS, 0);
                self.exit();
            }
            Step::Exit => self.exit(),
        });
    }

    /// Receives a shared node. The default visits its content at each of its paths, as tree functions do.
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        let _ = identity;
        Visit::Descend
    }

    /// Receives a shared node that can provide a handle. The default ignores the handle.
    fn shared_node(&mut self, node: &dyn SharedNode) -> Visit {
        self.shared(node.identity())
    }

    /// Receives a mutable reference. The default treats the reference as a shared node.
    fn reference(&mut self, reference: &dyn ReferenceNode) -> Visit {
        self.shared(reference.identity())
    }

    /// Keeps the content of a reference alive while its leaves are borrowed.
    ///
    /// Leaves must be borrowed from a stored content, because another thread may replace the content of the reference
    /// during the visit. A visitor that does not store contents, which is the default, [refuses](Self::refuse) the
    /// value.
    fn keep(&mut self, content: Arc<dyn Pytree + Send + Sync>) -> &'a dyn Pytree {
        drop(content);
        let path = KeyPath::root();
        self.refuse(TreeError::BehindReference { path });
        &()
    }

    /// Receives a weak edge with the identity of its target, if the target is alive.
    ///
    /// A visitor that treats the value as a tree, which is the default, [refuses](Self::refuse) an edge with a target.
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if target.is_some() {
            let path = KeyPath::root();
            return self.refuse(TreeError::WeakEdge { path });
        }
        self.enter(&crate::node::shape::WEAK, 1);
        self.enter(&crate::node::shape::ALIAS, 0);
        self.exit();
        self.exit();
    }
}
