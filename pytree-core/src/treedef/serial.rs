//! The binary format of treedefs, and their content hash.
//!
//! The format is read front to back without recursion. A count is a varint in its shortest form: seven bits per byte,
//! the lowest bits first. A text is the count of its bytes, followed by the bytes in UTF-8.
//!
//! ```text
//! treedef = "PYTD" 3 node
//! node    = 0                                      a leaf
//!         | 1                                      an absent leaf
//!         | 11 1 splits                            an absent leaf that the values of the last splits already lacked
//!         | code arity statics static* node*       any other node: its counts, statics and children
//! code    = 2 … 10                                 list, tuple, dict, ordered dict, None, Some, object, shared, alias
//!         | 11 shape                               a shape that is new, which gets the next number
//!         | 12 + number                            an earlier shape
//! shape   = kind name fields (name field)* statics name*
//! kind    = 0 … 15                                 leaf, absent, list, tuple, dict, ordered dict, None, Some, object,
//!                                                  shared, alias, struct, tuple struct, named tuple, reference,
//!                                                  weak edge (its child is an alias of any node, or of no node: `()`)
//! field   = 0 | 1 | 2 collection | 3 | 4           no kind, a parameter, a state, static, a module
//!         | 5 collections                          a parameter in a collection
//!         | 6 collections                          a state in a collection that has a parent
//! collections = count collection*                  the ancestors, the outermost first, then the collection itself; the
//!                                                  parameters are not among the ancestors
//!         | 128 + field, axes                      a field with the text of its named axes
//! static  = 0 data                                 a new value, which gets the next number if it has at most 64 bytes
//!         | 1 + number                             an earlier value
//! data    = 0 | 1 | 2                              (), false, true
//!         | 3 zigzag varint | 4 eight bytes        an integer, the bits of a float (lowest byte first)
//!         | 5 text                                 a text
//!         | 6 count data* | 7 count data*          a tuple, a sequence
//!         | 8 | 9 data                             None, Some
//!         | 10 count (data data)*                  a map
//!         | 11 name count (name data)*             a record
//!         | 12 type text                           an opaque value: its type and its text
//! ```
//!
//! The content hash is the XXH3-128 hash of a node in this format, with three differences. A dict is written without
//! its insertion order. A field is written without its axes. A shape that has the description of a built-in container
//! is written with the code of this container.

mod format;
mod read;
mod write;

use xxhash_rust::xxh3::xxh3_128;

use self::read::Reader;
use self::write::Writer;
use super::structure::TreeDef;
use crate::base::error::TreeError;

impl TreeDef {
    /// Returns the treedef as bytes, which [`from_bytes`](Self::from_bytes) reads in any process.
    ///
    /// Static values are written as [`StaticData`](crate::StaticData). For the constructor of a trait object, a
    /// function pointer, or a value that is only `PartialEq + Debug`, this data is the name of the type and a text.
    ///
    /// A dict is written with its insertion order, which equality ignores, so equal treedefs may have different bytes.
    /// To identify a treedef by a number, use [`content_hash`](Self::content_hash).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{TreeDef, tree};
    /// let structure = tree!({"weight": 1.0, "bias": (2, None)}).treedef().clone();
    /// let read = TreeDef::from_bytes(&structure.to_bytes())?;
    /// assert_eq!(read, structure);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "jax.tree_util.PyTreeDef.serialize_using_proto")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(false);
        writer.header();
        writer.nodes(self);
        writer.into_bytes()
    }

    /// Reads a treedef that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// The result equals the written treedef and unflattens to the same types. The exception is a static value that was
    /// written only as a text, such as the constructor of a trait object. Such a value differs from every other value,
    /// and no value can be built from it. A shape that is read matches every type with the same name, the same fields
    /// and kinds, and the same static fields.
    ///
    /// # Errors
    /// Returns [`TreeError::Bytes`] if the bytes are not a complete and valid treedef. In a valid treedef:
    /// - static values nest at most 64 levels deep
    /// - keys that are plain data are distinct and in order
    /// - an alias comes after its shared node
    /// - the names of a collection and its ancestors have at most 46 bytes together
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TreeError> {
        Reader::new(bytes).treedef()
    }

    /// Returns a hash of everything that equality compares, the same in every process and on every machine.
    ///
    /// Equal treedefs have equal hashes, including treedefs read from bytes. Static values are hashed as their
    /// [`StaticData`](crate::StaticData): all functions of the same type have the same hash, and a value that is only
    /// `PartialEq + Debug` is hashed by its text.
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
