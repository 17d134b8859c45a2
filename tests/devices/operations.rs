//! Operations that are not compiled by the user: each is compiled once by the library.

use pytree::device::{device_put, with_device};
use pytree::prelude::*;

use crate::devices::mock::{Mock, Work};

#[test]
fn operation_is_compiled_once() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    let mut y = x.clone();
    for _ in 0..3 {
        y = y.sin();
    }
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 3,
            ..Work::default()
        }
    );
    let other = device_put(&Tensor::from([1.0_f32, 2.0, 3.0]), &mock);
    drop(other.sin());
    assert_eq!(mock.work().compiles, 1, "another shape");
    drop(x.cos());
    assert_eq!(mock.work().compiles, 1, "another operation");
    for axis in [0, 1] {
        let sum = x.reshape([2, 1]).sum_axes(axis);
        assert_eq!(sum.device(), &mock.device);
    }
    assert_eq!(
        mock.work().compiles,
        3,
        "one reshape, and two sums of other parameters"
    );
    let host = Tensor::from([1.0_f32, 2.0]);
    assert_eq!(y, host.sin().sin().sin());
}

#[test]
fn number_is_repeated_on_the_device() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::ones(DType::F32, [1000]), &mock);
    mock.work();
    let y = &x * 2.0 + 1.0;
    assert_eq!(mock.put_elements(), 2);
    mock.work();
    let others = [Tensor::ones_like(&x), 0.5 * &x, &x * 0.25];
    let work = mock.work();
    assert_eq!(
        (work.puts, work.compiles),
        (3, 0),
        "a number is no part of a program"
    );
    assert_eq!(others[2].to_vec::<f32>(), [0.25; 1000]);
    let gradient = grad(|x: &Tensor| (x * 2.0).sum())(&x);
    assert_eq!(
        mock.put_elements(),
        2,
        "the factor and the gradient of the sum"
    );
    assert_eq!(
        (y.device(), gradient.device()),
        (&mock.device, &mock.device)
    );
    assert_eq!(y.to_vec::<f32>(), [3.0; 1000]);
}

#[test]
fn one_operand_on_the_host_is_transferred() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let host = Tensor::from([3.0_f32, 4.0]);
    mock.work();
    let (left, right) = (&x - &host, &host - &x);
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 2,
            puts: 2,
            donated: 2,
            ..Work::default()
        }
    );
    assert_eq!(left.to_vec::<f32>(), [-2.0, -2.0]);
    assert_eq!(right.to_vec::<f32>(), [2.0, 2.0]);
    assert!(host.device().is_host());
}

#[test]
fn operand_may_be_given_twice() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    assert_eq!((&x * &x).to_vec::<f32>(), [1.0, 4.0]);
    assert_eq!((&x + &x).to_vec::<f32>(), [2.0, 4.0], "nothing was donated");
}

#[test]
fn loops_and_branches_run_on_the_device() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0, 3.0]), &mock);
    mock.work();
    let (sum, sums) = scan(
        |sum: Tensor, x: Tensor| {
            let sum = sum + x;
            (sum.clone(), sum)
        },
        Tensor::from(0.0_f32),
        x.clone(),
    );
    assert_eq!(mock.compiled(), [["scan"]]);
    assert_eq!((sum.device(), sums.device()), (&mock.device, &mock.device));
    assert_eq!(sums.to_vec::<f32>(), [1.0, 3.0, 6.0]);
    let larger = pytree::control::cond(
        &sum.greater(Tensor::from(5.0_f32)),
        |x: Tensor| x * 2.0,
        |x: Tensor| x,
        x.clone(),
    );
    assert_eq!(larger.device(), &mock.device);
    assert_eq!(larger.to_vec::<f32>(), [2.0, 4.0, 6.0]);
    let count = device_put(&Tensor::from(3), &mock);
    let power = pytree::control::fori_loop(0, count, |_, x: Tensor| x * 2.0, x);
    assert_eq!(power.to_vec::<f32>(), [8.0, 16.0, 24.0]);
}

#[test]
fn threads_compile_an_operation_once() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(x.exp().device(), &mock.device));
        }
    });
    assert_eq!(mock.work().compiles, 1);
}

#[test]
fn random_numbers_are_those_of_the_host() {
    let mock = Mock::new("mock:0");
    let draw = || Rngs::new(0).normal(DType::F32, [3, 4]);
    let expected = draw();
    let found = with_device(&mock, draw);
    assert_eq!(found.device(), &mock.device);
    assert_eq!(found, expected);
}

#[test]
fn labels_are_checked_on_the_device() {
    let mock = Mock::new("mock:0");
    let logits = device_put(&Tensor::from([[1.0_f32, 2.0], [3.0, 5.0]]), &mock);
    let labels = device_put(&Tensor::from([1, 0]), &mock);
    let loss = softmax_cross_entropy(&logits, &labels);
    assert_eq!(
        loss,
        softmax_cross_entropy(&logits.to_host(), &labels.to_host())
    );
    assert_eq!(loss.device(), &mock.device);
}

#[test]
fn callback_sees_elements_on_the_host() {
    use std::sync::{Arc, Mutex};
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&seen);
    pytree::debug::debug_callback(&[&x], move |values| {
        inside.lock().unwrap().extend(values[0].to_vec::<f32>());
    });
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0]);
    assert_eq!(
        mock.work(),
        Work {
            reads: 1,
            ..Work::default()
        }
    );
}

#[test]
fn least_recently_used_operation_is_forgotten() {
    let mock = Mock::new("mock:0");
    let zeros = |length: usize| with_device(&mock, || Tensor::zeros(DType::Bool, [length]));
    for length in 1..=4096 {
        zeros(length);
    }
    zeros(1);
    assert_eq!(mock.work().compiles, 4096);
    zeros(4097);
    zeros(1);
    assert_eq!(
        mock.work().compiles,
        1,
        "the second was forgotten, not the first"
    );
    zeros(2);
    assert_eq!(mock.work().compiles, 1);
}
