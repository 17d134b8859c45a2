//! The differences between two structures.

use super::TreeDef;
use crate::base::error::{Difference, DifferenceKind};
use crate::base::path::KeyPath;
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;

impl TreeDef {
    /// Returns every difference between this structure and `other`, from the root down.
    ///
    /// Two nodes are compared by type, then by number of children or keys, then by static values, then by their
    /// children.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        if self == other {
            return found;
        }
        let (mut left, mut right) = (0, 0);
        // The nodes of this structure around the current node, each with the index of the child that the walk is in.
        let mut open: Vec<(usize, usize)> = Vec::new();
        loop {
            let before = found.len();
            self.compare_nodes(other, (left, right), &open, &mut found);
            let same_children = found[before..]
                .iter()
                .all(|difference| difference.why == DifferenceKind::Static);
            let node = self.0.nodes[left];
            if same_children && node.arity > 0 {
                open.push((left, 0));
                left += 1;
                right += 1;
                continue;
            }
            left += node.size as usize;
            right += other.0.nodes[right].size as usize;
            loop {
                let Some((parent, position)) = open.last_mut() else {
                    return found;
                };
                *position += 1;
                if *position < self.0.nodes[*parent].arity as usize {
                    break;
                }
                open.pop();
            }
        }
    }

    fn compare_nodes(
        &self,
        other: &Self,
        (left, right): (usize, usize),
        open: &[(usize, usize)],
        found: &mut Vec<Difference>,
    ) {
        let (a, b) = (self.0.nodes[left], other.0.nodes[right]);
        let mut differ = |why, left: String, right: String| {
            found.push(Difference {
                path: self.path_below(open),
                left,
                right,
                why,
            });
        };
        let (a_aux, b_aux) = (self.0.aux_of(left), other.0.aux_of(right));
        let shape = self.0.shape(left);
        if shape != other.0.shape(right) || (!shape.is_dynamic() && a.target != b.target) {
            return differ(
                DifferenceKind::NodeType,
                self.describe(left),
                other.describe(right),
            );
        }
        if matches!(a.shape.kind, NodeKind::Dict | NodeKind::OrderedDict) && a_aux != b_aux {
            return differ(
                DifferenceKind::Keys,
                format!("{:?}", keys(a_aux, a.arity)),
                format!("{:?}", keys(b_aux, b.arity)),
            );
        }
        if a.arity != b.arity {
            return differ(
                DifferenceKind::Arity,
                a.arity.to_string(),
                b.arity.to_string(),
            );
        }
        for (position, (a_value, b_value)) in a_aux.iter().zip(b_aux).enumerate() {
            if a_value != b_value {
                let name = shape
                    .static_name(position)
                    .map_or(String::new(), |name| format!("{name} = "));
                differ(
                    DifferenceKind::Static,
                    format!("{name}{a_value:?}"),
                    format!("{name}{b_value:?}"),
                );
            }
        }
    }

    /// Returns the path of a node. `open` contains the nodes above it, each with the index of the child on the path.
    fn path_below(&self, open: &[(usize, usize)]) -> KeyPath {
        let keys = open.iter();
        keys.filter_map(|&(node, position)| self.view(node).key(position))
            .collect()
    }

    fn describe(&self, at: usize) -> String {
        let node = self.0.nodes[at];
        let shape = self.0.shape(at);
        match shape.kind() {
            NodeKind::Alias => match node.target() {
                Some(number) => format!("alias {number}"),
                None => "alias of nothing".to_owned(),
            },
            NodeKind::Reference => match shape.field_kind(0) {
                Some(kind) => format!("reference of kind {kind}"),
                None => "reference".to_owned(),
            },
            NodeKind::Argument => format!("node {} of the argument", node.target),
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict => {
                format!("a {} of {}", shape.name(), node.arity)
            }
            NodeKind::Leaf => "a leaf".to_owned(),
            NodeKind::Absent => "an absent leaf".to_owned(),
            _ => shape.name().to_owned(),
        }
    }
}

/// Returns the keys among the static values of a map. The insertion order follows the keys.
fn keys(statics: &[StaticBox], arity: u32) -> &[StaticBox] {
    statics.get(..arity as usize).unwrap_or(statics)
}
