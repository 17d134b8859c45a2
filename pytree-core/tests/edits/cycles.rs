//! Models with parent pointers, and references that contain themselves.

use pytree_core::{
    AnyLeaf, Filter, Pytree, Ref, Shared, Tree, WeakRef, WeakShared, at, diff, edit, tree,
};

#[derive(Pytree, Debug)]
struct Node {
    value: f32,
    parent: WeakShared<Node>,
    children: Vec<Shared<Node>>,
}

fn root(values: [f32; 3]) -> Shared<Node> {
    Shared::new_cyclic(|root: &WeakShared<Node>| Node {
        value: values[0],
        parent: WeakShared::new(),
        children: vec![
            Shared::new(Node {
                value: values[1],
                parent: root.clone(),
                children: Vec::new(),
            }),
            Shared::new(Node {
                value: values[2],
                parent: root.clone(),
                children: Vec::new(),
            }),
        ],
    })
}

fn values(root: &Shared<Node>) -> Vec<f32> {
    let children = root.children.iter().map(|child| child.value);
    std::iter::once(root.value).chain(children).collect()
}

/// Returns whether the parent of each child is the root.
fn is_whole(root: &Shared<Node>) -> bool {
    let parents = root.children.iter().map(|child| child.parent.upgrade());
    parents
        .into_iter()
        .all(|parent| parent.is_some_and(|parent| parent.same(root)))
}

#[test]
fn leaf_below_a_parent_pointer_is_replaced() {
    let model = root([1.0, 2.0, 3.0]);
    let changed = edit::replace_at(&model, "children[1].value", 9.0_f32).unwrap();
    assert_eq!(values(&changed), [1.0, 2.0, 9.0]);
    assert!(is_whole(&changed));
    assert_eq!(values(&model), [1.0, 2.0, 3.0]);
    // A path may lead through the parent.
    let changed = edit::replace_at(&model, "children[0].parent.value", 9.0_f32).unwrap();
    assert_eq!(values(&changed), [9.0, 2.0, 3.0]);
    assert!(is_whole(&changed));
}

#[test]
fn weak_edge_is_replaced() {
    let model = root([1.0, 2.0, 3.0]);
    let path = "children[0].parent";
    let changed = edit::replace_at(&model, path, WeakShared::<Node>::new()).unwrap();
    assert!(changed.children[0].parent.upgrade().is_none());
    assert!(changed.children[1].parent.upgrade().unwrap().same(&changed));
    let sibling = model.children[1].downgrade();
    let changed = edit::replace_at(&model, path, sibling).unwrap();
    let parent = changed.children[0].parent.upgrade().unwrap();
    assert!(parent.same(&changed.children[1]));
}

#[test]
fn weak_edges_lead_to_the_replacement_of_their_target() {
    type Model = (Vec<WeakShared<Node>>, Shared<Node>, WeakShared<Node>);
    let target = root([1.0, 2.0, 3.0]);
    let edge = target.downgrade();
    let model: Model = (vec![edge.clone()], target, edge);
    let changed = edit::replace_at(&model, "[1]", root([4.0, 5.0, 6.0])).unwrap();
    assert_eq!(values(&changed.1), [4.0, 5.0, 6.0]);
    assert!(is_whole(&changed.1));
    for edge in [&changed.0[0], &changed.2] {
        assert!(edge.upgrade().unwrap().same(&changed.1));
    }
    // The content alone leaves the node in its places.
    let content = Node {
        value: 7.0,
        parent: WeakShared::new(),
        children: Vec::new(),
    };
    let changed = edit::replace_at(&model, "[1]", content).unwrap();
    assert_eq!(values(&changed.1), [7.0]);
    assert!(changed.0[0].upgrade().unwrap().same(&changed.1));
}

#[test]
fn edge_to_a_removed_node_has_no_target() {
    let inner = Shared::new(1.5_f32);
    let model = (inner.downgrade(), vec![inner]);
    let changed = edit::replace_at(&model, "[1]", Vec::<Shared<f32>>::new()).unwrap();
    assert!(changed.0.upgrade().is_none());
}

#[test]
fn selector_finds_and_replaces_below_a_parent_pointer() {
    let model = root([1.0, 2.0, 3.0]);
    let value = at(|root: &Shared<Node>| &root.children[1].value);
    assert_eq!(value.path(&model).unwrap().to_string(), "children[1].value");
    let changed = value.replace(&model, 9.0).unwrap();
    assert_eq!(values(&changed), [1.0, 2.0, 9.0]);
    assert!(is_whole(&changed));
    let child = at(|root: &Shared<Node>| &root.children[0]);
    assert_eq!(child.path(&model).unwrap().to_string(), "children[0]");
    let filter = child.filter(&model).unwrap();
    assert_eq!(format!("{filter:?}"), "(nothing | path(children[0]))");
    let children = at(|root: &Shared<Node>| &root.children);
    assert_eq!(children.path(&model).unwrap().to_string(), "children");
    assert_eq!(
        values(&children.replace(&model, Vec::new()).unwrap()),
        [1.0]
    );
}

#[derive(Pytree, Clone, Debug)]
struct Ring {
    value: f32,
    next: Option<Ref<Ring>>,
}

fn ring() -> Ref<Ring> {
    let last = Ref::new(Ring {
        value: 2.0,
        next: None,
    });
    let first = Ref::new(Ring {
        value: 1.0,
        next: Some(last.clone()),
    });
    last.modify(|ring| ring.next = Some(first.clone()));
    first
}

#[test]
fn ring_of_references_is_edited_and_compared() {
    let first = ring();
    let changed = edit::replace_at(&first, "next.value", 9.0_f32).unwrap();
    assert_eq!(changed.get().next.unwrap().get().value, 9.0);
    // Once around.
    let path = "next.next.next.value";
    let changed = edit::replace_at(&first, path, 9.0_f32).unwrap();
    let second = changed.get().next.unwrap();
    assert_eq!((changed.get().value, second.get().value), (1.0, 9.0));
    assert!(second.get().next.unwrap().same(&changed));
    let found = diff(&first, &changed);
    assert_eq!(found.compared(), 2);
    assert_eq!(found.leaves()[0].path.to_string(), "next.value");
    assert!(diff(&first, &ring()).is_empty());
}

#[test]
fn models_with_parent_pointers_are_compared() {
    let model = root([1.0, 2.0, 3.0]);
    assert!(diff(&model, &root([1.0, 2.0, 3.0])).is_empty());
    let found = diff(&model, &root([1.0, 2.0, 4.0]));
    assert_eq!(found.compared(), 3);
    assert_eq!(found.leaves()[0].path.to_string(), "children[1].value");
    assert!(found.structural().is_empty());
    // An edge to another node is a difference in structure.
    let edge = model.children[1].downgrade();
    let other = edit::replace_at(&model, "children[0].parent", edge).unwrap();
    let found = diff(&model, &other);
    assert!(found.leaves().is_empty() && found.structural().len() == 1);
}

#[test]
fn misspelt_path_behind_a_later_place_is_corrected() {
    let table = Shared::new(super::linear(1.0));
    let model = (table.clone(), table);
    let mistake = edit::replace_at(&model, "[1].wieght", 1.0_f32).unwrap_err();
    assert_eq!(
        mistake.to_string(),
        "no node or leaf at [1].wieght; did you mean `[1].weight`?"
    );
}

#[test]
fn dynamic_tree_takes_no_cycle_but_references() {
    let model: (Tree<AnyLeaf>, f32) = (tree!([1, 2]), 3.0);
    let mistake = edit::replace_at(&model, "[0][1]", root([1.0, 2.0, 3.0])).unwrap_err();
    assert!(
        mistake
            .to_string()
            .contains("cannot build a dynamic tree: the value contains itself, or has a weak edge"),
        "{mistake}"
    );
    let changed = edit::replace_at(&model, "[0][1]", Ref::new(1.5_f32)).unwrap();
    assert_eq!(changed.0.to_string(), "[1, 1.5]");
}

#[test]
fn weak_handle_of_a_reference_stays() {
    let cell = Ref::new(1.0_f32);
    let model: (WeakRef<f32>, Ref<f32>) = (cell.downgrade(), cell);
    let changed = edit::replace_at(&model, "[1]", 5.0_f32).unwrap();
    assert_eq!(changed.1.get(), 5.0);
    assert!(changed.0.upgrade().unwrap().same(&changed.1));
    assert!(
        Filter::path("[1]")
            .check(&pytree_core::graph::structure(&model))
            .is_ok()
    );
}
