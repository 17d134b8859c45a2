//! Cycles: through a reference, and closed by weak edges.

use pytree_core::{Pytree, Ref, Shared, Tree, TreeDef, WeakRef, WeakShared, graph, tree};

#[derive(Pytree, Clone, Debug)]
enum Item {
    Number(i32),
    List(Ref<Vec<Item>>),
}

/// `x = [1, 2]; x.append(x)`.
fn list() -> Ref<Vec<Item>> {
    let list = Ref::new(vec![Item::Number(1), Item::Number(2)]);
    list.update(|mut items| {
        items.push(Item::List(list.clone()));
        items
    });
    list
}

fn panics<T>(function: impl FnOnce() -> T) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function));
    *outcome
        .err()
        .expect("it panics")
        .downcast::<String>()
        .unwrap()
}

#[test]
fn cyclic_list_survives_round_trip() {
    let list = list();
    let (leaves, treedef) = graph::flatten::<i32, _>(&list);
    assert_eq!(leaves, [1, 2]);
    assert_eq!(
        treedef.to_string(),
        "PyTreeDef([Item::Number(*), Item::Number(*), Item::List(alias 0)])"
    );
    let back: Ref<Vec<Item>> = graph::unflatten(&treedef, vec![3_i32, 4]).unwrap();
    let items = back.get();
    assert!(matches!(&items[2], Item::List(inside) if inside.same(&back)));
    assert_eq!(
        format!("{back:?}"),
        "Ref([Number(3), Number(4), List(Ref(...))])"
    );
}

#[test]
fn tree_functions_reject_cycle_with_path() {
    let holder = ("before", list());
    assert_eq!(
        panics(|| tree::structure(&holder)),
        "cannot visit a value as a tree: [1][2].0 leads back to [1], and trees have no cycles; use a function of `graph`, such as `graph::flatten_any`, which keeps the cycle"
    );
    assert!(panics(|| tree::flatten::<i32, _>(&list())).contains("[2].0 leads back to the root"));
}

#[derive(Pytree, Debug)]
struct Node {
    parent: WeakShared<Node>,
    value: f32,
    children: Vec<Shared<Node>>,
}

fn root() -> Shared<Node> {
    Shared::new_cyclic(|root: &WeakShared<Node>| Node {
        parent: WeakShared::new(),
        value: 1.0,
        children: [2.0, 3.0]
            .map(|value| {
                Shared::new(Node {
                    parent: root.clone(),
                    value,
                    children: Vec::new(),
                })
            })
            .into(),
    })
}

#[test]
fn weak_edges_lead_back_after_unflattening() {
    let before = root();
    let (leaves, treedef) = graph::flatten::<f32, _>(&before);
    assert_eq!(leaves, [1.0, 2.0, 3.0]);
    assert_eq!(
        treedef.to_string(),
        "PyTreeDef(Node { parent: alias of nothing, value: *, children: [Node { parent: alias 0, value: *, children: [] }, Node { parent: alias 0, value: *, children: [] }] })"
    );
    let after: Shared<Node> = graph::unflatten(&treedef, vec![4.0_f32, 5.0, 6.0]).unwrap();
    for child in &after.children {
        assert!(child.parent.upgrade().unwrap().same(&after));
    }
    assert!(after.parent.upgrade().is_none());
    assert_eq!(graph::structure(&after), treedef);
    let mapped = graph::map(&after, |value: &f32| value * 2.0);
    assert_eq!(mapped.children[1].parent.upgrade().unwrap().value, 8.0);
    drop(mapped);
}

#[test]
fn weak_edge_may_precede_its_node() {
    let node = Shared::new(5_i32);
    let value = (node.downgrade(), node.clone(), node.downgrade());
    let (leaves, treedef) = graph::flatten::<i32, _>(&value);
    assert_eq!(treedef.to_string(), "PyTreeDef((alias 0, *, alias 0))");
    let (before, node, after): (WeakShared<i32>, Shared<i32>, WeakShared<i32>) =
        graph::unflatten(&treedef, leaves).unwrap();
    assert!(before.upgrade().unwrap().same(&node) && after.upgrade().unwrap().same(&node));

    let reference = Ref::param(5_i32);
    let value = (reference.downgrade(), reference);
    let (leaves, treedef) = graph::flatten::<i32, _>(&value);
    let (weak, reference): (WeakRef<i32>, Ref<i32>) = graph::unflatten(&treedef, leaves).unwrap();
    assert!(weak.upgrade().unwrap().same(&reference));
    assert!(reference.kind().is_some());
}

#[test]
fn weak_edge_out_of_value_loses_target() {
    let root = root();
    let (leaves, treedef) = graph::flatten::<f32, _>(&root.children[0]);
    let child: Shared<Node> = graph::unflatten(&treedef, leaves).unwrap();
    assert!(child.parent.upgrade().is_none());
    assert_eq!(
        graph::structure(&child),
        treedef,
        "so it has the same structure"
    );
}

#[test]
fn trees_have_no_weak_edges() {
    let text = "cannot visit a value as a tree: the weak edge at children[0].parent leads to another node, and trees have no weak edges; use a function of `graph`, such as `graph::flatten_any`, which keeps the edge";
    assert_eq!(panics(|| tree::structure(&root())), text);
    assert!(
        panics(|| tree::map(&root(), |x: &f32| *x)).contains("the weak edge at children[0].parent")
    );
    assert!(panics(|| tree::leaves::<f32, _>(&root()).len()).contains("children[0].parent"));
    let alone = Shared::new(Node {
        parent: WeakShared::new(),
        value: 1.0,
        children: Vec::new(),
    });
    assert_eq!(
        tree::leaves::<f32, _>(&alone),
        [&1.0],
        "one that leads to nothing is nothing"
    );
    assert_eq!(tree::structure(&alone).num_leaves(), 1);
    assert_eq!(tree::map(&alone, |x: &f32| x + 1.0).value, 2.0);
}

#[test]
fn structures_with_cycles_are_written_and_read() {
    for treedef in [
        graph::structure(&list()),
        graph::structure(&root()),
        graph::structure(&(Ref::param(1), Ref::new(2))),
    ] {
        let read = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
        assert_eq!(read, treedef);
        assert_eq!(read.content_hash(), treedef.content_hash());
    }
    let read = TreeDef::from_bytes(&graph::structure(&root()).to_bytes()).unwrap();
    let back: Shared<Node> = graph::unflatten(&read, vec![1.0_f32, 2.0, 3.0]).unwrap();
    assert!(back.children[1].parent.upgrade().unwrap().same(&back));
    let read = TreeDef::from_bytes(&graph::structure(&list()).to_bytes()).unwrap();
    let back: Ref<Vec<Item>> = graph::unflatten(&read, vec![1, 2]).unwrap();
    assert!(matches!(&back.get()[2], Item::List(inside) if inside.same(&back)));
}

#[test]
fn weak_edge_to_missing_node_is_rejected() {
    let node = Shared::new(1_i32);
    let whole = graph::structure(&(node.downgrade(), node.clone()));
    let bytes = whole.to_bytes();
    // One of the bytes is the index that the alias refers to. Change each byte, so that some alias refers to another
    // node.
    let mut broken = 0;
    for at in 5..bytes.len() {
        for value in 0..=20 {
            let mut other = bytes.clone();
            other[at] = value;
            if let Ok(read) = TreeDef::from_bytes(&other) {
                let leaves = vec![1_i32; read.num_leaves()];
                let built: Result<(WeakShared<i32>, Shared<i32>), _> =
                    graph::unflatten(&read, leaves);
                drop(built);
            } else {
                broken += 1;
            }
        }
    }
    assert!(broken > 50);
    assert_eq!(
        whole.children()[0].to_string(),
        "PyTreeDef(alias of nothing)"
    );
}

#[test]
fn subtree_keeps_inner_aliases() {
    let (outer, node) = (Shared::new(0_i32), Shared::new(1_i32));
    let value = (outer.clone(), vec![node.clone(), node.clone(), outer]);
    let treedef = graph::structure(&value);
    assert_eq!(treedef.to_string(), "PyTreeDef((*, [*, alias 1, alias 0]))");
    assert_eq!(
        treedef.children()[1].to_string(),
        "PyTreeDef([*, alias 0, alias of nothing])"
    );
    let both = TreeDef::tuple(vec![treedef.clone(), treedef]);
    assert_eq!(
        both.to_string(),
        "PyTreeDef(((*, [*, alias 1, alias 0]), (*, [*, alias 3, alias 2])))"
    );
}

#[test]
fn dynamic_tree_numbers_its_own_aliases() {
    let node = Shared::new(1_i32);
    let dynamic = || graph::map_to(&(node.clone(), node.clone()), |leaf: &i32| *leaf);
    let value = (
        node.clone(),
        dynamic(),
        node.clone(),
        dynamic(),
        Shared::new(7_i32),
    );
    let (leaves, treedef) = graph::flatten::<i32, _>(&value);
    assert_eq!(
        treedef.to_string(),
        "PyTreeDef((*, (*, alias 1), alias 0, (*, alias 2), *))"
    );
    assert!(pytree_core::match_structure::<i32, _>(
        &value,
        &treedef,
        &mut Vec::new()
    ));
    let back: (Shared<i32>, Tree<i32>, Shared<i32>, Tree<i32>, Shared<i32>) =
        graph::unflatten(&treedef, leaves).unwrap();
    assert!(back.0.same(&back.2));
    assert_eq!((&back.1, &back.3, *back.4), (&value.1, &value.3, 7));
}
