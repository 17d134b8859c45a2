//! Treedefs as bytes, and the hash of what they hold.
//!
//! The format is read front to back without recursion. A count is a varint, seven bits a byte, the lowest first, in
//! its shortest form. A text is the count of its bytes, then they, in UTF-8.
//!
//! ```text
//! treedef = "PYTD" 1 node
//! node    = 0                                      a leaf
//!         | 1                                      an absent leaf
//!         | code arity statics static* node*       any other node: its counts, statics and children
//! code    = 2 … 10                                 list, tuple, dict, ordered dict, None, Some, object, shared, alias
//!         | 11 shape                               a shape that is new, which gets the next number
//!         | 12 + number                            a shape that was met
//! shape   = kind name fields (name field)* statics name*
//! kind    = 0 … 15                                 leaf, absent, list, tuple, dict, ordered dict, None, Some, object,
//!                                                  shared, alias, struct, tuple struct, named tuple, reference,
//!                                                  weak edge, whose child is an alias, also of a later node or of ()
//! field   = 0 | 1 | 2 collection | 3 | 4           no kind, a parameter, a state, static, a module
//! static  = 0 data                                 one that is new; of at most 64 bytes it gets the next number
//!         | 1 + number                             one that was met
//! data    = 0 | 1 | 2                              (), false, true
//!         | 3 zigzag varint | 4 eight bytes        an integer, a float's bits, the lowest first
//!         | 5 text                                 a text
//!         | 6 count data* | 7 count data*          a tuple, a sequence
//!         | 8 | 9 data                             None, Some
//!         | 10 count (data data)*                  a map
//!         | 11 name count (name data)*             a record
//!         | 12 type text                           a value of which only type and text are known
//! ```
//!
//! The content hash is XXH3-128 of a node in this form, in which a dict has no insertion order and a shape that
//! looks like one of the built-in containers is that one.

mod read;
mod write;

use xxhash_rust::xxh3::xxh3_128;

use self::read::Reader;
use self::write::Writer;
use super::TreeDef;
use crate::base::error::TreeError;
use crate::node::shape::{self, NodeKind, NodeShape};

/// What the bytes of a treedef begin with.
const MAGIC: &[u8] = b"PYTD";

/// The version of the format.
const VERSION: u8 = 1;

/// The most bytes of a static value that is written once and then by number. Larger ones are written at each place,
/// so that a treedef is never much larger than its bytes.
const REMEMBERED: usize = 64;

/// The shapes whose codes are their positions.
static BUILTIN: [&NodeShape; 11] = [
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

/// The code of a shape that follows; those after it are of shapes that were met.
const NEW_SHAPE: usize = BUILTIN.len();

/// The families whose codes are their positions.
const KINDS: [NodeKind; 16] = [
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

impl TreeDef {
    /// The treedef as bytes, which [`from_bytes`](Self::from_bytes) reads in any process.
    ///
    /// Static values are written as [`StaticData`](crate::StaticData). Of the constructor of a trait object, a
    /// function pointer, or a value that is only `PartialEq + Debug`, that is the name of its type and its text.
    ///
    /// A dict is written with the order of its insertions, which equality ignores: equal treedefs may have different
    /// bytes. To tell treedefs by a number, use [`content_hash`](Self::content_hash).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{TreeDef, tree};
    /// let structure = tree!({"weight": 1.0, "bias": (2, None)}).treedef().clone();
    /// let read = TreeDef::from_bytes(&structure.to_bytes())?;
    /// assert_eq!(read, structure);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(false);
        writer.header();
        writer.nodes(self);
        writer.into_bytes()
    }

    /// The treedef that [`to_bytes`](Self::to_bytes) wrote: equal to it, and unflattened to the same types.
    ///
    /// A shape that is read is that of any type with its name, its fields with their kinds, and its static fields.
    /// What was written as a text only, such as a trait object's constructor, compares, hashes and displays, but no
    /// value can be built from it.
    ///
    /// # Errors
    /// [`TreeError::Bytes`] if the bytes are not those of a whole treedef that holds together: static values may
    /// nest 64 deep, keys that are plain data must be in order and none twice, an alias must come after the
    /// shared node that it names, and the name of a collection has at most 46 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TreeError> {
        Reader::new(bytes).treedef()
    }

    /// A hash of everything that equality compares, the same in every process and on every machine.
    ///
    /// Equal treedefs have equal hashes, also those read from bytes. Static values count as their
    /// [`StaticData`](crate::StaticData): functions of one type are not told apart, and of a value that is only
    /// `PartialEq + Debug` the text counts.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let (left, right) = (tree!({"a": 1, "b": 2}), tree!({"b": 4, "a": 3}));
    /// assert_eq!(left.treedef().content_hash(), right.treedef().content_hash());
    /// assert_ne!(left.treedef().content_hash(), tree!([1, 2]).treedef().content_hash());
    /// ```
    pub fn content_hash(&self) -> u128 {
        let mut writer = Writer::new(true);
        writer.nodes(self);
        xxh3_128(&writer.into_bytes())
    }
}
