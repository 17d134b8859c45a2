//! Recursive items: by name, by `Self`, with parameters, and through another item.

use std::collections::BTreeMap;

use pytree_core::{Module, Pytree, Static, tree};

#[derive(Module)]
struct Node {
    #[param]
    value: f32,
    children: Vec<Node>,
    next: Option<Box<Self>>,
    named: BTreeMap<String, Node>,
}

#[derive(Module)]
struct Tree<T> {
    #[param]
    value: T,
    children: Vec<Tree<T>>,
}

#[derive(Module)]
struct Trunk {
    #[param]
    weight: f32,
    #[module(recursive)]
    branches: Vec<Branch>,
}

#[derive(Module)]
struct Branch {
    trunk: Option<Box<Trunk>>,
}

#[derive(Pytree)]
enum List {
    End,
    More(f32, Box<List>),
}

#[derive(Static, Clone)]
struct Setting {
    inner: Vec<Setting>,
}

#[test]
fn items_hold_themselves() {
    let leaf = || Node {
        value: 1.0,
        children: Vec::new(),
        next: None,
        named: BTreeMap::new(),
    };
    let node = Node {
        children: vec![leaf()],
        next: Some(Box::new(leaf())),
        ..leaf()
    };
    assert_eq!(tree::leaves::<f32, _>(&node).len(), 3);
    let tree = Tree {
        value: 1.0_f64,
        children: Vec::new(),
    };
    assert_eq!(tree::leaves::<f64, _>(&tree).len(), 1);
    let trunk = Trunk {
        weight: 1.0,
        branches: vec![Branch { trunk: None }],
    };
    assert_eq!(tree::leaves::<f32, _>(&trunk).len(), 1);
    let list = List::More(1.0, Box::new(List::End));
    assert_eq!(tree::leaves::<f32, _>(&list).len(), 1);
    let _ = Setting { inner: Vec::new() };
}
