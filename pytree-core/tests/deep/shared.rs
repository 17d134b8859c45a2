//! Values that are deep through shared nodes and references: each leads to the one before it, in a structure that is
//! flat.

use pytree_core::{Pytree, Ref, Shared, Tree, TreeDef, TreeError, graph};

use crate::on_stack;

#[derive(Pytree, Clone, Debug)]
struct Link {
    number: f32,
    before: Vec<Shared<Link>>,
}

#[derive(Pytree, Clone, Debug)]
struct Changing {
    number: f32,
    before: Vec<Ref<Changing>>,
}

/// The bytes of the structure of a list of links, each of which leads to the one before it.
fn links(length: usize) -> Vec<u8> {
    let mut links: Vec<Shared<Link>> = Vec::new();
    for at in 0..length {
        let before = links.last().cloned().into_iter().collect();
        let number = at as f32;
        links.push(Shared::new(Link { number, before }));
    }
    let bytes = graph::structure(&links).to_bytes();
    // The last holds the one before it: it is dropped first, when that is held here, too.
    while links.pop().is_some() {}
    bytes
}

fn changing(length: usize) -> Vec<u8> {
    let mut links: Vec<Ref<Changing>> = Vec::new();
    for at in 0..length {
        let before = links.last().cloned().into_iter().collect();
        let number = at as f32;
        links.push(Ref::new(Changing { number, before }));
    }
    let bytes = graph::structure(&links).to_bytes();
    while links.pop().is_some() {}
    bytes
}

/// Builds a value and drops it, in the stack that a thread has.
fn built<T: Pytree>(bytes: &[u8]) -> Result<(), String> {
    let treedef = TreeDef::from_bytes(bytes).unwrap();
    let leaves = vec![1.0_f32; treedef.num_leaves()];
    let build = || graph::unflatten::<T, f32>(&treedef, leaves).map(drop);
    on_stack(2048, build)
        .unwrap()
        .map_err(|error: TreeError| error.to_string())
}

#[test]
fn value_too_deep_to_drop_is_rejected() {
    built::<Vec<Shared<Link>>>(&links(1_000)).unwrap();
    built::<Vec<Ref<Changing>>>(&changing(1_000)).unwrap();
    let expected = "typed values nest deeper than 8192 nodes at [2049].before[0]: put the parts of a recursive type into a `Vec`, or use a dynamic `Tree`, whose depth is not limited";
    let length = 100_000;
    assert_eq!(
        built::<Vec<Shared<Link>>>(&links(length)).unwrap_err(),
        expected
    );
    assert_eq!(
        built::<Vec<Ref<Changing>>>(&changing(length)).unwrap_err(),
        expected
    );
}

#[test]
fn deepest_buildable_value_is_dropped() {
    // A link is a handle, a struct, a list and an alias: four nodes.
    let deepest = 8192 / 4;
    built::<Vec<Shared<Link>>>(&links(deepest + 1)).unwrap();
    built::<Vec<Shared<Link>>>(&links(deepest + 2)).unwrap_err();
    built::<Vec<Ref<Changing>>>(&changing(deepest + 1)).unwrap();
}

#[test]
fn dynamic_tree_of_links_has_no_limit() {
    let treedef = TreeDef::from_bytes(&links(10_000)).unwrap();
    let leaves = vec![1.0_f32; treedef.num_leaves()];
    let tree = Tree::new(treedef, leaves).unwrap();
    assert_eq!(tree.map(|leaf| leaf * 2.0).leaves().len(), 10_000);
}

#[test]
fn too_deep_value_is_reported_on_rebuild() {
    let mut links = vec![Ref::new(Changing {
        number: 0.0,
        before: Vec::new(),
    })];
    for at in 1..3_000 {
        let before = vec![links[at - 1].clone()];
        let number = at as f32;
        links.push(Ref::new(Changing { number, before }));
    }
    let message = on_stack(2048, || graph::map(&links, |leaf: &f32| leaf + 1.0)).unwrap_err();
    assert!(
        message.starts_with("typed values nest deeper than 8192 nodes at [2049].before[0]"),
        "{message}"
    );
    while links.pop().is_some() {}
}
