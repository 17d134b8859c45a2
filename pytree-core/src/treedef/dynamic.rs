//! The shapes made at run time that a treedef has, each once, and treedefs compared that have some.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::build::count;
use super::{Inner, Node, SHAPES};
use crate::base::bug::expect_at;
use crate::node::shape::{DynamicShape, Shape, StandIn};

/// The table of the shapes made at run time, while a treedef is built.
#[derive(Debug, Default)]
pub(super) struct DynamicShapes {
    table: Vec<Arc<DynamicShape>>,
    /// Where each shape is in the table, by its address.
    positions: BTreeMap<usize, u32>,
}

impl DynamicShapes {
    /// The position of a shape in the table, to which it is added if it is new.
    pub(super) fn position(&mut self, shape: &Arc<DynamicShape>) -> u32 {
        let next = self.table.len();
        let position = self.positions.entry(Arc::as_ptr(shape).addr());
        *position.or_insert_with(|| {
            self.table.push(Arc::clone(shape));
            count(next)
        })
    }

    /// Gives the stand-ins among nodes of another treedef positions in this table.
    pub(super) fn adopt(&mut self, nodes: &mut [Node], from: &Inner) {
        if from.dynamic.is_empty() {
            return;
        }
        for node in nodes.iter_mut().filter(|node| StandIn::is(node.shape)) {
            let shape = expect_at(&from.dynamic, node.target as usize, SHAPES);
            node.target = self.position(shape);
        }
    }

    /// The shape at a position.
    pub(super) fn get(&self, position: u32) -> &Arc<DynamicShape> {
        expect_at(&self.table, position as usize, SHAPES)
    }

    pub(super) fn into_table(self) -> Vec<Arc<DynamicShape>> {
        self.table
    }
}

impl Inner {
    /// Whether nodes have the same shapes and lead to the same nodes. Each pair of shapes is compared once.
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
        let pairs = self.nodes.iter().zip(&other.nodes);
        pairs.into_iter().all(|(a, b)| same(a, b))
    }
}
