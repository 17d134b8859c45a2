//! Transformations of tensors on a device give the bits of the host.

use pytree::control::{cond, scan};
use pytree::device::device_put;
use pytree::prelude::*;
use pytree::{custom_jvp, custom_vjp, jacrev, remat};

use crate::devices::mock::Mock;

/// Applies a function on the host and on a device, compares the bits, and checks that the result is on the device.
fn same(function: impl Fn(&Tensor) -> Tensor) {
    let mock = Mock::new("mock:0");
    let x = Tensor::from([[0.3_f32, -1.2, 2.0], [0.1, 0.7, -0.4]]);
    let expected = function(&x);
    let found = function(&device_put(&x, &mock));
    assert_eq!(found.device(), &mock.device);
    let bits = |tensor: &Tensor| -> Vec<u32> {
        let elements = tensor.to_vec::<f32>().into_iter();
        elements.map(f32::to_bits).collect()
    };
    assert_eq!(bits(&found), bits(&expected));
}

fn wave(x: &Tensor) -> Tensor {
    (x.sin() * x + 1.0).exp().sum()
}

#[test]
fn grad_stays_on_the_device() {
    same(|x| grad(wave)(x));
    same(|x| jit(grad(wave))(x.clone()));
    same(|x| grad(|x: &Tensor| jit(|x: Tensor| wave(&x))(x.clone()))(x));
    same(hessian_row);
}

fn hessian_row(x: &Tensor) -> Tensor {
    let row = x.index(pytree::ix![0]);
    hessian(|x: &Tensor| (x.sin() * x).sum())(&row)
}

#[test]
fn vmap_stays_on_the_device() {
    same(|x| vmap(|x: Tensor| x.sum() * 2.0)(x.clone()));
    same(|x| vmap(|x: Tensor| grad(wave)(&x))(x.clone()));
    same(|x| jit(vmap(|x: Tensor| grad(wave)(&x)))(x.clone()));
    same(|x| jacrev(|x: &Tensor| x.sin())(x));
}

#[test]
fn loops_are_differentiated_on_the_device() {
    let repeated = |x: &Tensor| {
        let step = |carry: Tensor, x: Tensor| (carry * 0.5 + x.sin(), x);
        let (carry, rows) = scan(step, Tensor::zeros(DType::F32, [3]), x.clone());
        (carry.sum() + rows.square().sum()).tanh()
    };
    same(|x| grad(repeated)(x));
    same(|x| jit(grad(repeated))(x.clone()));
    same(|x| {
        let branch = |x: &Tensor| {
            let is_positive = x.sum().greater(Tensor::from(0.0_f32));
            cond(
                &is_positive,
                |x: Tensor| x.sin(),
                |x: Tensor| x * 2.0,
                x.clone(),
            )
            .sum()
        };
        grad(branch)(x)
    });
}

#[test]
fn custom_rules_run_on_the_device() {
    let clipped = custom_jvp(
        |x: &Tensor| x.sin(),
        |x: &Tensor, tangent: &Tensor| (x.sin(), tangent * 3.0),
    );
    same(|x| grad(|x: &Tensor| clipped(x).sum())(x));
    let scaled = custom_vjp(
        |x: &Tensor| x.exp(),
        |x: &Tensor| (x.exp(), x.clone()),
        |x: Tensor, cotangent: Tensor| x * cotangent * 2.0,
    );
    same(|x| grad(|x: &Tensor| scaled(x).sum())(x));
    same(|x| grad(remat(wave))(x));
}

#[test]
fn chosen_device_differentiates_and_batches() {
    let mock = Mock::new("mock:0");
    let x = Tensor::from([0.3_f32, -1.2, 2.0]);
    let f = jit(|x: Tensor| wave(&x)).on(&mock);
    let gradient = grad(|x: &Tensor| f(x.clone()))(&x);
    assert_eq!(gradient.device(), &mock.device);
    assert_eq!(gradient, grad(wave)(&x));
    let batched = vmap(f.clone())(Tensor::from([[0.3_f32, 1.0], [0.5, 0.25]]));
    assert_eq!(batched.device(), &mock.device);
    let outer = jit(move |x: Tensor| f(x) * 2.0);
    assert!(
        outer(x.clone()).device().is_host(),
        "the outer function counts"
    );
    assert_eq!(outer(x.clone()), wave(&x) * 2.0);
}
