//! Maps to another leaf type, prints and parses key paths, and maps two trees together.

use pytree::prelude::*;
use pytree::{KeyPath, PathKey};

fn model() -> Mlp {
    Mlp::new(&[4, 8, 2], Activation::Relu, &mut Rngs::new(0))
}

#[test]
fn shapes_are_tree_of_another_leaf_type() {
    let model = model();
    let shapes: Tree<Vec<usize>> = tree::map_to(&model, |leaf: &Tensor| leaf.shape().to_vec());
    assert_eq!(shapes.get("layers[1].weight").unwrap(), &[8, 2]);
    assert_eq!(shapes.treedef(), &tree::structure(&model));
    let counts = shapes.map(|shape| shape.iter().product::<usize>());
    assert_eq!(counts.leaves().iter().sum::<usize>(), 4 * 8 + 8 + 8 * 2 + 2);
}

#[test]
fn key_paths_print_and_parse() {
    let paths: Vec<String> = tree::leaves_with_path(&model())
        .iter()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "layers[0].weight",
            "layers[0].bias",
            "layers[1].weight",
            "layers[1].bias"
        ]
    );
    for text in ["layers[0].weight", "['a'][1].x", "[-3]['it\\'s']", "a.b.c"] {
        let path: KeyPath = text.parse().unwrap();
        assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
    }
    let path: KeyPath = "['a'][1].x".parse().unwrap();
    assert_eq!(
        path.keys(),
        [
            PathKey::Text("a".into()),
            PathKey::Index(1),
            PathKey::Field("x".into())
        ]
    );
    assert_eq!(path.join("/"), "a/1/x");
    let wrong = "layers[0".parse::<KeyPath>().unwrap_err().to_string();
    assert!(
        wrong.contains("cannot parse the key path `layers[0`") && wrong.contains("byte 6"),
        "{wrong}"
    );
}

#[test]
fn two_trees_are_mapped_together() {
    let (left, right) = (model(), model());
    let sum = tree::map2(&left, &right, |l: &Tensor, r: &Tensor| l + r).unwrap();
    let expected = &left.layers[0].weight * 2.0;
    assert_eq!(sum.layers[0].weight, expected);
    let shorter = Mlp::new(&[4, 2], Activation::Tanh, &mut Rngs::new(0));
    let error = tree::map2(&left, &shorter, |l: &Tensor, _: &Tensor| l.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("number of children at layers: 2 against 1"),
        "{error}"
    );
    assert!(error.contains("activation"), "{error}");
}
