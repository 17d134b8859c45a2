//! Mistakes of users. Each mistake causes one error that lists all mismatches with their paths, and changes no value.

use pytree::AnyLeaf;
use pytree::optim::{Momentum, sgd_momentum};
use pytree::prelude::*;
use pytree::vjp;

use crate::panics::catch;

#[derive(Module, Clone, Debug, PartialEq)]
struct Pair {
    #[param]
    weight: Tensor,
    #[state]
    count: Tensor,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Mixed {
    #[param]
    weight: Vec<f64>,
    #[state]
    steps: i32,
}

fn pair() -> Pair {
    Pair {
        weight: Tensor::from([1.0_f32, 2.0]),
        count: Tensor::from(3_i32),
    }
}

/// Returns the message of the panic in which `action` ends.
fn message(action: impl FnOnce()) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action)).unwrap_err();
    payload
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned())
}

#[test]
fn wrong_leaf_counts_are_reported() {
    let (leaves, treedef) = tree::flatten::<Tensor, _>(&pair());
    let few = tree::unflatten::<Pair, Tensor>(&treedef, leaves[..1].to_vec())
        .unwrap_err()
        .to_string();
    assert!(
        few.contains("expected 2 leaves, found 1 (the first missing leaf is count)"),
        "{few}"
    );
    let many = tree::unflatten::<Pair, Tensor>(&treedef, [leaves.clone(), leaves].concat())
        .unwrap_err()
        .to_string();
    assert!(many.contains("expected 2 leaves, found 4"), "{many}");
}

#[test]
fn wrongly_typed_leaves_are_all_listed() {
    let mixed = Mixed {
        weight: vec![1.0, 2.0],
        steps: 3,
    };
    let treedef = tree::structure(&mixed);
    let leaves = vec![
        AnyLeaf::new(1.0_f64),
        AnyLeaf::new("two"),
        AnyLeaf::new(3.0_f32),
    ];
    let error = tree::unflatten::<Mixed, AnyLeaf>(&treedef, leaves)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "cannot unflatten: 2 places:\n  at weight[1]: expected a leaf of type f64, found &str\n  at steps: expected a leaf of type i32, found f32"
    );
}

#[test]
fn treedef_of_another_type_is_refused() {
    let (leaves, treedef) = tree::flatten::<Tensor, _>(&pair());
    let error = tree::unflatten::<Linear, Tensor>(&treedef, leaves)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "cannot build `Linear` at the root: the treedef has `Pair` there; use the treedef of a value of the same type"
    );
}

#[test]
fn merge_lists_missing_and_duplicate_leaves() {
    let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
    let [weights, _] = partition::split(
        &model,
        [Filter::path_contains("weight"), Filter::everything()],
    )
    .unwrap();
    let [first, _] =
        partition::split(&model, [Filter::path("layers[0]"), Filter::everything()]).unwrap();
    let twice = partition::merge([weights.clone(), first])
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("layers[0].weight is in more than one part"),
        "{twice}"
    );
    let missing = partition::merge([weights]).unwrap_err().to_string();
    assert!(
        missing.contains("layers[0].bias is in no part") && missing.contains("layers[1].bias"),
        "{missing}"
    );
    let other = Mlp::new(&[2, 1], Activation::Relu, &mut Rngs::new(0));
    let [part, rest] =
        partition::split(&model, [Filter::path("layers[0]"), Filter::everything()]).unwrap();
    let [_, other] = partition::split(&other, [Filter::nothing(), Filter::everything()]).unwrap();
    let structure = partition::merge([part, other]).unwrap_err().to_string();
    assert!(
        structure.contains("number of children at layers: 2 against 1"),
        "{structure}"
    );
    assert_eq!(rest.len(), 2);
}

#[test]
fn nested_shape_error_names_users_line() {
    let step = jit(|(x, y): (Tensor, Tensor)| grad(|x: &Tensor| x.matmul(&y).sum())(&x));
    let expected_line = line!() - 1;
    let arguments = (
        Tensor::zeros(DType::F32, [3, 4]),
        Tensor::zeros(DType::F32, [5, 6]),
    );
    let panic = catch(|| step(arguments)).unwrap_err();
    let text = panic.message;
    assert!(
        text.starts_with("cannot matmul f32[3,4] and f32[5,6]"),
        "{text}"
    );
    assert!(text.contains("did you mean to transpose"), "{text}");
    assert!(panic.file.ends_with("bad_input.rs"), "{}", panic.file);
    assert_eq!(panic.line, expected_line);
}

#[test]
fn integer_parameter_is_refused_with_its_path() {
    let wrong = Pair {
        weight: Tensor::from(1_i32),
        count: Tensor::from(0_i32),
    };
    let text = message(move || {
        let _ = grad(|p: &Pair| p.weight.convert(DType::F32))(&wrong);
    });
    assert!(text.contains("with respect to weight (i32[])"), "{text}");
}

#[test]
fn mapped_axes_of_different_lengths_are_named() {
    let text = message(|| {
        let (x, y) = (
            Tensor::zeros(DType::F32, [3]),
            Tensor::zeros(DType::F32, [4]),
        );
        let _ = vmap(|(x, y): (Tensor, Tensor)| x + y)((x, y));
    });
    let groups = "\n  3: axis 0 of [0] (f32[3])\n  4: axis 0 of [1] (f32[4])\n";
    assert!(text.contains(groups), "{text}");
}

#[test]
fn misspelt_filter_path_is_an_error() {
    let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
    let misspelt = Filter::param() & Filter::path("layrs[0]");
    let split = partition::split(&model, [misspelt.clone(), Filter::everything()])
        .unwrap_err()
        .to_string();
    assert_eq!(split, "no leaf at layrs[0]; did you mean `layers[0]`?");
    let optimizer = Optimizer::try_with_filter(&model, adam(1e-3), &misspelt)
        .unwrap_err()
        .to_string();
    assert!(
        optimizer.contains("did you mean `layers[0]`?"),
        "{optimizer}"
    );
    let text = message(move || {
        let x = Tensor::zeros(DType::F32, [1, 2]);
        let _ = grad(|model: &Mlp| model.forward(&x).sum()).wrt(misspelt)(&model);
    });
    assert!(text.contains("did you mean `layers[0]`?"), "{text}");
}

#[test]
fn gradient_part_is_a_model_part() {
    let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [1, 2]);
    let gradient = grad(|model: &Mlp| model.forward(&x).sum())(&model);
    let [first, rest] = gradient
        .split([Filter::path("layers[0]"), Filter::everything()])
        .unwrap();
    assert_eq!((first.len(), rest.len()), (2, 2));
    let whole: Mlp = partition::merge([first, rest]).unwrap();
    assert_eq!(whole.layers.len(), 2);
}

#[test]
fn number_out_of_dtype_range_is_refused() {
    let x = Tensor::arange(DType::I32, 4);
    let error = x.try_less(0.5).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot combine the number 0.5 with i32[4]: i32 cannot represent this number; convert the tensor first, for instance with `.convert(DType::F32)`"
    );
    assert!(x.try_add(4_294_967_295_u32).is_err());
    assert!(Tensor::from([1_u32]).try_add(-1).is_err());
    assert!(Tensor::from([1_i32]).try_add(f64::NAN).is_err());
    assert_eq!((&x + 1.0).to_vec::<i32>(), [1, 2, 3, 4]);
    assert_eq!(
        (Tensor::from([0_i64]) + 9_007_199_254_740_993_i64).item::<i64>(),
        9_007_199_254_740_993
    );
}

#[test]
fn cotangent_of_another_shape_is_error() {
    let (_, pullback) = vjp(|x: &Tensor| x.sin(), &Tensor::from([1.0_f32, 2.0]));
    let text = message(|| {
        let _ = pullback.call(&Tensor::from(1.0_f32));
    });
    assert!(
        text.contains("the cotangent is f32[], expected f32[2], as in the result"),
        "{text}"
    );
}

#[test]
fn absurd_sizes_and_axes_are_errors() {
    let x = Tensor::from([1.0_f32, 2.0, 3.0]);
    assert!(x.try_pad(0.0, [(isize::MAX, 1, 0)]).is_err());
    assert!(x.expand_dims(0).try_broadcast_to([usize::MAX, 3]).is_err());
    let text = message(|| {
        let _ = x.reverse([0, 0]);
    });
    assert!(text.contains("reverse"), "{text}");
    let text = message(|| {
        let _ = Tensor::zeros(DType::F32, [usize::MAX, 2]);
    });
    assert!(
        text.contains("147573952589676412920 bytes of memory"),
        "{text}"
    );
    let slope = grad(|x: &Tensor| x.powi(i32::MIN))(&Tensor::from(1.0_f64));
    assert_eq!(slope.item::<f64>(), f64::from(i32::MIN));
}

#[test]
fn model_of_other_shapes_is_refused() {
    let made_for = Linear::new(2, 3, &mut Rngs::new(0));
    let mut other = Linear::new(2, 5, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [1, 2]);
    let gradient = grad(|model: &Linear| model.forward(&x).sum())(&other);
    for transformation in [adam(1e-2), sgd_momentum(1e-2, 0.9, Momentum::Classical)] {
        let mut optimizer = Optimizer::new(&made_for, transformation);
        let before = (
            other.weight.clone(),
            graph::flatten::<Tensor, _>(&optimizer).0,
        );
        let error = optimizer
            .try_update(&mut other, &gradient)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("weight is f32[2,5], but the optimizer was made for f32[2,3]"),
            "{error}"
        );
        assert!(error.contains("bias is f32[5]"), "{error}");
        assert_eq!(
            (
                other.weight.clone(),
                graph::flatten::<Tensor, _>(&optimizer).0
            ),
            before
        );
    }
}
