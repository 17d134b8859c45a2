//! Displays a tree: its structure in the notation of JAX, or its value in the notation of Python.

use std::fmt;

use super::Inner;
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;

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
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (at, node) in inner.nodes.iter().enumerate() {
        if let Some((parent, next)) = open.last_mut() {
            write_child_prefix(inner, f, notation, *parent, *next)?;
            *next += 1;
        }
        match node.shape.kind {
            NodeKind::Leaf => leaf(f)?,
            NodeKind::Absent => f.write_str("-")?,
            NodeKind::None if inner.shape(at).is_builtin() => f.write_str("None")?,
            NodeKind::None => {
                f.write_str(inner.shape(at).name())?;
                if !inner.aux_of(at).is_empty() {
                    f.write_char('(')?;
                }
            }
            NodeKind::Alias => write_alias(inner, f, notation, at, &open)?,
            NodeKind::Argument => write!(f, "node {} of the argument", node.target)?,
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict
                if !inner.shape(at).is_builtin() =>
            {
                f.write_str(inner.shape(at).name())?;
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
                write!(f, "CustomNode(namedtuple[{}], [", inner.shape(at).name())?;
            }
            NodeKind::NamedTuple => write!(f, "{}(", inner.shape(at).name())?,
            NodeKind::Struct => {
                f.write_str(inner.shape(at).name())?;
                if node.arity > 0 || !inner.aux_of(at).is_empty() {
                    f.write_str(" { ")?;
                }
            }
            NodeKind::TupleStruct => {
                f.write_str(inner.shape(at).name())?;
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
        open.push((at, 0));
        while let Some(&(at, next)) = open.last() {
            if next < inner.nodes[at].arity as usize {
                break;
            }
            write_close(inner, f, notation, at)?;
            open.pop();
        }
    }
    Ok(())
}

/// Returns the brackets around the children of a container.
fn brackets(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::List => ("[", "]"),
        NodeKind::Dict | NodeKind::OrderedDict => ("{", "}"),
        _ => ("(", ")"),
    }
}

/// Writes an alias as the number of its target. In the notation [`Notation::Value`], an alias inside of its own target
/// is written as in Python, for instance `[...]`.
fn write_alias<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    at: usize,
    open: &[(usize, usize)],
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
    let around = target.filter(|target| {
        open.binary_search_by_key(*target, |&(node, _)| node)
            .is_ok()
    });
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
    f.write_char('(')?;
    for (position, key) in keys.iter().enumerate() {
        write!(f, "{}{key:?}", if position == 0 { "" } else { ", " })?;
    }
    f.write_str(if keys.len() == 1 { ",)" } else { ")" })
}

fn write_child_prefix<W: fmt::Write>(
    inner: &Inner,
    f: &mut W,
    notation: Notation,
    parent: usize,
    position: usize,
) -> fmt::Result {
    let shape = inner.shape(parent);
    if position > 0 {
        f.write_str(", ")?;
    }
    match shape.kind() {
        NodeKind::NamedTuple if notation == Notation::Structure => Ok(()),
        NodeKind::OrderedDict if notation == Notation::Structure && shape.is_builtin() => Ok(()),
        NodeKind::NamedTuple => match shape.field_name(position) {
            Some(name) => write!(f, "{name}="),
            None => Ok(()),
        },
        NodeKind::Struct => match shape.field_name(position) {
            Some(name) => write!(f, "{name}: "),
            None => write!(f, "{position}: "),
        },
        NodeKind::Dict | NodeKind::OrderedDict => match inner.aux_of(parent).get(position) {
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
    at: usize,
) -> fmt::Result {
    let node = inner.nodes[at];
    let aux = inner.aux_of(at);
    let is_container = matches!(
        node.shape.kind,
        NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict
    );
    if is_container && !inner.shape(at).is_builtin() {
        write_statics(inner, f, at)?;
        return f.write_str(brackets(node.shape.kind).1);
    }
    match node.shape.kind {
        NodeKind::None if !aux.is_empty() => {
            write_statics(inner, f, at)?;
            f.write_char(')')
        }
        NodeKind::List => f.write_char(']'),
        NodeKind::NamedTuple | NodeKind::OrderedDict if notation == Notation::Structure => {
            f.write_str("])")
        }
        NodeKind::Tuple if node.arity == 1 => f.write_str(",)"),
        NodeKind::Tuple | NodeKind::NamedTuple => f.write_char(')'),
        NodeKind::Dict => f.write_char('}'),
        NodeKind::OrderedDict if node.arity == 0 => f.write_char(')'),
        NodeKind::OrderedDict => f.write_str("})"),
        NodeKind::Struct | NodeKind::TupleStruct if node.arity > 0 || !aux.is_empty() => {
            write_statics(inner, f, at)?;
            f.write_str(if node.shape.kind == NodeKind::Struct {
                " }"
            } else {
                ")"
            })
        }
        _ => Ok(()),
    }
}

/// Writes the static fields of a node after its children. The keys of a map are not fields.
fn write_statics<W: fmt::Write>(inner: &Inner, f: &mut W, at: usize) -> fmt::Result {
    let shape = inner.shape(at);
    if matches!(shape.kind(), NodeKind::Dict | NodeKind::OrderedDict) {
        return Ok(());
    }
    for (position, value) in inner.aux_of(at).iter().enumerate() {
        if position > 0 || inner.nodes[at].arity > 0 {
            f.write_str(", ")?;
        }
        match shape.static_name(position) {
            Some(name) => write!(f, "{name} = {value:?}")?,
            None => write!(f, "{value:?}")?,
        }
    }
    Ok(())
}
