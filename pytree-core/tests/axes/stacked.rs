//! Modules that are stacked in a field: `#[module(stacked = "expert")]`.

use ndarray::{Array1, Array2, ArrayD};
use pytree_core::axes::AxisRole::{self, Batch, Feature, Input, Output};
use pytree_core::{Filter, Module, ModuleType, Shared, TreeDef, axes, edit, graph, partition};

#[derive(Module, Clone, Debug, PartialEq)]
struct Dense {
    #[param("in out", roles(input, output))]
    weight: ArrayD<f32>,
    #[param("out")]
    bias: ArrayD<f32>,
    #[state]
    count: ArrayD<f32>,
}

/// Linear layers with the given leading axes.
fn dense(stacked: &[usize], inputs: usize, outputs: usize) -> Dense {
    let array = |own: &[usize]| ArrayD::zeros([stacked, own].concat());
    Dense {
        weight: array(&[inputs, outputs]),
        bias: array(&[outputs]),
        count: array(&[]),
    }
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Experts {
    #[param("in expert", roles(input, output))]
    router: ArrayD<f32>,
    #[module(stacked = "expert")]
    experts: Vec<Dense>,
    plain: Dense,
}

/// A layer with experts, with the given leading axes.
fn experts(stacked: &[usize], count: usize) -> Experts {
    let inside = [stacked, &[count]].concat();
    Experts {
        router: ArrayD::zeros([stacked, &[2, count]].concat()),
        experts: vec![dense(&inside, 2, 4), dense(&inside, 4, 2)],
        plain: dense(stacked, 2, 2),
    }
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    first: Dense,
    #[module(stacked = "layer")]
    blocks: Experts,
    last: Shared<Dense>,
}

fn net() -> Net {
    Net {
        first: dense(&[], 3, 2),
        blocks: experts(&[5], 4),
        last: Shared::new(dense(&[], 2, 1)),
    }
}

fn messages(model: &impl Module) -> String {
    model.check_shapes().unwrap_err().to_string()
}

/// Code that knows nothing of the model.
fn fits<M: ModuleType>(model: &M) -> bool {
    model.check_shapes().is_ok()
}

#[test]
fn mixed_model_is_checked() {
    assert!(fits(&experts(&[], 4)) && fits(&net()));
    axes::check_any_stack(&net()).unwrap();
    let ensemble = Net {
        first: dense(&[7], 3, 2),
        blocks: experts(&[7, 5], 4),
        last: Shared::new(dense(&[7], 2, 1)),
    };
    axes::check_stacked(&ensemble, &["member"]).unwrap();
    axes::check_any_stack(&ensemble).unwrap();
    assert!(!fits(&ensemble));
}

#[test]
fn each_mistake_in_a_stack_is_reported_once() {
    let mut net = net();
    net.blocks.experts[0].weight = ArrayD::zeros(vec![5, 4, 2, 3]);
    net.blocks.experts[1].bias = ArrayD::zeros(vec![5, 3, 2]);
    net.blocks.plain.count = ArrayD::zeros(vec![]);
    net.first.bias = ArrayD::zeros(vec![5, 2]);
    let found = messages(&net);
    let expected = [
        "Net: 4 shapes do not match:",
        "  blocks.experts[0].bias is f32[5,4,4], expected [layer expert out] with out = 3",
        "  blocks.experts[1].bias is f32[5,3,2], expected [layer expert ...] with expert = 4 (from blocks.router: f32[5,2,4]",
        "  blocks.plain.count is f32[], expected [layer ...] with layer = 5",
        "  first.bias is f32[5,2], expected [out]",
    ];
    let mut lines: Vec<&str> = found.lines().collect();
    lines[1..].sort_unstable();
    assert_eq!(lines.len(), expected.len(), "{found}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}\n{found}");
    }
}

#[test]
fn stacked_axes_come_before_those_of_leaves() {
    let structure = graph::structure(&net());
    let axes = structure.leaf_axes();
    let axes: Vec<String> = axes
        .into_iter()
        .map(|axes| axes.map_or("-".to_owned(), |axes| axes.join(" ")))
        .collect();
    let expected = [
        "in out",
        "out",
        "-",
        "layer in expert",
        "layer expert in out",
        "layer expert out",
        "layer expert ...",
        "layer expert in out",
        "layer expert out",
        "layer expert ...",
        "layer in out",
        "layer out",
        "layer ...",
        "in out",
        "out",
        "-",
    ];
    assert_eq!(axes, expected);
    let read = TreeDef::from_bytes(&structure.to_bytes()).unwrap();
    assert_eq!(read, structure);
    assert_eq!(read.leaf_axes(), structure.leaf_axes());
    assert_eq!(read.to_bytes(), structure.to_bytes());
}

#[test]
fn stacked_axes_have_the_role_batch() {
    let net = net();
    let (leaves, structure) = graph::flatten_any(&net);
    let roles = structure.leaf_roles();
    let roles: Vec<Vec<AxisRole>> = roles
        .iter()
        .zip(&leaves)
        .map(|(roles, leaf)| roles.of_leaf(leaf).unwrap())
        .collect();
    assert_eq!(roles[3], [Batch, Input, Output]);
    assert_eq!(roles[4], [Batch, Batch, Input, Output]);
    // Without a declaration, a leaf has features after its stacked axes.
    assert_eq!(roles[5], [Batch, Batch, Feature]);
    assert_eq!(roles[6], [Batch, Batch]);
    let matrices = partition::filter(&net, &Filter::matrices());
    let paths: Vec<String> = matrices
        .iter_with_path()
        .map(|(path, _): (_, &ArrayD<f32>)| path.to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "first.weight",
            "blocks.router",
            "blocks.experts[0].weight",
            "blocks.experts[1].weight",
            "blocks.plain.weight",
            "last.weight"
        ]
    );
}

#[test]
fn edit_keeps_the_declared_stack() {
    let change = |shape: &[usize]| {
        edit::try_apply_with_path(net(), |path, leaf: &mut ArrayD<f32>| {
            if path.to_string() == "blocks.experts[0].bias" {
                *leaf = ArrayD::zeros(shape);
            }
        })
    };
    assert!(change(&[5, 4, 4]).is_ok());
    for wrong in [&[4][..], &[5, 4], &[4, 5, 4], &[6, 5, 4, 4]] {
        assert!(change(wrong).is_err(), "{wrong:?}");
    }
}

/// A module may have no arrays but those of its stacked modules, several axes, and the name of the axis in a length.
#[derive(Module, Clone, Debug)]
struct Grid {
    #[module(stacked = "row column")]
    cells: Option<Box<Plain>>,
    #[param("row*column")]
    scale: Array1<f32>,
}

#[derive(Module, Clone, Debug)]
struct Plain {
    #[param]
    weight: Array2<f32>,
}

#[test]
fn stacked_axis_has_a_length_in_its_module() {
    let grid = |length: usize| Grid {
        cells: Some(Box::new(Plain {
            weight: Array2::zeros((2, 3)),
        })),
        scale: Array1::zeros(length),
    };
    assert!(fits(&grid(6)));
    let message = messages(&grid(5));
    assert!(
        message.contains("scale is f32[5], expected [row*column] with row*column = 6 (row = 2"),
        "{message}"
    );
    let structure = graph::structure(&grid(6));
    assert_eq!(
        structure.leaf_axes()[0].clone().unwrap(),
        ["row", "column", "..."]
    );
}
