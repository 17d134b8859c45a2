//! Compiled functions: which device runs them, what is transferred, and which buffers are donated.

use pytree::device::{Device, device_put, with_device};
use pytree::prelude::*;

use crate::devices::mock::{Mock, Work};

#[test]
fn chosen_device_runs_the_function() {
    let mock = Mock::new("mock:0");
    let f = jit(|(x, y): (Tensor, Tensor)| x * y).on(&mock);
    let z = f((Tensor::from([1.0_f32, 2.0]), Tensor::from([3.0_f32, 4.0])));
    assert_eq!(z.device(), &mock.device);
    assert_eq!(z.to_vec::<f32>(), [3.0, 8.0]);
    let expected = Work {
        compiles: 1,
        runs: 1,
        puts: 2,
        reads: 1,
        donated: 2,
    };
    assert_eq!(mock.work(), expected);
    assert_eq!(f.traces(), 1);
}

#[test]
fn function_follows_its_argument() {
    let (first, second) = (Mock::new("mock:0"), Mock::new("mock:1"));
    let f = jit(|x: Tensor| x.sin() * 2.0);
    let host = Tensor::from([1.0_f32, 2.0]);
    let expected = f(host.clone());
    for mock in [&first, &second, &first] {
        let y = f(device_put(&host, mock));
        assert_eq!(y.device(), &mock.device);
        assert_eq!(y, expected);
    }
    assert!(f(host).device().is_host());
    assert_eq!(
        f.traces(),
        1,
        "the recorded function is the same for all devices"
    );
    assert_eq!((first.work().compiles, second.work().compiles), (1, 1));
}

#[test]
fn results_stay_on_the_device() {
    let mock = Mock::new("mock:0");
    let f = jit(|x: Tensor| x * 2.0);
    let mut x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    for _ in 0..5 {
        x = f(x);
    }
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 5,
            donated: 5,
            ..Work::default()
        }
    );
    assert_eq!(x.to_vec::<f32>(), [32.0, 64.0]);
    assert_eq!(mock.alive(), 1);
}

#[test]
fn only_unshared_buffers_are_donated() {
    let mock = Mock::new("mock:0");
    let f = jit(|(x, y): (Tensor, Tensor)| x + y);
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    let sum = f((x.clone(), x.clone()));
    assert_eq!(mock.work().donated, 0, "the caller holds the tensor");
    let twice = f((x.clone(), sum));
    assert_eq!(mock.work().donated, 1);
    assert_eq!(twice.to_vec::<f32>(), [3.0, 6.0]);
    let both = f((x.clone(), x));
    assert_eq!(mock.work().donated, 0, "both are one buffer");
    assert_eq!(both.to_vec::<f32>(), [2.0, 4.0]);
}

#[test]
fn unchanged_and_unused_arguments_cost_nothing() {
    let mock = Mock::new("mock:0");
    let f = jit(|(x, y, _): (Tensor, Tensor, Tensor)| (y.clone(), x.clone() * 2.0, x, y));
    let placed = |x: f32| device_put(&Tensor::from([x, 2.0]), &mock);
    let (x, y) = (placed(1.0), placed(3.0));
    mock.work();
    let host = Tensor::from([0.0_f32; 100]);
    let (same, doubled, kept, also) = f((x, y, host));
    let expected = Work {
        compiles: 1,
        runs: 1,
        ..Work::default()
    };
    assert_eq!(
        mock.work(),
        expected,
        "`x` is returned, so it is not donated"
    );
    assert_eq!(mock.alive(), 3);
    assert_eq!(same.to_vec::<f32>(), also.to_vec::<f32>());
    assert_eq!(mock.work().reads, 1, "both results are one tensor");
    assert_eq!(doubled.to_vec::<f32>(), [2.0, 4.0]);
    assert_eq!(kept.to_vec::<f32>(), [1.0, 2.0]);
    mock.work();
    let identity = jit(|x: Tensor| x);
    assert_eq!(identity(kept).device(), &mock.device);
    assert_eq!(mock.work(), Work::default());
    assert_eq!(identity.on(&mock)(Tensor::from(1.0)).device(), &mock.device);
}

#[test]
fn captured_tensors_are_transferred_once() {
    let mock = Mock::new("mock:0");
    let weight = Tensor::ones(DType::F32, [10, 10]);
    let f = jit(move |x: Tensor| x.matmul(&weight) + 1.0).on(&mock);
    let x = device_put(&Tensor::ones(DType::F32, [2, 10]), &mock);
    mock.work();
    for _ in 0..3 {
        assert_eq!(f(x.clone()).device(), &mock.device);
    }
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 3,
            puts: 1,
            ..Work::default()
        }
    );
}

#[test]
fn captured_tensor_decides_the_device() {
    let mock = Mock::new("mock:0");
    let weight = device_put(&Tensor::from([2.0_f32, 3.0]), &mock);
    let inner = weight.clone();
    let f = jit(move |x: Tensor| x * &weight);
    let y = f(Tensor::from([1.0_f32, 1.0]));
    assert_eq!(y.device(), &mock.device);
    assert_eq!(mock.work().reads, 0);
    let nested =
        jit(move |x: Tensor| pytree::control::fori_loop(0, 2, |_, x: Tensor| x * &inner, x));
    let y = nested(Tensor::from([1.0_f32, 1.0]));
    assert_eq!(y.device(), &mock.device);
    assert_eq!(y.to_vec::<f32>(), [4.0, 9.0]);
    assert!(
        f.jaxpr(&Tensor::from([1.0_f32, 1.0]))
            .to_string()
            .contains("lambda a:f32[2]")
    );
}

#[test]
fn host_is_a_choice_too() {
    let mock = Mock::new("mock:0");
    let f = jit(|x: Tensor| x * 2.0).on(Device::HOST);
    let y = with_device(&mock, || f(Tensor::from([1.0_f32, 2.0])));
    assert!(y.device().is_host());
    assert_eq!(mock.work(), Work::default());
}

#[test]
fn jit_mut_keeps_its_arguments_on_the_device() {
    let mock = Mock::new("mock:0");
    let add = jit_mut(|(sum, x): (&mut Tensor, Tensor)| {
        *sum = &*sum + &x;
        x * 2.0
    });
    let mut sum = device_put(&Tensor::from([0.0_f32, 0.0]), &mock);
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    for _ in 0..3 {
        assert_eq!(add((&mut sum, x.clone())).device(), &mock.device);
    }
    assert_eq!(
        mock.work(),
        Work {
            compiles: 1,
            runs: 3,
            donated: 3,
            ..Work::default()
        }
    );
    assert_eq!(sum.to_vec::<f32>(), [3.0, 6.0]);
    let on = add.clone().on(&mock);
    let mut host = Tensor::from([0.0_f32, 0.0]);
    on((&mut host, x));
    assert_eq!(host.device(), &mock.device);
}

#[test]
fn references_are_written_on_the_device() {
    let mock = Mock::new("mock:0");
    let count = Ref::new(device_put(&Tensor::from([1.0_f32, 2.0]), &mock));
    let f = jit(|(count, x): (Ref<Tensor>, Tensor)| {
        count.set(count.get() + x);
    });
    mock.work();
    for _ in 0..2 {
        f((count.clone(), Tensor::from([1.0_f32, 1.0])));
    }
    assert_eq!(count.get().device(), &mock.device);
    let expected = Work {
        compiles: 1,
        runs: 2,
        puts: 2,
        donated: 2,
        ..Work::default()
    };
    assert_eq!(
        mock.work(),
        expected,
        "only the copy of the batch is donated"
    );
    assert_eq!(count.get().to_vec::<f32>(), [3.0, 4.0]);
}

#[test]
fn threads_compile_a_function_once() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let f = jit(|x: Tensor| x.sin() + 1.0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(f(x.clone()).device(), &mock.device));
        }
    });
    assert_eq!(mock.work().compiles, 1);
}

#[test]
fn callback_runs_with_the_function() {
    use std::sync::{Arc, Mutex};
    let mock = Mock::new("mock:0");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&seen);
    let f = jit(move |x: Tensor| {
        let inside = Arc::clone(&inside);
        let note =
            move |values: &[Tensor]| inside.lock().unwrap().extend(values[0].to_vec::<f32>());
        pytree::debug::debug_callback(&[&x], note);
        x * 2.0
    });
    let y = f(device_put(&Tensor::from([1.0_f32, 2.0]), &mock));
    assert_eq!(y.to_vec::<f32>(), [2.0, 4.0]);
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0]);
}
