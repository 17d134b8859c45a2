//! Replaces nodes of a model by other values.
//!
//! The model is visited again, and each new value is visited instead of its old node. So a node that is in both a value
//! and the rest of the model stays shared.

use std::collections::HashMap;
use std::sync::Arc;

use super::place::Target;
use crate::base::error::TreeError;
use crate::base::identity::NodeIdentity;
use crate::contract::arena::{Arena, Content};
use crate::contract::depth;
use crate::contract::flatten::{Flatten, Sharing, cloning};
use crate::contract::pytree::{Pytree, Visit, Visitor};
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::Leaf;
use crate::node::shape::{DynamicShape, NodeKind, NodeShape};
use crate::node::statics::StaticRef;
use crate::tools::edit::place::Places;
use crate::treedef::{NodeView, TreeDef};
use crate::trees::functions::flatten_as_tree;

/// Returns the model with other values in the place of some nodes, and whether its modules have named axes. The nodes
/// are in preorder, and no node contains another.
pub(crate) fn replace<M: Pytree>(
    model: &M,
    places: &Places,
    values: &[(usize, &dyn Pytree)],
) -> Result<(M, bool), TreeError> {
    let mut leaves = Vec::new();
    let arena = Arena::default();
    let replacements: Vec<Replacement<'_>> = values
        .iter()
        .map(|&(node, value)| Replacement::new(places, node, value))
        .collect();
    let spliced = Spliced::all(&replacements, &arena)?;
    let shared = replacements.iter().enumerate();
    let shared = shared.filter_map(|(number, new)| Some((new.target.identity?, number)));
    let treedef = {
        let mut visitor = Replacing {
            inner: Flatten::new(Sharing::Preserve, cloning(&mut leaves)).with_arena(&arena),
            places,
            shared: shared.collect(),
            replacements: &replacements,
            next: 0,
            spliced: &spliced,
            shift: 0,
            hidden: 0,
            beyond: 0,
            beyond_from: None,
            lost: false,
        };
        model.visit(&mut visitor);
        let is_lost = visitor.lost;
        let treedef = visitor.inner.finish()?;
        if is_lost {
            return Err(TreeError::Build {
            node: "model with other values",
            reason: "a value contains a node of the model in which another place is replaced; replace one place after the other"
                .to_owned(),
        });
        }
        treedef
    };
    let changed = unflatten_unchecked(&treedef, leaves)?;
    Ok((changed, treedef.has_axes()))
}

/// A node and the value in its place.
struct Replacement<'a> {
    target: Target<'a>,
    /// The number of nodes of the old value.
    size: usize,
    value: &'a dyn Pytree,
    /// The identity of the new shared node. Weak edges to the old node are redirected to the new node.
    becomes: Option<NodeIdentity>,
}

impl<'a> Replacement<'a> {
    fn new(places: &'a Places, node: usize, value: &'a dyn Pytree) -> Self {
        let target = places.target(node);
        Self {
            target,
            size: places.size_of(node),
            value,
            becomes: target.identity.and_then(|_| FirstShared::of(value)),
        }
    }
}

/// A visitor that flattens a model, except for some nodes: it flattens new values instead of these nodes.
///
/// The visitor needs the position of the current node in the old graph, but counts only positions in the new graph. The
/// two positions differ by a shift. The shift changes at a new value that has more or fewer nodes than the old value.
/// The shift also changes at a shared node that is an alias in only one of the graphs. A shared node becomes an alias
/// in only one of the graphs if the first occurrence of the node was replaced, or is in a new value.
struct Replacing<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> {
    inner: Flatten<'a, F>,
    places: &'a Places,
    /// The replacements, in the order of their nodes.
    replacements: &'a [Replacement<'a>],
    /// The first replacement whose node was not visited yet.
    next: usize,
    /// The replacements of shared nodes and references, which are replaced at each of their paths.
    shared: HashMap<NodeIdentity, usize>,
    /// The dynamic trees with replaced nodes, by the position of their first node in the old graph.
    spliced: &'a HashMap<usize, Spliced<'a>>,
    /// The position of the next node in the new graph, minus its position in the old graph. A negative difference
    /// wraps.
    shift: usize,
    /// The current depth inside a replaced node, whose content is skipped. The depth is 0 outside of replaced nodes.
    hidden: usize,
    /// The current depth inside a shared node that is an alias in the old graph. The depth is 0 outside of such nodes.
    beyond: usize,
    /// While the walk is inside a shared node that is an alias in the old graph: the position of this node in the new
    /// graph.
    beyond_from: Option<usize>,
    /// Whether a node to be replaced was skipped, because it is in a shared node that a new value also contains.
    lost: bool,
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Replacing<'a, F> {
    /// Returns the position of the next node in the old graph.
    fn position(&self) -> usize {
        self.inner.position().wrapping_sub(self.shift)
    }

    /// Returns the replacement of the next node, if it is replaced. Returns each replacement only once.
    fn replacement(&mut self) -> Option<&'a Replacement<'a>> {
        let replacement = self.replacements.get(self.next)?;
        let is_here = self.beyond_from.is_none() && replacement.target.node == self.position();
        self.next += usize::from(is_here);
        is_here.then_some(replacement)
    }

    /// Flattens a new value instead of `size` nodes of the old graph.
    fn put(&mut self, value: &'a dyn Pytree, size: usize) {
        let start = self.inner.position();
        value.visit(&mut self.inner);
        self.passed(start, size);
    }

    /// Updates the shift. The nodes from `start` on were flattened in place of `size` nodes of the old graph.
    fn passed(&mut self, start: usize, size: usize) {
        let added = (self.inner.position() - start).wrapping_sub(size);
        self.shift = self.shift.wrapping_add(added);
    }

    /// Returns whether the next node is flattened. If the node is to be replaced, flattens the new value and returns
    /// false.
    fn shows_next(&mut self) -> bool {
        if self.hidden > 0 {
            return false;
        }
        match self.replacement() {
            None => true,
            Some(replacement) => {
                self.put(replacement.value, replacement.size);
                false
            }
        }
    }

    /// Returns whether the next node, which has children, is flattened.
    fn enters_next(&mut self) -> bool {
        let shows = self.shows_next();
        if !shows {
            self.hidden += 1;
        } else if self.beyond_from.is_some() {
            self.beyond += 1;
        }
        shows
    }

    /// Flattens a shared node or reference, unless the new graph already contains this node.
    fn keep_shared(&mut self, identity: NodeIdentity) -> Visit {
        let start = self.inner.position();
        let old = self.position();
        let visit = self.inner.shared(identity);
        if self.beyond_from.is_some() {
            return visit;
        }
        let is_first = self.places.identity_of(old) == Some(identity);
        match visit {
            Visit::Descend if !is_first => self.beyond_from = Some(start),
            Visit::Skip if is_first => {
                let size = self.places.size_of(old);
                self.passed(start, size);
                let is_inside = |new: &Replacement<'_>| new.target.node < old + size;
                while self.replacements.get(self.next).is_some_and(is_inside) {
                    self.next += 1;
                    self.lost = true;
                }
            }
            _ => {}
        }
        visit
    }
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Visitor<'a> for Replacing<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        if self.enters_next() {
            return self.inner.enter(shape, arity);
        }
        Visit::Descend
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        if self.enters_next() {
            return self.inner.enter_dynamic(shape, arity);
        }
        Visit::Descend
    }
    fn refuse(&mut self, error: TreeError) {
        self.inner.refuse(error);
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.hidden == 0 {
            self.inner.aux(value);
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.shows_next() {
            self.inner.leaf(leaf);
        }
    }
    fn exit(&mut self) {
        if self.hidden > 0 {
            self.hidden -= 1;
            return;
        }
        self.inner.exit();
        if let Some(start) = self.beyond_from {
            self.beyond -= 1;
            if self.beyond == 0 {
                self.beyond_from = None;
                // In the old graph, the node is an alias.
                self.passed(start, 1);
            }
        }
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        if self.hidden > 0 {
            return;
        }
        let found = self.beyond_from.is_none().then(|| self.position());
        match found.and_then(|start| self.spliced.get(&start)) {
            Some(spliced) => {
                self.next += spliced.values.len();
                let start = self.inner.position();
                self.inner
                    .tree(&spliced.treedef, &mut spliced.leaves(leaves).into_iter());
                self.passed(start, treedef.num_nodes());
            }
            None => self.inner.tree(treedef, leaves),
        }
    }
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        if self.hidden > 0 {
            return Visit::Skip;
        }
        let Some(number) = self.shared.get(&identity) else {
            return self.keep_shared(identity);
        };
        let value = self.replacements[*number].value;
        // At a later occurrence, the old node is an alias in the old graph.
        let size = self.replacement().map_or(1, |replacement| replacement.size);
        self.put(value, size);
        Visit::Skip
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if self.shows_next() {
            let replaced = target.and_then(|target| self.shared.get(&target));
            let becomes = replaced.map(|number| self.replacements[*number].becomes);
            self.inner.weak(becomes.unwrap_or(target));
        }
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        self.inner.keep(content)
    }
}

/// Finds the identity of a shared node or reference.
#[derive(Default)]
struct FirstShared {
    found: Option<NodeIdentity>,
    /// The kinds of the open nodes, which limit the depth of the walk.
    open: Vec<NodeKind>,
}

impl FirstShared {
    /// Returns the identity of the first shared node or reference in a value.
    fn of(value: &dyn Pytree) -> Option<NodeIdentity> {
        let mut visitor = Self::default();
        value.visit(&mut visitor);
        visitor.found
    }

    fn begin(&mut self, kind: NodeKind) -> Visit {
        if self.found.is_some() || depth::check(self.open.iter().copied(), kind).is_err() {
            return Visit::Skip;
        }
        self.open.push(kind);
        Visit::Descend
    }
}

impl<'a> Visitor<'a> for FirstShared {
    fn enter(&mut self, shape: &'static NodeShape, _: usize) -> Visit {
        self.begin(shape.kind)
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, _: usize) -> Visit {
        self.begin(shape.kind())
    }
    fn refuse(&mut self, _: TreeError) {}
    fn aux(&mut self, _: StaticRef<'a>) {}
    fn leaf(&mut self, _: &'a dyn Leaf) {}
    fn exit(&mut self) {
        self.open.pop();
    }
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        self.found.get_or_insert(identity);
        Visit::Skip
    }
    fn weak(&mut self, _: Option<NodeIdentity>) {}
}

/// A dynamic tree in which some nodes are replaced by other values.
struct Spliced<'a> {
    treedef: TreeDef,
    /// The new values, in the order of their nodes.
    values: Vec<SplicedValue<'a>>,
}

/// The leaves of a value that replaces a node of a dynamic tree.
struct SplicedValue<'a> {
    /// The number of leaves before the node that the value replaces.
    before: usize,
    /// The number of leaves of the node that the value replaces.
    replaced: usize,
    leaves: Vec<&'a dyn Leaf>,
}

impl<'a> Spliced<'a> {
    /// Returns the dynamic trees with replaced nodes, by the positions of their first nodes. A shared node in a value
    /// is copied to each of its paths.
    fn all(
        replacements: &[Replacement<'a>],
        arena: &'a Arena,
    ) -> Result<HashMap<usize, Self>, TreeError> {
        let mut trees: HashMap<usize, Self> = HashMap::new();
        // The last replacement comes first, because a replacement moves the nodes behind it.
        for replacement in replacements.iter().rev() {
            let Some((treedef, at)) = replacement.target.inside else {
                continue;
            };
            let (leaves, new) = flatten_as_tree(replacement.value, arena)?;
            if !new.has_tree_form() {
                return Err(TreeError::Build {
                    node: "dynamic tree",
                    reason: "the value contains itself, or has a weak edge to one of its nodes; a dynamic tree cannot represent either".to_owned(),
                });
            }
            let spliced = trees
                .entry(replacement.target.node - at)
                .or_insert_with(|| Self {
                    treedef: treedef.clone(),
                    values: Vec::new(),
                });
            spliced.treedef = spliced.treedef.spliced(at, &new);
            let is_leaf = |node: &NodeView<'_>| node.kind() == NodeKind::Leaf;
            spliced.values.push(SplicedValue {
                before: treedef.nodes_in(0..at).filter(is_leaf).count(),
                replaced: treedef.view(at).num_leaves(),
                leaves,
            });
        }
        trees.values_mut().for_each(|tree| tree.values.reverse());
        Ok(trees)
    }

    fn leaves<'l>(&self, leaves: &mut dyn Iterator<Item = &'l dyn Leaf>) -> Vec<&'l dyn Leaf>
    where
        'a: 'l,
    {
        let mut all: Vec<&'l dyn Leaf> = Vec::new();
        let mut taken = 0;
        for value in &self.values {
            all.extend((&mut *leaves).take(value.before - taken));
            all.extend(value.leaves.iter().copied());
            (&mut *leaves).take(value.replaced).for_each(drop);
            taken = value.before + value.replaced;
        }
        all.extend(leaves);
        all
    }
}
