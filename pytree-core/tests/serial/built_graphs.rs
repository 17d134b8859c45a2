//! Graphs that are built node by node.

use pytree_core::kind::BatchStat;
use pytree_core::shape::NodeKind;
use pytree_core::{
    CollectionId, LeafKind, Pytree, Ref, Shared, Tree, TreeBuilder, TreeDef, TreeError, WeakRef,
    WeakShared, graph,
};

fn reason(builder: &mut TreeBuilder<i32>) -> String {
    match builder.finish() {
        Err(TreeError::Build {
            node: "tree",
            reason,
        }) => reason,
        other => panic!("{other:?} is not what a wrong tree gives"),
    }
}

fn build<T: Pytree>(builder: &mut TreeBuilder<i32>) -> T {
    let (leaves, treedef) = builder.finish().unwrap().into_parts();
    let bytes = treedef.to_bytes();
    assert_eq!(TreeDef::from_bytes(&bytes).unwrap(), treedef);
    graph::unflatten(&treedef, leaves).unwrap()
}

#[test]
fn built_graph_equals_flattened_graph() {
    let node = Shared::new(1);
    let state = Ref::state::<BatchStat>(2);
    let value = (
        node.clone(),
        state.clone(),
        vec![node.clone()],
        (
            node.downgrade(),
            WeakShared::<i32>::new(),
            state.downgrade(),
        ),
        Ref::new(3),
        state,
    );
    let mut builder = TreeBuilder::new();
    builder.begin_tuple().begin_shared("node").leaf(1).end();
    let kind = LeafKind::State(CollectionId::of::<BatchStat>());
    builder
        .begin_reference_of(kind, "state")
        .leaf(2)
        .end()
        .begin_list()
        .again("node")
        .end()
        .begin_tuple()
        .weak("node")
        .weak_without_target()
        .weak("state")
        .end();
    builder.begin_reference("other").leaf(3).end();
    builder.again("state").end();
    let tree = builder.finish().unwrap();
    let (leaves, treedef) = graph::flatten::<i32, _>(&value);
    assert_eq!(*tree.treedef(), treedef);
    assert_eq!(tree.leaves(), leaves);
}

#[derive(Pytree, Clone, Debug)]
struct Node {
    value: i32,
    parent: WeakShared<Node>,
    children: Vec<Shared<Node>>,
}

const FIELDS: [(&str, Option<pytree_core::FieldKind>); 3] =
    [("value", None), ("parent", None), ("children", None)];

#[test]
fn weak_edge_leads_to_parent() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_shared("root")
        .begin_struct("Node", &FIELDS, vec![])
        .leaf(1)
        .weak_without_target()
        .begin_list()
        .begin_shared("child")
        .begin_struct("Node", &FIELDS, vec![])
        .leaf(2)
        .weak("root")
        .begin_list()
        .end()
        .end()
        .end()
        .end()
        .end()
        .end();
    let root: Shared<Node> = build(&mut builder);
    let child = &root.children[0];
    assert_eq!((root.value, child.value), (1, 2));
    assert!(child.parent.upgrade().unwrap().same(&root));
}

#[derive(Pytree, Clone, Debug)]
struct Cell {
    value: i32,
    next: Option<Ref<Cell>>,
}

#[test]
fn reference_may_contain_itself() {
    let fields = [("value", None), ("next", None)];
    let mut builder = TreeBuilder::new();
    builder
        .begin_reference("cell")
        .begin_struct("Cell", &fields, vec![])
        .leaf(1)
        .again("cell")
        .end()
        .end();
    let cell: Ref<Cell> = build(&mut builder);
    assert!(cell.get().next.unwrap().same(&cell));
}

#[test]
fn label_is_used_before_its_node() {
    let mut builder = TreeBuilder::new();
    builder.begin_tuple().weak("late").again("late");
    builder.begin_reference("late").leaf(1).end().end();
    let (weak, first, second): (WeakRef<i32>, Ref<i32>, Ref<i32>) = build(&mut builder);
    assert!(first.same(&second) && weak.upgrade().unwrap().same(&first));
    // A dictionary is sorted, so the place that was added last comes first.
    let mut builder = TreeBuilder::new();
    builder.begin_dict().key("b").begin_shared("node");
    builder.begin_list().leaf(7).leaf(8).end().end();
    builder.key("a").again("node").end();
    let tree = builder.finish().unwrap();
    let kinds: Vec<NodeKind> = tree.treedef().nodes().map(|node| node.kind()).collect();
    let leaf = NodeKind::Leaf;
    let expected = [
        NodeKind::Dict,
        NodeKind::Shared,
        NodeKind::List,
        leaf,
        leaf,
        NodeKind::Alias,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(tree.leaves(), [7, 8]);
}

#[test]
fn graph_in_subtree_keeps_its_own_nodes() {
    let mut inner = TreeBuilder::new();
    inner.begin_tuple().begin_shared("node").leaf(1).end();
    let inner = inner.again("node").end().finish().unwrap();
    let mut builder = TreeBuilder::new();
    builder.begin_tuple().subtree(inner.clone());
    builder.begin_shared("node").leaf(2).end().subtree(inner);
    builder.again("node").end();
    type Pair = (Shared<i32>, Shared<i32>);
    let (left, own, right, again): (Pair, Shared<i32>, Pair, Shared<i32>) = build(&mut builder);
    assert!(left.0.same(&left.1) && right.0.same(&right.1) && own.same(&again));
    assert!(!left.0.same(&right.0) && !own.same(&left.0));
}

#[test]
fn missing_label_is_reported_with_nearest() {
    let mut builder = TreeBuilder::new();
    builder.begin_list().begin_shared("encoder").leaf(1).end();
    builder.again("encodr").weak("nothing").end();
    assert_eq!(
        reason(&mut builder),
        "in [1]: no node has the label `encodr`; did you mean `encoder`?; \
         in [2]: no node has the label `nothing`; give a node this label with `begin_shared` or `begin_reference`"
    );
}

#[test]
fn hostile_graphs_are_reported() {
    let mut builder = TreeBuilder::new();
    builder.begin_list().begin_shared("a").leaf(1).end();
    builder.begin_shared("a").leaf(2).end().end();
    assert_eq!(
        reason(&mut builder),
        "in [1]: two nodes have the label `a`; call `again` to add the same node at another path"
    );
    builder.begin_shared("a").leaf(1).leaf(2).end();
    assert_eq!(
        reason(&mut builder),
        "in the root: `shared` expects 1 children, found 2"
    );
    builder.begin_reference("a").end();
    assert_eq!(
        reason(&mut builder),
        "in the root: `reference` expects 1 children, found 0"
    );
    let itself = "contains itself; use a weak edge or a reference";
    builder
        .begin_shared("a")
        .begin_list()
        .again("a")
        .end()
        .end();
    assert_eq!(
        reason(&mut builder),
        format!("in [0]: the shared node `a` {itself}")
    );
    // A cycle over two shared nodes, and one that begins with the other node.
    builder.begin_list().again("b").begin_shared("a");
    builder.begin_shared("b").again("a").end().end().end();
    assert_eq!(
        reason(&mut builder),
        format!("in [0]: the shared node `b` {itself}")
    );
    // A reference outside of the cycle does not help.
    builder
        .begin_reference("r")
        .begin_shared("a")
        .again("a")
        .end()
        .end();
    assert_eq!(
        reason(&mut builder),
        format!("in the root: the shared node `a` {itself}")
    );
    builder.again("a");
    assert!(reason(&mut builder).contains("no node has the label `a`"));
    assert_eq!(builder.leaf(1).finish().unwrap(), Tree::leaf(1));
}

#[test]
fn deep_and_wide_graphs_are_built() {
    let mut builder = TreeBuilder::new();
    builder.begin_list();
    for number in 0..2000 {
        builder.begin_shared(&number.to_string()).begin_tuple();
    }
    builder.leaf(1);
    for _ in 0..2000 {
        builder.end().end();
    }
    for number in 0..2000 {
        builder.again(&number.to_string());
    }
    let tree = builder.end().finish().unwrap();
    assert_eq!(tree.treedef().num_nodes(), 1 + 4000 + 1 + 2000);
    assert_eq!(tree.leaves(), [1]);
}
