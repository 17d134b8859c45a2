//! Where tensors of a mesh are, and what is transferred.

use pytree_pjrt::{Client, Options};
use pytree_transform::device::{Device, Mesh, device_put, wait};
use pytree_transform::{DType, Tensor, psum, spmd};

use crate::mesh::{mesh, numbers};

#[test]
fn parts_are_joined_in_order() {
    let Some(mesh) = mesh([("rows", 2), ("columns", 4)]) else {
        return;
    };
    let x = numbers(&[6, 8, 3]);
    let f = spmd(|x: Tensor| x + 0.0)
        .over(&mesh)
        .in_axes("rows", 0)
        .in_axes("columns", -2)
        .out_axes("rows", 0)
        .out_axes("columns", 1);
    let y = f(x.clone());
    assert_eq!((y.device(), y.shape()), (mesh.device(), x.shape()));
    assert_eq!(y.to_vec::<f32>(), x.to_vec::<f32>());
}

/// Results of one call are arguments of the next, with the same or another sharding.
#[test]
fn results_are_passed_on() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let step = |x: Tensor| &x + psum(&x.sum(), "i");
    let divided = spmd(step).over(&mesh).in_axes("i", 0).out_axes("i", 0);
    let by_columns = spmd(step).over(&mesh).in_axes("i", 1).out_axes("i", 1);
    let x = Tensor::arange(DType::F32, 32).reshape([8, 4]);
    let expected = |x: &Tensor| x + x.sum();
    let once = divided(x.clone());
    let twice = divided(once.clone());
    assert_eq!(twice, expected(&expected(&x)));
    assert_eq!(by_columns(once), expected(&expected(&x)));
    assert_eq!(divided.traces(), 1);
}

/// The memory of an argument that nobody else holds may be reused. A clone stays unchanged.
#[test]
fn shared_arguments_stay_unchanged() {
    let Some(mesh) = mesh([("i", 2)]) else { return };
    let step = spmd(|x: Tensor| (&x * 2.0).sin() + x)
        .over(&mesh)
        .in_axes("i", 0)
        .out_axes("i", 0);
    let x = step(numbers(&[100_000]));
    wait(&x);
    let (kept, before) = (x.clone(), device_put(&x, Device::HOST));
    let mut y = x;
    for _ in 0..3 {
        y = step(y);
    }
    assert_eq!(kept, before);
    assert_ne!(y, before);
}

#[test]
fn model_is_put_on_all_devices() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let weight = device_put(&numbers(&[3, 2]), &mesh);
    assert_eq!(weight.device(), mesh.device());
    assert_eq!(weight, numbers(&[3, 2]));
    // An operation outside of `spmd` runs on all devices.
    let doubled = &weight * 2.0;
    assert_eq!(doubled.device(), mesh.device());
    assert_eq!(doubled, numbers(&[3, 2]) * 2.0);
    let f = spmd(|(weight, x): (Tensor, Tensor)| x.matmul(&weight))
        .over(&mesh)
        .in_axes("i", (None, 0))
        .out_axes("i", 0);
    let y = f((doubled, numbers(&[4, 3])));
    let expected = numbers(&[4, 3]).matmul(&(numbers(&[3, 2]) * 2.0));
    crate::mesh::assert_near(&y, &expected, 1e-6);
    // An operation on a divided tensor gathers it.
    assert_eq!(y.sum().device(), mesh.device());
    crate::mesh::assert_near(&y.sum(), &expected.sum(), 1e-5);
}

#[test]
fn captured_tensors_are_on_all_devices() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let (small, large) = (Tensor::from([1.0_f32, 2.0]), numbers(&[5000, 2]));
    let (one, many) = (small.clone(), large.clone());
    let f = spmd(move |x: Tensor| (x + &one) * many.sum_axes([0]))
        .over(&mesh)
        .in_axes("i", 0)
        .out_axes("i", 0);
    let x = numbers(&[8, 2]);
    let expected = (&x + &small) * large.sum_axes([0]);
    crate::mesh::assert_near(&f(x), &expected, 1e-3);
}

/// Leaves that the function does not use or returns unchanged have their own shardings.
#[test]
fn unchanged_leaves_are_returned() {
    let Some(mesh) = mesh([("i", 2)]) else { return };
    let f = spmd(|(x, unused, y): (Tensor, Tensor, Tensor)| {
        drop(unused);
        (y.clone(), x, y)
    });
    let f = f
        .over(&mesh)
        .in_axes("i", (0, None, None))
        .out_axes("i", (0, 0, None));
    let (x, y) = (Tensor::from([1, 2, 3, 4]), Tensor::from([5, 6]));
    let (repeated, same, whole) = f((x.clone(), x.clone(), y.clone()));
    assert_eq!(repeated, Tensor::from([5, 6, 5, 6]));
    assert_eq!((same, whole), (x, y));
}

#[test]
fn threads_call_one_function() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let f = spmd(|x: Tensor| &x + psum(&x, "i"))
        .over(&mesh)
        .in_axes("i", 0)
        .out_axes("i", 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let f = &f;
            scope.spawn(move || {
                for _ in 0..20 {
                    let x = Tensor::from([thread, thread, thread, thread]);
                    assert_eq!(f(x).to_vec::<i32>(), [thread * 5; 4]);
                }
            });
        }
    });
}

/// On a client for CPUs, the devices share a few threads. Without a wait between the runs, one device runs ahead, and its
/// programs occupy the threads that the other device needs.
#[test]
fn many_calls_before_a_read_end() {
    let Some(path) = crate::common::plugin() else {
        return;
    };
    let client = Client::load_with(&path, &Options::new().set("cpu_device_count", 2)).unwrap();
    let mesh = Mesh::new(&client, [("i", 2)]);
    let step = |x: Tensor| {
        let y = psum(&x.matmul(&x).tanh(), "i");
        psum(&y.matmul(&x).tanh(), "i") * 0.5
    };
    let step = spmd(step).over(&mesh);
    let mut x = numbers(&[64, 64]);
    for _ in 0..2000 {
        x = step(x);
    }
    assert_eq!(x.to_vec::<f32>().len(), 64 * 64);
}
