//! Treedefs as bytes and their content hash; building trees node by node.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod builder;
mod built_graphs;
mod content_hash;
mod differences;
mod graphs;
mod hostile;
mod round;
mod statics;

use pytree_core::{Module, Pytree, Static, StaticValue, TreeDef, TreeError, module_object, tree};

#[derive(Clone, Debug, PartialEq, Static)]
pub enum Mode {
    Train,
    Drop { rate: f64 },
    Scale(i32),
}

/// Known to treedefs by `PartialEq` and `Debug` only.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain(pub i32);

#[derive(Clone, Debug, PartialEq, Module)]
pub struct Linear {
    #[param]
    pub weight: f32,
    #[state(pytree_core::kind::BatchStat)]
    pub mean: Option<f32>,
    #[r#static]
    pub size: (usize, u64),
    #[r#static]
    pub name: String,
    #[r#static]
    pub mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Pytree)]
pub enum Choice {
    Nothing,
    One(f32),
    Two { left: f32, right: Vec<f32> },
}

#[derive(Clone, Debug, PartialEq, Module)]
pub struct Noted {
    #[param]
    pub weight: f32,
    #[r#static]
    pub note: Plain,
}

#[derive(Clone, Debug, Module)]
pub struct Activated {
    #[param]
    pub weight: f32,
    #[r#static]
    pub activation: fn(f32) -> f32,
}

#[module_object]
pub trait Layer: Module {
    fn size(&self) -> usize;
}
impl Layer for Linear {
    fn size(&self) -> usize {
        self.size.0
    }
}

pub fn linear() -> Linear {
    Linear {
        weight: 0.5,
        mean: Some(2.0),
        size: (3, u64::MAX),
        name: "first".into(),
        mode: Mode::Drop { rate: 0.25 },
    }
}

/// The treedef that is read from the bytes of another, after it was found to be equal.
pub fn read_back(treedef: &TreeDef) -> TreeDef {
    let read = read_back_opaque(treedef);
    assert_eq!(read, *treedef);
    assert_eq!(*treedef, read);
    assert_eq!(std_hash(&read), std_hash(treedef));
    assert_eq!(read.children(), treedef.children());
    read
}

/// As `read_back`, of a treedef with static values of which bytes hold a text only: what is read equals what is read again.
pub fn read_back_opaque(treedef: &TreeDef) -> TreeDef {
    let bytes = treedef.to_bytes();
    let read = TreeDef::from_bytes(&bytes).unwrap();
    assert_eq!(read, TreeDef::from_bytes(&bytes).unwrap());
    assert_eq!(read.content_hash(), treedef.content_hash());
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read.num_leaves(), treedef.num_leaves());
    assert_eq!(read.num_nodes(), treedef.num_nodes());
    assert_eq!(read.leaf_paths(), treedef.leaf_paths());
    assert_eq!(read.leaf_kinds(), treedef.leaf_kinds());
    read
}

pub fn std_hash(treedef: &TreeDef) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    treedef.hash(&mut hasher);
    hasher.finish()
}

/// A value goes through bytes: its structure is read back, and with its leaves builds the value.
pub fn through_bytes<T: Pytree>(value: &T) -> T {
    let (leaves, treedef) = tree::flatten_any(value);
    tree::unflatten(&read_back(&treedef), leaves).unwrap()
}

/// Position, expectation and finding of the error that bytes give.
pub fn refused(bytes: &[u8]) -> (usize, String, String) {
    match TreeDef::from_bytes(bytes) {
        Err(TreeError::Bytes {
            position,
            expected,
            found,
        }) => (position, expected, found),
        other => panic!("{other:?} is not what bytes that are no treedef give"),
    }
}

/// The bytes of a list of one leaf after a dictionary with the key given: static values where they stand in trees.
pub fn keyed<K: StaticValue + Eq + std::hash::Hash>(key: K) -> TreeDef {
    tree::structure(&indexmap::IndexMap::<K, f32>::from_iter([(key, 1.0)]))
}
