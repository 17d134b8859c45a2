//! `#[derive(Pytree)]`: plain containers.

use ndarray::{Array1, array};
use pytree_core::{LeafKind, Module, Pytree, tree};

use crate::derive::{rebuilt, shown};

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Batch {
    input: Array1<f32>,
    label: i32,
    name: String,
    #[r#static]
    size: usize,
    #[pytree(static)]
    split: &'static str,
}

#[derive(Pytree, Clone, Debug, PartialEq)]
enum Input {
    Text(String),
    Numbers { values: Vec<f64> },
    Nothing,
}

#[test]
fn fields_without_attribute_are_children_without_kind() {
    let batch = Batch {
        input: array![1.0],
        label: 2,
        name: "x".to_owned(),
        size: 1,
        split: "train",
    };
    assert_eq!(rebuilt(&batch), batch);
    assert_eq!(tree::structure(&batch).leaf_kinds(), [None, None, None]);
    assert_eq!(
        shown(&batch),
        "PyTreeDef(Batch { input: *, label: *, name: *, size = 1, split = 'train' })"
    );
    for input in [
        Input::Text("x".to_owned()),
        Input::Numbers { values: vec![1.0] },
        Input::Nothing,
    ] {
        assert_eq!(rebuilt(&input), input);
    }
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Moments {
    first: f32,
    second: Array1<f32>,
    rest: Vec<Moments>,
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Towers {
    left: Tower,
    right: Tower,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Tower {
    #[param]
    weight: Moments,
    #[state]
    state: Option<Moments>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Model {
    towers: Towers,
}

#[test]
fn container_accepts_kinds_of_its_fields() {
    let moments = Moments {
        first: 1.0,
        second: array![2.0],
        rest: vec![],
    };
    let tower = Tower {
        weight: moments.clone(),
        state: Some(moments),
    };
    let model = Model {
        towers: Towers {
            left: tower.clone(),
            right: tower,
        },
    };
    assert_eq!(rebuilt(&model), model);
    assert_eq!(
        tree::structure(&model).leaf_kinds()[0],
        Some(LeafKind::Param)
    );
}

/// Types that contain each other: one field of the circle has the mark.
mod circle {
    use pytree_core::{Module, Pytree, TreeError, nodes, tree};

    #[derive(Pytree, Clone, Debug, PartialEq)]
    struct Branch {
        length: f32,
        #[pytree(recursive)]
        fork: Option<Box<Fork>>,
    }
    #[derive(Pytree, Clone, Debug, PartialEq)]
    struct Fork {
        angle: f32,
        branches: Vec<Branch>,
    }
    #[derive(Module, Clone, Debug, PartialEq)]
    struct Block {
        #[param]
        scale: f32,
        layers: Vec<Layer>,
    }
    #[derive(Module, Clone, Debug, PartialEq)]
    struct Layer {
        #[param]
        weight: f32,
        #[module(recursive)]
        inside: Option<Box<Block>>,
    }

    fn branch(depth: usize) -> Branch {
        let end = Branch {
            length: 1.0,
            fork: None,
        };
        (0..depth).fold(end, |inside, _| Branch {
            length: 1.0,
            fork: Some(Box::new(Fork {
                angle: 2.0,
                branches: vec![inside],
            })),
        })
    }

    #[test]
    fn types_that_contain_each_other_are_pytrees() {
        let tree = branch(3);
        assert_eq!(
            tree::leaves::<f32, _>(&tree),
            [&1.0, &2.0, &1.0, &2.0, &1.0, &2.0, &1.0]
        );
        let doubled = tree::map(&tree, |x: &f32| 2.0 * x);
        assert_eq!(tree::map(&doubled, |x: &f32| x / 2.0), tree);
        nodes::check_impl(&tree).unwrap();
        let error = tree::try_leaves::<f32, _>(&branch(200)).unwrap_err();
        assert!(
            matches!(error, TreeError::TooDeep { limit: 256, .. }),
            "{error}"
        );
        let inside = Block {
            scale: 3.0,
            layers: Vec::new(),
        };
        let layer = Layer {
            weight: 2.0,
            inside: Some(Box::new(inside)),
        };
        let block = Block {
            scale: 1.0,
            layers: vec![layer],
        };
        assert_eq!(tree::leaves::<f32, _>(&block), [&1.0, &2.0, &3.0]);
        nodes::check_impl(&block).unwrap();
    }
}
