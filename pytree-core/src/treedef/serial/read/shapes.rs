//! Reading the shapes of nodes, with the kinds, the collections and the named axes of their fields.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Reader, fail};
use crate::base::error::TreeError;
use crate::base::kind::{CollectionId, FieldKind, NAME_LIMIT};
use crate::node::shape::{self, DynamicShape, FieldAxes, NodeKind, Shape};
use crate::treedef::serial::format::{
    ABSENT, BUILTIN, KINDS, NEW_SHAPE, WITH_AXES, WITH_PARENTS_AND_AXES, WITH_SPLITS,
};

impl Reader<'_> {
    /// Reads the code of a shape, and the shape itself if it is new. Returns the position of the shape.
    pub(super) fn shape(&mut self) -> Result<usize, TreeError> {
        let position = self.at;
        let code = self.varint("a node")?;
        match usize::try_from(code).unwrap_or(usize::MAX) {
            builtin if builtin < NEW_SHAPE => Ok(builtin),
            NEW_SHAPE if self.is_absent_leaf() => {
                self.at += 1;
                let start = self.at;
                let splits = self.varint("a number of splits")?;
                self.splits = u32::try_from(splits).unwrap_or(0);
                if self.splits == 0 {
                    let found = splits.to_string();
                    return Err(fail(start, "a number of splits from 1 to 2^32 - 1", found));
                }
                Ok(usize::from(ABSENT))
            }
            NEW_SHAPE => {
                let shape = self.new_shape()?;
                self.shapes.push(shape);
                Ok(BUILTIN.len() + self.shapes.len() - 1)
            }
            // The code of an earlier shape is its position plus one, because the code `NEW_SHAPE` comes before the
            // codes of earlier shapes.
            code if code - NEW_SHAPE <= self.shapes.len() => Ok(code - 1),
            _ => Err(fail(
                position,
                format!(
                    "a node with one of the {} shapes read before",
                    self.shapes.len()
                ),
                format!("the code {code}"),
            )),
        }
    }

    /// Returns whether an absent leaf with a number of splits comes next, in place of a shape.
    fn is_absent_leaf(&self) -> bool {
        self.version >= WITH_SPLITS && self.bytes.get(self.at) == Some(&ABSENT)
    }

    fn new_shape(&mut self) -> Result<Arc<DynamicShape>, TreeError> {
        let position = self.at;
        let code = self.byte("the family of a shape")?;
        let kind = match KINDS.get(usize::from(code)) {
            None | Some(NodeKind::Leaf | NodeKind::Absent | NodeKind::Shared | NodeKind::Alias) => {
                let found = format!("the code {code}");
                return Err(fail(position, "the family of a shape", found));
            }
            Some(&kind) => kind,
        };
        let name = self.text("the name of a shape")?;
        let (mut fields, mut axes) = (Vec::new(), Vec::new());
        for _ in 0..self.count("the number of fields")? {
            let name = self.text("the name of a field")?;
            let (kind, field_axes) = self.field_kind()?;
            fields.push((name, kind));
            axes.push(field_axes);
        }
        let mut statics = Vec::new();
        for _ in 0..self.count("the number of static fields")? {
            statics.push(self.text("the name of a static field")?);
        }
        let mut names = HashSet::new();
        for field in fields.iter().map(|(field, _)| field).chain(&statics) {
            if !names.insert(field) {
                return Err(fail(
                    position,
                    format!("different names for the fields of `{name}`"),
                    format!("the name `{field}` twice"),
                ));
            }
        }
        let fields = fields.iter().map(|(name, kind)| (name.as_str(), *kind));
        let statics = statics.iter().map(String::as_str);
        let shape = DynamicShape::of_distinct(kind, &name, fields, statics).with_axes(axes);
        if kind == NodeKind::Reference && !is_of_a_reference(Shape::Dynamic(&shape)) {
            let expected = "the shape of a reference, with at most one field";
            return Err(fail(position, expected, name));
        }
        Ok(shape)
    }

    /// Reads the kind of a field, and the text of its named axes.
    fn field_kind(&mut self) -> Result<(Option<FieldKind>, Option<FieldAxes>), TreeError> {
        let position = self.at;
        let code = self.byte("the kind of a field")?;
        let is_newer = self.version >= WITH_PARENTS_AND_AXES;
        let has_axes = is_newer && code & WITH_AXES != 0;
        let kind = match if has_axes { code & !WITH_AXES } else { code } {
            0 => None,
            1 => Some(FieldKind::Param),
            2 => Some(FieldKind::State(self.collection()?)),
            3 => Some(FieldKind::Static),
            4 => Some(FieldKind::Module),
            5 if is_newer => Some(FieldKind::ParamIn(self.collections(1)?)),
            6 if is_newer => Some(FieldKind::State(self.collections(2)?)),
            _ => {
                return Err(fail(
                    position,
                    "the kind of a field",
                    format!("the code {code}"),
                ));
            }
        };
        let axes = if has_axes {
            Some(FieldAxes::Text(self.text("the axes of a field")?.into()))
        } else {
            None
        };
        Ok((kind, axes))
    }

    fn collection(&mut self) -> Result<CollectionId, TreeError> {
        let position = self.at;
        let name = self.text("the name of a collection")?;
        let collection = CollectionId::named(&name);
        collection.map_err(|_| {
            fail(
                position,
                format!("the name of a collection with at most {NAME_LIMIT} bytes"),
                format!("a name of {} bytes", name.len()),
            )
        })
    }

    /// Reads the names of the ancestors of a collection, the outermost first, and then the name of the collection.
    /// There must be at least `least` names.
    fn collections(&mut self, least: usize) -> Result<CollectionId, TreeError> {
        let position = self.at;
        let count = self.count("the number of a collection and its ancestors")?;
        if count < least {
            return Err(fail(
                position,
                format!("at least {least} names of collections"),
                format!("{count}"),
            ));
        }
        let mut collection = self.collection()?;
        for _ in 1..count {
            let position = self.at;
            let name = self.text("the name of a collection")?;
            collection = collection.child(&name).map_err(|_| {
                fail(
                    position,
                    format!("names of a collection and its ancestors, of at most {NAME_LIMIT} bytes together"),
                    format!("{} bytes below {}", name.len(), collection.used()),
                )
            })?;
        }
        Ok(collection)
    }
}

/// Returns whether `shape` is the shape of a [`Ref`](crate::Ref), with or without a kind.
fn is_of_a_reference(shape: Shape<'_>) -> bool {
    let says_kind = match shape.field(0) {
        None => true,
        Some((name, kind)) => {
            let of_leaves = kind.is_some_and(|kind| kind.decides());
            name == shape::REFERENCE_FIELD && of_leaves && shape.num_fields() == 1
        }
    };
    says_kind && shape.num_statics() == 0 && shape.name() == shape::REFERENCE.name
}
