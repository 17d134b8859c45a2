//! Values put at paths.

use std::collections::BTreeMap;

use pytree_core::{AnyLeaf, Pytree, Shared, Tree, TreeError, diff, edit, tree};

use super::*;

#[test]
fn selectors_replace_at_every_level() {
    let model = mlp();
    let one = edit::replace_at(&model, "layers[0].weight", 5.0_f32).unwrap();
    assert_eq!(one.layers[0].weight, 5.0);
    assert_eq!(one.layers[1], model.layers[1]);
    let node = edit::replace_at(&model, "layers[1]", linear(6.0)).unwrap();
    assert_eq!(node.layers, [linear(1.0), linear(6.0)]);
    let empty = edit::replace_at(&model, "layers", Vec::<Linear>::new()).unwrap();
    assert_eq!((empty.layers.len(), empty.output), (0, linear(3.0)));
    assert_eq!(edit::replace_at(&model, "", node.clone()).unwrap(), node);
}

#[test]
fn option_is_replaced_whole_or_by_content() {
    let model = mlp();
    let inside = edit::replace_at(&model, "output.bias", 8.0_f32).unwrap();
    assert_eq!(inside.output.bias, Some(8.0));
    let none = edit::replace_at(&model, "output.bias", None::<f32>).unwrap();
    assert_eq!(none.output.bias, None);
    let back = edit::replace_at(&none, "output.bias", Some(8.0_f32)).unwrap();
    assert_eq!(back, inside);
    assert_eq!(
        edit::replace_at(&none, "output.bias", 8.0_f32).unwrap(),
        inside
    );
    let error = edit::replace_at(&none, "output.bias", true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot put a `bool` at output.bias: at output.bias: expected a leaf of type f32, found bool; pass a value of the type that the model has at this path"
    );
}

#[test]
fn shared_node_is_replaced_by_any_path() {
    let model = tied();
    for path in ["embed", "inner[1]"] {
        let whole = edit::replace_at(&model, path, Shared::new(linear(7.0))).unwrap();
        let inside = edit::replace_at(&model, path, linear(7.0)).unwrap();
        for changed in [whole, inside] {
            assert!(changed.embed.same(&changed.inner[1]), "{path}");
            assert_eq!(*changed.embed, linear(7.0));
            assert_eq!(*changed.inner[0], linear(2.0));
            assert_eq!(changed.scale, 9.0);
        }
    }
    for path in ["embed.bias", "inner[1].bias"] {
        let changed = edit::replace_at(&model, path, None::<f32>).unwrap();
        assert_eq!(changed.inner[1].bias, None);
        assert!(changed.embed.same(&changed.inner[1]));
    }
    let last = edit::replace_at(&model, "scale", 1.0_f32).unwrap();
    assert_eq!((last.scale, *last.embed == linear(1.0)), (1.0, true));
}

#[test]
fn maps_are_replaced_by_key() {
    let model: BTreeMap<&str, Linear> = [("a", linear(1.0)), ("b", linear(2.0))].into();
    let changed = edit::replace_at(&model, "['b']", linear(5.0)).unwrap();
    assert_eq!(changed["b"], linear(5.0));
    assert_eq!(changed["a"], linear(1.0));
    assert_eq!(
        edit::replace_at(&model, "['c'].weight", 5.0_f32)
            .unwrap_err()
            .to_string(),
        "no node or leaf at ['c'].weight; did you mean `['a'].weight`?"
    );
}

#[test]
fn dynamic_tree_accepts_replacement_at_any_depth() {
    let tree = tree!([(1, 2), { "a": 3, "b": [4] }, 5]);
    let leaf = edit::replace_at(&tree, "[0][1]", "text").unwrap();
    assert_eq!(leaf.to_string(), "[(1, 'text'), {'a': 3, 'b': [4]}, 5]");
    let node = edit::replace_at(&tree, "[1]['a']", tree!({"x": (7, 8)})).unwrap();
    assert_eq!(
        node.to_string(),
        "[(1, 2), {'a': {'x': (7, 8)}, 'b': [4]}, 5]"
    );
    let shorter = edit::replace_at(&node, "[1]", 6_i32).unwrap();
    assert_eq!(shorter.to_string(), "[(1, 2), 6, 5]");
    assert_eq!(shorter.treedef(), tree!([(1, 2), 6, 5]).treedef());
    let root = edit::replace_at(&tree, "", vec![1.0_f32]).unwrap();
    assert_eq!(root.to_string(), "[1.0]");
    // What is after the place keeps its own keys.
    let keys = edit::replace_at(
        &tree!([{ "a": 1, "b": 2 }, { "c": 3 }]),
        "[0]",
        tree!({"z": 0}),
    )
    .unwrap();
    assert!(diff(&keys, &tree!([{ "z": 0 }, { "c": 3 }])).is_empty());
}

#[test]
fn replacement_reaches_into_dynamic_tree_of_model() {
    type Model = (Linear, Tree<AnyLeaf>, f32);
    let model: Model = (linear(1.0), tree!([1, (2, 3)]), 4.0);
    let changed: Model = edit::replace_at(&model, "[1][1]", tree!({"k": 9})).unwrap();
    assert_eq!(changed.1.to_string(), "[1, {'k': 9}]");
    assert_eq!((changed.0, changed.2), (linear(1.0), 4.0));
    let after: Model = edit::replace_at(&model, "[2]", 5.0_f32).unwrap();
    assert_eq!(
        (after.1.to_string().as_str(), after.2),
        ("[1, (2, 3)]", 5.0)
    );
    let whole: Model = edit::replace_at(&model, "[1]", tree!([7])).unwrap();
    assert_eq!(whole.1.to_string(), "[7]");
    let typed = edit::replace_at(&(model.0.clone(), tree!([1])), "[0]", linear(3.0)).unwrap();
    assert_eq!(typed.0, linear(3.0));
    // A tree inside of what is replaced goes with it.
    let pair = ((tree!([1, 2]), 3.0_f32), tree!([4]));
    let gone = edit::replace_at(&pair, "[0]", (tree!([]), 5.0_f32)).unwrap();
    assert_eq!(gone.0.0.to_string(), "[]");
    assert_eq!((gone.0.1, gone.1.to_string().as_str()), (5.0, "[4]"));
}

#[test]
fn absent_leaf_of_part_is_inserted() {
    use pytree_core::{Filter, Partition, partition};
    let part: Partition<Mlp, f32> = partition::filter(&mlp(), &Filter::path("output"));
    assert_eq!(part.len(), 2);
    let more: Partition<Mlp, f32> = edit::replace_at(&part, "layers[0].weight", 7.0_f32).unwrap();
    assert_eq!(more["layers[0].weight"], 7.0);
    assert_eq!(more.len(), 3);
}

#[test]
fn replacement_works_in_very_deep_tree() {
    let mut treedef = Tree::list(vec![Tree::leaf(1_i32)]);
    for _ in 0..9 {
        treedef = Tree::list(vec![treedef]);
    }
    // A chain of lists, joined at its leaf with itself, doubles in depth.
    let mut path = "[0]".repeat(10);
    for _ in 0..13 {
        let inner =
            Tree::<AnyLeaf>::new(treedef.treedef().clone(), vec![AnyLeaf::new(1_i32)]).unwrap();
        treedef = {
            let outer = inner.clone();
            let joined = edit::replace_at(&outer, &path, inner).unwrap();
            joined.map(|leaf| *leaf.downcast_ref::<i32>().unwrap())
        };
        path = path.repeat(2);
    }
    assert_eq!(treedef.treedef().num_nodes(), 81_921);
    let replaced = edit::replace_at(&treedef, &path, 2_i32).unwrap();
    assert_eq!(replaced.leaves(), [2]);
}

#[test]
fn missing_paths_get_suggestions() {
    let nearest = |path: &str| match edit::replace_at(&mlp(), path, 1.0_f32) {
        Err(TreeError::NoNode {
            path: found,
            nearest,
        }) => {
            assert_eq!(found.to_string(), path);
            nearest.map(|nearest| nearest.to_string())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        nearest("layer[0].wieght").as_deref(),
        Some("layers[0].weight")
    );
    assert_eq!(nearest("layers[5]").as_deref(), Some("layers[0]"));
    assert_eq!(nearest("output.weight.x").as_deref(), Some("output.weight"));
    assert_eq!(
        edit::replace_at(&mlp(), "layer", 1.0_f32)
            .unwrap_err()
            .to_string(),
        "no node or leaf at layer; did you mean `layers`?"
    );
    assert_eq!(
        edit::replace_at(&1.0_f32, "x", 1.0_f32)
            .unwrap_err()
            .to_string(),
        "no node or leaf at x"
    );
    assert!(matches!(
        edit::replace_at(&mlp(), "layers[", 1.0_f32),
        Err(TreeError::PathSyntax { .. })
    ));
}

#[test]
fn replacement_of_wrong_type_is_rejected() {
    let text = |error: TreeError| error.to_string();
    assert_eq!(
        text(edit::replace_at(&mlp(), "layers", vec![1.0_f32]).unwrap_err()),
        "cannot put a `Vec<f32>` at layers: at layers[0]: expected `Linear`, found a leaf; pass a value of the type that the model has at this path"
    );
    assert_eq!(
        text(edit::replace_at(&mlp(), "output.weight", 1.0_f64).unwrap_err()),
        "cannot put a `f64` at output.weight: at output.weight: expected a leaf of type f32, found f64; pass a value of the type that the model has at this path"
    );
    assert_eq!(
        text(edit::replace_at(&[1.0_f32, 2.0], "", vec![1.0_f32]).unwrap_err()),
        "cannot put a `Vec<f32>` at the root: at the root: expected 2 children of `list`, found 1; pass a value of the type that the model has at this path"
    );
}

/// A type that is not a struct of the crate is replaced like one.
#[test]
fn replaced_model_is_ordinary_pytree() {
    fn replaced(model: &impl Pytree, path: &str) -> Vec<String> {
        let (leaves, _) = tree::flatten_any(&(Tree::of(model), path.len() as i32));
        leaves.iter().map(|leaf| leaf.to_string()).collect()
    }
    let model = edit::replace_at(&mlp(), "layers", vec![linear(4.0)]).unwrap();
    assert_eq!(replaced(&model, "x"), ["4.0", "4.5", "3.0", "3.5", "1"]);
}

#[test]
fn replacement_changes_one_of_two_dynamic_trees() {
    type Model = (Tree<AnyLeaf>, Tree<AnyLeaf>);
    let model: Model = (tree!([1, (2, 3)]), tree!([4, (5, 6)]));
    let changed: Model = edit::replace_at(&model, "[1][1][0]", 9_i32).unwrap();
    assert_eq!(changed.0.to_string(), "[1, (2, 3)]");
    assert_eq!(changed.1.to_string(), "[4, (9, 6)]");
    let changed: Model = edit::replace_at(&model, "[0][1]", tree!({"k": 7})).unwrap();
    assert_eq!(changed.0.to_string(), "[1, {'k': 7}]");
    assert_eq!(changed.1.to_string(), "[4, (5, 6)]");
}

/// A dynamic tree knows no sharing, whether it takes a value inside or as a whole.
#[test]
fn dynamic_tree_repeats_shared_value() {
    let model: (Tree<AnyLeaf>, f32) = (tree!([1, 2]), 3.0);
    let node = Shared::new(1.5_f32);
    let value = || (node.clone(), node.clone());
    let whole = edit::replace_at(&model, "[0]", value()).unwrap();
    assert_eq!(whole.0.to_string(), "(1.5, 1.5)");
    let inside = edit::replace_at(&model, "[0][1]", value()).unwrap();
    assert_eq!(inside.0.to_string(), "[1, (1.5, 1.5)]");
    assert_eq!((whole.1, inside.1), (3.0, 3.0));
}

#[test]
fn shared_root_is_replaced() {
    let model = Shared::new(linear(1.0));
    let changed = edit::replace_at(&model, "", Shared::new(linear(2.0))).unwrap();
    assert_eq!(*changed, linear(2.0));
    let inside = edit::replace_at(&model, "", linear(3.0)).unwrap();
    assert_eq!(*inside, linear(3.0));
}
