//! Tensors that the bodies of loops, branches and calls have captured: they are operands of programs.

use pytree::control::{ScanOptions, cond, fori_loop, scan, scan_with, while_loop};
use pytree::device::device_put;
use pytree::prelude::*;

use crate::devices::mock::{Mock, Work};
use crate::devices::panic_of;

fn large() -> Tensor {
    Tensor::arange(DType::F32, 3000)
}

/// Adds a captured tensor in the body of each kind of control flow, of a call, and of a loop inside of a loop.
fn with_all_bodies(x: &Tensor, captured: &Tensor) -> Tensor {
    let added = |x: Tensor| x + captured;
    let x = fori_loop(0, 2, |_, x: Tensor| added(x), x.clone());
    let small = |x: &Tensor| (x * captured).sum().less(Tensor::from(1e12_f32));
    let x = while_loop(small, |x: Tensor| added(x) * 2.0, x);
    let is_positive = x.sum().greater(Tensor::from(0.0_f32));
    let x = cond(&is_positive, added, |x: Tensor| x - captured, x);
    let (x, ()) = scan_with(
        ScanOptions::new().length(2),
        |x: Tensor, ()| (fori_loop(0, 2, |_, x: Tensor| added(x), x), ()),
        x,
        (),
    );
    x.sin()
}

#[test]
fn large_constant_of_a_body_is_transferred_once() {
    let mock = Mock::new("mock:0");
    let captured = large();
    let x = Tensor::ones(DType::F32, [3000]);
    let f = {
        let captured = captured.clone();
        jit(move |x: Tensor| with_all_bodies(&x, &captured))
    };
    let on_device = f.clone().on(&mock);
    let there = device_put(&x, &mock);
    mock.work();
    let first = on_device(there.clone());
    assert_eq!(mock.put_elements(), 3000, "one copy for all bodies");
    mock.work();
    let second = on_device(there);
    assert_eq!(
        mock.work(),
        Work {
            runs: 1,
            donated: 1,
            ..Work::default()
        }
    );
    let expected = with_all_bodies(&x, &captured);
    assert_eq!(first, expected);
    assert_eq!(second, expected);
}

#[test]
fn constant_on_the_device_is_not_read() {
    let mock = Mock::new("mock:0");
    let captured = device_put(&large(), &mock);
    let x = device_put(&Tensor::ones(DType::F32, [3000]), &mock);
    mock.work();
    let inside = captured.clone();
    let f = jit(move |x: Tensor| with_all_bodies(&x, &inside));
    let found = f(x.clone());
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 1,
            ..Work::default()
        },
        "not even when it is compiled"
    );
    let expected = with_all_bodies(&x.to_host(), &captured.to_host());
    assert_eq!(found, expected);
    assert_eq!(with_all_bodies(&x, &captured), expected);
}

#[test]
fn gradients_capture_in_bodies() {
    let mock = Mock::new("mock:0");
    let gradient = |x: &Tensor, captured: &Tensor| {
        let loss = |x: &Tensor| {
            let step = |sum: Tensor, x: Tensor| {
                let sum = (sum * captured + x).sin();
                (sum.clone(), sum)
            };
            let (sum, sums) = scan(step, Tensor::zeros(DType::F32, [40]), x.clone());
            (sum * captured).sum() + sums.square().sum()
        };
        grad(loss)(x)
    };
    let x = Tensor::arange(DType::F32, 120).reshape([3, 40]) * 0.01;
    let captured = Tensor::arange(DType::F32, 40) * 0.02;
    let expected = gradient(&x, &captured);
    let (there, captured_there) = (device_put(&x, &mock), device_put(&captured, &mock));
    assert_eq!(gradient(&there, &captured_there), expected);
    let compiled = jit(move |x: Tensor| gradient(&x, &captured));
    assert_eq!(compiled(there), expected);
}

#[test]
fn loops_are_compiled_once() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::ones(DType::F32, [3000]), &mock);
    let captured = device_put(&large(), &mock);
    let expected = with_all_bodies(&x.to_host(), &captured.to_host());
    assert_eq!(with_all_bodies(&x, &captured), expected);
    let first = mock.work();
    assert!(first.compiles > 4, "{first:?}");
    assert_eq!(with_all_bodies(&x, &captured), expected);
    let other = device_put(&(large() * 0.5), &mock);
    let found = with_all_bodies(&x, &other);
    assert_eq!(mock.work().compiles, 0, "another captured tensor");
    assert_eq!(found, with_all_bodies(&x.to_host(), &other.to_host()));
}

#[test]
fn other_loops_need_other_programs() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let (two, three) = (Tensor::from([2.0_f32, 2.0]), Tensor::from([3.0_f32, 3.0]));
    let step = |left: Tensor, right: Tensor| {
        let step = move |x: Tensor, ()| (x * &left - &right, ());
        scan_with(ScanOptions::new().length(2), step, x.clone(), ()).0
    };
    assert_eq!(
        step(two.clone(), three.clone()).to_vec::<f32>(),
        [-5.0, -1.0]
    );
    mock.work();
    // One captured tensor instead of two.
    assert_eq!(step(two.clone(), two.clone()).to_vec::<f32>(), [-2.0, 2.0]);
    assert_eq!(mock.work().compiles, 1);
    let longer = scan_with(
        ScanOptions::new().length(3),
        |x: Tensor, ()| (x * &two - &three, ()),
        x.clone(),
        (),
    );
    assert_eq!(longer.0.to_vec::<f32>(), [-13.0, -5.0]);
    assert_eq!(mock.work().compiles, 1, "another length");
    for number in [1.0, 2.0] {
        let found = fori_loop(0, 2, |_, x: Tensor| x * number, x.clone());
        assert_eq!(found, x.to_host() * number * number);
        assert_eq!(mock.work().compiles, 1, "a number is part of a body");
    }
    let added = fori_loop(0, 2, |_, x: Tensor| x + &two, x.clone());
    let divided = fori_loop(0, 2, |_, x: Tensor| x / &two, x.clone());
    assert_eq!(added.to_vec::<f32>(), [5.0, 6.0]);
    assert_eq!(divided.to_vec::<f32>(), [0.25, 0.5]);
    assert_eq!(mock.work().compiles, 2, "other operations");
    let summed = |axis: isize| {
        let step = |x: Tensor, ()| (x.sum_keep(axis) + &x, ());
        let x = x.reshape([1, 2]);
        scan_with(ScanOptions::new().length(1), step, x, ()).0
    };
    assert_eq!(summed(0).to_vec::<f32>(), [2.0, 4.0]);
    assert_eq!(summed(1).to_vec::<f32>(), [4.0, 5.0], "another parameter");
}

#[test]
fn cache_keeps_no_captured_tensor() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::ones(DType::F32, [3000]), &mock);
    let captured = device_put(&large(), &mock);
    drop(fori_loop(0, 2, |_, x: Tensor| x + &captured, x.clone()));
    drop((captured, x));
    // The worker drops its operands after it has set the results.
    for _ in 0..1000 {
        if mock.alive() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(mock.alive(), 0);
}

#[test]
fn body_runs_where_its_captured_tensor_is() {
    let (mock, other) = (Mock::new("mock:0"), Mock::new("mock:1"));
    let captured = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let added = |x: Tensor| fori_loop(0, 2, |_, x: Tensor| x + &captured, x);
    mock.work();
    let sum = added(Tensor::from([10.0_f32, 20.0]));
    assert_eq!((sum.device(), mock.work().reads), (&mock.device, 0));
    assert_eq!(sum.to_vec::<f32>(), [12.0, 24.0]);
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &other);
    let message = panic_of(|| added(x));
    assert!(
        message.contains("f32[2] on mock:1 and f32[2] on mock:0"),
        "{message}"
    );
}
