//! Models of one element type as vectors.

use ndarray::{Array1, Array2, array};
use pytree_core::ravel::ravel;
use pytree_core::{Shared, TreeError, tree};

use super::*;

#[test]
fn model_survives_ravel_round_trip() {
    let (vector, form) = ravel::<f32, _>(&mlp()).unwrap();
    assert_eq!(vector, array![1.0, 1.5, 2.0, 2.5, 3.0, 3.5]);
    assert_eq!((form.len(), form.is_empty()), (6, false));
    assert_eq!(form.unravel(&vector).unwrap(), mlp());
    assert_eq!(
        form.clone()
            .unravel(&vector.mapv(|x| x * 2.0).view())
            .unwrap()
            .output
            .weight,
        6.0
    );
    assert!(format!("{form:?}").starts_with("Unravel([6] into PyTreeDef(Mlp {"));
}

#[test]
fn ravel_is_row_major_for_any_layout() {
    let model: (Array2<i32>, i32) = (array![[1, 2], [3, 4]].reversed_axes(), 5);
    let (vector, form) = ravel::<i32, _>(&model).unwrap();
    assert_eq!(vector, array![1, 3, 2, 4, 5]);
    assert_eq!(form.unravel(&vector).unwrap(), model);
}

#[test]
fn shared_leaf_is_raveled_once() {
    let (vector, form) = ravel::<f32, _>(&tied()).unwrap();
    assert_eq!(vector, array![1.0, 1.5, 2.0, 2.5, 9.0]);
    let back = form.unravel(&(vector + 1.0)).unwrap();
    assert!(back.embed.same(&back.inner[1]));
    assert_eq!(back.inner[1].weight, 2.0);
    let empty = ravel::<f32, _>(&Vec::<Shared<f32>>::new()).unwrap();
    assert!(empty.0.is_empty() && empty.1.is_empty());
}

#[test]
fn ravel_reports_all_leaves_of_wrong_type() {
    let mixed = tree!([1.0_f32, (2.0_f64, "text"), array![3_i32]]);
    assert_eq!(
        ravel::<f32, _>(&mixed).unwrap_err().to_string(),
        "cannot ravel: 3 places:\n  \
         at [1][0]: expected a leaf of type f32 or an array of it, found f64[]\n  \
         at [1][1]: expected a leaf of type f32 or an array of it, found &str\n  \
         at [2]: expected a leaf of type f32 or an array of it, found i32[1]"
    );
}

#[test]
fn unravel_rejects_vector_of_wrong_length() {
    let (_, form) = ravel::<f32, _>(&mlp()).unwrap();
    for length in [0, 5, 7] {
        assert_eq!(
            form.unravel(&Array1::zeros(length)).unwrap_err(),
            TreeError::Unravel {
                expected: 6,
                found: vec![length]
            }
        );
    }
}
