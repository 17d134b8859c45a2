//! Checks of whole models.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, Array3};
use pytree_core::{Module, Pytree, Shared, TreeDef, axes, field::ParamField, graph};

#[derive(Module, Clone, Debug)]
struct Linear<W: ParamField = Array2<f32>> {
    #[param("in out")]
    weight: W,
}

#[derive(Module, Clone, Debug)]
struct Net {
    layers: Vec<Linear>,
    #[param("T[classes]")]
    scales: BTreeMap<String, Array1<f64>>,
    #[param("T[classes]")]
    offset: Array1<f64>,
}

fn net() -> Net {
    let linear = |inputs, outputs| Linear {
        weight: Array2::zeros((inputs, outputs)),
    };
    Net {
        layers: vec![linear(2, 3), linear(3, 4)],
        scales: [("a".to_owned(), Array1::zeros(4))].into(),
        offset: Array1::zeros(4),
    }
}

#[test]
fn each_module_has_its_own_scope() {
    assert!(net().check_shapes().is_ok());
}

#[test]
fn all_mismatches_are_listed_with_paths() {
    let mut wrong = net();
    wrong.scales.insert("b".to_owned(), Array1::zeros(5));
    wrong.offset = Array1::zeros(6);
    assert_eq!(
        wrong.check_shapes().unwrap_err().to_string(),
        "Net: 2 shapes do not match:\n  \
         scales['b'] is f64[5], expected T[classes] with classes = 4 (from scales['a']: f64[4] as T[classes]); make scales['b'] and scales['a'] with the same `classes`\n  \
         offset is f64[6], expected T[classes] with classes = 4 (from scales['a']: f64[4] as T[classes]); make offset and scales['a'] with the same `classes`"
    );
}

#[test]
fn a_stacked_model_is_checked_with_its_axis_named() {
    let stacked = |members| Linear {
        weight: Array3::<f32>::zeros((members, 2, 3)),
    };
    let message = stacked(5).check_shapes().unwrap_err().to_string();
    assert!(message.contains("check_stacked"), "{message}");
    assert!(axes::check_stacked(&stacked(5), &["member"]).is_ok());
    let message = axes::check_stacked(&(stacked(5), stacked(6)), &["member"])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("expected [member in out] with member = 5"),
        "{message}"
    );
}

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param("vocabulary model")]
    embedding: Shared<Array2<f32>>,
    #[param("classes model")]
    head: Shared<Array2<f32>>,
    #[param("model")]
    bias: Array1<f32>,
}

#[test]
fn a_shared_array_is_compared_at_each_place() {
    let shared = Shared::new(Array2::zeros((10, 4)));
    let mut tied = Tied {
        embedding: shared.clone(),
        head: shared,
        bias: Array1::zeros(4),
    };
    assert!(tied.check_shapes().is_ok());
    tied.bias = Array1::zeros(3);
    assert!(tied.check_shapes().is_err());
}

#[test]
fn axes_are_part_of_the_description_and_not_of_equality() {
    let structure = graph::structure(&net());
    let read = TreeDef::from_bytes(&structure.to_bytes()).unwrap();
    assert_eq!(read, structure);
    assert_eq!(read.content_hash(), structure.content_hash());
    let expected = [
        Some(vec!["in".to_owned(), "out".to_owned()]),
        Some(vec!["in".to_owned(), "out".to_owned()]),
        Some(vec!["classes".to_owned()]),
        Some(vec!["classes".to_owned()]),
    ];
    assert_eq!(structure.leaf_axes(), expected);
    assert_eq!(read.leaf_axes(), expected);
}

#[derive(Module, Clone, Debug)]
struct Biased(#[param("in out")] Array2<f32>, #[param("out")] Array1<f32>);

#[test]
fn transposed_weight_is_suspected() {
    let transposed = Biased(Array2::zeros((4, 3)), Array1::zeros(4));
    assert_eq!(
        transposed.check_shapes().unwrap_err().to_string(),
        "Biased: field 1 is f32[4], expected [out] with out = 3 (from field 0: f32[4,3] as [in out]); \
         make field 1 and field 0 with the same `out`; axis 0 of field 0 has length 4: did you transpose field 0?"
    );
    let other = Biased(Array2::zeros((4, 3)), Array1::zeros(5));
    let message = other.check_shapes().unwrap_err().to_string();
    assert!(!message.contains("transpose"), "{message}");
}

#[derive(Module, Clone, Debug)]
struct Square {
    #[param("in in")]
    weight: Array2<f32>,
    #[param("in out")]
    other: Array2<f32>,
}

#[test]
fn axis_that_another_shape_requires_is_not_suspected() {
    let square = Square {
        weight: Array2::zeros((3, 4)),
        other: Array2::zeros((3, 5)),
    };
    let message = square.check_shapes().unwrap_err().to_string();
    assert!(!message.contains("transpose"), "{message}");
}

#[derive(Module, Clone, Debug)]
struct OfConstant<const N: usize> {
    #[param("N N")]
    weight: Array2<f32>,
    #[param("2*N")]
    bias: Array1<f32>,
}

#[test]
fn const_generic_is_a_length_in_models() {
    let of_constant = |weight, bias| OfConstant::<3> {
        weight: Array2::zeros((weight, weight)),
        bias: Array1::zeros(bias),
    };
    assert!(of_constant(3, 6).check_shapes().is_ok());
    assert_eq!(
        of_constant(4, 8).check_shapes().unwrap_err().to_string(),
        "OfConstant: N is 3, expected 4 (from weight: f32[4,4] as [N N], bias: f32[8] as [2*N]); \
         set the static `N` to 4, or make these 2 arrays with N = 3"
    );
}
