//! Normalisation in models, and its mistakes.

use pytree_core::kind::BatchStat;
use pytree_core::{Filter, partition};
use pytree_nn::{
    BatchNorm, GroupNorm, Initializer, InputError, InstanceNorm, LayerNorm, NormOptions, RmsNorm,
    Rngs, VarianceFormula, eval,
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
fn mask_of_a_padded_batch_leaves_examples_out() {
    let whole = Tensor::from([[1.0_f32, 2.0], [3.0, 6.0]]);
    let padded = Tensor::from([[5.0_f32, -1.0], [1.0, 2.0]]);
    let real = BatchNorm::with_options(2, without_parameters(), &mut rngs());
    let mut masked = real.clone();
    let mut short = real;
    let y = masked.forward_masked(&whole, &Tensor::from([true, true]));
    assert_near(&y, &short.forward(&whole));
    assert_near(&masked.mean, &short.mean);
    assert_near(&masked.variance, &short.variance);
    // The statistics are those of the one real example, whose variance is 0.
    masked.momentum = 0.0;
    masked.forward_masked(&padded, &Tensor::from([true, false]));
    assert_near(&masked.mean, &Tensor::from([5.0_f32, -1.0]));
    assert_near(&masked.variance, &Tensor::from([0.0_f32, 0.0]));
}

#[test]
fn fast_variance_of_large_numbers_is_finite() {
    let x = Tensor::from([[10_000.0_f32], [10_001.0], [10_002.0]]);
    let mut exact = BatchNorm {
        momentum: 0.0,
        ..BatchNorm::new(1, &mut rngs())
    };
    let mut fast = BatchNorm {
        variance_formula: VarianceFormula::Fast,
        ..exact.clone()
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
        "BatchNorm expects x: [batch, .., 3] in training, found f32[3]; the mean of a single value is the value itself, so the normalized values would be zero: pass a batch of several examples, call `eval(&model)` to use the running statistics or, under vmap, name the batch axis in `axis_name`; in BatchNorm::forward, features = 3 (from scale)"
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
        "BatchNorm expects a bool mask of the first axes of the shape [5, 3], or one that broadcasts to it with 2 axes, found bool[2]; set the mask to true for each element to use; an axis of length 1 repeats the mask along that axis; in BatchNorm::forward_masked, features = 3 (from scale)"
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

/// Returns rows of numbers with the given mean and a deviation near 1, each rounded to f32.
fn rows(mean: f32, shape: &[usize]) -> Tensor {
    pytree_nn::Key::new(7).normal(DType::F32, shape) + f64::from(mean)
}

/// Returns (x - mean) / √(variance + ε) in f64 for groups of numbers, and the mean and the variance of each group.
fn reference(groups: &[Vec<f64>], epsilon: f64) -> (Vec<Vec<f64>>, Vec<[f64; 2]>) {
    let normalized = groups.iter().map(|group| {
        let count = group.len() as f64;
        let mean = group.iter().sum::<f64>() / count;
        let squares = group.iter().map(|x| (x - mean) * (x - mean));
        let variance = squares.sum::<f64>() / count;
        let y = group
            .iter()
            .map(|x| (x - mean) / (variance + epsilon).sqrt());
        (y.collect(), [mean, variance])
    });
    normalized.unzip()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.convert(DType::F64).to_vec()
}

#[track_caller]
fn assert_all_near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs().max(1.0),
            "{what}: found {found}, expected {expected}"
        );
    }
}

#[test]
fn normalisations_are_exact_at_any_mean() {
    let (rows_count, features) = (16, 24);
    for exponent in [-1, 0, 1, 2, 3, 4, 5, 6] {
        let magnitude = if exponent < 0 {
            0.0
        } else {
            10.0_f32.powi(exponent)
        };
        for mean in [magnitude, -3.0 * magnitude] {
            let x = rows(mean, &[rows_count, features]);
            let all = numbers(&x);
            let by_row: Vec<Vec<f64>> = all.chunks(features).map(<[f64]>::to_vec).collect();
            let column = |at: usize| by_row.iter().map(|row| row[at]).collect();
            let by_feature: Vec<Vec<f64>> = (0..features).map(column).collect();
            let halves: Vec<Vec<f64>> = all.chunks(features / 2).map(<[f64]>::to_vec).collect();

            let layer = LayerNorm::new(features, &mut rngs());
            let groups = GroupNorm::new(features, 2, &mut rngs());
            let instance = InstanceNorm::new(1, &mut rngs());
            let space = x.expand_dims(-1);
            let (expected, _) = reference(&by_row, 1e-6);
            let what = format!("a mean of {mean}");
            let compiled = jit(|(layer, x): (LayerNorm, Tensor)| layer.forward(&x));
            for y in [
                layer.forward(&x),
                compiled((layer.clone(), x.clone())),
                instance.forward(&space),
                layer.forward_masked(&x, &Tensor::full(DType::Bool, x.shape(), 1.0)),
            ] {
                assert_all_near(&what, &numbers(&y), &expected.concat(), 1e-5);
            }
            let (expected, _) = reference(&halves, 1e-6);
            assert_all_near(
                &what,
                &numbers(&groups.forward(&x)),
                &expected.concat(),
                1e-5,
            );

            let mut batch = BatchNorm {
                momentum: 0.0,
                ..BatchNorm::new(features, &mut rngs())
            };
            let mut named = BatchNorm {
                axis_name: Some("batch".to_owned()),
                ..batch.clone()
            };
            let (expected, moments) = reference(&by_feature, 1e-5);
            let each = vmap_mut(|(norm, x): (&mut BatchNorm, Tensor)| norm.forward(&x))
                .in_axes((None, 0))
                .axis_name("batch");
            for y in [batch.forward(&x), each((&mut named, x.clone()))] {
                assert_all_near(&what, &numbers(&y.t()), &expected.concat(), 1e-5);
            }
            for norm in [&batch, &named] {
                let means: Vec<f64> = moments.iter().map(|[mean, _]| *mean).collect();
                let variances: Vec<f64> = moments.iter().map(|[_, variance]| *variance).collect();
                assert_all_near(&what, &numbers(&norm.mean), &means, 1e-6);
                assert_all_near(&what, &numbers(&norm.variance), &variances, 1e-5);
            }
        }
    }
}

/// With ŷ = (x - mean) / σ, the derivative of Σ w ŷ is (w - mean(w) - ŷ mean(w ŷ)) / σ.
#[test]
fn derivative_is_exact_at_large_mean() {
    let features = 24;
    let x = rows(1e5, &[features]);
    let weights = pytree_nn::Key::new(3).normal(DType::F32, [features]);
    let layer = LayerNorm::new(features, &mut rngs());
    let gradient = grad(|x: &Tensor| (layer.forward(x) * &weights).sum())(&x);
    let (y, moments) = reference(&[numbers(&x)], 1e-6);
    let (y, w, deviation) = (&y[0], numbers(&weights), (moments[0][1] + 1e-6).sqrt());
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / features as f64;
    let mean_weight = mean(&mut w.iter().copied());
    let projection = mean(&mut w.iter().zip(y).map(|(w, y)| w * y));
    let expected = w
        .iter()
        .zip(y)
        .map(|(w, y)| (w - mean_weight - y * projection) / deviation);
    let expected: Vec<f64> = expected.collect();
    assert_all_near("derivative", &numbers(&gradient), &expected, 1e-5);
}

#[test]
fn equal_numbers_are_normalised_to_zero() {
    for value in [0.0_f32, 1.0, 1e3, 1e7] {
        let x = Tensor::full(DType::F32, [3, 7], f64::from(value));
        let layer = LayerNorm::new(7, &mut rngs());
        let y = numbers(&layer.forward(&x));
        assert!(y.iter().all(|y| y.abs() < 1e-3), "{value}: {y:?}");
        let gradient = grad(|x: &Tensor| layer.forward(x).square().sum())(&x);
        assert!(numbers(&gradient).iter().all(|slope| slope.is_finite()));
    }
}

#[test]
fn single_value_per_feature_is_refused_in_training() {
    let mut norm = BatchNorm::new(3, &mut rngs());
    let before = norm.clone();
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
    assert_eq!(
        message(norm.try_forward(&zeros(&[1, 3]))),
        "BatchNorm expects at least 2 values for each feature in training, found f32[1,3]; the mean of a single value is the value itself, so the normalized values would be zero: pass a batch of several examples, call `eval(&model)` to use the running statistics or, under vmap, name the batch axis in `axis_name`; in BatchNorm::forward, features = 3 (from scale)"
    );
    assert!(message(norm.try_forward(&zeros(&[0, 3]))).contains("skip empty batches"));
    assert_eq!(norm, before);
    assert_eq!(norm.forward(&zeros(&[1, 2, 3])).shape(), [1, 2, 3]);
    assert_eq!(eval(&norm).forward(&zeros(&[1, 3])).shape(), [1, 3]);
    let mut named = BatchNorm {
        axis_name: Some("batch".to_owned()),
        ..norm
    };
    let each = vmap_mut(|(norm, x): (&mut BatchNorm, Tensor)| norm.forward(&x))
        .in_axes((None, 0))
        .axis_name("batch");
    assert_eq!(each((&mut named, zeros(&[2, 3]))).shape(), [2, 3]);
}
