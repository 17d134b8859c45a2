//! Normalisation in models, and its mistakes.

use pytree_core::kind::BatchStat;
use pytree_core::{Filter, partition};
use pytree_nn::{
    BatchNorm, GroupNorm, Initializer, InputError, LayerNorm, NormOptions, RmsNorm, Rngs,
    VarianceFormula, eval,
};
use pytree_transform::{DType, Tensor, grad, jit, value_and_grad_mut, vmap, vmap_mut};

use super::assert_near;

fn rngs() -> Rngs {
    Rngs::new(0)
}

fn without_parameters() -> NormOptions {
    NormOptions {
        scale_init: None,
        bias_init: None,
        ..NormOptions::default()
    }
}

fn batch() -> Tensor {
    pytree_nn::Key::new(1).normal(DType::F32, [6, 3])
}

#[track_caller]
fn message<T>(outcome: Result<T, InputError>) -> String {
    outcome.err().unwrap().to_string()
}

#[test]
fn batch_under_vmap_is_batch_as_whole() {
    let x = batch();
    let mut whole = BatchNorm::new(3, &mut rngs());
    let mut each = BatchNorm {
        axis_name: Some("batch".to_owned()),
        ..whole.clone()
    };
    let forward = vmap_mut(|(norm, x): (&mut BatchNorm, Tensor)| norm.forward(&x))
        .in_axes((None, 0))
        .axis_name("batch");
    assert_near(&forward((&mut each, x.clone())), &whole.forward(&x));
    assert_near(&each.mean, &whole.mean);
    assert_near(&each.variance, &whole.variance);
    // Evaluation needs no other examples, so no axis needs the name.
    let mut at_rest = eval(&each);
    assert_near(&at_rest.forward(&x), &eval(&whole).forward(&x));
    assert_eq!(at_rest, eval(&each));
}

#[test]
fn running_statistics_have_no_gradient() {
    let mut norm = BatchNorm::new(3, &mut rngs());
    let x = batch();
    let first = norm.clone();
    let (_, gradient) = value_and_grad_mut(|norm: &mut BatchNorm| {
        // Of the statistics that were just written, too.
        norm.forward(&x).square().sum() + norm.mean.sum() + norm.variance.sum()
    })(&mut norm);
    let paths: Vec<String> = gradient
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(paths, ["scale", "bias"]);
    assert_ne!(norm.mean, first.mean);
    let kept = partition::filter(&norm, &Filter::state::<BatchStat>());
    assert_eq!(kept.len(), 2);

    let of_input = grad(|x: &Tensor| {
        let mut norm = first.clone();
        norm.forward(x);
        norm.mean.sum() + norm.variance.sum() + x.sum() * 0.0
    })(&x);
    assert_eq!(of_input, Tensor::zeros_like(&x));

    let step = jit(|(mut norm, x): (BatchNorm, Tensor)| {
        let y = norm.forward(&x);
        (norm, y)
    });
    let (compiled, y) = step((first.clone(), x.clone()));
    let mut written = first;
    assert_near(&y, &written.forward(&x));
    assert_near(&compiled.variance, &written.variance);
}

#[test]
fn layers_after_normalisation_begin_as_in_flax() {
    // Flax draws keys for scale and bias, though ones and zeros need none.
    let drawn = |draw: &dyn Fn(&mut Rngs)| {
        let mut rngs = rngs();
        draw(&mut rngs);
        rngs.stream_mut("default").unwrap().count().item::<u32>()
    };
    assert_eq!(drawn(&|rngs| drop(BatchNorm::new(3, rngs))), 2);
    assert_eq!(drawn(&|rngs| drop(LayerNorm::new(3, rngs))), 2);
    assert_eq!(drawn(&|rngs| drop(RmsNorm::new(3, rngs))), 1);
    assert_eq!(drawn(&|rngs| drop(GroupNorm::new(4, 2, rngs))), 2);
    let bare = |rngs: &mut Rngs| {
        let options = NormOptions {
            scale_init: None,
            ..NormOptions::default()
        };
        drop(LayerNorm::with_options(3, options, rngs));
    };
    assert_eq!(drawn(&bare), 1);
}

#[test]
fn layers_share_their_options() {
    let options = NormOptions {
        param_dtype: DType::F64,
        bias_init: None,
        scale_init: Some(Initializer::Constant(2.0)),
        epsilon: Some(0.5),
        variance_formula: VarianceFormula::Accurate,
    };
    let batch = BatchNorm::with_options(4, options, &mut rngs());
    let layer = LayerNorm::with_options(4, options, &mut rngs());
    let mean_square = RmsNorm::with_options(4, options, &mut rngs());
    let group = GroupNorm::with_options(4, 2, options, &mut rngs());
    let scale = Some(Tensor::full(DType::F64, [4], 2.0));
    assert_eq!((&batch.scale, &layer.scale), (&scale, &scale));
    assert_eq!((&mean_square.scale, &group.scale), (&scale, &scale));
    assert_eq!(
        (&batch.bias, &layer.bias, &group.bias),
        (&None, &None, &None)
    );
    let epsilons = [
        batch.epsilon,
        layer.epsilon,
        mean_square.epsilon,
        group.epsilon,
    ];
    assert_eq!(epsilons, [0.5; 4]);
    let formulas = [
        batch.variance_formula,
        layer.variance_formula,
        group.variance_formula,
    ];
    assert_eq!(formulas, [VarianceFormula::Accurate; 3]);
    assert_eq!(batch.mean.dtype(), DType::F64);
    assert_eq!(batch.variance.dtype(), DType::F64);
    // Without an epsilon, each layer has that of Flax.
    let default = NormOptions::default();
    assert_eq!(
        BatchNorm::with_options(4, default, &mut rngs()),
        BatchNorm::new(4, &mut rngs())
    );
    assert_eq!(BatchNorm::new(4, &mut rngs()).epsilon, 1e-5);
    assert_eq!(GroupNorm::new(4, 2, &mut rngs()).epsilon, 1e-6);
}

#[test]
fn groups_take_any_reduction_axes() {
    let x = pytree_nn::Key::new(2).normal(DType::F32, [2, 3, 4]);
    let norm = GroupNorm::new(4, 2, &mut rngs());
    // Examples of one axis less, one by one.
    let each = GroupNorm {
        reduction_axes: Some(vec![-1]),
        ..norm.clone()
    };
    let rows = vmap(|x: Tensor| norm.forward(&x))(x.expand_dims(2)).squeeze(2);
    assert_near(&each.forward(&x), &rows);
    // One group is a layer normalisation over all axes but the first.
    let one = GroupNorm::new(4, 1, &mut rngs());
    let layer = LayerNorm {
        reduction_axes: vec![1, 2],
        ..LayerNorm::new(4, &mut rngs())
    };
    assert_near(&one.forward(&x), &layer.forward(&x));
}

#[test]
fn mask_leaves_elements_out_of_statistics() {
    let x = Tensor::from([[1.0_f32, 3.0, 100.0], [2.0, 6.0, -50.0]]);
    let mask = Tensor::from([true, true, false]);
    let norm = LayerNorm::with_options(3, without_parameters(), &mut rngs());
    let masked = norm.forward_masked(&x, &mask);
    let short = norm.forward(&Tensor::from([[1.0_f32, 3.0], [2.0, 6.0]]));
    assert_near(&masked.index(pytree_transform::ix![.., ..2]), &short);
}

#[test]
fn variance_of_large_numbers_may_be_exact() {
    let x = Tensor::from([[10_000.0_f32], [10_001.0], [10_002.0]]);
    let mut fast = BatchNorm::new(1, &mut rngs());
    let mut exact = BatchNorm {
        variance_formula: VarianceFormula::Accurate,
        momentum: 0.0,
        ..fast.clone()
    };
    exact.forward(&x);
    assert_near(&exact.variance, &Tensor::from([2.0_f32 / 3.0]));
    // The fast one loses all digits here, but is not negative.
    assert!(fast.forward(&x).isfinite().all().item::<bool>());
}

#[test]
fn wrong_input_reports_the_expectation() {
    let mut norm = BatchNorm::new(3, &mut rngs());
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
    assert_eq!(
        message(norm.try_forward(&zeros(&[5, 4]))),
        "BatchNorm expects x: [.., 3], found f32[5,4]; create the layer with the number of features of x, or set the feature axis of the layer to the axis of x that holds the features; in BatchNorm::forward, features = 3 (from scale)"
    );
    assert_eq!(
        message(norm.try_forward(&zeros(&[3]))),
        "BatchNorm expects x: [batch, .., 3] in training, found f32[3]; the mean of a single example is the example itself, so the normalized values would be zero: pass a batch or, under vmap, name the batch axis in `axis_name`; in BatchNorm::forward, features = 3 (from scale)"
    );
    assert!(
        message(norm.try_forward(&Tensor::from(1.0_f32)))
            .starts_with("BatchNorm expects x: [.., 3], found f32[]")
    );
    assert_eq!(
        message(norm.try_forward(&Tensor::zeros(DType::F64, [5, 3]))),
        "BatchNorm::forward: x is f64[5,3], expected T: float[*shape] with T = f32 (from scale: f32[3] as T[features]); convert x to f32, or make the BatchNorm of f64"
    );
    // No normalisation of integers can be made.
    assert_eq!(
        message(norm.try_forward(&Tensor::zeros(DType::I32, [5, 3]))),
        "BatchNorm::forward: x is i32[5,3], expected T: float[*shape] with T = f32 (from scale: f32[3] as T[features]); convert x to f32"
    );
    let mask = Tensor::from([true, false]);
    assert_eq!(
        message(norm.try_forward_masked(&zeros(&[5, 3]), &mask)),
        "BatchNorm expects a bool mask that broadcasts to the shape [5, 3], found bool[2]; set the mask to true for each element to use; an axis of length 1 repeats the mask along that axis; in BatchNorm::forward_masked, features = 3 (from scale)"
    );
    assert_eq!(
        message(norm.try_forward_masked(&zeros(&[5, 3]), &zeros(&[3]))),
        "BatchNorm::forward_masked: mask is f32[3], expected bool[...]; convert mask to bool"
    );
    let after = BatchNorm::new(3, &mut rngs());
    assert_eq!(norm, after, "a mistake writes nothing");
    assert_eq!(eval(&norm).forward(&zeros(&[3])).shape(), [3]);
    norm.axis = 1;
    assert!(
        message(norm.try_forward(&zeros(&[5])))
            .starts_with("BatchNorm expects x with 3 features along axis 1")
    );
    norm.axis = -3;
    assert!(norm.try_forward(&zeros(&[5, 3])).is_err());

    let layer = LayerNorm {
        reduction_axes: vec![-1, 4],
        ..LayerNorm::new(3, &mut rngs())
    };
    assert_eq!(
        message(layer.try_forward(&zeros(&[5, 3]))),
        "LayerNorm expects x to have the axes [4], found f32[5,3]; add axes to x, or choose axes for the layer that x has; in LayerNorm::forward, features = 3 (from scale)"
    );
    assert_eq!(
        message(LayerNorm::new(3, &mut rngs()).try_forward(&Tensor::from(1.0_f32))),
        "LayerNorm expects x: [.., 3], found f32[]; create the layer with the number of features of x, or set the feature axis of the layer to the axis of x that holds the features; in LayerNorm::forward, features = 3 (from scale)"
    );
    let bare = RmsNorm::with_options(3, without_parameters(), &mut rngs());
    assert!(
        message(bare.try_forward(&Tensor::from([1, 2]))).starts_with(
            "RmsNorm::forward: x is i32[2], expected T: float[*shape]; convert x to a float dtype"
        )
    );

    let groups = GroupNorm {
        scale: None,
        bias: None,
        ..GroupNorm::new(4, 2, &mut rngs())
    };
    assert_eq!(
        message(groups.try_forward(&zeros(&[2, 5]))),
        "GroupNorm expects x: [batch, .., features] with a number of features that is a multiple of 2, and reduction axes that contain the last axis, found f32[2,5]; choose a number of groups that divides the number of features, and add the last axis to the reduction axes; in GroupNorm::forward, groups = 2, features = 5 (from x)"
    );
    let outer = GroupNorm {
        reduction_axes: Some(vec![0]),
        ..groups
    };
    assert!(outer.try_forward(&zeros(&[2, 4])).is_err());
    assert!(outer.try_forward(&Tensor::from(1.0_f32)).is_err());
}

#[test]
#[should_panic(
    expected = "GroupNorm expects the number of groups to divide the number of features, found 3 groups and 4 features; choose a number of groups that divides 4"
)]
fn groups_divide_the_features() {
    let _ = GroupNorm::new(4, 3, &mut rngs());
}

#[test]
#[should_panic(expected = "`batch`")]
fn unbound_axis_name_is_reported() {
    let mut norm = BatchNorm {
        axis_name: Some("batch".to_owned()),
        ..BatchNorm::new(3, &mut rngs())
    };
    norm.forward(&batch());
}

#[test]
fn no_elements_are_no_panic() {
    let mut norm = BatchNorm::new(0, &mut rngs());
    assert_eq!(
        norm.forward(&Tensor::zeros(DType::F32, [2, 0])).shape(),
        [2, 0]
    );
    let layer = LayerNorm::new(0, &mut rngs());
    assert_eq!(
        layer.forward(&Tensor::zeros(DType::F32, [2, 0])).shape(),
        [2, 0]
    );
    let groups = GroupNorm::new(0, 1, &mut rngs());
    assert_eq!(
        groups.forward(&Tensor::zeros(DType::F32, [2, 0])).shape(),
        [2, 0]
    );
}
