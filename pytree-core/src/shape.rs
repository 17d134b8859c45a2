//! Node shapes: what a treedef keeps of a node besides its children and static values.
//!
//! A shape is a constant of the node's type. Two shapes are the same if they are one constant or, since
//! addresses of constants are not unique in debug builds, if type and variant agree.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::TreeError;
use crate::kind::FieldKind;

/// The family a node belongs to; it decides how children are keyed and how the node is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// A leaf.
    Leaf,
    /// A place whose leaf is in another part of a partition.
    Absent,
    /// A struct or enum variant with named fields.
    Struct,
    /// A struct or enum variant with unnamed fields.
    TupleStruct,
    /// A named tuple: displays as in Python, and is keyed by its fields.
    NamedTuple,
    /// `Vec`, arrays and other sequences; children are keyed by index.
    List,
    /// Tuples; children are keyed by index.
    Tuple,
    /// Maps in the order of their sorted keys.
    Dict,
    /// Maps in insertion order.
    OrderedDict,
    /// `None`: a node without leaves.
    None,
    /// `Some`: displays as its child.
    Some,
    /// A boxed trait object: its static value says how to rebuild it; displays as its child.
    Object,
    /// A shared node at its first place; displays as its child.
    Shared,
    /// A shared node at a later place: its static value is the number of the first.
    Alias,
}

impl NodeKind {
    /// Whether the node displays as its only child and adds no key to the path.
    pub const fn is_transparent(self) -> bool {
        matches!(self, Self::Some | Self::Object | Self::Shared)
    }
}

/// A field of a struct that holds children.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name; the position as text for unnamed fields.
    pub name: &'static str,
    /// Its kind; `None` for the fields of plain containers.
    pub kind: Option<FieldKind>,
}

/// What a treedef keeps of a node besides its children and static values.
#[derive(Debug)]
pub struct NodeShape {
    /// The family.
    pub kind: NodeKind,
    /// The name that displays show, for instance `Linear` or `Activation::Relu`.
    pub name: &'static str,
    /// The fields that are children, in declaration order; empty for containers.
    pub fields: &'static [Field],
    /// The names of the static fields, in declaration order.
    pub statics: &'static [&'static str],
    /// The Rust type of the node.
    pub identity: fn() -> TypeId,
    /// The name of the Rust type, for messages.
    pub type_name: fn() -> &'static str,
    /// The position of the variant, for enums.
    pub variant: u32,
}

impl Field {
    /// A field of a plain container, which has no kind.
    pub const fn plain(name: &'static str) -> Self {
        Self { name, kind: None }
    }
}

impl NodeShape {
    /// The shape of a struct `T` with named fields, for types that are made pytrees by hand: the fields that
    /// are children and the names of the static ones, each in the order they are visited.
    pub const fn structure<T: 'static>(
        name: &'static str,
        fields: &'static [Field],
        statics: &'static [&'static str],
    ) -> Self {
        Self {
            kind: NodeKind::Struct,
            name,
            fields,
            statics,
            identity: TypeId::of::<T>,
            type_name: std::any::type_name::<T>,
            variant: 0,
        }
    }

    /// The shape of a leaf of the type `L`. Shapes of leaves are equal, whatever their types: structure is
    /// what is above the leaves.
    pub const fn leaf<L: 'static>() -> Self {
        Self {
            identity: TypeId::of::<L>,
            type_name: std::any::type_name::<L>,
            ..Self::builtin(NodeKind::Leaf, "leaf")
        }
    }

    /// The shape of a built-in container.
    pub const fn builtin(kind: NodeKind, name: &'static str) -> Self {
        Self {
            kind,
            name,
            fields: &[],
            statics: &[],
            identity: TypeId::of::<()>,
            type_name: std::any::type_name::<()>,
            variant: 0,
        }
    }
}

impl PartialEq for NodeShape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.kind == other.kind && (self.kind == NodeKind::Leaf || self.same_type(other)))
    }
}
impl Eq for NodeShape {}

/// The type of shapes made at run time, which know their type by name only.
enum Dynamic {}

/// What tells one shape made at run time from another.
type DynamicKey = (
    NodeKind,
    String,
    Vec<(String, Option<FieldKind>)>,
    Vec<String>,
);

fn leak(text: &str) -> &'static str {
    Box::leak(text.into())
}

/// The most shapes that are made at run time in one process; they are kept for its life.
const DYNAMIC_LIMIT: usize = 1 << 16;

impl NodeShape {
    /// Whether two shapes of one family are of one type. A shape made at run time is of any type that has its name,
    /// its fields with their kinds, and its static fields.
    #[inline(never)]
    fn same_type(&self, other: &Self) -> bool {
        if self.name != other.name {
            return false;
        }
        if self.is_dynamic() || other.is_dynamic() {
            return self.statics == other.statics
                && self.fields.len() == other.fields.len()
                && self
                    .fields
                    .iter()
                    .zip(other.fields)
                    .all(|(a, b)| a.name == b.name && a.kind == b.kind);
        }
        self.variant == other.variant && (self.identity)() == (other.identity)()
    }

    /// Whether the shape was made at run time.
    pub fn is_dynamic(&self) -> bool {
        (self.identity)() == TypeId::of::<Dynamic>()
    }

    /// The shape of a struct whose fields are known at run time only: a named tuple, a module built from data, a
    /// node read from a file. Equal calls give the same shape.
    ///
    /// Shapes are kept for the life of the process, so their number is bounded.
    ///
    /// # Errors
    /// [`TreeError::Build`] if two fields have one name, or there are more than 65,536 such shapes.
    pub fn dynamic(
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> Result<&'static Self, TreeError> {
        static SHAPES: Mutex<Option<HashMap<DynamicKey, &'static NodeShape>>> = Mutex::new(None);
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        names.extend(statics);
        names.sort_unstable();
        let failed = |reason: String| TreeError::Build {
            node: "struct",
            reason,
        };
        if let Some(twice) = names.windows(2).find_map(|pair| match pair {
            [left, right] if left == right => Some(*left),
            _ => None,
        }) {
            return Err(failed(format!(
                "`{name}` has two fields of the name `{twice}`; rename one"
            )));
        }
        let key: DynamicKey = (
            kind,
            name.to_owned(),
            fields
                .iter()
                .map(|(name, kind)| ((*name).to_owned(), *kind))
                .collect(),
            statics.iter().map(|&name| name.to_owned()).collect(),
        );
        let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        let shapes = shapes.get_or_insert_default();
        if let Some(found) = shapes.get(&key) {
            return Ok(found);
        }
        if shapes.len() == DYNAMIC_LIMIT {
            return Err(failed(format!(
                "there are {DYNAMIC_LIMIT} shapes made at run time already, and each is kept"
            )));
        }
        let shape: &'static Self = Box::leak(Box::new(Self {
            kind,
            name: leak(name),
            fields: fields
                .iter()
                .map(|(name, kind)| Field {
                    name: leak(name),
                    kind: *kind,
                })
                .collect::<Vec<_>>()
                .leak(),
            statics: statics
                .iter()
                .map(|name| leak(name))
                .collect::<Vec<_>>()
                .leak(),
            identity: TypeId::of::<Dynamic>,
            type_name: std::any::type_name::<Dynamic>,
            variant: 0,
        }));
        shapes.insert(key, shape);
        Ok(shape)
    }
}

macro_rules! builtin {
    ($($(#[$doc:meta])* $name:ident = $kind:ident, $text:literal;)*) => {$(
        $(#[$doc])*
        pub static $name: NodeShape = NodeShape::builtin(NodeKind::$kind, $text);
    )*};
}

builtin! {
    /// A leaf.
    LEAF = Leaf, "leaf";
    /// A place whose leaf is elsewhere.
    ABSENT = Absent, "absent";
    /// A sequence.
    LIST = List, "list";
    /// A tuple.
    TUPLE = Tuple, "tuple";
    /// A map with sorted keys.
    DICT = Dict, "dict";
    /// A map in insertion order.
    ORDERED_DICT = OrderedDict, "OrderedDict";
    /// `None`.
    NONE = None, "None";
    /// `Some`.
    SOME = Some, "Some";
    /// A boxed trait object.
    OBJECT = Object, "object";
    /// A shared node at its first place.
    SHARED = Shared, "shared";
    /// A shared node at a later place.
    ALIAS = Alias, "alias";
}
