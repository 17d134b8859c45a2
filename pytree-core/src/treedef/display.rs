//! Displays a tree: its structure in the notation of JAX, or its value in the notation of Python.

use std::fmt;

use pytree_base::lists::Tuple;

use super::structure::{Inner, TreeDef};
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::{StaticBox, StaticData};

/// The notation in which a tree is displayed. Ordered dictionaries and named tuples look different in the two
/// notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// The structure, as JAX prints a treedef: `CustomNode(namedtuple[Point], [*, *])`.
    Structure,
    /// The value, as Python prints it: `Point(x=1, y=2)`.
    Value,
}

pub(super) fn write_tree<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    leaf: &mut impl FnMut(&mut W) -> fmt::Result,
) -> fmt::Result {
    let mut open: Vec<OpenNode<'_>> = Vec::new();
    for (at, node) in inner.nodes.iter().enumerate() {
        let shape = inner.shape_of(node);
        if let Some(parent) = open.last_mut() {
            write_child_prefix(inner, f, notation, parent)?;
            parent.next += 1;
        }
        let in_default_dict = open
            .last()
            .is_some_and(|parent| parent.shape.is_default_dict());
        match node.shape.kind {
            _ if shape.is_deque() => {
                f.write_str(deque_brackets(notation, node.arity as usize).0)?;
            }
            _ if shape.is_default_dict() => {
                if notation == Notation::Structure {
                    f.write_str("CustomNode(defaultdict[(")?;
                } else {
                    f.write_str("defaultdict(")?;
                }
                write_factory(f, inner.aux_of(at))?;
                f.write_str(", ")?;
            }
            NodeKind::Dict | NodeKind::OrderedDict if in_default_dict => {
                if notation == Notation::Structure {
                    write_key_tuple(f, &inner.aux_of(at)[..node.arity as usize])?;
                    f.write_str(")], [")?;
                } else {
                    f.write_char('{')?;
                }
            }
            NodeKind::Leaf => leaf(f)?,
            NodeKind::Absent => f.write_str("-")?,
            NodeKind::None if shape.is_builtin() => f.write_str("None")?,
            NodeKind::None => {
                f.write_str(shape.name())?;
                if !inner.aux_of(at).is_empty() {
                    f.write_char('(')?;
                }
            }
            NodeKind::Alias => write_alias(inner, f, notation, at, &open)?,
            NodeKind::Argument => write!(f, "node {} of the argument", node.target)?,
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict
                if !shape.is_builtin() =>
            {
                f.write_str(shape.name())?;
                f.write_str(brackets(node.shape.kind).0)?;
            }
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict => {
                f.write_str(brackets(node.shape.kind).0)?;
            }
            NodeKind::OrderedDict if notation == Notation::Structure => {
                f.write_str("CustomNode(OrderedDict[")?;
                write_key_tuple(f, inner.aux_of(at))?;
                f.write_str("], [")?;
            }
            NodeKind::OrderedDict if node.arity == 0 => f.write_str("OrderedDict(")?,
            NodeKind::OrderedDict => f.write_str("OrderedDict({")?,
            NodeKind::NamedTuple if notation == Notation::Structure => {
                write!(f, "CustomNode(namedtuple[{}], [", shape.name())?;
            }
            NodeKind::NamedTuple => write!(f, "{}(", shape.name())?,
            NodeKind::Struct => {
                f.write_str(shape.name())?;
                if node.arity > 0 || !inner.aux_of(at).is_empty() {
                    f.write_str(" { ")?;
                }
            }
            NodeKind::TupleStruct => {
                f.write_str(shape.name())?;
                if node.arity > 0 || !inner.aux_of(at).is_empty() {
                    f.write_char('(')?;
                }
            }
            NodeKind::Some
            | NodeKind::Object
            | NodeKind::Shared
            | NodeKind::Reference
            | NodeKind::Weak => {}
        }
        // Nothing is written after a leaf.
        if node.shape.kind != NodeKind::Leaf {
            open.push(OpenNode {
                at,
                shape,
                arity: node.arity as usize,
                next: 0,
                in_default_dict,
            });
        }
        while let Some(node) = open.last()
            && node.next == node.arity
        {
            write_close(inner, f, notation, node)?;
            open.pop();
        }
    }
    Ok(())
}

/// A node whose children have not all been written.
struct OpenNode<'a> {
    /// The position of the node.
    at: usize,
    shape: Shape<'a>,
    /// The number of children.
    arity: usize,
    /// The position of the next child among the children.
    next: usize,
    /// Whether the node has the entries of a `defaultdict`.
    in_default_dict: bool,
}

/// Returns the texts before and after the children of a `deque`. optree leaves out the brackets of an empty one.
fn deque_brackets(notation: Notation, arity: usize) -> (&'static str, &'static str) {
    if notation == Notation::Structure && arity == 0 {
        ("deque(", "")
    } else {
        ("deque([", "]")
    }
}

/// Writes the name of the factory of a `defaultdict`.
fn write_factory<W: fmt::Write>(f: &mut W, aux: &[StaticBox]) -> fmt::Result {
    let Some(value) = aux.first() else {
        return f.write_str("None");
    };
    let data = match value.data() {
        StaticData::Optional(Some(data)) => *data,
        data => data,
    };
    match data {
        StaticData::Text(name) => f.write_str(&name),
        _ => write!(f, "{value:?}"),
    }
}

/// Returns the brackets around the children of a container.
fn brackets(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::List => ("[", "]"),
        NodeKind::Dict | NodeKind::OrderedDict => ("{", "}"),
        _ => ("(", ")"),
    }
}

/// Writes an alias as the index of its target among the shared nodes and references. In the notation
/// [`Notation::Value`], an alias inside of its own target is written as in Python, for instance `[...]`.
fn write_alias<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    at: usize,
    open: &[OpenNode<'_>],
) -> fmt::Result {
    let Some(number) = inner.nodes[at].target() else {
        return f.write_str(if notation == Notation::Value {
            "None"
        } else {
            "alias of nothing"
        });
    };
    let target = inner.numbered_nodes().get(number);
    // The nodes in `open` are sorted by position.
    let around = target.filter(|target| open.binary_search_by_key(*target, |node| node.at).is_ok());
    match around {
        Some(node) if notation == Notation::Value => {
            let inside = inner.nodes[*node..].iter().map(|node| inner.shape_of(node));
            let mut inside = inside.skip_while(|shape| shape.kind().is_transparent());
            match inside.next().map(|shape| (shape.kind(), shape.name())) {
                Some((NodeKind::List, _)) => f.write_str("[...]"),
                Some((NodeKind::Tuple, _)) => f.write_str("(...)"),
                Some((NodeKind::Dict | NodeKind::OrderedDict, _)) => f.write_str("{...}"),
                Some((NodeKind::Struct, name)) => write!(f, "{name} {{ ... }}"),
                Some((NodeKind::TupleStruct | NodeKind::NamedTuple, name)) => {
                    write!(f, "{name}(...)")
                }
                _ => f.write_str("..."),
            }
        }
        _ => write!(f, "alias {number}"),
    }
}

/// Writes the keys of an ordered dictionary as a Python tuple.
fn write_key_tuple<W: fmt::Write>(f: &mut W, keys: &[StaticBox]) -> fmt::Result {
    write!(f, "{}", Tuple(keys.iter().map(|key| format!("{key:?}"))))
}

fn write_child_prefix<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    parent: &OpenNode<'_>,
) -> fmt::Result {
    let &OpenNode {
        at,
        shape,
        next: position,
        ..
    } = parent;
    if position > 0 {
        f.write_str(", ")?;
    }
    match shape.kind() {
        NodeKind::NamedTuple if notation == Notation::Structure => Ok(()),
        _ if parent.in_default_dict && notation == Notation::Structure => Ok(()),
        NodeKind::OrderedDict if notation == Notation::Structure && shape.is_builtin() => Ok(()),
        NodeKind::NamedTuple => match shape.field_name(position) {
            Some(name) => write!(f, "{name}="),
            None => Ok(()),
        },
        NodeKind::Struct => match shape.field_name(position) {
            Some(name) => write!(f, "{name}: "),
            None => write!(f, "{position}: "),
        },
        NodeKind::Dict | NodeKind::OrderedDict => match inner.aux_of(at).get(position) {
            Some(key) => write!(f, "{key:?}: "),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn write_close<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    node: &OpenNode<'_>,
) -> fmt::Result {
    let &OpenNode { shape, arity, .. } = node;
    let aux = || inner.aux_of(node.at);
    match shape.kind() {
        _ if shape.is_deque() => {
            let close = deque_brackets(notation, arity).1;
            f.write_str(close)?;
            let maxlen = aux()
                .first()
                .and_then(StaticBox::to_value::<Option<usize>>)
                .flatten();
            if let Some(maxlen) = maxlen {
                write!(
                    f,
                    "{}maxlen={maxlen}",
                    if close.is_empty() { "" } else { ", " }
                )?;
            }
            f.write_char(')')
        }
        _ if shape.is_default_dict() && notation == Notation::Value => f.write_char(')'),
        _ if node.in_default_dict && notation == Notation::Structure => f.write_str("])"),
        _ if node.in_default_dict => f.write_char('}'),
        NodeKind::None if !aux().is_empty() => {
            write_statics(f, shape, arity, aux())?;
            f.write_char(')')
        }
        NodeKind::List | NodeKind::Tuple if !shape.is_builtin() => {
            write_statics(f, shape, arity, aux())?;
            f.write_str(brackets(shape.kind()).1)
        }
        NodeKind::Dict | NodeKind::OrderedDict if !shape.is_builtin() => {
            f.write_str(brackets(shape.kind()).1)
        }
        NodeKind::List => f.write_char(']'),
        NodeKind::NamedTuple | NodeKind::OrderedDict if notation == Notation::Structure => {
            f.write_str("])")
        }
        NodeKind::Tuple if arity == 1 => f.write_str(",)"),
        NodeKind::Tuple | NodeKind::NamedTuple => f.write_char(')'),
        NodeKind::Dict => f.write_char('}'),
        NodeKind::OrderedDict if arity == 0 => f.write_char(')'),
        NodeKind::OrderedDict => f.write_str("})"),
        NodeKind::Struct | NodeKind::TupleStruct if arity > 0 || !aux().is_empty() => {
            write_statics(f, shape, arity, aux())?;
            f.write_str(if shape.kind() == NodeKind::Struct {
                " }"
            } else {
                ")"
            })
        }
        _ => Ok(()),
    }
}

/// Writes the values `aux` of the static fields of a node after its children.
fn write_statics<W: fmt::Write>(
    f: &mut W,
    shape: Shape<'_>,
    arity: usize,
    aux: &[StaticBox],
) -> fmt::Result {
    for (position, value) in aux.iter().enumerate() {
        if position > 0 || arity > 0 {
            f.write_str(", ")?;
        }
        match shape.static_name(position) {
            Some(name) => write!(f, "{name} = {value:?}")?,
            None => write!(f, "{value:?}")?,
        }
    }
    Ok(())
}

impl TreeDef {
    /// Writes the tree in the given notation. Calls `leaf` to write each leaf.
    pub(crate) fn write_with<W: fmt::Write>(
        &self,
        f: &mut W,
        notation: Notation,
        mut leaf: impl FnMut(&mut W) -> fmt::Result,
    ) -> fmt::Result {
        write_tree(&self.0, f, notation, &mut leaf)
    }
}

impl fmt::Display for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyTreeDef(")?;
        self.write_with(f, Notation::Structure, |f| f.write_str("*"))?;
        f.write_str(")")
    }
}

impl fmt::Debug for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
