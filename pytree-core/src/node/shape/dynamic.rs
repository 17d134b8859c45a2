//! Shapes created at run time: for named tuples, modules built from data, and structures read from bytes.
//!
//! There is no global table of these shapes. Each shape is freed with the last structure that uses it, so a process may
//! read any number of structures.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{NodeKind, NodeShape};
use crate::base::error::TreeError;
use crate::base::kind::FieldKind;
use crate::node::axes::ShapePattern;

/// A shape created at run time.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DynamicShape {
    kind: NodeKind,
    name: Box<str>,
    fields: Box<[(Box<str>, Option<FieldKind>)]>,
    statics: Box<[Box<str>]>,
    axes: AxesOfFields,
}

/// For each field its named axes, if they are declared. All values of this type are equal, because
/// comparisons of shapes ignore the names of axes.
#[derive(Debug, Default)]
struct AxesOfFields(Box<[Option<FieldAxes>]>);

/// The named axes of a field of a shape that was created at run time.
#[derive(Clone, Debug)]
pub(crate) enum FieldAxes {
    /// The pattern of a type.
    Pattern(&'static ShapePattern),
    /// The text of a pattern that was read from bytes.
    Text(Box<str>),
}

impl FieldAxes {
    fn text(&self) -> &str {
        match self {
            Self::Pattern(pattern) => pattern.text,
            Self::Text(text) => text,
        }
    }
}

impl PartialEq for AxesOfFields {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for AxesOfFields {}
impl Hash for AxesOfFields {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl DynamicShape {
    /// Creates the shape of a struct whose fields are known only at run time: a named tuple, or a module built from
    /// data.
    ///
    /// # Errors
    /// [`TreeError::Build`] if two fields have the same name, or if `kind` is a family whose shapes cannot be created
    /// at run time: leaves, absent leaves, shared nodes, aliases and references of the argument.
    pub fn new(
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> Result<Arc<Self>, TreeError> {
        if matches!(
            kind,
            NodeKind::Leaf
                | NodeKind::Absent
                | NodeKind::Shared
                | NodeKind::Alias
                | NodeKind::Argument
        ) {
            return Err(TreeError::Build {
                node: "shape",
                reason: format!(
                    "all nodes of the kind {kind:?} have the same shape; use the constant for it in the module `shape`"
                ),
            });
        }
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        names.extend(statics);
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find_map(|pair| match pair {
            [left, right] if left == right => Some(*left),
            _ => None,
        }) {
            return Err(TreeError::Build {
                node: "struct",
                reason: format!(
                    "`{name}` has two fields with the name `{twice}`; rename one of them"
                ),
            });
        }
        let fields = fields.iter().copied();
        Ok(Self::of_distinct(
            kind,
            name,
            fields,
            statics.iter().copied(),
        ))
    }

    /// Creates a shape whose fields all have different names; see [`new`](Self::new).
    pub(crate) fn of_distinct<'n>(
        kind: NodeKind,
        name: &str,
        fields: impl Iterator<Item = (&'n str, Option<FieldKind>)>,
        statics: impl Iterator<Item = &'n str>,
    ) -> Arc<Self> {
        Arc::new(Self {
            kind,
            name: name.into(),
            fields: fields.map(|(name, kind)| (name.into(), kind)).collect(),
            statics: statics.map(Box::from).collect(),
            axes: AxesOfFields::default(),
        })
    }

    /// Returns the shape with named axes for its fields.
    pub(crate) fn with_axes(mut self: Arc<Self>, axes: Vec<Option<FieldAxes>>) -> Arc<Self> {
        if axes.iter().any(Option::is_some)
            && let Some(shape) = Arc::get_mut(&mut self)
        {
            shape.axes = AxesOfFields(axes.into());
        }
        self
    }

    /// Returns the family.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Returns the displayed name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn num_fields(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn field(&self, position: usize) -> Option<(&str, Option<FieldKind>)> {
        let (name, kind) = self.fields.get(position)?;
        Some((name, *kind))
    }

    pub(super) fn field_kind(&self, position: usize) -> Option<&FieldKind> {
        self.fields.get(position)?.1.as_ref()
    }

    pub(super) fn field_axes(&self, position: usize) -> Option<&str> {
        self.axes.0.get(position)?.as_ref().map(FieldAxes::text)
    }

    pub(super) fn axes_of(&self, position: usize) -> Option<&FieldAxes> {
        self.axes.0.get(position)?.as_ref()
    }

    pub(super) fn num_statics(&self) -> usize {
        self.statics.len()
    }

    pub(super) fn static_name(&self, position: usize) -> Option<&str> {
        self.statics.get(position).map(|name| &**name)
    }
}

/// Constants that represent shapes created at run time, one for each family. A node of a treedef refers to such a
/// constant, a stand-in, so that nodes stay small and `Copy`. The shape itself is in a table of the treedef.
#[derive(Debug)]
pub(crate) struct StandIn;

impl StandIn {
    /// Returns the stand-in for the shapes of a family.
    pub(crate) fn of(kind: NodeKind) -> &'static NodeShape {
        &STAND_INS[kind as usize]
    }

    /// Returns whether a shape is a stand-in: whether it is in the array of all stand-ins. Walks over treedefs call
    /// this function for every node, so it compares addresses and does not read the shape.
    #[inline]
    pub(crate) fn is(shape: &NodeShape) -> bool {
        let offset = std::ptr::from_ref(shape)
            .addr()
            .wrapping_sub(STAND_INS.as_ptr().addr());
        offset < size_of_val(&STAND_INS)
    }
}

const fn stand_in(kind: NodeKind) -> NodeShape {
    NodeShape::builtin(kind, "")
}

/// The stand-ins, by family; see [`StandIn`].
static STAND_INS: [NodeShape; 17] = [
    stand_in(NodeKind::Leaf),
    stand_in(NodeKind::Absent),
    stand_in(NodeKind::Struct),
    stand_in(NodeKind::TupleStruct),
    stand_in(NodeKind::NamedTuple),
    stand_in(NodeKind::List),
    stand_in(NodeKind::Tuple),
    stand_in(NodeKind::Dict),
    stand_in(NodeKind::OrderedDict),
    stand_in(NodeKind::None),
    stand_in(NodeKind::Some),
    stand_in(NodeKind::Object),
    stand_in(NodeKind::Shared),
    stand_in(NodeKind::Alias),
    stand_in(NodeKind::Reference),
    stand_in(NodeKind::Weak),
    stand_in(NodeKind::Argument),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_at_their_families() {
        for (position, shape) in STAND_INS.iter().enumerate() {
            assert_eq!(shape.kind as usize, position);
            assert!(StandIn::is(shape));
        }
        assert!(!StandIn::is(&super::super::LIST));
    }
}
