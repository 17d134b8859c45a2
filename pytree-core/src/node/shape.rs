//! Node shapes: what a treedef keeps of a node besides its children and static values.
//!
//! A shape is a constant of the node's type. Two shapes are the same if they are one constant or, since
//! addresses of constants are not unique in debug builds, if type and variant agree. The arguments of a generic type
//! don't count, as they don't in Python: what they are is seen in the children. So a `Batch<f64>` at each leaf of a
//! list, turned inside out, is a `Batch<Vec<f64>>`.

mod interned;

use std::any::TypeId;

use crate::base::kind::{CollectionId, FieldKind, Frozen};

/// The kind of a parameter that is frozen.
pub(crate) const FROZEN: FieldKind = FieldKind::State(CollectionId::of::<Frozen>());

/// The family a node belongs to; it decides how children are keyed and how the node is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// A shared node or a reference at a later place: its static value is the number of the first.
    Alias,
    /// A mutable reference at its first place; displays as what it holds. Its shape may have a field, which gives the
    /// kind of what is inside.
    Reference,
    /// A weak edge: its child is an alias of the node it leads to, or of none.
    Weak,
    /// In what a function returned, a reference that came with its argument: its static value is the position among
    /// those of the argument.
    Argument,
}

impl NodeKind {
    /// Whether the node displays as its only child and adds no key to the path.
    pub const fn is_transparent(self) -> bool {
        matches!(
            self,
            Self::Some | Self::Object | Self::Shared | Self::Reference | Self::Weak
        )
    }

    /// Whether aliases refer to nodes of this family by number, in the order in which they begin.
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, Self::Shared | Self::Reference)
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
    /// What tells the item that the node is of from others: the same for all arguments of a generic type.
    pub identity: fn() -> TypeId,
    /// The name of the Rust type, for messages.
    pub type_name: fn() -> &'static str,
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
        }
    }
}

/// Two shapes are equal if their descriptions are: the family, the name without the module path and without generic
/// arguments, which has the variant of an enum, the fields with their kinds, and the names of the static fields. Leaves
/// are equal whatever their types.
///
/// The Rust type is not part of the description, so that a structure that was stored still fits when its type moves to
/// another module, and that shapes made at run time are compared like any other. A value is built from a shape of its
/// own type only.
impl PartialEq for NodeShape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.kind == other.kind
                && (self.kind == NodeKind::Leaf || self.is_described_as(other, |kind| kind)))
    }
}
impl Eq for NodeShape {}

/// The type of shapes made at run time, which know their type by name only.
enum Dynamic {}

impl NodeShape {
    /// Whether two shapes of one family have the same description, of the kinds that `kind` makes of those of fields.
    #[inline(never)]
    fn is_described_as(&self, other: &Self, kind: fn(FieldKind) -> FieldKind) -> bool {
        let same_field =
            |(a, b): (&Field, &Field)| a.name == b.name && a.kind.map(kind) == b.kind.map(kind);
        self.name == other.name
            && self.statics == other.statics
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(other.fields).all(same_field)
    }

    /// Whether a value of the shape `built` can be built from a node of this shape: if both are of one type or, where
    /// one is made at run time, have one description. Parameters that are frozen at run time are those of the value.
    pub(crate) fn becomes(&self, built: &Self) -> bool {
        let thawed = |kind| match kind {
            FROZEN => FieldKind::Param,
            kind => kind,
        };
        if std::ptr::eq(self, built) {
            return true;
        }
        if self.is_dynamic() {
            return self.kind == built.kind && self.is_described_as(built, thawed);
        }
        self == built && (built.is_dynamic() || (self.identity)() == (built.identity)())
    }

    /// What tells two shapes that are not the same apart: their names or, if those are one, their fields or types.
    pub(crate) fn told_apart(&self, other: &Self) -> (String, String) {
        type Told = fn(&NodeShape) -> String;
        let ways: [Told; 3] = [
            |shape| match shape.kind {
                NodeKind::Leaf => "a leaf".to_owned(),
                NodeKind::Absent => "an absent leaf".to_owned(),
                NodeKind::List | NodeKind::Tuple | NodeKind::Dict => format!("a {}", shape.name),
                NodeKind::OrderedDict => format!("an {}", shape.name),
                _ => format!("`{}`", shape.name),
            },
            |shape| format!("`{}`", shape.with_fields()),
            |shape| format!("`{}` of {:?}", (shape.type_name)(), shape.kind),
        ];
        let told = ways.map(|way| (way(self), way(other)));
        let [names, ..] = &told;
        let first = told.iter().find(|(left, right)| left != right);
        first.unwrap_or(names).clone()
    }

    /// The name with the fields and their kinds: `Linear { weight: Param, size = … }`.
    fn with_fields(&self) -> String {
        let fields = self.fields.iter().map(|field| match field.kind {
            Some(kind) => format!("{}: {kind}", field.name),
            None => field.name.to_owned(),
        });
        let statics = self.statics.iter().map(|name| format!("{name} = …"));
        let fields: Vec<String> = fields.chain(statics).collect();
        match self.kind {
            NodeKind::Struct => format!("{} {{ {} }}", self.name, fields.join(", ")),
            _ => format!("{}({})", self.name, fields.join(", ")),
        }
    }

    /// Whether the shape was made at run time.
    pub fn is_dynamic(&self) -> bool {
        (self.identity)() == TypeId::of::<Dynamic>()
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
    /// A shared node or a reference at a later place.
    ALIAS = Alias, "alias";
    /// A mutable reference that says nothing of the kind of what is inside.
    REFERENCE = Reference, "reference";
    /// A weak edge.
    WEAK = Weak, "weak";
    /// A reference of the argument.
    ARGUMENT = Argument, "argument";
}

/// The field of a reference's shape that says of what kind it is.
pub(crate) const REFERENCE_FIELD: &str = "value";
