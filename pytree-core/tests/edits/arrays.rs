//! Functions over all arrays of an element type, whatever their dimensions.

use ndarray::{Array0, Array1, Array2, ArrayD, ArrayViewD, ArrayViewMutD, IxDyn, array};
use pytree_core::{Module, Pytree, Ref, Shared, TreeError, arrays, graph};

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: Array2<f32>,
    #[param]
    bias: Array1<f32>,
    #[param]
    scale: f32,
    #[state]
    steps: Array1<i32>,
}

fn linear() -> Linear {
    Linear {
        weight: array![[1.0, 2.0], [3.0, 4.0]],
        bias: array![5.0, 6.0],
        scale: 7.0,
        steps: array![8, 9],
    }
}

#[test]
fn arrays_of_all_dimensions_are_mapped() {
    let mapped = arrays::map(&linear(), |x: ArrayViewD<'_, f32>| &x * 2.0);
    let expected = Linear {
        weight: array![[2.0, 4.0], [6.0, 8.0]],
        bias: array![10.0, 12.0],
        scale: 14.0,
        steps: array![8, 9],
    };
    assert_eq!(mapped, expected);
    let sum = arrays::map2(
        &linear(),
        &mapped,
        |x: ArrayViewD<'_, f32>, y: ArrayViewD<'_, f32>| &x + &y,
    );
    let tripled = arrays::map(&linear(), |x: ArrayViewD<'_, f32>| &x * 3.0);
    assert_eq!(sum.unwrap(), tripled);
    assert_eq!(
        arrays::to_vec::<f32, _>(&linear()),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    );
    assert_eq!(arrays::to_vec::<i32, _>(&linear()), [8, 9]);
    assert!(arrays::to_vec::<f64, _>(&linear()).is_empty());
    // The array of fixed dimension 0, the dynamic one, and an array that grows.
    let others = (
        Array0::from_elem((), 1.0_f64),
        ArrayD::from_elem(IxDyn(&[2]), 2.0_f64),
    );
    let longer = arrays::map(&others, |x: ArrayViewD<'_, f64>| match x.ndim() {
        0 => x.to_owned(),
        _ => ndarray::concatenate![ndarray::Axis(0), x, x],
    });
    assert_eq!(longer.1, ArrayD::from_elem(IxDyn(&[4]), 2.0));
}

#[test]
fn wrong_arrays_are_errors_with_paths() {
    let error = arrays::try_map(&linear(), |x: ArrayViewD<'_, f32>| {
        x.to_owned()
            .into_shape_with_order(IxDyn(&[x.len()]))
            .unwrap()
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("weight: expected a leaf of type f32[2,2], found a result with 1 axes"),
        "{error}"
    );
    assert!(
        error.contains("scale: expected a leaf of type f32[], found a result with 1 axes"),
        "{error}"
    );
    let (left, right) = ((array![1.0_f32],), (array![1_i32],));
    let mut calls = 0;
    let error = arrays::map2(
        &left,
        &right,
        |x: ArrayViewD<'_, f32>, _: ArrayViewD<'_, f32>| {
            calls += 1;
            x.to_owned()
        },
    );
    let TreeError::LeafTypes { mismatches, .. } = error.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!((mismatches[0].found.as_str(), calls), ("i32[1]", 0));
    let longer = (array![1.0_f32], array![2.0_f32]);
    let error = arrays::map2(
        &left,
        &longer,
        |x: ArrayViewD<'_, f32>, _: ArrayViewD<'_, f32>| x.to_owned(),
    );
    assert!(matches!(error, Err(TreeError::Structure { .. })));
}

#[derive(Pytree, Clone)]
struct Tied {
    left: Shared<Array1<f32>>,
    right: Shared<Array1<f32>>,
    count: Ref<Array2<f32>>,
    name: Ref<i32>,
}

#[test]
fn arrays_behind_references_are_changed_in_place() {
    let shared = Shared::new(array![1.0_f32, 2.0]);
    let (count, name) = (Ref::new(array![[3.0_f32]]), Ref::new(4_i32));
    let mut model = Tied {
        left: shared.clone(),
        right: shared,
        count: count.clone(),
        name,
    };
    arrays::for_each_mut(&mut model, |mut x: ArrayViewMutD<'_, f32>| x *= 10.0);
    assert!(model.left.same(&model.right));
    assert_eq!(*model.left, array![10.0, 20.0]);
    assert_eq!((count.get(), model.name.get()), (array![[30.0]], 4));
    let mut sum = 0.0;
    arrays::for_each(&model, |x: ArrayViewD<'_, f32>| sum += x.sum());
    assert_eq!(sum, 60.0);
    let copy = arrays::map(&model, |x: ArrayViewD<'_, f32>| x.to_owned());
    assert_eq!(graph::structure(&copy), graph::structure(&model));
    assert!(!copy.left.same(&model.left));
}
