//! How two structures differ.

use super::TreeDef;
use crate::error::{Difference, DifferenceKind};
use crate::path::KeyPath;
use crate::shape::NodeKind;

impl TreeDef {
    /// Every way in which this structure differs from `other`, from the root down: node types first,
    /// then the number of children or the keys, then static values, then what is below.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        if self == other {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut pairs = vec![(0_usize, 0_usize, KeyPath::root())];
        while let Some((left, right, path)) = pairs.pop() {
            let before = found.len();
            self.compare_nodes(other, left, right, &path, &mut found);
            let same_children = found[before..]
                .iter()
                .all(|difference| difference.why == DifferenceKind::Static);
            if same_children {
                let children: Vec<_> = self
                    .child_positions(left)
                    .into_iter()
                    .zip(other.child_positions(right))
                    .collect();
                for (position, (left_child, right_child)) in children.into_iter().enumerate().rev()
                {
                    let mut path = path.clone();
                    path.extend_by(self.child_key(left, position));
                    pairs.push((left_child, right_child, path));
                }
            }
        }
        found
    }

    fn compare_nodes(
        &self,
        other: &Self,
        left: usize,
        right: usize,
        path: &KeyPath,
        found: &mut Vec<Difference>,
    ) {
        let (a, b) = (self.0.nodes[left], other.0.nodes[right]);
        let mut differ = |why, left: String, right: String| {
            found.push(Difference {
                path: path.clone(),
                left,
                right,
                why,
            });
        };
        if a.shape != b.shape {
            return differ(
                DifferenceKind::NodeType,
                self.describe(left),
                other.describe(right),
            );
        }
        let (a_aux, b_aux) = (self.0.aux_of(left), other.0.aux_of(right));
        if matches!(a.shape.kind, NodeKind::Dict | NodeKind::OrderedDict) {
            if a_aux != b_aux {
                differ(
                    DifferenceKind::Keys,
                    format!("{a_aux:?}"),
                    format!("{b_aux:?}"),
                );
            }
            return;
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
                let name = a
                    .shape
                    .statics
                    .get(position)
                    .map_or(String::new(), |name| format!("{name} = "));
                differ(
                    DifferenceKind::Static,
                    format!("{name}{a_value:?}"),
                    format!("{name}{b_value:?}"),
                );
            }
        }
    }

    fn describe(&self, node: usize) -> String {
        let node = self.0.nodes[node];
        match node.shape.kind {
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict => {
                format!("a {} of {}", node.shape.name, node.arity)
            }
            NodeKind::Leaf => "a leaf".to_owned(),
            NodeKind::Absent => "an absent leaf".to_owned(),
            _ => node.shape.name.to_owned(),
        }
    }
}
