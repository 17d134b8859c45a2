//! Metrics over batches against figures of scikit-learn: updated one by one, merged, and under `jit`.

use pytree_nn::metrics::{
    Accuracy, Averaging, ConfusionMatrix, F1, Mean, Perplexity, Precision, Recall, TopKAccuracy,
};
use pytree_nn::softmax_cross_entropy;
use pytree_transform::{DType, Tensor, jit};
use serde_json::Value;

use crate::support::{golden, number, tensor};

fn tensors(values: &Value) -> Vec<Tensor> {
    values.as_array().unwrap().iter().map(tensor).collect()
}

type Batch = (Tensor, Tensor, Tensor);

fn batches(case: &Value) -> Vec<Batch> {
    let [logits, labels, masks] = ["logits", "labels", "masks"].map(|name| tensors(&case[name]));
    let pairs = logits.into_iter().zip(labels).zip(masks);
    pairs
        .map(|((logits, labels), mask)| (logits, labels, mask))
        .collect()
}

#[track_caller]
fn is_near(found: &Tensor, expected: &Value, what: &str) {
    let (found, expected) = (f64::from(found.item::<f32>()), number(expected));
    assert!(
        (found - expected).abs() < 1e-6,
        "{what}: found {found}, expected {expected}"
    );
}

/// Computes a metric over batches: updated in order, compiled, and merged from one metric for each batch.
macro_rules! check {
    ($type:ty: $new:expr, $expected:expr, $what:expr, $batches:expr, |$metric:ident, $batch:ident| $update:expr) => {{
        let (mut updated, mut merged, mut compiled) = ($new, $new, $new);
        let step = jit(|(mut $metric, $batch): ($type, Batch)| {
            let $batch = &$batch;
            $update;
            $metric
        });
        for $batch in $batches {
            {
                let $metric = &mut updated;
                $update;
            }
            let mut $metric = $new;
            $update;
            merged.merge(&$metric);
            compiled = step((compiled, $batch.clone()));
        }
        for found in [updated, merged, compiled] {
            is_near(&found.compute(), $expected, $what);
        }
    }};
}

#[test]
fn metrics_match_scikit_learn() {
    for case in golden("metrics")["cases"].as_array().unwrap() {
        let batches = &batches(case);
        check!(Accuracy: Accuracy::new(), &case["accuracy"], "accuracy", batches, |metric, batch| {
            metric.update_where(&batch.0, &batch.1, &batch.2);
        });
        check!(TopKAccuracy: TopKAccuracy::new(2), &case["top_2"], "top 2", batches, |metric, batch| {
            metric.update_where(&batch.0, &batch.1, &batch.2);
        });
        check!(Mean: Mean::new(), &case["mean"], "mean", batches, |metric, batch| {
            metric.update_where(&softmax_cross_entropy(&batch.0, &batch.1), &batch.2);
        });
        check!(Perplexity: Perplexity::new(), &case["perplexity"], "perplexity", batches, |metric, batch| {
            metric.update_where(&softmax_cross_entropy(&batch.0, &batch.1), &batch.2);
        });
    }
}

#[test]
fn scores_of_classes_match_scikit_learn() {
    for case in golden("metrics")["cases"].as_array().unwrap() {
        let batches = &batches(case);
        let classes = usize::try_from(case["classes"].as_u64().unwrap()).unwrap();
        for (averaging, name) in [
            (Averaging::Binary, "binary"),
            (Averaging::Macro, "macro"),
            (Averaging::Micro, "micro"),
        ] {
            let scores = &case["scores"][name];
            if scores.is_null() {
                assert!(averaging == Averaging::Binary && classes > 2);
                continue;
            }
            let what = &format!("{name} score of {classes} classes");
            check!(Precision: Precision::new(classes, averaging), &scores["precision"], what, batches, |metric, batch| {
                metric.update_where(&batch.0.argmax(-1), &batch.1, &batch.2);
            });
            check!(Recall: Recall::new(classes, averaging), &scores["recall"], what, batches, |metric, batch| {
                metric.update_where(&batch.0.argmax(-1), &batch.1, &batch.2);
            });
            check!(F1: F1::new(classes, averaging), &scores["f1"], what, batches, |metric, batch| {
                metric.update_where(&batch.0.argmax(-1), &batch.1, &batch.2);
            });
        }
        let mut matrix = ConfusionMatrix::new(classes);
        for (logits, labels, mask) in batches {
            matrix.update_where(&logits.argmax(-1), labels, mask);
        }
        let rows = case["confusion"].as_array().unwrap().iter();
        let expected: Vec<i64> = rows
            .flat_map(|row| {
                row.as_array()
                    .unwrap()
                    .iter()
                    .map(|count| count.as_i64().unwrap())
            })
            .collect();
        assert_eq!(matrix.compute().to_vec::<i64>(), expected);
    }
}

#[test]
fn label_out_of_range_is_reported_or_not_counted() {
    let (predictions, labels) = (Tensor::from([0, 1]), Tensor::from([2, 1]));
    let mut matrix = ConfusionMatrix::new(2);
    let error = matrix.try_update(&predictions, &labels).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfusionMatrix expects labels in 0..2, found 2 at position 0; check the number of classes, or the order of the arguments"
    );
    assert_eq!(matrix, ConfusionMatrix::new(2));
    let step = jit(
        |(mut matrix, predictions, labels): (ConfusionMatrix, Tensor, Tensor)| {
            matrix.update(&predictions, &labels);
            matrix
        },
    );
    let counted = step((matrix, predictions.clone(), labels.clone()));
    assert_eq!(counted.compute().to_vec::<i64>(), [0, 0, 0, 1]);
    let mask = Tensor::from([false, true]);
    let mut accuracy = Accuracy::new();
    let logits = predictions.one_hot(2, DType::F32);
    accuracy.update_where(&logits, &labels, &mask);
    assert_eq!(accuracy.compute(), Tensor::from(1.0_f32));
}
