//! Node shapes: what a treedef keeps of a node besides its children and static values.
//!
//! A shape is a constant of the node's type. Two shapes are the same if they are one constant or, since
//! addresses of constants are not unique in debug builds, if type and variant agree.

use std::any::TypeId;

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
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.kind == NodeKind::Leaf && other.kind == NodeKind::Leaf)
            || (self.kind == other.kind
                && self.variant == other.variant
                && (self.identity)() == (other.identity)()
                && self.name == other.name)
    }
}
impl Eq for NodeShape {}

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
