//! The constants of the format.

use crate::node::shape::{self, NodeKind, NodeShape};

/// The first bytes of a serialized treedef.
pub(super) const MAGIC: &[u8] = b"PYTD";

/// A bit in the code of a field's kind. If the bit is set, the text of the field's named axes follows.
pub(super) const WITH_AXES: u8 = 128;

/// The version of the format.
pub(super) const VERSION: u8 = 3;

/// The first version in which a collection may have a parent, and a field may have named axes.
pub(super) const WITH_PARENTS_AND_AXES: u8 = 2;

/// The first version in which an absent leaf may have a number of splits.
pub(super) const WITH_SPLITS: u8 = 3;

/// The maximal size, in bytes, of a static value that is written once and then referred to by its index. Larger values
/// are written at each occurrence, so a treedef in memory is never much larger than its bytes.
pub(super) const REMEMBERED: usize = 64;

/// The built-in shapes. The code of each shape is its index.
pub(super) static BUILTIN: [&NodeShape; 11] = [
    &shape::LEAF,
    &shape::ABSENT,
    &shape::LIST,
    &shape::TUPLE,
    &shape::DICT,
    &shape::ORDERED_DICT,
    &shape::NONE,
    &shape::SOME,
    &shape::OBJECT,
    &shape::SHARED,
    &shape::ALIAS,
];

/// The code before a new shape: the description of the shape follows in the bytes. Larger codes refer to earlier
/// shapes.
pub(super) const NEW_SHAPE: usize = BUILTIN.len();

/// The code of the built-in shape of absent leaves, and of their family.
pub(super) const ABSENT: u8 = 1;

/// The families of nodes. The code of each family is its index.
pub(super) const KINDS: [NodeKind; 16] = [
    NodeKind::Leaf,
    NodeKind::Absent,
    NodeKind::List,
    NodeKind::Tuple,
    NodeKind::Dict,
    NodeKind::OrderedDict,
    NodeKind::None,
    NodeKind::Some,
    NodeKind::Object,
    NodeKind::Shared,
    NodeKind::Alias,
    NodeKind::Struct,
    NodeKind::TupleStruct,
    NodeKind::NamedTuple,
    NodeKind::Reference,
    NodeKind::Weak,
];
