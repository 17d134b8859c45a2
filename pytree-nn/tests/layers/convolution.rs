//! Convolutions and pooling: shapes, mistakes and their messages, transformations.

use pytree_nn::{
    Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, PerAxis, Pool, Rngs,
};
use pytree_transform::convolution::Padding;
use pytree_transform::{DType, Tensor, grad, jit, vmap};

use crate::layers::{assert_near, panic_message};

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(DType::F32, shape)
}

fn conv() -> Conv {
    Conv::new(3, 8, [3, 3], &mut Rngs::new(0))
}

#[test]
fn wrong_input_names_the_layer_and_the_fix() {
    let error = conv().try_forward(&ones(&[2, 10, 10, 4])).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "Conv expects x: [batch.., 2 spatial axes, 3], found f32[2,10,10,4]; \
             pass x with 3 features on its last axis, or make the Conv with 4 inputs"
        ),
        "{error}"
    );
    let error = conv().try_forward(&ones(&[10, 3])).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "Conv expects x: [batch.., 2 spatial axes, features], because its window has 2 axes, found f32[10,3]; \
             pass x with all spatial axes and the features on the last axis, or create the layer with one size for each spatial axis of x"
        ),
        "{error}"
    );
    let double = Tensor::ones(DType::F64, [2, 10, 10, 3]);
    let error = conv().try_forward(&double).unwrap_err();
    assert!(error.to_string().contains("convert x to f32"), "{error}");
}

#[test]
fn images_with_features_first_are_reported() {
    let error = conv().try_forward(&ones(&[2, 3, 10, 10])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("make the Conv with 10 inputs; the first spatial axis has this length: if this axis is the feature axis"),
        "{error}"
    );
}

#[test]
fn images_without_features_are_reported() {
    let gray = Conv::new(1, 8, [3, 3], &mut Rngs::new(0));
    let error = gray
        .try_forward(&ones(&[2, 16, 16]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("add it with `x.expand_dims(-1)`"), "{error}");
    assert!(!error.contains("16 inputs"), "{error}");
    let up = ConvTranspose::new(1, 8, [3, 3], &mut Rngs::new(0));
    let error = up.try_forward(&ones(&[2, 16, 16])).unwrap_err().to_string();
    assert!(
        error.contains("pass x with in = 1 (if x lacks this axis, add it)"),
        "{error}"
    );
}

#[test]
fn mistakes_of_options_name_the_numbers_of_the_user() {
    let made = |options: ConvOptions| {
        panic_message(move || Conv::with_options(4, 6, [3, 3], options, &mut Rngs::new(0)))
    };
    assert_eq!(
        made(ConvOptions {
            strides: [2].into(),
            ..ConvOptions::default()
        }),
        "Conv expects strides above 0, one for each of the 2 axes of the window [3, 3], found [2]; \
         write one number for all axes, or a list of 2 numbers"
    );
    assert_eq!(
        made(ConvOptions {
            groups: 3,
            ..ConvOptions::default()
        }),
        "Conv expects the number of groups to divide the numbers of inputs and outputs, found 3 groups, 4 inputs and 6 outputs; \
         choose a number of groups that divides both"
    );
    assert_eq!(
        made(ConvOptions {
            padding: ConvPadding::Causal,
            ..ConvOptions::default()
        }),
        "Conv expects a kernel with one axis for causal padding, found [3, 3]; time is one axis: \
         write one kernel size, or give explicit pairs `(before, after)`"
    );
    assert_eq!(
        made(ConvOptions {
            padding: [(1, 1)].into(),
            ..ConvOptions::default()
        }),
        "Conv expects one pair of paddings for each of the 2 axes of the kernel [3, 3], found [(1, 1)]; \
         write 2 pairs `(before, after)`"
    );
    assert_eq!(
        panic_message(|| Conv::new(1, 1, [3, 0], &mut Rngs::new(0))),
        "Conv expects a kernel with a size above 0 for each spatial axis, found [3, 0]; write for instance `[3, 3]` for images"
    );
    let options = ConvTransposeOptions {
        padding: ConvPadding::Reflect,
        ..ConvTransposeOptions::default()
    };
    assert_eq!(
        panic_message(|| ConvTranspose::with_options(1, 1, [3], options, &mut Rngs::new(0))),
        "ConvTranspose expects the padding Same, Valid, Circular or Explicit, found Reflect; \
         write explicit pairs `(before, after)`"
    );
    assert_eq!(
        panic_message(|| Pool::max([2, 2]).strides(0)),
        "Pool expects strides above 0, one for each of the 2 axes of the window [2, 2], found [0, 0]; \
         write one number for all axes, or a list of 2 numbers"
    );
}

#[test]
fn examples_under_vmap_are_those_of_the_batch() {
    let mut rngs = Rngs::new(0);
    let x = rngs.normal(DType::F32, [3, 6, 5, 2]);
    for padding in [
        ConvPadding::Same,
        ConvPadding::Circular,
        ConvPadding::Reflect,
    ] {
        let options = ConvOptions {
            padding,
            strides: PerAxis::All(2),
            ..ConvOptions::default()
        };
        let conv = Conv::with_options(2, 4, [3, 3], options, &mut rngs);
        let whole = conv.forward(&x);
        let each = vmap(|(conv, x): (Conv, Tensor)| conv.forward(&x)).in_axes((None, 0));
        assert_near(&each((conv.clone(), x.clone())), &whole);
        let compiled = jit(|(conv, x): (Conv, Tensor)| conv.forward(&x));
        assert_near(&compiled((conv.clone(), x.clone())), &whole);
    }
    let pool = Pool::average([2, 2]).padding(Padding::Same);
    let each = vmap(|(pool, x): (Pool, Tensor)| pool.forward(&x)).in_axes((None, 0));
    assert_near(&each((pool.clone(), x.clone())), &pool.forward(&x));
}

#[test]
fn depthwise_weights_touch_their_own_feature() {
    let options = ConvOptions {
        groups: 3,
        bias_init: None,
        ..ConvOptions::default()
    };
    let conv = Conv::with_options(3, 3, [3], options, &mut Rngs::new(0));
    let x = Tensor::from([[0.0_f32, 1.0, 0.0]; 5]);
    let y = conv.forward(&x);
    assert_eq!(
        y.index(pytree_transform::ix![.., 0]),
        Tensor::zeros(DType::F32, [5])
    );
    let gradient = grad(|conv: &Conv| conv.forward(&x).square().sum())(&conv);
    let of_others = gradient["weight"].index(pytree_transform::ix![.., .., 2]);
    assert_eq!(of_others, Tensor::zeros(DType::F32, [3, 1]));
}

#[test]
fn empty_batches_and_lengths_are_kept() {
    assert_eq!(conv().forward(&ones(&[0, 5, 5, 3])).shape(), [0, 5, 5, 8]);
    assert_eq!(conv().forward(&ones(&[2, 0, 5, 3])).shape(), [2, 0, 5, 8]);
    let circular = ConvOptions {
        padding: ConvPadding::Circular,
        ..ConvOptions::default()
    };
    let circular = Conv::with_options(3, 8, [3], circular, &mut Rngs::new(0));
    assert_eq!(circular.forward(&ones(&[4, 0, 5, 3])).shape(), [4, 0, 5, 8]);
}
