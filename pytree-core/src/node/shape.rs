//! Node shapes: the family, the name and the fields of a node. A treedef stores the shape of each node, in addition to
//! its children and static values.
//!
//! A [`NodeShape`] is a constant of the node's type. A [`DynamicShape`] is created at run time and is freed with the
//! last structure that uses it. A [`Shape`] is either of them. Two shapes are equal if their descriptions are equal. As
//! in Python, a description does not contain the arguments of a generic type, because the children show them. So the
//! transpose of a `Vec<Batch<f64>>` is a `Batch<Vec<f64>>`.

mod dynamic;
mod either;

use std::any::TypeId;

pub use self::dynamic::DynamicShape;
pub(crate) use self::dynamic::{FieldAxes, StandIn};
pub use self::either::{OwnedShape, Shape};

use crate::base::kind::FieldKind;
use crate::node::axes::ShapePattern;

/// The family of a node, which determines the keys of the children and the display of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NodeKind {
    /// A leaf.
    Leaf,
    /// An absent leaf: the leaf is in another part of the partition.
    Absent,
    /// A struct or enum variant with named fields.
    Struct,
    /// A struct or enum variant with unnamed fields.
    TupleStruct,
    /// A named tuple. Displayed as in Python. The keys of its children are fields.
    NamedTuple,
    /// A `Vec`, an array or another sequence. The keys of its children are indices.
    List,
    /// A tuple. The keys of its children are indices.
    Tuple,
    /// A map with sorted keys.
    Dict,
    /// A map in insertion order.
    OrderedDict,
    /// `None`: a node without leaves.
    None,
    /// `Some`: displayed as its child.
    Some,
    /// A node that has only a static value and a child: a boxed trait object, whose static value is the constructor that
    /// rebuilds it, an [`Annotated`](crate::Annotated), or a [`DEFAULT_DICT`]. The keys of its child are its own.
    Object,
    /// The first occurrence of a shared node. Displayed as its child.
    Shared,
    /// A later occurrence of a shared node or a reference. The alias refers to the first occurrence by its index among
    /// all shared nodes and references.
    Alias,
    /// The first occurrence of a mutable reference. Displayed as its content. If the shape of the reference has a
    /// field, this field determines the kind of the leaves in the content.
    Reference,
    /// A weak edge. The child of the edge is an alias of the target, or an alias of no node if the target does not
    /// exist.
    Weak,
    /// In the result of a function: a node that refers to a shared node or reference of the function's argument. The
    /// node stores the index of its target among the shared nodes and references of the argument.
    Argument,
}

impl NodeKind {
    /// Returns whether the node is displayed as its only child and adds no key to the path.
    #[inline]
    pub const fn is_transparent(self) -> bool {
        matches!(
            self,
            Self::Some | Self::Object | Self::Shared | Self::Reference | Self::Weak
        )
    }

    /// Returns the common name of all nodes of the family. Returns an empty text if each node shape of the family has
    /// its own name.
    pub(crate) const fn family_name(self) -> &'static str {
        match self {
            Self::Leaf => LEAF.name,
            Self::Absent => ABSENT.name,
            Self::Struct | Self::TupleStruct | Self::NamedTuple => "",
            Self::List => LIST.name,
            Self::Tuple => TUPLE.name,
            Self::Dict => DICT.name,
            Self::OrderedDict => ORDERED_DICT.name,
            Self::None => NONE.name,
            Self::Some => SOME.name,
            Self::Object => OBJECT.name,
            Self::Shared => SHARED.name,
            Self::Alias => ALIAS.name,
            Self::Reference => REFERENCE_NAME,
            Self::Weak => WEAK.name,
            Self::Argument => ARGUMENT.name,
        }
    }

    /// Returns the name of the family with an article, for messages: `a list`.
    pub(crate) fn family(self) -> String {
        match self {
            Self::Struct => "a struct".to_owned(),
            Self::TupleStruct => "a tuple struct".to_owned(),
            Self::NamedTuple => "a named tuple".to_owned(),
            Self::Absent | Self::OrderedDict | Self::Object | Self::Alias | Self::Argument => {
                format!("an {}", self.family_name())
            }
            _ => format!("a {}", self.family_name()),
        }
    }

    /// Returns whether each node of this family has an index, in the order of the visit, so that aliases can refer to
    /// the node.
    #[inline]
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, Self::Shared | Self::Reference)
    }
}

/// A field of a struct that contains children.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the field. For an unnamed field, its position as text.
    pub name: &'static str,
    /// The kind of the field. `None` for the fields of plain containers.
    pub kind: Option<FieldKind>,
    /// The named axes of the arrays in the field, if they are declared. Comparisons of shapes ignore the named axes.
    pub axes: Option<&'static ShapePattern>,
}

/// The shape of the nodes of a type: a constant.
#[derive(Debug)]
pub struct NodeShape {
    /// The family.
    pub kind: NodeKind,
    /// The displayed name, for instance `Linear` or `Activation::Relu`.
    pub name: &'static str,
    /// The fields that are children, in declaration order. Empty for containers.
    pub fields: &'static [Field],
    /// The names of the static fields, in declaration order.
    pub statics: &'static [&'static str],
    /// The integer const generics of the type, with their values. In a pattern of named axes, the name of a const
    /// generic denotes its value, as a length. Comparisons of shapes ignore const generics and type arguments.
    pub constants: &'static [(&'static str, i128)],
    /// The identity of the node's type. The identity of a generic type does not depend on the type arguments.
    pub identity: fn() -> TypeId,
    /// The name of the Rust type, for messages.
    pub type_name: fn() -> &'static str,
}

impl Field {
    /// Creates a field with a kind, and without names of axes.
    pub const fn new(name: &'static str, kind: FieldKind) -> Self {
        Self {
            name,
            kind: Some(kind),
            axes: None,
        }
    }

    /// Creates a field of a plain container, which has no kind.
    pub const fn plain(name: &'static str) -> Self {
        Self {
            name,
            kind: None,
            axes: None,
        }
    }
}

impl NodeShape {
    /// Creates the shape of a struct `T` with named fields, for a handwritten impl of `Pytree`. Pass the fields that
    /// are children and the names of the static fields, in the order in which they are visited.
    ///
    /// For a generic type, pass fixed type arguments, as in `of_struct::<Pair<()>>`. The structure of a `Pair<A>` then also
    /// builds a `Pair<B>`, as for derived types.
    pub const fn of_struct<T: 'static>(
        name: &'static str,
        fields: &'static [Field],
        statics: &'static [&'static str],
    ) -> Self {
        Self {
            fields,
            statics,
            ..Self::of_container::<T>(NodeKind::Struct, name)
        }
    }

    /// Creates the shape of a container `T` whose children have positions or keys, such as a [`NodeKind::List`] or a
    /// [`NodeKind::OrderedDict`], for a handwritten impl of `Pytree`. The keys of a map are visited as static values,
    /// before the children. For a generic type, pass fixed type arguments; see [`of_struct`](Self::of_struct).
    pub const fn of_container<T: 'static>(kind: NodeKind, name: &'static str) -> Self {
        Self {
            kind,
            name,
            fields: &[],
            statics: &[],
            constants: &[],
            identity: TypeId::of::<T>,
            type_name: std::any::type_name::<T>,
        }
    }

    /// Returns the shape of a leaf of the type `L`. The shapes of all leaves are equal, because a structure does not
    /// contain the types of its leaves.
    pub const fn leaf<L: 'static>() -> Self {
        Self::of_container::<L>(NodeKind::Leaf, "leaf")
    }

    /// Returns whether a field declares named axes.
    pub(crate) fn has_axes(&self) -> bool {
        self.fields.iter().any(|field| field.axes.is_some())
    }

    /// Returns the named axes that a field declares. The derive calls this function at compile time, for fields that
    /// declare axes.
    #[doc(hidden)]
    pub const fn axes_of(&self, field: usize) -> &'static ShapePattern {
        self.fields[field]
            .axes
            .expect("the derive names a field with axes")
    }

    /// Creates the shape of a built-in container, which has no type of its own.
    pub(crate) const fn builtin(kind: NodeKind, name: &'static str) -> Self {
        Self::of_container::<()>(kind, name)
    }
}

impl PartialEq for NodeShape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.kind == other.kind
                && (self.kind == NodeKind::Leaf || self.is_described_as(other)))
    }
}
impl Eq for NodeShape {}

impl NodeShape {
    #[inline(never)]
    fn is_described_as(&self, other: &Self) -> bool {
        let same_field = |(a, b): (&Field, &Field)| a.name == b.name && a.kind == b.kind;
        self.name == other.name
            && self.statics == other.statics
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(other.fields).all(same_field)
    }
}

macro_rules! builtin {
    ($($(#[$doc:meta])* $name:ident = $kind:ident, $text:expr;)*) => {$(
        $(#[$doc])*
        pub static $name: NodeShape = NodeShape::builtin(NodeKind::$kind, $text);
    )*};
}

builtin! {
    /// A leaf.
    LEAF = Leaf, "leaf";
    /// An absent leaf.
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
    /// The first occurrence of a shared node.
    SHARED = Shared, "shared";
    /// A later occurrence of a shared node or a reference.
    ALIAS = Alias, "alias";
    /// A mutable reference that does not determine the kind of its content.
    REFERENCE = Reference, REFERENCE_NAME;
    /// A weak edge.
    WEAK = Weak, "weak";
    /// A shared node or reference of a function's argument, inside the result of the function.
    ARGUMENT = Argument, "argument";
}

/// A `deque` of Python: a sequence with the static value `maxlen`, an `Option<usize>`.
pub static DEQUE: NodeShape = NodeShape {
    statics: &["maxlen"],
    ..NodeShape::builtin(NodeKind::List, "deque")
};

/// A `defaultdict` of Python: a node around a [`DICT`] or an [`ORDERED_DICT`], with a static value that names the factory.
pub static DEFAULT_DICT: NodeShape = NodeShape {
    statics: &["default_factory"],
    ..NodeShape::builtin(NodeKind::Object, "defaultdict")
};

/// The name of the shapes of references.
pub(crate) const REFERENCE_NAME: &str = "reference";

/// The name of the only field of a reference's shape. The shape has this field if the reference determines the kind of
/// its content.
pub(crate) const REFERENCE_FIELD: &str = "value";
