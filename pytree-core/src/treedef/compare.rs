//! The differences between two structures.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::prefix::Fit;
use super::structure::{Inner, TreeDef};
use crate::base::error::Difference;
use crate::node::shape::NodeKind;

impl TreeDef {
    /// Returns every difference between this structure and `other`, from the root down.
    ///
    /// Two nodes are compared by type, then by number of children or keys, then by static values. If all these are
    /// equal, the children of the two nodes are compared.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        if self == other {
            return Vec::new();
        }
        self.misfits(other, Fit::Equal)
    }
}

fn hash_parts(treedef: &Inner) -> u64 {
    // The multiply-rotate hash of Firefox, which needs few instructions for each word and is good enough for a hash
    // table.
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let mut hash = treedef.nodes.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for node in treedef.nodes.iter() {
        let shape = treedef.shape_of(node);
        let target = if shape.is_dynamic() { 0 } else { node.target };
        mix((u64::from(node.arity ^ target) << 32) | shape.kind() as u64);
        if matches!(shape.kind(), NodeKind::Struct | NodeKind::TupleStruct) {
            let byte = |byte: Option<&u8>| u64::from(byte.copied().unwrap_or(0));
            let name = shape.name().as_bytes();
            mix(name.len() as u64 ^ (byte(name.first()) << 32) ^ (byte(name.last()) << 40));
        }
    }
    for value in treedef.aux.iter() {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        mix(hasher.finish());
    }
    hash
}

impl PartialEq for TreeDef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.has_nodes_of(&other.0) && self.0.aux == other.0.aux)
    }
}

impl Eq for TreeDef {}

impl Hash for TreeDef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(*self.0.hash.get_or_init(|| hash_parts(&self.0)));
    }
}
