//! A dynamic tree a million levels deep.

use std::hash::{DefaultHasher, Hash, Hasher};

use pytree_core::error::DifferenceKind;
use pytree_core::shape::{DynamicShape, NodeKind};
use pytree_core::{
    FieldKind, Filter, LeafKind, Partition, StaticBox, Tree, TreeBuilder, TreeDef, TreeError,
    graph, partition, tree,
};

use crate::deep::small;

const DEPTH: usize = 1_000_000;

/// Lists, dictionaries and structs in turn, a leaf at the bottom.
fn deep(bottom: f32) -> Tree<f32> {
    let fields = [("inner", Some(FieldKind::Param))];
    let shape = DynamicShape::new(NodeKind::Struct, "Level", &fields, &["size"]).unwrap();
    let mut builder = TreeBuilder::new();
    for level in 0..DEPTH {
        match level % 3 {
            0 => builder.begin_list(),
            1 => builder.begin_dict().key("k"),
            _ => builder.begin_shape(&shape, vec![StaticBox::new(1)]),
        };
    }
    builder.leaf(bottom);
    for _ in 0..DEPTH {
        builder.end();
    }
    builder.finish().unwrap()
}

fn hash(treedef: &TreeDef) -> u64 {
    let mut hasher = DefaultHasher::new();
    treedef.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn deep_tree_is_built_flattened_and_unflattened() {
    let tree = small("building", || deep(1.0));
    assert_eq!(
        (tree.treedef().num_nodes(), tree.leaves()),
        (DEPTH + 1, &[1.0][..])
    );
    let (leaves, treedef) = small("flattening", || tree::flatten::<f32, _>(&tree));
    assert_eq!(leaves, [1.0]);
    let (graph_leaves, graph_treedef) =
        small("flattening a graph", || graph::flatten::<f32, _>(&tree));
    assert_eq!((&graph_leaves, &graph_treedef), (&leaves, &treedef));
    assert_eq!(
        small("its leaves", || tree::leaves::<f32, _>(&tree).len()),
        1
    );
    let built: Tree<f32> = small("unflattening", || tree::unflatten(&treedef, leaves)).unwrap();
    assert_eq!(built, tree);
    let mut leaves = Vec::new();
    assert!(small(
        "matching",
        || pytree_core::match_structure::<f32, _>(&tree, &treedef, &mut leaves)
    ));
    small("cloning", || drop(tree.clone()));
    small("dropping", || drop((tree, built, treedef, graph_treedef)));
}

#[test]
fn deep_tree_is_compared() {
    let (left, right) = (deep(1.0), deep(1.0));
    assert!(small("equality", || left == right));
    assert_eq!(
        small("no differences", || left
            .treedef()
            .differences(right.treedef())),
        []
    );
    let mut builder = TreeBuilder::new();
    for level in 0..DEPTH - 1 {
        match level % 3 {
            0 => builder.begin_list(),
            1 => builder.begin_dict().key("k"),
            _ => builder.begin_struct(
                "Level",
                &[("inner", Some(FieldKind::Param))],
                vec![("size", StaticBox::new(1))],
            ),
        };
    }
    builder.begin_tuple().leaf(1.0_f32).end();
    for _ in 0..DEPTH - 1 {
        builder.end();
    }
    let other = small("building by names", || builder.finish()).unwrap();
    let differences = small("differences", || {
        left.treedef().differences(other.treedef())
    });
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].why, DifferenceKind::NodeType);
    assert_eq!(differences[0].path.keys().len(), DEPTH - 1);
    assert_eq!(
        (differences[0].left.as_str(), differences[0].right.as_str()),
        ("a list of 1", "a tuple of 1")
    );
    let mapped = small("mapping two", || {
        left.map2(&right, |left, right| left + right)
    })
    .unwrap();
    assert_eq!(mapped.leaves(), [2.0]);
    let error = small("mapping two that differ", || {
        left.map2(&other, |left, _| *left)
    })
    .unwrap_err();
    assert!(matches!(error, TreeError::Structure { .. }));
    let mut leaves = Vec::new();
    assert!(!small(
        "no match",
        || pytree_core::match_structure::<f32, _>(&other, left.treedef(), &mut leaves)
    ));
}

#[test]
fn deep_tree_is_shown_hashed_and_written() {
    let tree = deep(1.0);
    let text = small("showing", || tree.to_string());
    assert!(
        text.starts_with("[{'k': Level { inner: [{'k': Level { inner: ["),
        "{}",
        &text[..60]
    );
    assert_eq!(text.matches('[').count(), DEPTH.div_ceil(3));
    assert_eq!(
        small("showing the structure", || tree.treedef().to_string())
            .matches('*')
            .count(),
        1
    );
    assert!(
        small("debugging", || format!("{tree:?}")).contains("[1.0]"),
        "{}",
        text.len()
    );
    let bytes = small("writing", || tree.treedef().to_bytes());
    let read = small("reading", || TreeDef::from_bytes(&bytes)).unwrap();
    assert_eq!(read, *tree.treedef());
    assert_eq!(small("hashing", || hash(&read)), hash(tree.treedef()));
    assert_eq!(
        small("the content hash", || read.content_hash()),
        tree.treedef().content_hash()
    );
    for cut in [10, DEPTH, bytes.len() - 1] {
        let error = small("reading a part", || TreeDef::from_bytes(&bytes[..cut])).unwrap_err();
        assert!(matches!(error, TreeError::Bytes { .. }), "{error}");
    }
}

#[test]
fn deep_tree_is_mapped_walked_and_split() {
    let tree = deep(1.0);
    assert_eq!(
        small("mapping", || tree.map(|leaf| leaf + 1.0)).leaves(),
        [2.0]
    );
    assert_eq!(
        small("mapping as a value", || tree::map(&tree, |leaf: &f32| leaf
            + 1.0))
        .leaves(),
        [2.0]
    );
    let paths = small("paths", || tree.treedef().leaf_paths());
    assert_eq!(paths[0].keys().len(), DEPTH);
    let found = small("a leaf by its path", || tree.get(&paths[0]).copied());
    assert_eq!(found.unwrap(), 1.0);
    assert_eq!(
        small("kinds", || tree.treedef().leaf_kinds()),
        [Some(LeafKind::Param)]
    );
    assert_eq!(
        small("tuple members", || tree.treedef().is_tuple_member()),
        [false]
    );
    let by_path = Filter::path("[0]");
    let [part, rest]: [Partition<Tree<f32>, f32>; 2] = small("splitting", || {
        partition::split(&tree, [by_path, Filter::everything()])
    })
    .unwrap();
    assert_eq!((part.leaves(), rest.len()), (&[1.0][..], 0));
    let merged = small("merging", || partition::merge([part, rest])).unwrap();
    assert_eq!(merged, tree);
    let error = small("a wrong number of leaves", || {
        Tree::new(tree.treedef().clone(), Vec::<f32>::new())
    })
    .unwrap_err();
    let TreeError::LeafCount {
        expected: 1,
        found: 0,
        first_missing: Some(path),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(path, paths[0]);
}

#[test]
fn leaf_at_each_level_takes_linear_time() {
    let tree = small("building", || {
        let mut builder = TreeBuilder::new();
        for level in 0..DEPTH {
            builder.begin_tuple().leaf(level as f32);
        }
        for _ in 0..DEPTH {
            builder.end();
        }
        builder.finish().unwrap()
    });
    assert_eq!(tree.leaves().len(), DEPTH);
    let read = small("writing and reading", || {
        TreeDef::from_bytes(&tree.treedef().to_bytes())
    });
    assert_eq!(read.unwrap(), *tree.treedef());
    let leaves = vec![1.0_f32; DEPTH - 1];
    let error = small("too few leaves", || {
        Tree::new(tree.treedef().clone(), leaves)
    })
    .unwrap_err();
    let TreeError::LeafCount {
        first_missing: Some(path),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(path.keys().len(), DEPTH);
    assert_eq!(
        small("differences", || tree
            .treedef()
            .differences(&TreeDef::leaf()))
        .len(),
        1
    );
}

#[test]
fn sorting_nested_dictionaries_takes_linear_time() {
    const LEVELS: usize = 100_000;
    let tree = small("building", || {
        let mut builder = TreeBuilder::new();
        for level in 0..LEVELS {
            builder.begin_dict().key("z").leaf(level).key("y");
        }
        builder.leaf(LEVELS);
        for _ in 0..LEVELS {
            builder.end();
        }
        builder.finish().unwrap()
    });
    assert_eq!(tree.leaves()[..2], [LEVELS, LEVELS - 1]);
    assert_eq!(*tree.leaves().last().unwrap(), 0);
}
