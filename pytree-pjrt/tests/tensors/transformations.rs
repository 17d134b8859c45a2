//! Transformations of tensors on a device, compared with the host.

use pytree_nn::{Key, Rngs};
use pytree_transform::device::{Device, device_put, with_device};
use pytree_transform::{
    DType, Tensor, cond, custom_jvp, custom_vjp, fori_loop, grad, hessian, jacrev, jit, remat,
    scan, vmap, while_loop,
};

use crate::tensors::device;

fn assert_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info());
    let numbers = |x: &Tensor| x.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        let close = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(close, "found {found}, expected {expected}");
    }
}

/// Applies a function on the host and on a device, plain and compiled, and compares the results.
fn same(device: &Device, function: impl Fn(&Tensor) -> Tensor + Send + Sync + Clone + 'static) {
    let x = Tensor::from([[0.3_f32, -1.2, 2.0], [0.1, 0.7, -0.4]]);
    let expected = function(&x);
    let there = device_put(&x, device);
    let found = function(&there);
    assert_eq!(found.device(), device);
    assert_close(&found, &expected);
    assert_close(&with_device(device, || function(&x)), &expected);
    let compiled = jit(move |x: Tensor| function(&x));
    assert_close(&compiled(there), &expected);
}

fn wave(x: &Tensor) -> Tensor {
    (x.sin() * x + 1.0).exp().sum()
}

#[test]
fn derivatives_agree_with_the_host() {
    let Some(device) = device() else { return };
    same(&device, |x| grad(wave)(x));
    same(&device, |x| vmap(|x: Tensor| grad(wave)(&x))(x.clone()));
    same(&device, |x| jacrev(|x: &Tensor| x.sin())(x));
    same(&device, |x| {
        let row = x.index(pytree_transform::ix![0]);
        hessian(|x: &Tensor| (x.sin() * x).sum())(&row)
    });
}

#[test]
fn control_flow_agrees_with_the_host() {
    let Some(device) = device() else { return };
    let repeated = |x: &Tensor| {
        let step = |carry: Tensor, x: Tensor| (carry * 0.5 + x.sin(), x);
        let (carry, rows) = scan(step, Tensor::zeros(DType::F32, [3]), x.clone());
        (carry.sum() + rows.square().sum()).tanh()
    };
    same(&device, repeated);
    same(&device, move |x| grad(repeated)(x));
    same(&device, |x| {
        let branch = |x: &Tensor| {
            let is_positive = x.sum().greater(Tensor::from(0.0_f32));
            cond(
                &is_positive,
                |x: Tensor| x.sin(),
                |x: Tensor| x.cos(),
                x.clone(),
            )
            .sum()
        };
        grad(branch)(x)
    });
    same(&device, |x| {
        fori_loop(
            0,
            5,
            |at, x: Tensor| x * 0.5 + at.convert(DType::F32),
            x.clone(),
        )
    });
    same(&device, |x| {
        let small = |x: &Tensor| x.square().sum().less(Tensor::from(100.0_f32));
        while_loop(small, |x: Tensor| x * 1.5, x.clone())
    });
}

#[test]
fn custom_rules_agree_with_the_host() {
    let Some(device) = device() else { return };
    same(&device, |x| {
        let clipped = custom_jvp(
            |x: &Tensor| x.sin(),
            |x: &Tensor, tangent: &Tensor| (x.sin(), tangent * 3.0),
        );
        grad(|x: &Tensor| clipped(x).sum())(x)
    });
    same(&device, |x| {
        let scaled = custom_vjp(
            |x: &Tensor| x.exp(),
            |x: &Tensor| (x.exp(), x.clone()),
            |x: Tensor, cotangent: Tensor| x * cotangent * 2.0,
        );
        grad(|x: &Tensor| scaled(x).sum())(x)
    });
    same(&device, |x| grad(remat(wave))(x));
}

#[test]
fn random_bits_are_those_of_the_host() {
    let Some(device) = device() else { return };
    let draw = || {
        (
            Rngs::new(0).uniform(DType::F32, [40]),
            Key::new(3).fold_in(7).bits([9]),
        )
    };
    let ((uniform, bits), (found, found_bits)) = (draw(), with_device(&device, draw));
    assert_eq!(found.device(), &device);
    assert_eq!((found, found_bits), (uniform, bits));
    let normal = || Rngs::new(3).normal(DType::F32, [40]);
    assert_close(&with_device(&device, normal), &normal());
}
