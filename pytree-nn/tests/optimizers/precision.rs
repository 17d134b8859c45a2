//! Mixed precision and loss scaling.

use pytree_core::{Module, Tree};
use pytree_nn::{
    Activation, BatchNorm, Linear, LossScale, MixedPrecision, Mlp, Optimizer, Rngs, adam,
    apply_if_finite, mse,
};
use pytree_transform::{DType, Tensor, grad, jit_mut, value_and_grad, value_and_grad_mut};

fn data() -> (Tensor, Tensor) {
    let x = Rngs::new(1).normal(DType::F32, [32, 2]);
    let y = x.sum_keep([-1]).sin();
    (x, y)
}

#[test]
fn half_precision_model_is_trained_in_f32() {
    let mut model = Mlp::new(&[2, 16, 1], Activation::Tanh, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, apply_if_finite(3, adam(1e-2)));
    let mut scale = LossScale::dynamic();
    let precision = MixedPrecision::bf16();
    let step = jit_mut(
        move |(model, optimizer, scale): (&mut Mlp, &mut Optimizer<Mlp>, &mut LossScale)| {
            let (x, y) = data();
            let loss = |model: &Mlp| {
                let output = precision.compute(model).forward(&precision.compute(&x));
                assert_eq!(output.dtype(), DType::BF16);
                scale.scaled(&mse(&precision.output(&output), &y))
            };
            let (loss, gradient) = value_and_grad(loss)(&*model);
            let gradient = scale.unscaled(&gradient);
            let loss = loss / scale.scale();
            scale.adjust(&gradient);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let losses: Vec<f32> = (0..60)
        .map(|_| step((&mut model, &mut optimizer, &mut scale)).item())
        .collect();
    assert_eq!(step.traces(), 1);
    assert!(
        losses[59] < 0.2 * losses[0],
        "{} to {}",
        losses[0],
        losses[59]
    );
    assert_eq!(model.layers[0].weight.dtype(), DType::F32);
    assert_eq!(scale.finite_steps(), Some(&Tensor::from(60_u32)));
}

#[test]
fn small_gradients_need_a_scale() {
    let precision = MixedPrecision::f16();
    let weight = Tensor::from([1.0_f32]);
    // The gradient 1e-8 is below the smallest number of f16.
    let loss = |weight: &Tensor| precision.output(&(precision.compute(weight) * 1e-4).sum()) * 1e-4;
    assert_eq!(grad(loss)(&weight).to_vec::<f32>(), [0.0]);
    let scale = LossScale::constant(65536.0);
    let scaled = grad(|weight: &Tensor| scale.scaled(&loss(weight)))(&weight);
    let part = pytree_core::Partition::<Tensor, Tensor>::from_tree(Tree::from_value(&scaled));
    let found = scale.unscaled(&part).leaves()[0].to_vec::<f32>()[0];
    assert!((found / 1e-8 - 1.0).abs() < 1e-2, "{found}");
}

#[derive(Module, Clone, Debug)]
struct Normalized {
    norm: BatchNorm,
    linear: Linear,
}

#[test]
fn states_keep_their_dtype() {
    let mut rngs = Rngs::new(0);
    let mut model = Normalized {
        norm: BatchNorm::new(2, &mut rngs),
        linear: Linear::new(2, 1, &mut rngs),
    };
    let before = model.clone();
    let precision = MixedPrecision::bf16();
    let (x, y) = data();
    let loss = |model: &mut Normalized| {
        let x = precision.compute(&x) + 1.0;
        let output = precision.compute_mut(model, |model| {
            let x = model.norm.forward(&x);
            model.linear.forward(&x)
        });
        assert_eq!(output.dtype(), DType::BF16);
        mse(&precision.output(&output), &y)
    };
    let (_, gradient) = value_and_grad_mut(loss)(&mut model);
    assert_eq!(gradient.len(), 4);
    assert!(
        gradient
            .leaves()
            .iter()
            .all(|leaf| leaf.dtype() == DType::F32)
    );
    assert_eq!(model.linear, before.linear);
    assert_eq!(model.norm.mean.dtype(), DType::F32);
    assert_ne!(model.norm.mean, before.norm.mean);
}
