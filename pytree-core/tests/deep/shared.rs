//! Values that are deep through shared nodes and references: each leads to the one before it, in a structure that is
//! flat.

use pytree_core::{
    Pytree, Ref, Shared, Tree, TreeDef, TreeError, depth, diff, edit, graph, nodes, tree,
};

use crate::deep::on_stack;

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

/// Returns the bytes of a structure: a list of links, each of which refers to the link before it.
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
    let expected = "typed values are nested deeper than 8192 nodes at [2049].before[0]: use a dynamic `Tree`, whose depth is not limited, or put the parts of a recursive type into a `Vec`; if the parts are `Ref` or `Shared`, put the innermost part first and use the functions of `graph`; or use the value in a thread with a larger stack, inside of `depth::with_stack`";
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
        message.starts_with("typed values are nested deeper than 8192 nodes at [2049].before[0]"),
        "{message}"
    );
    while links.pop().is_some() {}
}

#[derive(Pytree, Clone, Debug)]
struct Chained {
    weights: [f64; 16],
    name: String,
    pair: (f32, Option<i32>),
    table: std::collections::BTreeMap<String, f64>,
    size: Vec<u8>,
    next: Option<Ref<Chained>>,
}

fn parts(length: usize) -> Chained {
    let part = |level: usize, next| Chained {
        weights: [level as f64; 16],
        name: "name".into(),
        pair: (1.0, Some(1)),
        table: std::collections::BTreeMap::from([("key".to_owned(), 1.0)]),
        size: vec![1, 2],
        next,
    };
    (1..length).fold(part(0, None), |next, level| {
        part(level, Some(Ref::new(next)))
    })
}

#[test]
fn chain_of_200_references_is_walked_and_built() {
    // Less than the 2 MiB of a thread, as for types without references.
    for length in [100, 200] {
        on_stack(1450, || {
            let chain = parts(length);
            let (leaves, treedef) = graph::flatten_any(&chain);
            let built: Chained = graph::unflatten(&treedef, leaves).unwrap();
            assert_eq!(graph::structure(&built), treedef);
            let copy = nodes::copy(&built);
            let changed = edit::replace_at(&copy, "next.next.name", "other".to_owned()).unwrap();
            assert_eq!(diff(&chain, &changed).leaves().len(), 1);
            assert_eq!(tree::structure(&changed).num_leaves(), treedef.num_leaves());
        })
        .unwrap();
    }
}

#[derive(Pytree, Clone, Debug)]
struct Nested {
    value: f32,
    next: Option<Ref<Nested>>,
}

#[test]
fn list_that_holds_head_and_tail_is_built() {
    on_stack(2048, || {
        let tail = Ref::new(Nested {
            value: 0.0,
            next: None,
        });
        let head = (1..200).fold(tail.clone(), |next, level| {
            Ref::new(Nested {
                value: level as f32,
                next: Some(next),
            })
        });
        let list = (head.clone(), vec![tail, head]);
        let copy = nodes::copy(&list);
        assert!(copy.0.same(&copy.1[1]));
        assert_eq!(graph::structure(&copy), graph::structure(&list));
    })
    .unwrap();
}

#[test]
fn longer_chain_is_rejected_with_advice_that_helps() {
    let mut all = vec![Ref::new(Changing {
        number: 0.0,
        before: Vec::new(),
    })];
    for number in 1..1_000 {
        let before = vec![all[number - 1].clone()];
        all.push(Ref::new(Changing {
            number: number as f32,
            before,
        }));
    }
    let last = all[999].clone();
    let message = on_stack(2048, || graph::structure(&last)).unwrap_err();
    assert_eq!(
        message,
        "typed values are nested deeper than 256 nodes at before[0].before[0].before[0]…: use a dynamic `Tree`, whose depth is not limited, or put the parts of a recursive type into a `Vec`; if the parts are `Ref` or `Shared`, put the innermost part first and use the functions of `graph`; or use the value in a thread with a larger stack, inside of `depth::with_stack`"
    );
    // The advice: the innermost first.
    on_stack(2048, || {
        let copy = nodes::copy(&(all.clone(), last.clone()));
        assert!(copy.0[999].same(&copy.1));
        assert!(copy.0[999].get().before[0].same(&copy.0[998]));
        let mut copy = copy.0;
        while copy.pop().is_some() {}
    })
    .unwrap();
    drop(last);
    while all.pop().is_some() {}
}

#[test]
fn larger_stack_allows_longer_chains() {
    let on_large_stack = |length: usize, bytes: usize| {
        on_stack(65536, move || {
            let mut chain = parts(length);
            depth::with_stack(bytes, || {
                let (leaves, treedef) = graph::flatten_any(&chain);
                let built: Chained = graph::unflatten(&treedef, leaves).unwrap();
                assert_eq!(graph::structure(&built), treedef);
                let copy = nodes::copy(&built);
                let sum = graph::reduce(&copy.pair.0, 0.0, |sum, leaf: &f32| sum + leaf);
                assert_eq!(sum, 1.0);
                let floats = tree::any_leaves(&copy.pair).len();
                assert_eq!(floats, 2);
                assert_eq!(tree::structure(&chain).num_leaves(), treedef.num_leaves());
            });
            // Afterwards the limit is as before.
            assert!(std::panic::catch_unwind(|| graph::structure(&chain)).is_err());
            while let Some(next) = chain.next.take() {
                chain = next.get();
            }
        })
    };
    on_large_stack(1_000, 48 << 20).unwrap();
    // The stack that is allowed is not exceeded.
    let message = on_large_stack(3_000, 1 << 20).unwrap_err();
    assert!(
        message.contains("typed values are nested deeper than 256 nodes at next.next"),
        "{message}"
    );
}
