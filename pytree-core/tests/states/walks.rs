use pytree_core::{KeyPath, Module, PathKey, Pytree, Shared, edit, nodes, tree};

use crate::states::{Linear, Mlp, Tied, mlp, tied};

fn shown(met: &[(KeyPath, nodes::Met)]) -> Vec<String> {
    met.iter()
        .map(|(path, met)| format!("{path}: {met}"))
        .collect()
}

#[derive(Pytree, Clone, Debug)]
struct Parent {
    left: Shared<Linear>,
    right: Option<Shared<Linear>>,
    scale: Shared<f32>,
    more: (Shared<f32>, Vec<Shared<Linear>>),
}

fn parent() -> Parent {
    let linear = |weight| {
        Shared::new(Linear {
            weight: vec![weight],
            bias: None,
        })
    };
    let (left, lone) = (linear(1.0), linear(2.0));
    let scale = Shared::new(3.0);
    Parent {
        left: left.clone(),
        right: Some(left.clone()),
        scale: scale.clone(),
        more: (scale, vec![lone, left]),
    }
}

#[test]
fn nodes_are_visited_once_children_first() {
    assert_eq!(
        shown(&nodes::iter_graph(&parent())),
        [
            "left.weight[0]: 1.0",
            "left.weight: list",
            "left.bias: None",
            "left: Linear",
            "scale: 3.0",
            "more[1][0].weight[0]: 2.0",
            "more[1][0].weight: list",
            "more[1][0].bias: None",
            "more[1][0]: Linear",
            "more[1]: list",
            "more: tuple",
            ": Parent",
        ]
    );
    let model = mlp();
    let met = nodes::iter_graph(&model);
    let modules = met.iter().filter(|(_, met)| met.is_module());
    let modules: Vec<String> = modules.map(|(path, _)| path.to_string()).collect();
    assert_eq!(
        modules,
        [
            "blocks[0].linear",
            "blocks[0]",
            "blocks[1].linear",
            "blocks[1]",
            ""
        ]
    );
    assert_eq!(shown(&met)[met.len() - 2], "name: 'mlp'");
    assert_eq!(shown(&nodes::iter_graph(&1.5_f32)), [": 1.5"]);
}

#[test]
fn children_are_visited_at_each_path() {
    let parent = parent();
    let children = nodes::iter_children(&parent);
    let texts: Vec<String> = children
        .iter()
        .map(|(key, met)| format!("{key} {met}"))
        .collect();
    assert_eq!(
        texts,
        [".left Linear", ".right Linear", ".scale 3.0", ".more tuple"]
    );
    assert!(children[1].1.is_module() && !children[3].1.is_module());
    let tree = tree!({"b": None, "a": [1, 2]});
    let keys: Vec<PathKey> = nodes::iter_children(&tree)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(
        keys,
        [PathKey::Text("a".to_owned()), PathKey::Text("b".to_owned())]
    );
    assert!(nodes::iter_children(&2.5_f32).is_empty());
}

#[test]
fn nodes_of_type_have_paths() {
    let linears = nodes::of_type::<Linear>(&parent());
    let paths: Vec<String> = linears.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, ["left", "more[1][0]"]);
    assert_eq!(linears[1].1.weight, [2.0]);
    assert_eq!(nodes::of_type::<f32>(&mlp()).len(), 11);
    assert!(nodes::of_type::<Tied>(&mlp()).is_empty());
    let tree = tree!([1, "text", 2]);
    assert_eq!(nodes::of_type::<i32>(&tree).len(), 2);
}

#[test]
fn duplicates_are_found() {
    assert_eq!(
        nodes::find_duplicates(&parent()).to_string(),
        "[[('left',), ('right',), ('more', 1, 1)], [('scale',), ('more', 0)]]"
    );
    assert!(nodes::find_duplicates(&mlp()).is_empty());
    assert_eq!(nodes::find_duplicates(&mlp()).to_string(), "[]");
}

#[test]
fn nested_shared_node_is_listed_at_first_place() {
    #[derive(Module, Clone, Debug)]
    struct Outer {
        inner: Shared<Tied>,
    }
    let outer = Shared::new(Outer {
        inner: Shared::new(tied()),
    });
    assert_eq!(
        nodes::find_duplicates(&vec![outer.clone(), outer]).to_string(),
        "[[(0,), (1,)], [(0, 'inner', 'embed'), (0, 'inner', 'head')]]"
    );
}

#[test]
fn copy_shares_nothing_with_original() {
    let original = parent();
    let copy = nodes::copy(&original);
    assert_eq!(
        nodes::find_duplicates(&copy),
        nodes::find_duplicates(&original)
    );
    assert!(!copy.left.same(&original.left) && !copy.scale.same(&original.scale));
    assert!(copy.left.same(&copy.more.1[1]));
    assert_eq!(nodes::copy(&mlp()), mlp());
}

/// What `nnx.recursive_map` does: a function of path and node for every node, what is inside first.
#[test]
fn apply_any_visits_every_node_once() {
    let mut met = Vec::new();
    let changed = edit::apply_any(parent(), |path, value| {
        if let Some(linear) = value.downcast_mut::<Linear>() {
            met.push(path.tuple());
            linear.weight.push(10.0);
            linear.bias = Some(0.0);
        }
    });
    assert_eq!(met, ["('left',)", "('more', 1, 0)"]);
    assert_eq!(changed.more.1[1].weight, [1.0, 10.0]);
    assert!(changed.left.same(&changed.more.1[1]));
    let mut paths = Vec::new();
    let _: Mlp = edit::apply_any(mlp(), |path, _| paths.push(path.keys().len()));
    assert_eq!(paths.last(), Some(&0));
}
