//! Conversion between models and vectors, under every transformation.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use pytree_core::{Leaf, Shared, TreeError, diff};
use pytree_transform::{DType, Tensor, grad, jit, jvp, ravel, try_ravel, vmap};

type Model = (Tensor, Vec<Tensor>);

fn model() -> Model {
    (
        Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]),
        vec![Tensor::from(5.0_f32), Tensor::from([6.0_f32, 7.0])],
    )
}

#[test]
fn ravel_is_row_major_and_round_trips() {
    let (vector, form) = ravel(&model());
    assert_eq!(
        vector,
        Tensor::from([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    );
    assert_eq!((form.len(), form.is_empty()), (7, false));
    assert_eq!(form.unravel(&vector).unwrap(), model());
    assert_eq!(
        form.unravel(&(&vector * 2.0)).unwrap().1[1],
        Tensor::from([12.0_f32, 14.0])
    );
    assert_eq!(
        format!("{form:?}"),
        "Unravel(f32[7] into PyTreeDef((*, [*, *])))"
    );
}

#[test]
fn transposed_leaf_is_raveled_by_rows() {
    let (vector, _) = ravel(&(model().0.t(),));
    assert_eq!(vector, Tensor::from([1.0_f32, 3.0, 2.0, 4.0]));
}

#[test]
fn ravel_and_unravel_are_differentiated() {
    let (vector, form) = ravel(&model());
    let loss = |m: &Model| (&m.0 * &m.0).sum() + &m.1[0] * m.1[1].sum();
    let by_vector = grad(|v: &Tensor| loss(&form.unravel(v).unwrap()))(&vector);
    assert_eq!(
        by_vector,
        Tensor::from([2.0_f32, 4.0, 6.0, 8.0, 13.0, 5.0, 5.0])
    );
    let by_model = grad(|m: &Model| {
        let (vector, _) = ravel(m);
        (&vector * &vector).sum()
    })(&model());
    assert_eq!(by_model.0, model().0 * 2.0);
    assert_eq!(by_model.1.leaves()[1], Tensor::from([12.0_f32, 14.0]));
    let (_, tangent) = jvp(|m: &Model| ravel(m).0, &model(), &model());
    assert_eq!(tangent, vector);
}

#[test]
fn ravel_and_unravel_compose_with_transformations() {
    let (vector, form) = ravel(&model());
    let compiled = jit(|m: Model| ravel(&m).0 * 3.0);
    assert_eq!(compiled(model()), &vector * 3.0);
    let inside = form.clone();
    let back = jit(move |v: Tensor| inside.unravel(&v).unwrap());
    assert_eq!(back(vector.clone()), model());
    let batch = Tensor::stack(&[vector.clone(), &vector + 1.0], 0);
    let (_, rest) = vmap(move |v: Tensor| form.unravel(&v).unwrap())(batch);
    assert_eq!(rest[1], Tensor::from([[6.0_f32, 7.0], [7.0, 8.0]]));
}

#[test]
fn shared_leaf_is_raveled_once() {
    let weight = Shared::new(Tensor::from([1.0_f32, 2.0]));
    let (vector, form) = ravel(&(weight.clone(), weight));
    assert_eq!(vector, Tensor::from([1.0_f32, 2.0]));
    let (left, right) = form.unravel(&vector).unwrap();
    assert!(left.same(&right));
}

#[test]
fn model_without_leaves_ravels_to_empty_vector() {
    let (vector, form) = ravel(&Vec::<Tensor>::new());
    assert_eq!(
        (vector.shape(), vector.dtype()),
        ([0_usize].as_slice(), DType::F32)
    );
    assert!(form.is_empty());
    assert_eq!(form.unravel(&vector).unwrap(), Vec::<Tensor>::new());
}

#[test]
fn ravel_names_leaves_with_different_dtypes() {
    let mixed = (
        Tensor::from(1_i32),
        vec![Tensor::from([1.0_f32]), Tensor::from(true)],
    );
    let error = try_ravel(&mixed).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot ravel leaves with different element types; convert them first: 2 places:\n  \
         at [1][0]: expected a leaf of type i32, found f32[1]\n  \
         at [1][1]: expected a leaf of type i32, found bool[]"
    );
    let panic = std::panic::catch_unwind(|| ravel(&mixed)).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>(), Some(&error.to_string()));
}

#[test]
fn unravel_rejects_mismatched_vectors() {
    let (_, form) = ravel(&model());
    for shape in [vec![6], vec![7, 1], vec![]] {
        let error = form
            .unravel(&Tensor::zeros(DType::F32, &shape))
            .unwrap_err();
        assert_eq!(
            error,
            TreeError::Unravel {
                expected: 7,
                found: shape
            }
        );
    }
    assert_eq!(
        form.unravel(&Tensor::zeros(DType::F32, [6]))
            .unwrap_err()
            .to_string(),
        "cannot unravel: expected a vector of shape [7], found [6]; pass a vector as long as the one that `ravel` returned"
    );
    assert_eq!(
        form.unravel(&Tensor::zeros(DType::F64, [7]))
            .unwrap_err()
            .to_string(),
        "cannot unravel: at the root: expected a leaf of type f32, found f64[7]"
    );
}

#[test]
fn only_concrete_tensors_have_readable_values() {
    let values = |tensor: &Tensor| tensor.values();
    assert_eq!(values(&Tensor::from([true, false])), Some(vec![1.0, 0.0]));
    assert_eq!(values(&Tensor::from([-3_i32])), Some(vec![-3.0]));
    assert_eq!(values(&Tensor::from([-3_i64])), Some(vec![-3.0]));
    assert_eq!(values(&Tensor::from([3_u32])), Some(vec![3.0]));
    assert_eq!(values(&Tensor::from([0.5_f32])), Some(vec![0.5]));
    assert_eq!(
        values(&Tensor::from([[0.5_f64, 1.5], [2.5, 3.5]]).t()),
        Some(vec![0.5, 2.5, 1.5, 3.5])
    );
    let traced = jit(|x: Tensor| {
        assert_eq!(x.values(), None);
        assert_eq!(diff(&x, &x).to_string().lines().count(), 3);
        x
    });
    traced(Tensor::from(1.0_f32));
    let _ = grad(|x: &Tensor| {
        assert_eq!(x.values(), Some(vec![2.0]));
        x * x
    })(&Tensor::from(2.0_f32));
}
