//! The shape of a node: the constant of a type, or a shape created at run time.

use std::borrow::Cow;
use std::sync::Arc;

use super::{DEFAULT_DICT, DEQUE, DynamicShape, FieldAxes, NodeKind, NodeShape};
use crate::base::kind::FieldKind;
use crate::base::path::PathKey;
use crate::node::axes::Roles;

/// The shape of a node. A treedef stores the shape in addition to the children and static values of the node.
///
/// Two shapes are equal if their descriptions are equal: the node's family (struct, enum, list, …), the name
/// (without module path and generic arguments, with the variant of an enum), the fields with their kinds, and the names
/// of the static fields. All leaves have the same node shape.
///
/// The Rust type is not part of the description. So a stored structure remains usable after its type has moved to
/// another module, and shapes created at run time are compared like all other shapes. A value is built only from a
/// shape of its own type.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// The constant of a type.
    Static(&'static NodeShape),
    /// A shape created at run time.
    Dynamic(&'a Arc<DynamicShape>),
}

/// A [`Shape`] that owns a shape created at run time.
#[derive(Clone, Debug)]
pub enum OwnedShape {
    /// The constant of a type.
    Static(&'static NodeShape),
    /// A shape created at run time.
    Dynamic(Arc<DynamicShape>),
}

impl OwnedShape {
    /// Returns the shape.
    #[inline]
    pub fn get(&self) -> Shape<'_> {
        match self {
            Self::Static(shape) => Shape::Static(shape),
            Self::Dynamic(shape) => Shape::Dynamic(shape),
        }
    }
}

pytree_base::conversions! { OwnedShape:
    [] &'static NodeShape, |shape| Self::Static(shape);
    [] Arc<DynamicShape>, |shape| Self::Dynamic(shape);
    [] &Arc<DynamicShape>, |shape| Self::Dynamic(Arc::clone(shape));
}

impl<'a> Shape<'a> {
    /// Returns an [`OwnedShape`], which keeps the shape alive.
    pub fn to_owned_shape(self) -> OwnedShape {
        match self {
            Self::Static(shape) => OwnedShape::Static(shape),
            Self::Dynamic(shape) => OwnedShape::Dynamic(Arc::clone(shape)),
        }
    }

    /// Returns the family.
    #[inline]
    pub fn kind(self) -> NodeKind {
        match self {
            Self::Static(shape) => shape.kind,
            Self::Dynamic(shape) => shape.kind(),
        }
    }

    /// Returns the displayed name, for instance `Linear` or `Activation::Relu`.
    #[inline]
    pub fn name(self) -> &'a str {
        match self {
            Self::Static(shape) => shape.name,
            Self::Dynamic(shape) => shape.name(),
        }
    }

    /// Returns the number of fields that are children; zero for containers.
    #[inline]
    pub fn num_fields(self) -> usize {
        match self {
            Self::Static(shape) => shape.fields.len(),
            Self::Dynamic(shape) => shape.num_fields(),
        }
    }

    /// Returns the name and the kind of the field at `position` among the fields that are children. Fields of plain
    /// containers have no kind.
    #[inline]
    pub fn field(self, position: usize) -> Option<(&'a str, Option<FieldKind>)> {
        match self {
            Self::Static(shape) => {
                let field = shape.fields.get(position)?;
                Some((field.name, field.kind))
            }
            Self::Dynamic(shape) => shape.field(position),
        }
    }

    /// Returns the name of the field at `position` among the fields that are children.
    #[inline]
    pub fn field_name(self, position: usize) -> Option<&'a str> {
        match self {
            Self::Static(shape) => shape.fields.get(position).map(|field| field.name),
            Self::Dynamic(shape) => shape.field(position).map(|(name, _)| name),
        }
    }

    /// Returns the name of the shape as a text that does not borrow the shape.
    pub(crate) fn name_text(self) -> Cow<'static, str> {
        match self {
            Self::Static(shape) => shape.name.into(),
            Self::Dynamic(shape) => shape.name().to_owned().into(),
        }
    }

    /// Returns the key of the field at `position` among the fields that are children.
    pub(crate) fn field_key(self, position: usize) -> Option<PathKey> {
        Some(PathKey::Field(match self {
            Self::Static(shape) => shape.fields.get(position)?.name.into(),
            Self::Dynamic(shape) => shape.field(position)?.0.to_owned().into(),
        }))
    }

    /// Returns the key of the static field at `position`.
    pub(crate) fn static_key(self, position: usize) -> Option<PathKey> {
        Some(PathKey::Field(match self {
            Self::Static(shape) => (*shape.statics.get(position)?).into(),
            Self::Dynamic(shape) => shape.static_name(position)?.to_owned().into(),
        }))
    }

    /// Returns the kind of the field at `position` among the fields that are children, or `None` if the field has no
    /// kind.
    #[inline]
    pub fn field_kind(self, position: usize) -> Option<&'a FieldKind> {
        match self {
            Self::Static(shape) => shape.fields.get(position)?.kind.as_ref(),
            Self::Dynamic(shape) => shape.field_kind(position),
        }
    }

    /// Returns the text of the named axes of the field at `position` among the fields that are children, for instance
    /// `in out`, or `None` if no axes are declared.
    #[inline]
    pub fn field_axes(self, position: usize) -> Option<&'a str> {
        match self {
            Self::Static(shape) => Some(shape.fields.get(position)?.axes?.text),
            Self::Dynamic(shape) => shape.field_axes(position),
        }
    }

    /// Returns the names of the leading axes of all arrays in the field at `position`, separated by spaces, if the field is
    /// a stacked module. `#[module(stacked = "expert")]` gives a module the axes `expert ...`.
    pub(crate) fn stacked_axes(self, position: usize) -> Option<&'a str> {
        let axes = self.field_axes(position)?;
        let is_module = matches!(self.field_kind(position), Some(FieldKind::Module));
        axes.strip_suffix(" ...").filter(|_| is_module)
    }

    /// Returns the roles that the field at `position` among the fields that are children declares for its axes, with
    /// the position of the role that belongs to any number of axes, if there is one.
    pub(crate) fn field_roles(self, position: usize) -> Option<(Roles, Option<usize>)> {
        let pattern = match self {
            Self::Static(shape) => shape.fields.get(position)?.axes?,
            Self::Dynamic(shape) => match shape.axes_of(position)? {
                FieldAxes::Pattern(pattern) => pattern,
                FieldAxes::Text(_) => return None,
            },
        };
        let rest = pattern.rest.is_some().then_some(pattern.before.len());
        Some((pattern.roles?, rest))
    }

    /// Returns the named axes of each field that is a child, for a shape that is created at run time.
    pub(crate) fn axes_of_fields(self) -> Vec<Option<FieldAxes>> {
        let axes = (0..self.num_fields()).map(|position| match self {
            Self::Static(shape) => shape.fields.get(position)?.axes.map(FieldAxes::Pattern),
            Self::Dynamic(shape) => shape.axes_of(position).cloned(),
        });
        axes.collect()
    }

    /// Iterates over the names and kinds of the fields that are children, in declaration order.
    pub fn fields(self) -> impl ExactSizeIterator<Item = (&'a str, Option<FieldKind>)> + Clone {
        (0..self.num_fields()).map(move |position| self.field(position).unwrap_or_default())
    }

    /// Returns the number of static fields.
    #[inline]
    pub fn num_statics(self) -> usize {
        match self {
            Self::Static(shape) => shape.statics.len(),
            Self::Dynamic(shape) => shape.num_statics(),
        }
    }

    /// Returns the name of the static field at `position`.
    #[inline]
    pub fn static_name(self, position: usize) -> Option<&'a str> {
        match self {
            Self::Static(shape) => shape.statics.get(position).copied(),
            Self::Dynamic(shape) => shape.static_name(position),
        }
    }

    /// Iterates over the names of the static fields, in declaration order.
    pub fn static_names(
        self,
    ) -> impl ExactSizeIterator<Item = &'a str> + DoubleEndedIterator + Clone {
        (0..self.num_statics()).map(move |position| self.static_name(position).unwrap_or_default())
    }

    /// Returns the name of the Rust type, for messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Static(shape) => (shape.type_name)(),
            Self::Dynamic(_) => "a type created at run time",
        }
    }

    /// Returns whether the shape is the built-in shape of its family, such as the shape of all lists: a shape without
    /// fields and with the name of the family.
    pub(crate) fn is_builtin(self) -> bool {
        self.name() == self.kind().family_name()
            && self.num_fields() == 0
            && self.num_statics() == 0
    }

    /// Returns whether the node is displayed as a `deque` of Python.
    pub(crate) fn is_deque(self) -> bool {
        self.kind() == NodeKind::List && self == Shape::Static(&DEQUE)
    }

    /// Returns whether the node is displayed as a `defaultdict` of Python.
    pub(crate) fn is_default_dict(self) -> bool {
        self.kind() == NodeKind::Object && self == Shape::Static(&DEFAULT_DICT)
    }

    /// Returns whether the shape was created at run time.
    #[inline]
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::Dynamic(_))
    }

    /// Returns whether two shapes of the same family have the same description. The function `kind` is applied to the
    /// kinds of all fields before they are compared.
    #[inline(never)]
    fn is_described_as(self, other: Shape<'_>, kind: fn(FieldKind) -> FieldKind) -> bool {
        self.name() == other.name()
            && self.num_fields() == other.num_fields()
            && self.static_names().eq(other.static_names())
            && self
                .fields()
                .zip(other.fields())
                .all(|((a_name, a_kind), (b_name, b_kind))| {
                    a_name == b_name && a_kind.map(kind) == b_kind.map(kind)
                })
    }

    /// Returns whether a value of the shape `built` can be built from a node of this shape. Both shapes must have the
    /// same type or, if this shape was created at run time, the same description. A frozen parameter matches a
    /// parameter.
    #[inline]
    pub(crate) fn becomes(self, built: &'static NodeShape) -> bool {
        match self {
            Self::Static(shape) => {
                std::ptr::eq(shape, built)
                    || (shape == built && (shape.identity)() == (built.identity)())
            }
            Self::Dynamic(shape) => {
                shape.kind() == built.kind
                    && self.is_described_as(Shape::Static(built), FieldKind::thawed)
            }
        }
    }

    /// Returns two descriptions that distinguish two unequal shapes in a message: the names, or the fields or types if
    /// the names are equal.
    pub(crate) fn contrast(self, other: Shape<'_>) -> (String, String) {
        type Describe = fn(Shape<'_>) -> String;
        let ways: [Describe; 3] = [
            |shape| match shape.kind() {
                NodeKind::Leaf => "a leaf".to_owned(),
                NodeKind::Absent => "an absent leaf".to_owned(),
                NodeKind::List | NodeKind::Tuple | NodeKind::Dict => {
                    format!("a {}", shape.name())
                }
                NodeKind::OrderedDict => format!("an {}", shape.name()),
                _ => format!("`{}`", shape.name()),
            },
            |shape| format!("`{}`", shape.with_fields()),
            |shape| format!("`{}` of {:?}", shape.type_name(), shape.kind()),
        ];
        let described = ways.map(|way| (way(self), way(other)));
        let [names, ..] = &described;
        let first = described.iter().find(|(left, right)| left != right);
        first.unwrap_or(names).clone()
    }

    /// Returns the name with the fields and their kinds: `Linear { weight: Param, size = … }`.
    pub(crate) fn with_fields(self) -> String {
        let fields = self.fields().map(|(name, kind)| match kind {
            Some(kind) => format!("{name}: {kind}"),
            None => name.to_owned(),
        });
        let statics = self.static_names().map(|name| format!("{name} = …"));
        let fields: Vec<String> = fields.chain(statics).collect();
        match self.kind() {
            NodeKind::Struct => format!("{} {{ {} }}", self.name(), fields.join(", ")),
            _ => format!("{}({})", self.name(), fields.join(", ")),
        }
    }
}

impl PartialEq<Shape<'_>> for Shape<'_> {
    #[inline]
    fn eq(&self, other: &Shape<'_>) -> bool {
        match (self, other) {
            (Self::Static(a), Shape::Static(b)) => a == b,
            (Self::Dynamic(a), Shape::Dynamic(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => self.kind() == other.kind() && self.is_described_as(*other, |kind| kind),
        }
    }
}
impl Eq for Shape<'_> {}
