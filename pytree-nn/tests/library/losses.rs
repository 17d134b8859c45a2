//! Losses against figures of optax and PyTorch, and their masks against those of JAX.

use pytree_nn::{
    CrossEntropy, cosine_distance, cosine_similarity, hinge_loss, huber_loss, kl_divergence,
    kl_divergence_with_log_targets, l1_loss, l2_loss, log_cosh, multiclass_hinge_loss,
    normal_kl_divergence, sigmoid_binary_cross_entropy, sigmoid_focal_loss, smooth_labels,
    softmax_cross_entropy, softmax_cross_entropy_soft, squared_error,
};
use pytree_transform::{DType, Tensor, grad, jit};
use serde_json::Value;

use crate::support::{golden, number, tensor};

fn loss(name: &str, params: &Value, inputs: &[Tensor]) -> Tensor {
    let param = |name: &str| params[name].as_f64();
    let two = |loss: fn(&Tensor, &Tensor) -> Tensor| loss(&inputs[0], &inputs[1]);
    match name {
        "softmax_cross_entropy" => two(softmax_cross_entropy),
        "softmax_cross_entropy_soft" => two(softmax_cross_entropy_soft),
        "sigmoid_binary_cross_entropy" => two(sigmoid_binary_cross_entropy),
        "sigmoid_focal_loss" => {
            let gamma = param("gamma").unwrap();
            sigmoid_focal_loss(&inputs[0], &inputs[1], param("alpha"), gamma)
        }
        "hinge_loss" => two(hinge_loss),
        "multiclass_hinge_loss" => two(multiclass_hinge_loss),
        "huber_loss" => huber_loss(&inputs[0], &inputs[1], param("delta").unwrap()),
        "log_cosh" => two(log_cosh),
        "l1_loss" => two(l1_loss),
        "l2_loss" => two(l2_loss),
        "squared_error" => two(squared_error),
        "cosine_similarity" => cosine_similarity(&inputs[0], &inputs[1], param("epsilon").unwrap()),
        "cosine_distance" => cosine_distance(&inputs[0], &inputs[1], param("epsilon").unwrap()),
        "kl_divergence" => two(kl_divergence),
        "kl_divergence_with_log_targets" => two(kl_divergence_with_log_targets),
        "normal_kl_divergence" => two(normal_kl_divergence),
        "smooth_labels" => smooth_labels(&inputs[0], param("alpha").unwrap()),
        other => panic!("no loss `{other}`"),
    }
}

/// Each element within a few units in the last place of the expected one. Elements near 0 are differences of numbers
/// near 1, so they may be off by a few units in the last place of 1.
#[track_caller]
fn near(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let unit = if expected.dtype() == DType::F64 {
        1e-14
    } else {
        2e-6
    };
    let numbers = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        let is_same =
            found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        let is_near = (found - expected).abs() <= unit * expected.abs().max(1.0);
        assert!(
            is_same || is_near,
            "{what}: found {found}, expected {expected}"
        );
    }
}

#[test]
fn losses_and_gradients_match_optax() {
    let file = golden("losses");
    let cases = file["losses"].as_array().unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let (name, params) = (case["name"].as_str().unwrap(), &case["params"]);
        let inputs: Vec<Tensor> = case["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(tensor)
            .collect();
        let what = format!("{name} of {}", inputs[0]);
        let run = {
            let (name, params) = (name.to_owned(), params.clone());
            move |inputs: Vec<Tensor>| loss(&name, &params, &inputs)
        };
        let expected = tensor(&case["losses"]);
        near(&run(inputs.clone()), &expected, &what);
        near(&jit(run.clone())(inputs.clone()), &expected, &what);
        let weights = tensor(&case["weights"]);
        for (position, expected) in case["gradients"].as_array().unwrap().iter().enumerate() {
            let of_input = |input: &Tensor| {
                let mut inputs = inputs.clone();
                inputs[position] = input.clone();
                (run(inputs) * &weights).sum()
            };
            let found = grad(of_input)(&inputs[position]);
            near(
                &found,
                &tensor(expected),
                &format!("gradient {position} of {what}"),
            );
        }
    }
}

#[test]
fn cross_entropy_options_match_formula() {
    let file = golden("losses");
    let cases = file["cross_entropy"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    cases.iter().for_each(compare_cross_entropy);
}

/// Compares a loss with options, its mean and the gradient of the mean.
fn compare_cross_entropy(case: &Value) {
    let mut loss = CrossEntropy::new().smoothing(number(&case["smoothing"]));
    if !case["class_weights"].is_null() {
        loss = loss.class_weights(&tensor(&case["class_weights"]));
    }
    if let Some(ignored) = case["ignored"].as_i64() {
        loss = loss.ignored_label(ignored);
    }
    let (logits, labels) = (tensor(&case["logits"]), tensor(&case["labels"]));
    near(
        &loss.losses(&logits, &labels),
        &tensor(&case["losses"]),
        "losses",
    );
    near(&loss.mean(&logits, &labels), &tensor(&case["mean"]), "mean");
    let gradient = |(logits, labels, loss): (Tensor, Tensor, CrossEntropy)| {
        grad(|logits: &Tensor| loss.mean(logits, &labels))(&logits)
    };
    let found = jit(gradient)((logits, labels, loss));
    near(&found, &tensor(&case["gradient"]), "gradient");
}

#[test]
fn cross_entropy_options_match_torch() {
    let file = golden("torch");
    let cases = file["cross_entropy"].as_array().unwrap();
    assert_eq!(cases.len(), 2 * 2 * 3 * 2 * 3 + 1);
    cases.iter().for_each(compare_cross_entropy);
}

#[test]
fn cross_entropy_of_distributions_matches_torch() {
    let file = golden("torch");
    let cases = file["soft_cross_entropy"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (logits, labels) = (tensor(&case["logits"]), tensor(&case["labels"]));
        let smooth = smooth_labels(&labels, number(&case["smoothing"]));
        let losses = softmax_cross_entropy_soft(&logits, &smooth);
        near(&losses, &tensor(&case["losses"]), "losses");
        near(&losses.mean(), &tensor(&case["mean"]), "mean");
        let mean = |logits: &Tensor| softmax_cross_entropy_soft(logits, &smooth).mean();
        near(&grad(mean)(&logits), &tensor(&case["gradient"]), "gradient");
    }
}

#[test]
fn masked_means_match_jax() {
    for case in golden("losses")["means"].as_array().unwrap() {
        let x = tensor(&case["x"]);
        let mask = tensor(&case["mask"]);
        near(&x.mean_where(&mask), &tensor(&case["mean_where"]), "mean");
        near(&x.sum_where(&mask), &tensor(&case["sum_where"]), "sum");
        let mean = x.weighted_mean(&tensor(&case["weights"]));
        near(&mean, &tensor(&case["weighted_mean"]), "weighted mean");
    }
}

#[test]
fn excluded_classes_add_nothing() {
    let minus_infinity = f64::NEG_INFINITY;
    let log_q = Tensor::from([[0.0, minus_infinity]]);
    let (p, log_p) = (
        Tensor::from([[1.0, 0.0]]),
        Tensor::from([[0.0, minus_infinity]]),
    );
    assert_eq!(kl_divergence(&log_q, &p), Tensor::from([0.0]));
    assert_eq!(
        kl_divergence_with_log_targets(&log_q, &log_p),
        Tensor::from([0.0])
    );
    let gradient = grad(|log_p: &Tensor| kl_divergence_with_log_targets(&log_q, log_p).sum());
    assert!(gradient(&log_p).isfinite().all().item::<bool>());
}

#[test]
fn zero_vectors_have_finite_gradients() {
    let zeros = Tensor::zeros(DType::F64, [1, 2]);
    let target = Tensor::from([[1.0, 0.0]]);
    let gradient = grad(|x: &Tensor| cosine_similarity(x, &target, 1e-8).sum())(&zeros);
    assert_eq!(gradient.isfinite().to_vec::<bool>(), [true, true]);
}
