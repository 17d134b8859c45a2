//! Where tensors are: moving them, reading them, and the device that a part of a program chooses.

use pytree::device::{Device, device_put, try_device_put, wait, with_device};
use pytree::prelude::*;

use crate::devices::mock::{Mock, Work};
use crate::devices::panic_of;

#[test]
fn device_put_moves_and_brings_back() {
    let mock = Mock::new("mock:0");
    let pair = (Tensor::from([1.0_f32, 2.0]), Tensor::from(3));
    let moved = device_put(&pair, &mock);
    assert_eq!(moved.0.device(), &mock.device);
    assert_eq!(moved.1.device().to_string(), "mock:0");
    assert_eq!((moved.0.shape(), moved.0.dtype()), (&[2][..], DType::F32));
    assert_eq!(
        mock.work(),
        Work {
            puts: 2,
            ..Work::default()
        }
    );
    let same = device_put(&moved, &mock);
    assert_eq!(mock.work(), Work::default(), "they are already there");
    let back = device_put(&same, Device::HOST);
    assert!(back.0.device().is_host());
    assert_eq!(
        mock.work(),
        Work {
            reads: 2,
            ..Work::default()
        }
    );
    assert_eq!(back, pair);
    let other = Mock::new("mock:1");
    assert_eq!(device_put(&moved, &other), pair);
    assert_eq!(other.work().puts, 2);
}

#[test]
fn elements_are_read_once() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.work();
    assert_eq!(x.read::<f32>().unwrap(), [1.0, 2.0]);
    let clone = x.clone();
    assert_eq!(clone.to_vec::<f32>(), [1.0, 2.0]);
    assert_eq!(clone.view::<f32>().unwrap().len(), 2);
    assert_eq!(format!("{x} {x:?}"), "[1. 2.] Tensor([1., 2.], dtype=f32)");
    assert_eq!(x, Tensor::from([1.0_f32, 2.0]));
    assert!(x.to_host().device().is_host());
    assert_eq!(
        mock.work(),
        Work {
            reads: 1,
            ..Work::default()
        }
    );
    assert_eq!(x.device(), &mock.device, "a read does not move the tensor");
}

#[test]
fn shared_nodes_stay_shared() {
    let mock = Mock::new("mock:0");
    let embedding = Shared::new(Tensor::from([1.0_f32, 2.0]));
    let moved = device_put(&(embedding.clone(), embedding), &mock);
    assert!(moved.0.same(&moved.1));
    assert_eq!(mock.work().puts, 1);
}

#[test]
fn traced_tensor_is_not_moved() {
    let mock = Mock::new("mock:0");
    let device = mock.device.clone();
    let f = jit(move |x: Tensor| match try_device_put(&x, &device) {
        Err(error) => panic!("{error}"),
        Ok(x) => x,
    });
    let message = panic_of(|| f(Tensor::from(1.0)));
    assert!(message.contains("a traced f64[]: inside jit"), "{message}");
}

#[test]
fn with_device_places_what_has_no_place() {
    let mock = Mock::new("mock:0");
    let host = Tensor::from([1.0_f32, 2.0]);
    let (zeros, sum, jitted) = with_device(&mock, || {
        let zeros = Tensor::zeros(DType::F32, [2]);
        (zeros, &host + 1.0, jit(|x: Tensor| x * 2.0)(host.clone()))
    });
    for tensor in [&zeros, &sum, &jitted] {
        assert_eq!(tensor.device(), &mock.device);
    }
    assert_eq!(sum.to_vec::<f32>(), [2.0, 3.0]);
    assert!((&host + 1.0).device().is_host(), "the choice has ended");
    assert_eq!((&sum + 1.0).device(), &mock.device, "its operand is there");
}

#[test]
fn with_device_nests_and_survives_panics() {
    let (first, second) = (Mock::new("mock:0"), Mock::new("mock:1"));
    let zeros = || Tensor::zeros(DType::F32, [2]).device().clone();
    with_device(&first, || {
        with_device(&second, || assert_eq!(zeros(), second.device));
        assert_eq!(zeros(), first.device);
        with_device(Device::HOST, || assert_eq!(zeros(), Device::HOST));
        let message = panic_of(|| with_device(&second, || panic!("{}", "user's")));
        assert_eq!(message, "user's");
        assert_eq!(zeros(), first.device);
    });
    assert_eq!(zeros(), Device::HOST);
}

#[test]
fn threads_choose_their_own_device() {
    let mock = Mock::new("mock:0");
    let zeros = || Tensor::zeros(DType::F32, [2]).device().clone();
    with_device(&mock, || {
        let of_thread = std::thread::scope(|scope| scope.spawn(zeros).join().unwrap());
        assert_eq!(of_thread, Device::HOST);
        assert_eq!(zeros(), mock.device);
    });
}

#[test]
fn wait_returns_when_all_results_are_ready() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let (is_open, (started, begin)) = (AtomicBool::new(false), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let closed = mock.counts.gate.write().unwrap();
            started.send(()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_open.store(true, Ordering::SeqCst);
            drop(closed);
        });
        begin.recv().unwrap();
        mock.work();
        let pair = (Tensor::from(1.0_f32), vec![&x * 2.0, x.sin()]);
        assert!(!is_open.load(Ordering::SeqCst), "the calls did not wait");
        wait(&pair);
        assert!(
            is_open.load(Ordering::SeqCst),
            "the results were not computed"
        );
        assert_eq!(mock.work().reads, 0, "nothing is transferred");
    });
    jit(|x: Tensor| {
        wait(&x);
        x
    })(x);
}

#[test]
fn call_returns_before_results_are_ready() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let f = jit(|x: Tensor| x * 2.0);
    let closed = mock.counts.gate.write().unwrap();
    let y = f(f(x));
    assert_eq!(y.shape(), [2]);
    assert_eq!(mock.work().runs, 2);
    drop(closed);
    assert_eq!(y.to_vec::<f32>(), [4.0, 8.0]);
}
