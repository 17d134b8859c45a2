//! Reading the format that the parent module describes. The bytes are not trusted: inconsistent bytes cause an error,
//! and memory is allocated only for data that the bytes contain.

mod data;
mod shapes;

use std::collections::BTreeSet;
use std::sync::Arc;

use pytree_base::bug::bug;

use super::format::{BUILTIN, MAGIC, REMEMBERED, VERSION};
use crate::base::error::TreeError;
use crate::node::insertion::InsertionOrder;
use crate::node::shape::{DynamicShape, NodeKind, Shape, StandIn};
use crate::node::statics::{StaticBox, StaticData, StaticValue};
use crate::treedef::node::{NOTHING, Node};
use crate::treedef::structure::TreeDef;

/// A node that refers to its shape by a position. The size is zero until the subtree is read.
struct NewNode {
    /// The position of the shape: the built-in shapes come first, then the shapes in the bytes.
    shape: usize,
    arity: u32,
    size: u32,
    aux: u32,
    target: u32,
}

/// Reads one treedef.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    version: u8,
    shapes: Vec<Arc<DynamicShape>>,
    /// The static values that later bytes may refer to by index.
    statics: Vec<StaticBox>,
    /// The number of splits of the absent leaf that was read last.
    splits: u32,
    nodes: Vec<NewNode>,
    aux: Vec<StaticBox>,
    /// The positions of the shared nodes and references that were read, in preorder.
    numbered: Vec<usize>,
    /// The positions of the references that contain the current node. The list may also contain earlier references,
    /// which no longer contain the current node, until [`may_refer_to`](Self::may_refer_to) removes them.
    references: Vec<usize>,
    /// The weak edge whose target has the greatest number: this number, and the position of the edge in the bytes. The
    /// number is checked at the end, because the target may come later.
    furthest: Option<(usize, usize)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            version: VERSION,
            shapes: Vec::new(),
            statics: Vec::new(),
            splits: 0,
            nodes: Vec::new(),
            aux: Vec::new(),
            numbered: Vec::new(),
            references: Vec::new(),
            furthest: None,
        }
    }

    pub(super) fn treedef(mut self) -> Result<TreeDef, TreeError> {
        self.header()?;
        self.all_nodes()?;
        if self.left() > 0 {
            return Err(fail(
                self.at,
                "the end",
                format!("{} more bytes", self.left()),
            ));
        }
        if let Some((number, position)) = self.furthest
            && number >= self.numbered.len()
        {
            return Err(fail(
                position,
                format!(
                    "an alias of one of the {} shared nodes",
                    self.numbered.len()
                ),
                format!("an alias of node {number}"),
            ));
        }
        let node = |node: &NewNode| {
            let (shape, target) = match node.shape.checked_sub(BUILTIN.len()) {
                Some(number) => (StandIn::of(self.shapes[number].kind()), narrow(number)),
                None => (BUILTIN[node.shape], node.target),
            };
            Node {
                shape,
                arity: node.arity,
                size: node.size,
                aux: node.aux,
                target,
            }
        };
        let nodes = self.nodes.iter().map(node).collect();
        Ok(TreeDef::from_parts(nodes, self.aux, self.shapes))
    }

    fn header(&mut self) -> Result<(), TreeError> {
        let expected = "`PYTD`, the first four bytes of each treedef";
        let magic = self.take(MAGIC.len(), expected)?;
        if magic != MAGIC {
            return Err(fail(0, expected, format!("{magic:?}")));
        }
        let version = self.byte("the version")?;
        if !(1..=VERSION).contains(&version) {
            let found = format!("version {version}");
            return Err(fail(
                self.at - 1,
                format!("a version from 1 to {VERSION}"),
                found,
            ));
        }
        self.version = version;
        // Counts of nodes and static values are stored in 32 bits. Each node or value takes at least one byte, so a
        // check of the length limits the counts.
        if u32::try_from(self.bytes.len()).is_err() {
            return Err(fail(
                self.at,
                "at most 4 GiB",
                format!("{} bytes", self.bytes.len()),
            ));
        }
        Ok(())
    }

    fn all_nodes(&mut self) -> Result<(), TreeError> {
        // For each node that contains the current node: its position, and the number of its children that are not read
        // yet.
        let mut open: Vec<(usize, usize)> = Vec::new();
        loop {
            let arity = self.node()?;
            if arity > 0 {
                open.push((self.nodes.len() - 1, arity));
                continue;
            }
            loop {
                let Some((start, remaining)) = open.last_mut() else {
                    return Ok(());
                };
                *remaining -= 1;
                if *remaining > 0 {
                    break;
                }
                self.nodes[*start].size = narrow(self.nodes.len() - *start);
                open.pop();
            }
        }
    }

    /// Reads a node with its static values. Returns the number of its children.
    fn node(&mut self) -> Result<usize, TreeError> {
        let position = self.at;
        let shape = self.shape()?;
        let kind = self.kind(shape);
        let start = self.aux.len();
        let mut arity = 0;
        if !matches!(kind, NodeKind::Leaf | NodeKind::Absent) {
            arity = self.count("the number of children")?;
            let statics = self.count("the number of static values")?;
            self.check_counts(position, shape, arity, statics)?;
            for _ in 0..statics {
                let value = self.static_value()?;
                self.aux.push(value);
            }
            self.check_statics(position, kind, start)?;
        }
        let mut target = std::mem::take(&mut self.splits);
        if kind == NodeKind::Alias {
            let data = self.aux.pop().map(|last| last.data());
            target = self.alias(position, data)?;
        }
        let is_awaited = self.last_kind() == Some(NodeKind::Weak);
        if is_awaited && kind != NodeKind::Alias {
            return Err(fail(
                position,
                "an alias as the child of a weak edge",
                format!("{kind:?}"),
            ));
        }
        if kind.is_numbered() {
            self.numbered.push(self.nodes.len());
        }
        if kind == NodeKind::Reference {
            self.references.push(self.nodes.len());
        }
        self.nodes.push(NewNode {
            shape,
            arity: narrow(arity),
            size: u32::from(arity == 0),
            aux: narrow(start),
            target,
        });
        Ok(arity)
    }

    /// Returns the family of the node that was read last.
    fn last_kind(&self) -> Option<NodeKind> {
        self.nodes.last().map(|node| self.kind(node.shape))
    }

    /// Returns whether an alias at this position may refer to node `number`. The alias may refer to a node whose whole
    /// subtree has been read. Inside of a reference, the alias may also refer to the reference and to the nodes that
    /// contain the reference, because a reference exists before its content.
    fn may_refer_to(&mut self, number: usize) -> bool {
        let Some(&at) = self.numbered.get(number) else {
            return false;
        };
        while self
            .references
            .last()
            .is_some_and(|&open| self.nodes[open].size > 0)
        {
            self.references.pop();
        }
        self.nodes[at].size > 0 || self.references.last().is_some_and(|&open| open >= at)
    }

    fn kind(&self, shape: usize) -> NodeKind {
        match shape.checked_sub(BUILTIN.len()) {
            Some(number) => self.shapes[number].kind(),
            None => BUILTIN[shape].kind,
        }
    }

    fn check_counts(
        &self,
        position: usize,
        shape: usize,
        arity: usize,
        statics: usize,
    ) -> Result<(), TreeError> {
        let shape = match shape.checked_sub(BUILTIN.len()) {
            Some(number) => Shape::Dynamic(&self.shapes[number]),
            None => Shape::Static(BUILTIN[shape]),
        };
        let (fields, names) = (shape.num_fields(), shape.num_statics());
        let (children, values) = match shape.kind() {
            NodeKind::Struct | NodeKind::TupleStruct | NodeKind::NamedTuple => (fields, names),
            NodeKind::List | NodeKind::Tuple => (arity, names),
            NodeKind::Dict => (arity, arity + 1),
            NodeKind::OrderedDict => (arity, arity),
            NodeKind::Some | NodeKind::Shared | NodeKind::Reference | NodeKind::Weak => (1, names),
            NodeKind::Object => (1, 1),
            NodeKind::Alias => (0, 1),
            NodeKind::None | NodeKind::Leaf | NodeKind::Absent | NodeKind::Argument => (0, names),
        };
        if (arity, statics) == (children, values) {
            return Ok(());
        }
        Err(fail(
            position,
            format!(
                "{children} children and {values} static values in `{}`",
                shape.name()
            ),
            format!("{arity} children and {statics} static values"),
        ))
    }

    /// If the node is a map, checks its keys and its insertion order. The static values of the node begin at position
    /// `start` of `aux`.
    fn check_statics(
        &mut self,
        position: usize,
        kind: NodeKind,
        start: usize,
    ) -> Result<(), TreeError> {
        match kind {
            NodeKind::OrderedDict => check_keys(position, &self.aux[start..], false),
            NodeKind::Dict => {
                let arity = self.aux.len() - start - 1;
                check_keys(position, &self.aux[start..start + arity], true)?;
                let data = self.aux.pop().map(|last| last.data());
                let order = data.as_ref().and_then(InsertionOrder::from_static_data);
                let length = match &data {
                    Some(StaticData::Optional(Some(positions))) => match &**positions {
                        StaticData::Sequence(positions) => positions.len(),
                        _ => 0,
                    },
                    _ => arity,
                };
                let Some(order) = order.filter(|_| length == arity) else {
                    return Err(fail(
                        position,
                        format!("an insertion order of {arity} keys"),
                        data.map_or_else(String::new, |data| data.to_string()),
                    ));
                };
                self.aux.push(StaticBox::new(order));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the target of an alias, as an index among the shared nodes and references. The target is an earlier
    /// node. But if the alias is in a weak edge, the target may be any node, or may not exist.
    fn alias(&mut self, position: usize, data: Option<StaticData>) -> Result<u32, TreeError> {
        let is_weak = self.last_kind() == Some(NodeKind::Weak);
        if is_weak && data == Some(StaticData::Unit) {
            return Ok(NOTHING);
        }
        let mut number = data.as_ref().and_then(usize::from_static_data);
        if is_weak {
            self.furthest = self.furthest.max(number.map(|number| (number, position)));
        } else {
            number = number.filter(|&number| self.may_refer_to(number));
        }
        // A weak edge to an impossible number is rejected at the end, like weak edges to other missing nodes.
        let narrowed = number.map(|number| u32::try_from(number).unwrap_or(NOTHING));
        narrowed.ok_or_else(|| {
            fail(
                position,
                format!(
                    "an alias of one of the {} shared nodes",
                    self.numbered.len()
                ),
                data.map_or_else(String::new, |data| format!("an alias of node {data}")),
            )
        })
    }

    fn static_value(&mut self) -> Result<StaticBox, TreeError> {
        let position = self.at;
        let code = self.varint("a static value")?;
        let Some(number) = code.checked_sub(1) else {
            let start = self.at;
            let value = StaticBox::new(self.data(0)?);
            if self.at - start <= REMEMBERED {
                self.statics.push(value.clone());
            }
            return Ok(value);
        };
        let met = usize::try_from(number)
            .ok()
            .and_then(|number| self.statics.get(number));
        met.cloned().ok_or_else(|| {
            fail(
                position,
                format!(
                    "one of the {} static values read before",
                    self.statics.len()
                ),
                format!("static value number {number}"),
            )
        })
    }
}

/// Checks that the keys are distinct and, if `sorted`, that they are in order. Opaque keys, which are known only by a
/// text, may repeat. The order is not checked if any key is opaque or has a user's type.
fn check_keys(position: usize, keys: &[StaticBox], sorted: bool) -> Result<(), TreeError> {
    let data = |key| match StaticBox::downcast_ref(key) {
        Some(data) => data,
        None => bug("plain data as the keys of a map that was read from bytes"),
    };
    let keys: Vec<&StaticData> = keys.iter().map(data).collect();
    let is_opaque = |data: &StaticData| matches!(data, StaticData::Opaque { .. });
    let is_own = |data: &StaticData| is_opaque(data) || matches!(data, StaticData::Record { .. });
    let mut met = BTreeSet::new();
    let known = keys.iter().filter(|key| !holds(key, &is_opaque));
    for key in known {
        if !met.insert(key) {
            return Err(fail(
                position,
                "different keys",
                format!("the key {key} twice"),
            ));
        }
    }
    if sorted && !keys.iter().any(|key| holds(key, &is_own)) && !keys.is_sorted() {
        return Err(fail(
            position,
            "keys in ascending order",
            "keys in another order",
        ));
    }
    Ok(())
}

/// Returns whether the predicate `is` holds for `data` or for any data inside it.
fn holds(data: &StaticData, is: &impl Fn(&StaticData) -> bool) -> bool {
    is(data)
        || match data {
            StaticData::Tuple(items) | StaticData::Sequence(items) => {
                items.iter().any(|item| holds(item, is))
            }
            StaticData::Optional(Some(value)) => holds(value, is),
            StaticData::Map(entries) => entries
                .iter()
                .any(|(key, value)| holds(key, is) || holds(value, is)),
            StaticData::Record { fields, .. } => fields.iter().any(|(_, value)| holds(value, is)),
            _ => false,
        }
}

/// Converts a count to 32 bits. The conversion cannot fail, because each counted item takes at least one byte, and more
/// than 4 GiB of bytes are rejected before.
fn narrow(count: usize) -> u32 {
    match u32::try_from(count) {
        Ok(count) => count,
        Err(_) => bug(format_args!(
            "a count below 2^32 in a treedef, found {count}"
        )),
    }
}

fn fail(position: usize, expected: impl Into<String>, found: impl Into<String>) -> TreeError {
    TreeError::Bytes {
        position,
        expected: expected.into(),
        found: found.into(),
    }
}
