//! Treedefs: the structure of a tree as a value.
//!
//! A treedef is a flat array of nodes in preorder beside the static values and keys of all of them.
//! It is compared, hashed and walked without recursion, so its depth has no bound. Invariants:
//! the subtree of node `i` is `nodes[i .. i + nodes[i].size]`; the static values of node `i` are
//! `aux[nodes[i].aux .. nodes[i + 1].aux]`; places that hold a leaf and places whose leaf is absent are
//! nodes without children.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::error::{Difference, DifferenceKind};
use crate::kind::LeafKind;
use crate::leaf::Leaf;
use crate::path::{Key, KeyPath};
use crate::pytree::{Pytree, SharedVisit, Visitor};
use crate::shape::{self, Field, NodeKind, NodeShape};
use crate::shared::{Identity, IdentityMap};
use crate::statics::{StaticBox, StaticRef, StaticValue};

/// One node of a treedef.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) shape: &'static NodeShape,
    /// The number of children.
    pub(crate) arity: u32,
    /// The number of nodes of the subtree, this one included.
    pub(crate) size: u32,
    /// Where its static values begin.
    pub(crate) aux: u32,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) nodes: Vec<Node>,
    pub(crate) aux: Vec<StaticBox>,
    leaves: usize,
    /// Computed when it is first asked for: comparing needs none.
    hash: OnceLock<u64>,
}

/// The structure of a tree: nodes, keys and static values, without the leaves.
///
/// Equality and hash cover all of it. Cloning shares it.
///
/// # Examples
/// ```
/// use pytree_core::{tree, Tree};
/// let structure = tree::structure(&vec![(1.0_f32, 2.0_f32)]);
/// assert_eq!(structure.to_string(), "PyTreeDef([(*, *)])");
/// assert_eq!(structure.num_leaves(), 2);
/// ```
#[derive(Clone)]
pub struct TreeDef(pub(crate) Arc<Inner>);

impl TreeDef {
    /// The treedef of a single leaf.
    pub fn leaf() -> Self {
        let mut builder = Builder::default();
        builder.leaf(&shape::LEAF);
        builder.finish()
    }

    /// The number of leaves.
    pub fn num_leaves(&self) -> usize {
        self.0.leaves
    }

    /// The number of nodes, leaves included.
    pub fn num_nodes(&self) -> usize {
        self.0.nodes.len()
    }

    /// The family of the root.
    pub fn kind(&self) -> NodeKind {
        self.0
            .nodes
            .first()
            .map_or(NodeKind::Leaf, |root| root.shape.kind)
    }

    /// The treedefs of the root's children.
    pub fn children(&self) -> Vec<Self> {
        let mut children = Vec::new();
        let mut at = 1;
        while at < self.0.nodes.len() {
            children.push(self.subtree(at));
            at += self.0.nodes[at].size as usize;
        }
        children
    }

    /// The paths of the leaves, in order.
    pub fn leaf_paths(&self) -> Vec<KeyPath> {
        let mut paths = Vec::with_capacity(self.num_leaves());
        self.walk_places(|place| {
            if place.holds_leaf {
                paths.push(place.path.clone());
            }
        });
        paths
    }

    /// The kinds of the leaves, in order.
    pub fn leaf_kinds(&self) -> Vec<Option<LeafKind>> {
        let mut kinds = Vec::with_capacity(self.num_leaves());
        self.walk_decisions(
            |kind| kind,
            |holds_leaf, kind| {
                if holds_leaf {
                    kinds.push(kind);
                }
            },
        );
        kinds
    }

    /// For each leaf, in order, whether only tuples are above it.
    pub fn is_tuple_member(&self) -> Vec<bool> {
        let mut members = Vec::with_capacity(self.num_leaves());
        // The end of the subtree of the node that is not a tuple and encloses the walk, if any.
        let mut enclosed_until = 0;
        for (at, node) in self.0.nodes.iter().enumerate() {
            if node.shape.kind == NodeKind::Leaf {
                members.push(at >= enclosed_until);
            } else if node.shape.kind != NodeKind::Tuple && at >= enclosed_until {
                enclosed_until = at + node.size as usize;
            }
        }
        members
    }

    /// Every way in which this structure differs from `other`, from the root down: node types first,
    /// then the number of children or the keys, then static values, then what is below.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        if self == other {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut pairs = vec![(0_usize, 0_usize, KeyPath::root())];
        while let Some((left, right, path)) = pairs.pop() {
            let before = found.len();
            self.compare_nodes(other, left, right, &path, &mut found);
            let same_children = found[before..]
                .iter()
                .all(|difference| difference.why == DifferenceKind::Static);
            if same_children {
                let children: Vec<_> = self
                    .child_positions(left)
                    .into_iter()
                    .zip(other.child_positions(right))
                    .collect();
                for (position, (left_child, right_child)) in children.into_iter().enumerate().rev()
                {
                    let mut path = path.clone();
                    path.extend_by(self.child_key(left, position));
                    pairs.push((left_child, right_child, path));
                }
            }
        }
        found
    }

    fn compare_nodes(
        &self,
        other: &Self,
        left: usize,
        right: usize,
        path: &KeyPath,
        found: &mut Vec<Difference>,
    ) {
        let (a, b) = (self.0.nodes[left], other.0.nodes[right]);
        let mut differ = |why, left: String, right: String| {
            found.push(Difference {
                path: path.clone(),
                left,
                right,
                why,
            });
        };
        if a.shape != b.shape {
            return differ(
                DifferenceKind::NodeType,
                self.describe(left),
                other.describe(right),
            );
        }
        let (a_aux, b_aux) = (self.0.aux_of(left), other.0.aux_of(right));
        if matches!(a.shape.kind, NodeKind::Dict | NodeKind::OrderedDict) {
            if a_aux != b_aux {
                differ(
                    DifferenceKind::Keys,
                    format!("{a_aux:?}"),
                    format!("{b_aux:?}"),
                );
            }
            return;
        }
        if a.arity != b.arity {
            return differ(
                DifferenceKind::Arity,
                a.arity.to_string(),
                b.arity.to_string(),
            );
        }
        for (position, (a_value, b_value)) in a_aux.iter().zip(b_aux).enumerate() {
            if a_value != b_value {
                let name = a
                    .shape
                    .statics
                    .get(position)
                    .map_or(String::new(), |name| format!("{name} = "));
                differ(
                    DifferenceKind::Static,
                    format!("{name}{a_value:?}"),
                    format!("{name}{b_value:?}"),
                );
            }
        }
    }

    fn describe(&self, node: usize) -> String {
        let node = self.0.nodes[node];
        match node.shape.kind {
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict => {
                format!("a {} of {}", node.shape.name, node.arity)
            }
            NodeKind::Leaf => "a leaf".to_owned(),
            NodeKind::Absent => "an absent leaf".to_owned(),
            _ => node.shape.name.to_owned(),
        }
    }

    pub(crate) fn child_positions(&self, node: usize) -> Vec<usize> {
        let mut positions = Vec::with_capacity(self.0.nodes[node].arity as usize);
        let mut at = node + 1;
        for _ in 0..self.0.nodes[node].arity {
            positions.push(at);
            at += self.0.nodes[at].size as usize;
        }
        positions
    }

    /// The key of a node's child; none below a transparent node.
    pub(crate) fn child_key(&self, node: usize, position: usize) -> Option<Key> {
        child_key(&self.0, node, position)
    }

    /// The subtree at a node as a treedef of its own.
    pub(crate) fn subtree(&self, node: usize) -> Self {
        let size = self.0.nodes[node].size as usize;
        if node == 0 && size == self.0.nodes.len() {
            return self.clone();
        }
        let nodes = &self.0.nodes[node..node + size];
        let aux_start = nodes[0].aux;
        let aux_end = self
            .0
            .nodes
            .get(node + size)
            .map_or(self.0.aux.len(), |next| next.aux as usize);
        let nodes = nodes
            .iter()
            .map(|node| Node {
                aux: node.aux - aux_start,
                ..*node
            })
            .collect();
        Self::from_parts(nodes, self.0.aux[aux_start as usize..aux_end].to_vec())
    }

    /// A treedef from its arrays, whose invariants hold already.
    pub(crate) fn from_parts(nodes: Vec<Node>, aux: Vec<StaticBox>) -> Self {
        let leaves = nodes
            .iter()
            .filter(|node| node.shape.kind == NodeKind::Leaf)
            .count();
        Self(Arc::new(Inner {
            nodes,
            aux,
            leaves,
            hash: OnceLock::new(),
        }))
    }

    /// The path of a node.
    pub(crate) fn path_of(&self, target: usize) -> KeyPath {
        path_of(&self.0, target)
    }

    /// Calls `visit` for each place, present or absent, in order.
    pub(crate) fn walk_places(&self, mut visit: impl FnMut(Place<'_>)) {
        let mut path = KeyPath::root();
        let mut open: Vec<OpenNode> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            let mut kind = None;
            let mut pushed = false;
            if let Some(parent) = open.last_mut() {
                kind = parent.child_kind(&self.0);
                if let Some(key) = child_key(&self.0, parent.node, parent.next) {
                    path.push(key);
                    pushed = true;
                }
                parent.next += 1;
            }
            if node.is_place() {
                visit(Place {
                    path: &path,
                    kind,
                    holds_leaf: node.shape.kind == NodeKind::Leaf,
                });
            }
            open.push(OpenNode {
                node: at,
                next: 0,
                arity: node.arity as usize,
                inherited: kind,
                pushed,
            });
            while open.last().is_some_and(|node| node.next == node.arity) {
                if open.pop().is_some_and(|node| node.pushed) {
                    path.pop();
                }
            }
        }
    }

    /// Calls `visit` with presence and decision of each place, in order. `decide` is asked once for each
    /// field that settles a kind, and once for places outside of such fields.
    pub(crate) fn walk_decisions<T: Copy>(
        &self,
        mut decide: impl FnMut(Option<LeafKind>) -> T,
        mut visit: impl FnMut(bool, T),
    ) {
        let without_kind = decide(None);
        // Of each open node: the fields whose kinds are yet to be asked for, how many children are left, and
        // what a field above decided.
        let mut open: Vec<(&'static [Field], u32, Option<T>)> = Vec::new();
        for node in &self.0.nodes {
            let mut decision = None;
            if let Some((fields, left, inherited)) = open.last_mut() {
                *left -= 1;
                decision = *inherited;
                if let Some((field, rest)) = fields.split_first() {
                    *fields = rest;
                    if decision.is_none() {
                        decision = field
                            .kind
                            .and_then(LeafKind::of_field)
                            .map(|kind| decide(Some(kind)));
                    }
                }
            }
            if node.arity > 0 {
                open.push((node.shape.fields, node.arity, decision));
                continue;
            }
            if node.is_place() {
                visit(
                    node.shape.kind == NodeKind::Leaf,
                    decision.unwrap_or(without_kind),
                );
            }
            while open.last().is_some_and(|(_, left, _)| *left == 0) {
                open.pop();
            }
        }
    }

    /// The treedef in which the places for which `keep` is false are absent; it is called for each place in
    /// order, with whether there is a leaf now.
    pub(crate) fn with_presence(&self, mut keep: impl FnMut(bool) -> bool) -> Self {
        let mut nodes = self.0.nodes.clone();
        for node in nodes.iter_mut().filter(|node| node.is_place()) {
            let present = node.shape.kind == NodeKind::Leaf;
            match keep(present) {
                true if present => {}
                true => node.shape = &shape::LEAF,
                false => node.shape = &shape::ABSENT,
            }
        }
        Self::from_parts(nodes, self.0.aux.clone())
    }

    /// The treedefs of `N` parts: the leaf at each position is present in the part that `assigned` tells.
    pub(crate) fn split<const N: usize>(&self, assigned: &[usize]) -> [Self; N] {
        let mut parts: [Vec<Node>; N] = std::array::from_fn(|_| self.0.nodes.clone());
        let mut counts = [0; N];
        let mut assigned = assigned.iter();
        for (at, node) in self.0.nodes.iter().enumerate() {
            if node.shape.kind != NodeKind::Leaf {
                continue;
            }
            let owner = assigned.next().copied();
            for (part, nodes) in parts.iter_mut().enumerate() {
                if owner == Some(part) {
                    counts[part] += 1;
                } else {
                    nodes[at].shape = &shape::ABSENT;
                }
            }
        }
        let mut counts = counts.into_iter();
        parts.map(|nodes| {
            let leaves = counts.next().unwrap_or(0);
            Self(Arc::new(Inner {
                nodes,
                aux: self.0.aux.clone(),
                leaves,
                hash: OnceLock::new(),
            }))
        })
    }

    /// The treedef with every static value of the type `T` replaced by what `function` makes of it.
    ///
    /// This is how a whole model switches between training and evaluation: the mode is static data.
    #[must_use]
    pub fn map_static<T: StaticValue>(&self, function: impl Fn(&T) -> T) -> Self {
        let aux = self
            .0
            .aux
            .iter()
            .map(|value| match value.downcast_ref::<T>() {
                Some(found) => StaticBox::new(function(found)),
                None => value.clone(),
            });
        Self::from_parts(self.0.nodes.clone(), aux.collect())
    }

    /// Whether any place is absent.
    pub(crate) fn has_absent(&self) -> bool {
        self.0
            .nodes
            .iter()
            .any(|node| node.shape.kind == NodeKind::Absent)
    }

    /// Writes the tree, with `leaf` for each leaf.
    pub(crate) fn write_with<W: fmt::Write>(
        &self,
        f: &mut W,
        mut leaf: impl FnMut(&mut W) -> fmt::Result,
    ) -> fmt::Result {
        write_tree(&self.0, f, &mut leaf)
    }
}

impl Inner {
    /// The static values of a node.
    pub(crate) fn aux_of(&self, node: usize) -> &[StaticBox] {
        let start = self.nodes[node].aux as usize;
        let end = self
            .nodes
            .get(node + 1)
            .map_or(self.aux.len(), |next| next.aux as usize);
        &self.aux[start..end]
    }
}

impl Node {
    pub(crate) fn is_place(&self) -> bool {
        matches!(self.shape.kind, NodeKind::Leaf | NodeKind::Absent)
    }
}

impl KeyPath {
    fn extend_by(&mut self, key: Option<Key>) {
        if let Some(key) = key {
            self.push(key);
        }
    }
}

/// A place of a tree: where a leaf is, or was before a partition.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a KeyPath,
    pub(crate) kind: Option<LeafKind>,
    pub(crate) holds_leaf: bool,
}

/// A node of a walk whose children are not all visited.
struct OpenNode {
    node: usize,
    next: usize,
    arity: usize,
    inherited: Option<LeafKind>,
    pushed: bool,
}

impl OpenNode {
    /// The kind that the next child inherits: that of the outermost field that decides one.
    fn child_kind(&self, inner: &Inner) -> Option<LeafKind> {
        self.inherited.or_else(|| {
            inner.nodes[self.node]
                .shape
                .fields
                .get(self.next)
                .and_then(|field| field.kind)
                .and_then(LeafKind::of_field)
        })
    }
}

fn child_key(inner: &Inner, node: usize, position: usize) -> Option<Key> {
    let shape = inner.nodes[node].shape;
    match shape.kind {
        NodeKind::Struct | NodeKind::TupleStruct => Some(Key::Field(
            shape
                .fields
                .get(position)
                .map_or("?", |field| field.name)
                .into(),
        )),
        NodeKind::List | NodeKind::Tuple => i128::try_from(position).ok().map(Key::Index),
        NodeKind::Dict | NodeKind::OrderedDict => {
            inner.aux_of(node).get(position).map(key_of_static)
        }
        _ => None,
    }
}

fn key_of_static(value: &StaticBox) -> Key {
    macro_rules! integers {
        ($($integer:ty),*) => {$(
            if let Some(&integer) = value.downcast_ref::<$integer>() {
                #[allow(irrefutable_let_patterns, reason = "u128 alone does not always fit")]
                if let Ok(integer) = i128::try_from(integer) {
                    return Key::Index(integer);
                }
            }
        )*};
    }
    if let Some(text) = value.downcast_ref::<String>() {
        return Key::Text(text.clone());
    }
    if let Some(text) = value.downcast_ref::<&'static str>() {
        return Key::Text((*text).to_owned());
    }
    integers!(
        usize, i32, i64, u32, u64, isize, u8, i8, u16, i16, i128, u128
    );
    if let Some(&character) = value.downcast_ref::<char>() {
        return Key::Text(character.to_string());
    }
    Key::of_display(&format!("{value:?}"))
}

fn path_of(inner: &Inner, target: usize) -> KeyPath {
    let mut path = KeyPath::root();
    let mut node = 0;
    while node != target {
        let mut child = node + 1;
        for position in 0..inner.nodes[node].arity as usize {
            let end = child + inner.nodes[child].size as usize;
            if target < end {
                path.extend_by(child_key(inner, node, position));
                break;
            }
            child = end;
        }
        if child <= node || child > target {
            break;
        }
        node = child;
    }
    path
}

fn hash_parts(nodes: &[Node], aux: &[StaticBox]) -> u64 {
    // The multiply-rotate hash of Firefox: two instructions a node, and quality enough for a table.
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let mut hash = nodes.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for node in nodes {
        let shape = node.shape;
        mix((u64::from(node.arity) << 32) | (u64::from(shape.variant) << 8) | shape.kind as u64);
        if matches!(shape.kind, NodeKind::Struct | NodeKind::TupleStruct) {
            mix(shape.name.len() as u64
                ^ (u64::from(shape.name.as_bytes().first().copied().unwrap_or(0)) << 32));
        }
    }
    for value in aux {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        mix(hasher.finish());
    }
    hash
}

impl PartialEq for TreeDef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.nodes.len() == other.0.nodes.len()
                && self
                    .0
                    .nodes
                    .iter()
                    .zip(&other.0.nodes)
                    .all(|(a, b)| a.arity == b.arity && a.shape == b.shape)
                && self.0.aux == other.0.aux)
    }
}
impl Eq for TreeDef {}
impl Hash for TreeDef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(
            *self
                .0
                .hash
                .get_or_init(|| hash_parts(&self.0.nodes, &self.0.aux)),
        );
    }
}
impl fmt::Display for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyTreeDef(")?;
        self.write_with(f, |f| f.write_str("*"))?;
        f.write_str(")")
    }
}
impl fmt::Debug for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_tree<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    leaf: &mut impl FnMut(&mut W) -> fmt::Result,
) -> fmt::Result {
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (at, node) in inner.nodes.iter().enumerate() {
        if let Some((parent, next)) = open.last_mut() {
            write_child_prefix(inner, f, *parent, *next)?;
            *next += 1;
        }
        match node.shape.kind {
            NodeKind::Leaf => leaf(f)?,
            NodeKind::Absent => f.write_str("-")?,
            NodeKind::None => f.write_str("None")?,
            NodeKind::Alias => match inner.aux_of(at).first() {
                Some(number) => write!(f, "alias {number:?}")?,
                None => f.write_str("alias")?,
            },
            NodeKind::List => f.write_char('[')?,
            NodeKind::Tuple => f.write_char('(')?,
            NodeKind::Dict => f.write_char('{')?,
            NodeKind::OrderedDict => f.write_str("OrderedDict({")?,
            NodeKind::Struct => {
                f.write_str(node.shape.name)?;
                if node.arity > 0 || !inner.aux_of(at).is_empty() {
                    f.write_str(" { ")?;
                }
            }
            NodeKind::TupleStruct => {
                f.write_str(node.shape.name)?;
                if node.arity > 0 || !inner.aux_of(at).is_empty() {
                    f.write_char('(')?;
                }
            }
            NodeKind::Some | NodeKind::Object | NodeKind::Shared => {}
        }
        open.push((at, 0));
        while let Some(&(at, next)) = open.last() {
            if next < inner.nodes[at].arity as usize {
                break;
            }
            write_close(inner, f, at)?;
            open.pop();
        }
    }
    Ok(())
}

fn write_child_prefix<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    parent: usize,
    position: usize,
) -> fmt::Result {
    let shape = inner.nodes[parent].shape;
    if position > 0 {
        f.write_str(", ")?;
    }
    match shape.kind {
        NodeKind::Struct => write!(
            f,
            "{}: ",
            shape.fields.get(position).map_or("?", |field| field.name)
        ),
        NodeKind::Dict | NodeKind::OrderedDict => match inner.aux_of(parent).get(position) {
            Some(key) => write!(f, "{key:?}: "),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn write_close<W: fmt::Write>(inner: &Inner, f: &mut W, at: usize) -> fmt::Result {
    let node = inner.nodes[at];
    let aux = inner.aux_of(at);
    match node.shape.kind {
        NodeKind::List => f.write_char(']'),
        NodeKind::Tuple if node.arity == 1 => f.write_str(",)"),
        NodeKind::Tuple => f.write_char(')'),
        NodeKind::Dict => f.write_char('}'),
        NodeKind::OrderedDict => f.write_str("})"),
        NodeKind::Struct | NodeKind::TupleStruct if node.arity > 0 || !aux.is_empty() => {
            for (position, value) in aux.iter().enumerate() {
                if position > 0 || node.arity > 0 {
                    f.write_str(", ")?;
                }
                write!(
                    f,
                    "{} = {value:?}",
                    node.shape.statics.get(position).copied().unwrap_or("?")
                )?;
            }
            f.write_str(if node.shape.kind == NodeKind::Struct {
                " }"
            } else {
                ")"
            })
        }
        _ => Ok(()),
    }
}

/// Builds a treedef node by node, in preorder.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    aux: Vec<StaticBox>,
    open: Vec<u32>,
}

impl Builder {
    pub(crate) fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        self.open.push(count(self.nodes.len()));
        self.push(shape, count(arity));
    }

    pub(crate) fn aux(&mut self, value: StaticBox) {
        self.aux.push(value);
    }

    pub(crate) fn leaf(&mut self, shape: &'static NodeShape) {
        self.push(shape, 0);
    }

    pub(crate) fn absent(&mut self) {
        self.push(&shape::ABSENT, 0);
    }

    pub(crate) fn exit(&mut self) {
        if let Some(start) = self.open.pop() {
            let size = count(self.nodes.len()) - start;
            self.nodes[start as usize].size = size;
        }
    }

    /// Adds a whole tree as the next child.
    pub(crate) fn subtree(&mut self, treedef: &TreeDef) {
        let offset = count(self.aux.len());
        self.nodes.extend(treedef.0.nodes.iter().map(|node| Node {
            aux: node.aux + offset,
            ..*node
        }));
        self.aux.extend_from_slice(&treedef.0.aux);
    }

    pub(crate) fn finish(self) -> TreeDef {
        TreeDef::from_parts(self.nodes, self.aux)
    }

    fn push(&mut self, shape: &'static NodeShape, arity: u32) {
        self.nodes.push(Node {
            shape,
            arity,
            size: 1,
            aux: count(self.aux.len()),
        });
    }
}

/// Counts of nodes fit in 32 bits: a tree of more would need over 100 GB.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// How a traversal treats shared nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// As trees do: a shared node is visited at each place.
    Duplicate,
    /// As graphs do: a shared node is visited once, and later places are aliases.
    Preserve,
}

/// Builds a treedef and hands each leaf on.
pub(crate) struct Flatten<'a, F: FnMut(&'a dyn Leaf)> {
    builder: Builder,
    on_leaf: F,
    sharing: Sharing,
    seen: IdentityMap,
    lifetime: std::marker::PhantomData<&'a ()>,
}

impl<'a, F: FnMut(&'a dyn Leaf)> Flatten<'a, F> {
    pub(crate) fn new(sharing: Sharing, on_leaf: F) -> Self {
        Self {
            builder: Builder::default(),
            on_leaf,
            sharing,
            seen: IdentityMap::default(),
            lifetime: std::marker::PhantomData,
        }
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> TreeDef {
        tree.visit(&mut self);
        self.builder.finish()
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Flatten<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        self.builder.enter(shape, arity);
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        self.builder.aux(value.to_box());
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        self.builder.leaf(leaf.leaf_shape());
        (self.on_leaf)(leaf);
    }
    fn absent(&mut self) {
        self.builder.absent();
    }
    fn exit(&mut self) {
        self.builder.exit();
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.sharing == Sharing::Duplicate {
            return SharedVisit::Descend;
        }
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                self.builder.enter(&shape::ALIAS, 0);
                self.builder.aux(StaticBox::new(number));
                self.builder.exit();
                SharedVisit::Skip
            }
        }
    }
}

/// Compares a tree with a stored treedef without building one, handing each leaf on.
pub(crate) struct Match<'a, 't, F: FnMut(&'a dyn Leaf)> {
    treedef: &'t Inner,
    on_leaf: F,
    node: usize,
    aux: usize,
    matches: bool,
    seen: IdentityMap,
    lifetime: std::marker::PhantomData<&'a ()>,
}

impl<'a, 't, F: FnMut(&'a dyn Leaf)> Match<'a, 't, F> {
    pub(crate) fn new(treedef: &'t TreeDef, on_leaf: F) -> Self {
        Self {
            treedef: &treedef.0,
            on_leaf,
            node: 0,
            aux: 0,
            matches: true,
            seen: IdentityMap::default(),
            lifetime: std::marker::PhantomData,
        }
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> bool {
        tree.visit(&mut self);
        self.matches && self.node == self.treedef.nodes.len() && self.aux == self.treedef.aux.len()
    }

    fn node(&mut self, shape: &'static NodeShape, arity: usize) {
        match self.treedef.nodes.get(self.node) {
            Some(node) if node.arity as usize == arity && node.shape == shape => self.node += 1,
            _ => self.matches = false,
        }
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Match<'a, '_, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        if self.matches {
            self.node(shape, arity);
        }
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.matches {
            match self.treedef.aux.get(self.aux) {
                Some(stored) if value == *stored => self.aux += 1,
                _ => self.matches = false,
            }
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.matches {
            self.node(&shape::LEAF, 0);
            (self.on_leaf)(leaf);
        }
    }
    fn exit(&mut self) {}
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                if self.matches {
                    self.node(&shape::ALIAS, 0);
                    match self
                        .treedef
                        .aux
                        .get(self.aux)
                        .and_then(StaticBox::downcast_ref::<usize>)
                    {
                        Some(&stored) if stored == number => self.aux += 1,
                        _ => self.matches = false,
                    }
                }
                SharedVisit::Skip
            }
        }
    }
}
