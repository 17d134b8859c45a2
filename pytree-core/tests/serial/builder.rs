//! Trees that are built node by node.

use pytree_core::shape::{self, DynamicShape, NodeKind};
use pytree_core::{StaticBox, Tree, TreeBuilder, TreeError, tree};

fn reason(builder: &mut TreeBuilder<i32>) -> String {
    match builder.finish() {
        Err(TreeError::Build {
            node: "tree",
            reason,
        }) => reason,
        other => panic!("{other:?} is not what a wrong tree gives"),
    }
}

#[test]
fn builder_creates_written_tree() {
    let mut builder = TreeBuilder::new();
    builder.begin_list().begin_tuple().leaf(1).leaf(2).end();
    builder.subtree(Tree::list(vec![Tree::leaf(3), Tree::leaf(4)]));
    builder.begin_dict();
    builder
        .key("z")
        .leaf(5)
        .key(3)
        .begin_list()
        .end()
        .key("a")
        .none()
        .end();
    builder
        .begin_ordered_dict()
        .key('z')
        .leaf(6)
        .key_of_any(StaticBox::new((1, 2)))
        .leaf(7)
        .end();
    builder
        .begin_named_tuple("Point", &["x", "y"])
        .leaf(8)
        .leaf(9)
        .end()
        .end();
    let tree = builder.finish().unwrap();
    assert_eq!(
        tree.to_string(),
        "[(1, 2), [3, 4], {3: [], 'a': None, 'z': 5}, OrderedDict({'z': 6, (1, 2): 7}), Point(x=8, y=9)]"
    );
    assert_eq!(tree.leaves(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(
        builder.leaf(1).finish().unwrap(),
        Tree::leaf(1),
        "the builder is empty again"
    );
}

#[test]
fn built_tree_equals_written_tree() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_dict()
        .key("b")
        .begin_list()
        .leaf(1)
        .end()
        .key("a")
        .leaf(2)
        .end();
    let built = builder.finish().unwrap();
    let written = Tree::dict(vec![
        ("b", Tree::list(vec![Tree::leaf(1)])),
        ("a", Tree::leaf(2)),
    ]);
    assert_eq!(built, written);
    assert_eq!(built.leaves(), [2, 1]);
    assert_eq!(
        built.treedef().to_bytes(),
        written.treedef().to_bytes(),
        "the order of insertion is the same"
    );
}

#[test]
fn struct_node_has_fields_and_statics() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_struct(
            "Linear",
            &[("weight", None)],
            vec![("size", StaticBox::new(3))],
        )
        .leaf(1)
        .end();
    assert_eq!(
        builder.finish().unwrap().to_string(),
        "Linear { weight: 1, size = 3 }"
    );
    builder.begin_shape(&shape::SOME, vec![]).leaf(1).end();
    assert_eq!(
        *builder.finish().unwrap().treedef(),
        tree::structure(&Some(1))
    );
}

#[test]
fn builder_without_root_is_rejected() {
    assert_eq!(
        TreeBuilder::<i32>::new().finish().unwrap_err().to_string(),
        "cannot build a tree: in the root: the tree has no root; add a leaf or begin a node"
    );
}

#[test]
fn nodes_that_did_not_end_are_counted() {
    let text = reason(TreeBuilder::new().begin_list().leaf(1).begin_tuple());
    assert_eq!(
        text,
        "in [1]: 2 nodes are still open; call `end` once for each node"
    );
}

#[test]
fn builder_rejects_second_root() {
    let expected = "in the root: the tree already has a root, and a tree has only one root; begin a list or a tuple first, and add both nodes to it";
    assert_eq!(reason(TreeBuilder::new().leaf(1).leaf(2)), expected);
    assert_eq!(
        reason(
            TreeBuilder::new()
                .begin_list()
                .end()
                .begin_list()
                .leaf(1)
                .end()
        ),
        expected
    );
    assert_eq!(
        reason(TreeBuilder::new().none().subtree(Tree::leaf(1))),
        expected
    );
}

#[test]
fn builder_rejects_superfluous_end() {
    assert_eq!(
        reason(TreeBuilder::new().leaf(1).end()),
        "in the root: `end` is called, but no node is open; call `end` once for each node"
    );
}

#[test]
fn wrong_counts_are_reported_with_paths() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_list()
        .leaf(0)
        .begin_dict()
        .key("a")
        .begin_named_tuple("Point", &["x", "y"])
        .leaf(1)
        .end();
    builder
        .end()
        .begin_struct("Linear", &[("weight", None)], vec![])
        .leaf(1)
        .leaf(2)
        .end();
    builder.begin_shape(&shape::NONE, vec![]).leaf(1).end();
    builder.begin_shape(&shape::SOME, vec![]).end();
    builder
        .begin_shape(&shape::LIST, vec![StaticBox::new(1)])
        .end()
        .end();
    assert_eq!(
        reason(&mut builder),
        "in [1]['a']: `Point` expects 2 children, found 1; \
         in [2]: `Linear` expects 1 children, found 2; \
         in [3]: `None` expects 0 children, found 1; \
         in [4]: `Some` expects 1 children, found 0; \
         in [5]: `list` expects 0 static values, found 1"
    );
}

#[test]
fn keys_belong_to_children_of_dictionaries() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_list()
        .key("a")
        .leaf(1)
        .begin_dict()
        .leaf(2)
        .end();
    builder.begin_dict().key("a").key("b").leaf(3).end();
    builder.begin_ordered_dict().key("c").end();
    builder
        .begin_dict()
        .key("d")
        .leaf(1)
        .key("e")
        .leaf(2)
        .key("d")
        .leaf(3)
        .end();
    builder
        .begin_ordered_dict()
        .key(1)
        .leaf(1)
        .key(1_u8)
        .leaf(2)
        .end()
        .end();
    assert_eq!(
        reason(&mut builder),
        "in the root: the key 'a' is not in a dictionary; \
         in [1]: a child of a dictionary has no key; call `key` before it; \
         in [2]: the key 'b' directly follows another key, which has no child; add a child after each key; \
         in [3]: `OrderedDict` expects 1 children, found 0; \
         in [4]: the key 'd' occurs twice; \
         in [5]: the key 1 occurs twice"
    );
}

#[test]
fn mistake_of_key_is_reported_once() {
    let mut builder = TreeBuilder::new();
    builder.begin_dict().leaf(1).key("a").leaf(2).leaf(3);
    builder.key("b").begin_list().leaf(4).end().end();
    let missing = "in the root: a child of a dictionary has no key; call `key` before it";
    assert_eq!(reason(&mut builder), format!("{missing}; {missing}"));

    let mut builder = TreeBuilder::new();
    builder.begin_dict().key("a").key("b").begin_list().key(0);
    builder
        .leaf(1)
        .end()
        .key("c")
        .leaf(2)
        .key("d")
        .key("e")
        .end();
    assert_eq!(
        reason(&mut builder),
        "in the root: the key 'b' directly follows another key, which has no child; add a child after each key; \
         in ['b']: the key 0 is not in a dictionary; \
         in the root: the key 'e' directly follows another key, which has no child; add a child after each key; \
         in the root: `dict` expects 3 children, found 2"
    );
}

#[test]
fn builder_rejects_special_shapes() {
    for shape in [
        &shape::LEAF,
        &shape::ABSENT,
        &shape::OBJECT,
        &shape::SHARED,
        &shape::ALIAS,
    ] {
        assert_eq!(
            reason(TreeBuilder::new().begin_shape(shape, vec![]).end()),
            format!(
                "in the root: `begin_shape` cannot begin a `{}`; use the method of the builder for it",
                shape.name
            )
        );
    }
    let text = reason(
        TreeBuilder::new()
            .begin_named_tuple("Twice", &["x", "x"])
            .leaf(1)
            .leaf(2)
            .end(),
    );
    assert_eq!(
        text,
        "in the root: cannot create the shape `Twice`: cannot build a struct: `Twice` has two fields with the name `x`; rename one of them"
    );
    let error = DynamicShape::new(NodeKind::Alias, "A", &[], &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot build a shape: all nodes of the kind Alias have the same shape; use the constant for it in the module `shape`"
    );
    let shape = DynamicShape::new(NodeKind::Struct, "Static", &[], &["s"]).unwrap();
    let text = reason(TreeBuilder::new().begin_shape(shape, vec![]).end());
    assert_eq!(
        text,
        "in the root: `Static` expects 1 static values, found 0"
    );
}

#[test]
fn many_mistakes_are_counted() {
    let mut builder = TreeBuilder::new();
    builder.begin_list();
    for _ in 0..23 {
        builder.key("a");
    }
    let text = reason(builder.end());
    assert_eq!(
        text.matches("the key 'a' is not in a dictionary").count(),
        20,
        "{text}"
    );
    assert!(text.ends_with("; and 3 more"), "{text}");
}
