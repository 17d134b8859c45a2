//! The roles of the axes of the leaves, as the modules of a treedef declare them.

use std::fmt;

use super::axes::FieldAt;
use super::cursor::NodeView;
use super::structure::TreeDef;
use crate::base::error::{MissingRoles, TreeError};
use crate::base::path::KeyPath;
use crate::node::axes::{AxisRole, Roles, StaticFields};
use crate::node::leaf::Leaf;

/// The roles that the innermost field around a leaf declares; see [`TreeDef::leaf_roles`].
#[derive(Clone, Copy)]
pub struct LeafRoles<'t> {
    leaf: NodeView<'t>,
    field: Option<FieldAt<'t>>,
    /// The number of leading axes that the stacked modules around the leaf declare.
    stacked: usize,
}

impl TreeDef {
    /// Returns the declared roles of the axes of each leaf, in order.
    ///
    /// # Examples
    /// See [`AxisRole`].
    pub fn leaf_roles(&self) -> Vec<LeafRoles<'_>> {
        let leaves = self.leaf_fields().into_iter();
        let roles = leaves.map(|(leaf, field, stacked)| LeafRoles {
            leaf,
            field,
            stacked: stacked.len(),
        });
        roles.collect()
    }
}

impl LeafRoles<'_> {
    /// Returns one role for each declared axis, and the position of the role that belongs to any number of axes. `rank`
    /// is the number of axes of the array.
    fn declared(&self, rank: usize) -> Option<(Vec<AxisRole>, Option<usize>)> {
        let (module, position) = self.field?;
        let (roles, rest) = module.shape().field_roles(position)?;
        match roles {
            Roles::Listed(roles) => Some((roles.to_vec(), rest)),
            Roles::Computed(compute) => {
                let fields = StaticFields::new(module.shape().static_names(), module.aux());
                Some((compute(&fields, rank)?, None))
            }
        }
    }

    /// Returns the roles of the axes of an array with `rank` axes, or `None` if no roles are declared or if the array
    /// has fewer axes than the declaration.
    ///
    /// Additional leading axes have the role [`AxisRole::Batch`]. An array has such axes in a stacked model, which
    /// holds several models.
    pub fn for_rank(&self, rank: usize) -> Option<Vec<AxisRole>> {
        let rank = rank.checked_sub(self.stacked)?;
        let (mut roles, rest) = self.declared(rank)?;
        let (at, role, declared) = match rest {
            Some(rest) => (rest, roles.remove(rest), roles.len()),
            None => (0, AxisRole::Batch, roles.len()),
        };
        let further = rank.checked_sub(declared)?;
        roles.splice(at..at, std::iter::repeat_n(role, further));
        roles.splice(..0, std::iter::repeat_n(AxisRole::Batch, self.stacked));
        Some(roles)
    }

    /// Returns the roles of the axes of a leaf.
    ///
    /// A leaf with at most one axis is not a matrix, so it needs no declaration: its axis is a
    /// [`Feature`](AxisRole::Feature) by default.
    ///
    /// # Errors
    /// [`TreeError::Roles`] if the leaf has at least two axes and no roles are declared, or if the leaf has fewer axes
    /// than the declaration. The message contains the declaration to write.
    pub fn of_leaf(&self, leaf: &dyn Leaf) -> Result<Vec<AxisRole>, TreeError> {
        self.try_of_leaf(leaf).map_err(|missing| TreeError::Roles {
            missing: vec![*missing],
        })
    }

    pub(crate) fn try_of_leaf(&self, leaf: &dyn Leaf) -> Result<Vec<AxisRole>, Box<MissingRoles>> {
        let rank = leaf.array_info().map_or(0, |array| array.shape.len());
        if let Some(roles) = self.for_rank(rank) {
            return Ok(roles);
        }
        let (stacked, rank) = (rank.min(self.stacked), rank.saturating_sub(self.stacked));
        let declared = self.declared(rank).map(|(roles, _)| roles);
        if declared.is_none() && rank < 2 {
            let mut roles = vec![AxisRole::Batch; stacked];
            roles.resize(stacked + rank, AxisRole::Feature);
            return Ok(roles);
        }
        let info = leaf.array_info();
        let field = self.field;
        Err(Box::new(MissingRoles {
            path: self.leaf.path(),
            found: info.map_or_else(String::new, |info| info.to_string()),
            field: field.and_then(|(module, position)| {
                let name = module.shape().field_name(position)?;
                Some((module.name().to_owned(), name.to_owned()))
            }),
            axes: field.and_then(|(module, position)| {
                let axes = module.shape().field_axes(position)?;
                Some(axes.to_owned())
            }),
            rank,
            declared: declared.map(|roles| roles.iter().map(|role| role.name()).collect()),
        }))
    }

    pub(crate) fn path(&self) -> KeyPath {
        self.leaf.path()
    }
}

impl fmt::Debug for LeafRoles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeafRoles")
            .field("path", &self.leaf.path())
            .field("field", &self.field)
            .finish()
    }
}
