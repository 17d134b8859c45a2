//! Models compared leaf by leaf.

use ndarray::{Array2, array};
use pytree_core::error::DifferenceKind;
use pytree_core::{
    Element, ElementType, Leaf, LeafChange, ModelDiff, Pytree, Tree, ValueDiff, diff, tree,
};

use super::*;

fn values<A: Pytree, B: Pytree>(left: &A, right: &B) -> ValueDiff {
    let found = diff(left, right);
    assert_eq!(found.leaves().len(), 1, "{found}");
    assert_eq!(found.leaves()[0].change, LeafChange::Values);
    found.leaves()[0].values.clone().unwrap()
}

fn change(found: &ModelDiff) -> (LeafChange, &str, &str) {
    let leaf = &found.leaves()[0];
    (leaf.change, &leaf.left, &leaf.right)
}

#[test]
fn the_same_model_has_no_differences() {
    let found = diff(&mlp(), &mlp());
    assert!(found.is_empty() && found.within(0.0) && found.within_relative(0.0));
    assert_eq!(found.compared(), 6);
    assert_eq!(found.to_string(), "0 of 6 leaves differ");
    assert!(diff(&mlp(), &Tree::of(&mlp())).is_empty());
    assert!(diff(&tied(), &tied()).is_empty());
}

#[test]
fn largest_difference_has_its_index() {
    let left = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 100.0]];
    let right = array![[1.0_f32, 2.0, 4.0], [4.0, 8.0, 103.0]];
    let found = values(&left, &right);
    assert_eq!((found.differing, found.elements), (3, 6));
    assert_eq!((found.absolute, found.relative), (3.0, 0.375));
    assert_eq!(found.position, [1, 1]);
    assert_eq!((found.left, found.right, found.integers), (5.0, 8.0, None));
    // The order of memory does not matter.
    let transposed: Array2<f32> = left.t().to_owned().reversed_axes();
    assert_eq!(values(&transposed, &right), found);
    let relative_first = values(&array![0.5_f32, 10.0], &array![1.0_f32, 11.0]);
    assert_eq!(
        (relative_first.absolute, relative_first.relative),
        (1.0, 0.5)
    );
    assert_eq!(values(&-1.0_f32, &1.0_f32).relative, 2.0);
    assert!(values(&1.0_f32, &2.0_f32).position.is_empty());
}

#[test]
fn nan_equals_nan_and_differs_from_numbers() {
    let nan = f32::NAN;
    assert!(diff(&nan, &nan).is_empty());
    for found in [values(&nan, &1.0_f32), values(&1.0_f32, &nan)] {
        assert_eq!(
            (found.absolute, found.relative),
            (f64::INFINITY, f64::INFINITY)
        );
    }
    assert!(!diff(&nan, &1.0_f32).within(1e300));
    let infinity = f64::INFINITY;
    assert!(diff(&infinity, &infinity).is_empty());
    assert_eq!(values(&infinity, &-infinity).relative, infinity);
    assert_eq!(values(&infinity, &1.0).absolute, infinity);
    assert!(diff(&0.0_f32, &-0.0_f32).is_empty());
}

#[test]
fn large_integers_are_compared_exactly() {
    let large = 1_i64 << 60;
    assert!(diff(&large, &large).is_empty());
    assert_eq!(values(&large, &(large + 1)).absolute, 1.0);
    assert_eq!(
        values(&array![0, large], &array![0, large - 2]).absolute,
        2.0
    );
    assert_eq!(values(&u64::MAX, &(u64::MAX - 1)).absolute, 1.0);
    assert_eq!(values(&array![u64::MAX], &array![0_u64]).differing, 1);
    assert_eq!(values(&true, &false).absolute, 1.0);
}

#[test]
fn shape_dtype_and_type_differences_are_reported() {
    let shape = diff(&array![1.0_f32, 2.0], &array![[1.0_f32, 2.0]]);
    assert_eq!(change(&shape), (LeafChange::Shape, "f32[2]", "f32[1,2]"));
    assert_eq!(shape.leaves()[0].values, None);
    let element = diff(&array![1.0_f32, 2.0], &array![1.0_f64, 2.5]);
    assert_eq!(
        change(&element),
        (LeafChange::ElementType, "f32[2]", "f64[2]")
    );
    assert_eq!(element.leaves()[0].values.as_ref().unwrap().absolute, 0.5);
    let equal = diff(&1.0_f32, &1_i32);
    assert_eq!(change(&equal), (LeafChange::ElementType, "f32[]", "i32[]"));
    assert_eq!(equal.leaves()[0].values, None);
    let kind = diff(&"text", &array![1.0_f32]);
    assert_eq!(change(&kind), (LeafChange::Type, "&str", "f32[1]"));
    for found in [shape, element, equal, kind] {
        assert!(!found.is_empty() && !found.within(1e9) && !found.within_relative(1e9));
    }
    // One array held by two types is one array.
    assert!(diff(&array![1.0_f32], &array![1.0_f32].into_dyn()).is_empty());
}

#[test]
fn opaque_leaves_compare_by_displayed_text() {
    assert!(diff(&"a", &"a").is_empty());
    let found = diff(&String::from("a"), &String::from("b"));
    assert_eq!(change(&found), (LeafChange::Values, "'a'", "'b'"));
    assert!(!found.within(1e9));
    assert_eq!(change(&diff(&1_usize, &2_usize)).1, "1");
    assert_eq!(
        found.to_string(),
        "1 of 1 leaves differs\n  path      left  right  differing  absolute  relative  at\n  the root  'a'   'b'    value"
    );
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Half(u16);
impl Element for Half {
    const TYPE: ElementType = ElementType::U16;
}

#[test]
fn unreadable_elements_are_not_equal() {
    let array = ndarray::Array1::from(vec![Half(1)]);
    assert_eq!(array.values(), None);
    let found = diff(&array, &array);
    assert_eq!(change(&found), (LeafChange::Unread, "u16[1]", "u16[1]"));
    assert!(!found.is_empty() && !found.within(1.0));
    assert!(found.to_string().contains("not known"));
}

#[test]
fn leaves_of_only_one_model_are_listed() {
    let mut longer = mlp();
    longer.layers.push(linear(9.0));
    longer.output.bias = None;
    let found = diff(&mlp(), &longer);
    assert_eq!(texts(found.only_left()), ["output.bias"]);
    assert_eq!(
        texts(found.only_right()),
        ["layers[2].weight", "layers[2].bias"]
    );
    assert_eq!(found.compared(), 5);
    assert_eq!(found.leaves(), []);
    assert!(!found.is_empty() && !found.within(1e9));
    let kinds: Vec<DifferenceKind> = found.structural().iter().map(|one| one.why).collect();
    assert_eq!(kinds, [DifferenceKind::Arity, DifferenceKind::NodeType]);
    assert_eq!(
        found.to_string(),
        "0 of 5 leaves differ, 1 is only in the left, 2 are only in the right\nonly in the left: output.bias\nonly in the right: layers[2].weight\nonly in the right: layers[2].bias\nnumber of children at layers: 2 against 3\nnode type at output.bias: `Some` against `None`"
    );
}

#[test]
fn equal_leaves_in_different_structures_differ() {
    let found = diff(&vec![1.0_f32], &(1.0_f32,));
    assert_eq!(found.structural().len(), 1);
    assert!(!found.is_empty() && !found.within(1.0));
}

#[test]
fn difference_table_is_aligned_and_ordered() {
    let left = tree!([{ "weight": array![1.0_f32, 2.0], "step": 1 }, "a"]);
    let right = tree!([{ "weight": array![1.5_f32, 2.0], "step": 3 }, "a"]);
    let found = diff(&left, &right);
    assert_eq!(
        found.to_string(),
        "2 of 3 leaves differ; the largest difference is 2.000e0 at [0]['step']\n  \
         path           left    right   differing  absolute  relative  at\n  \
         [0]['step']    i32[]   i32[]   1 of 1     2.000e0   6.667e-1  []: 1 against 3\n  \
         [0]['weight']  f32[2]  f32[2]  1 of 2     5.000e-1  3.333e-1  [0]: 1 against 1.5"
    );
    let paths: Vec<String> = found
        .leaves()
        .iter()
        .map(|leaf| leaf.path.to_string())
        .collect();
    assert_eq!(paths, ["[0]['step']", "[0]['weight']"]);
    let largest = found
        .largest()
        .map(|(leaf, values)| (leaf.path.to_string(), values.absolute));
    assert_eq!(largest, Some(("[0]['step']".to_owned(), 2.0)));
    assert_eq!(diff(&left, &left).largest(), None);
    assert_eq!(diff(&"a", &"b").largest(), None);
    assert!(found.within(2.0) && !found.within(1.9));
    assert!(found.within_relative(0.67) && !found.within_relative(0.66));
}

#[test]
fn elements_are_shown_with_digits_of_dtype() {
    let single = diff(&0.1_f32, &0.2_f32).to_string();
    assert!(single.contains("[]: 0.1 against 0.2"), "{single}");
    let double = diff(&f64::from(0.1_f32), &0.2_f64).to_string();
    assert!(
        double.contains("[]: 0.10000000149011612 against 0.2"),
        "{double}"
    );
}

#[test]
fn integers_are_shown_with_all_their_digits() {
    let text = diff(&(1_i64,), &(i64::MAX,)).to_string();
    assert!(
        text.ends_with("[]: 1 against 9223372036854775807"),
        "{text}"
    );
    let found = values(&array![1_u64, 7], &array![u64::MAX, 7]);
    assert_eq!(found.integers, Some((1, i128::from(u64::MAX))));
    let smaller_first = values(&array![0_i64, 0], &array![1_i64, i64::MIN]);
    assert_eq!(smaller_first.integers, Some((0, i128::from(i64::MIN))));
}

#[test]
fn largest_difference_has_index_along_each_axis() {
    let zeros = ndarray::Array3::<f32>::zeros((2, 3, 4));
    for position in [[0, 0, 0], [0, 2, 1], [1, 0, 3], [1, 2, 0], [1, 2, 3]] {
        let mut changed = zeros.clone();
        changed[position] = 1.0;
        assert_eq!(values(&zeros, &changed).position, position);
    }
}
