//! A pytree, a module, and the registry of a module, which maps each field to its kind.
//!
//! Run it with `cargo run --example counter`. It prints:
//!
//!     leaves:  [1, 2, '123', 1, 4, 5]
//!     treedef: PyTreeDef([(*, *), *, {'1': *, '2': [*, *]}])
//!     value:   [(1, 2), '123', {'1': 1, '2': [4, 5]}]
//!     Counter :: count=1  bias=0.0
//!     leaves:  [1, 0.0]
//!     treedef: PyTreeDef(Counter { count: *, bias: * })
//!     Counter :: count=1  bias=0.0
//!     count is State
//!     bias is Param
//!     left is Module
//!     right is Module
//!     unit is Static
//!     left.count = 1 (State)
//!     left.bias = 0.0 (Param)
//!     right.count = 0 (State)
//!     right.bias = 0.0 (Param)
//!     treedef: PyTreeDef(Pair { left: Counter { count: *, bias: * }, right: Counter { count: *, bias: * }, unit = 'steps' })
//!     cannot unflatten: expected 4 leaves, found 3 (the first missing leaf is right.bias); pass one leaf for each `*` of the treedef

use std::fmt;

use pytree::ModuleType;
use pytree::prelude::*;
use pytree::{AnyLeaf, TreeError};

/// A module: `count` is a state, `bias` is trained. A field without a kind would not compile.
#[derive(Module, Clone, Debug)]
struct Counter {
    #[state]
    count: i32,
    #[param]
    bias: f64,
}

impl Counter {
    fn new() -> Self {
        Self {
            count: 0,
            bias: 0.0,
        }
    }

    fn step(&mut self) {
        self.count += 1;
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter :: count={}  bias={:?}", self.count, self.bias)
    }
}

/// Modules inside of a module need no attribute; `unit` is part of the structure.
#[derive(Module, Clone, Debug)]
struct Pair {
    left: Counter,
    right: Counter,
    #[r#static]
    unit: String,
}

/// Returns leaves as a list. A list of leaves is a tree, and trees implement `Display`.
fn list(leaves: &[AnyLeaf]) -> Tree {
    Tree::list(leaves.iter().cloned().map(Tree::leaf).collect())
}

fn main() -> Result<(), TreeError> {
    // A pytree is a container of leaves and pytrees. A pytree consists of its leaves and its structure, the treedef.
    let value = tree!([(1, 2), "123", {"1": 1, "2": [4, 5]}]);
    let (leaves, treedef) = tree::flatten_any(&value);
    println!("leaves:  {}", list(&leaves));
    println!("treedef: {treedef}");
    let value: Tree = tree::unflatten(&treedef, leaves)?;
    println!("value:   {value}");

    // A module is a pytree: it can be flattened and unflattened.
    let mut counter = Counter::new();
    counter.step();
    println!("{counter}");
    let (leaves, treedef) = tree::flatten_any(&counter);
    println!("leaves:  {}", list(&leaves));
    println!("treedef: {treedef}");
    let counter: Counter = tree::unflatten(&treedef, leaves)?;
    println!("{counter}");

    // The registry maps the names of the fields to their kinds. The registry is a constant of the type.
    for (name, kind) in Counter::REGISTRY {
        println!("{name} is {kind}");
    }

    // A field without an attribute is a sub-module. The leaves of a sub-module have the kinds that the sub-module
    // defines.
    for (name, kind) in Pair::REGISTRY {
        println!("{name} is {kind}");
    }
    let pair = Pair {
        left: counter,
        right: Counter::new(),
        unit: "steps".to_owned(),
    };
    let (mut leaves, treedef) = tree::flatten_any(&pair);
    let kinds = treedef.leaf_kinds();
    for ((path, kind), leaf) in treedef.leaf_paths().iter().zip(kinds).zip(&leaves) {
        let kind = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
        println!("{path} = {leaf:?}{kind}");
    }
    println!("treedef: {treedef}");

    // The error for a mismatch names the key path.
    leaves.pop();
    match tree::unflatten::<Pair, AnyLeaf>(&treedef, leaves) {
        Ok(pair) => println!("{}", pair.unit),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
