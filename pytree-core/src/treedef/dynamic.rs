//! The table in which a treedef stores its shapes that were created at run time. Also compares treedefs with such
//! shapes.

use std::collections::HashSet;
use std::sync::Arc;

use pytree_base::bug::expect_at;

use super::node::{Node, SHAPES, count};
use super::structure::Inner;
use crate::base::identity::{IdentityMap, NodeIdentity};
use crate::node::shape::{DynamicShape, Shape, StandIn};

/// The table of the shapes created at run time, for a treedef that is being built. The table contains each shape once.
#[derive(Debug, Default)]
pub(super) struct DynamicShapes {
    table: Vec<Arc<DynamicShape>>,
    /// The position of each shape in the table.
    positions: IdentityMap,
}

impl DynamicShapes {
    /// Returns the position of a shape in the table. Adds the shape if it is new.
    pub(super) fn position(&mut self, shape: &Arc<DynamicShape>) -> u32 {
        if let Err(position) = self.positions.insert(NodeIdentity::of(shape)) {
            return count(position);
        }
        self.table.push(Arc::clone(shape));
        count(self.table.len() - 1)
    }

    /// Copies the shapes of `nodes` from the table of the treedef `from` to this table. `nodes` must be copies of nodes
    /// of `from`. If a node refers to its shape by a position in the table of `from`, this position is replaced by the
    /// position of the shape in this table.
    pub(super) fn adopt(&mut self, nodes: &mut [Node], from: &Inner) {
        if from.dynamic.is_empty() {
            return;
        }
        for node in nodes.iter_mut().filter(|node| StandIn::is(node.shape)) {
            let shape = expect_at(&from.dynamic, node.target as usize, SHAPES);
            node.target = self.position(shape);
        }
    }

    /// Returns the shape at `position` in the table.
    pub(super) fn get(&self, position: u32) -> &Arc<DynamicShape> {
        expect_at(&self.table, position as usize, SHAPES)
    }

    pub(super) fn into_table(self) -> Vec<Arc<DynamicShape>> {
        self.table
    }
}

impl Inner {
    /// Returns whether the nodes of both treedefs have the same shapes, and whether their aliases have the same targets. Each pair of shapes is compared
    /// once.
    pub(super) fn has_shapes_of(&self, other: &Self) -> bool {
        let address = |shape: Shape<'_>| match shape {
            Shape::Static(shape) => std::ptr::from_ref(shape).addr(),
            Shape::Dynamic(shape) => Arc::as_ptr(shape).addr(),
        };
        let mut equal = HashSet::new();
        let mut same = |a: &Node, b: &Node| {
            let (left, right) = (self.shape_of(a), other.shape_of(b));
            if !left.is_dynamic() && !right.is_dynamic() {
                return a.target == b.target && left == right;
            }
            let addresses = (address(left), address(right));
            equal.contains(&addresses) || (left == right && equal.insert(addresses))
        };
        let pairs = self.nodes.iter().zip(other.nodes.iter());
        pairs.into_iter().all(|(a, b)| same(a, b))
    }
}
