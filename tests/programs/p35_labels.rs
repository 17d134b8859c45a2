//! A loss function with named axes: there is one integer label for each example.

use pytree::prelude::*;

use crate::programs::panic_message;

#[shapes(
    logits = "float[batch classes]",
    labels = "i32[batch]",
    return = "float[]"
)]
fn loss(logits: &Tensor, labels: &Tensor) -> Tensor {
    softmax_cross_entropy(logits, labels).mean()
}

/// A mistake: the function returns one number for each example, and not the mean of these numbers.
#[shapes(
    logits = "float[batch classes]",
    labels = "i32[batch]",
    return = "float[]"
)]
fn loss_without_mean(logits: &Tensor, labels: &Tensor) -> Tensor {
    softmax_cross_entropy(logits, labels)
}

#[shapes(logits = "float[batch classes]", labels = "i32[batch]")]
fn checked_loss(logits: &Tensor, labels: &Tensor) -> Result<Tensor, pytree::ShapeError> {
    Ok(loss(logits, labels))
}

fn logits() -> Tensor {
    Key::new(0).normal(DType::F32, [4, 3])
}

#[test]
fn loss_accepts_any_float_dtype() {
    let labels = Tensor::from([0, 1, 2, 0]);
    assert!(loss(&logits(), &labels).item::<f32>() > 0.0);
    assert!(loss(&logits().convert(DType::F64), &labels).item::<f64>() > 0.0);
    let gradient = grad(|logits: &Tensor| loss(logits, &labels))(&logits());
    assert_eq!(gradient.shape(), [4, 3]);
}

#[test]
fn other_number_of_labels_names_the_batch() {
    let message = "loss: labels is i32[3], expected i32[batch] with batch = 4 (from logits: f32[4,3] as float[batch classes]); \
                   pass labels and logits with the same `batch`";
    let labels = Tensor::from([0, 1, 2]);
    assert_eq!(panic_message(|| loss(&logits(), &labels)), message);
    let error = checked_loss(&logits(), &labels).unwrap_err();
    assert_eq!(error.to_string(), format!("checked_{message}"));
}

#[test]
fn one_hot_labels_are_reported() {
    let labels = Tensor::from([0, 1, 2, 0]).one_hot(3, DType::I32);
    assert_eq!(
        panic_message(|| loss(&logits(), &labels)),
        "loss: labels is i32[4,3], expected i32[batch] with batch = 4 (from logits: f32[4,3] as float[batch classes]); \
         reshape labels to 1 axis"
    );
}

#[test]
fn swapped_arguments_are_all_reported() {
    let labels = Tensor::from([0, 1, 2, 0]);
    assert_eq!(
        panic_message(|| loss(&labels, &logits())),
        "loss: 2 shapes do not match:\n  \
         logits is i32[4], expected float[batch classes]; reshape logits to 2 axes\n  \
         labels is f32[4,3], expected i32[batch]; reshape labels to 1 axis"
    );
}

#[test]
fn float_labels_are_reported() {
    assert_eq!(
        panic_message(|| loss(&logits(), &Tensor::from([0.0_f32, 1.0, 2.0, 0.0]))),
        "loss: labels is f32[4], expected i32[batch]; convert labels to i32"
    );
}

#[test]
fn forgotten_mean_is_a_mistake_of_the_function() {
    assert_eq!(
        panic_message(|| loss_without_mean(&logits(), &Tensor::from([0, 1, 2, 0]))),
        "loss_without_mean: the result is f32[4], expected float[]; \
         this is a mistake in `loss_without_mean` itself, at tests/programs/p35_labels.rs:LINE, and not in its arguments"
    );
}

#[test]
fn closure_of_a_loss_is_checked_while_it_is_differentiated() {
    let labels = Tensor::from([0, 1, 2, 0]);
    let loss = shaped!(
        logits = "float[4 classes]",
        return = "float[]",
        |logits: &Tensor| softmax_cross_entropy(logits, &labels)
    );
    assert_eq!(
        panic_message(|| grad(loss)(&logits())),
        "the closure: the result is f32[4], expected float[]; \
         this is a mistake in the closure itself, at tests/programs/p35_labels.rs:LINE, and not in its arguments"
    );
}
