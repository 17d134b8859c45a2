//! Messages about meshes, lengths and axes.

use pytree_transform::device::{Device, Mesh, device_put};
use pytree_transform::{DType, Tensor, axis_index, grad, jit, psum, spmd};

use crate::mesh::{client, mesh, panic_of};

#[test]
fn uneven_lengths_name_leaves_and_axes() {
    let Some(mesh) = mesh([("data", 4), ("model", 2)]) else {
        return;
    };
    let f = spmd(|(x, y, z): (Tensor, Tensor, Tensor)| {
        psum(&(x.sum() + y.sum() + z.sum()), ("data", "model"))
    })
    .over(&mesh)
    .in_axes("data", (0, 1, None))
    .in_axes("model", (0, None, 0));
    let ones = |shape: &[usize]| Tensor::ones(DType::F32, shape);
    let message = panic_of(|| f((ones(&[12, 3]), ones(&[3, 10]), ones(&[6]))));
    let expected = "cannot divide the argument of spmd among the devices: axis 0 of [0] (f32[12,3]) has length 12, which is not a multiple of the 8 devices of `data` × `model`; axis 1 of [1] (f32[3,10]) has length 10, which is not a multiple of the 4 devices of `data`; pad the axis, or give all devices the whole leaf with `None` (spmd at ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(f.traces(), 0);
}

#[test]
fn axes_out_of_range_name_leaves() {
    let Some(mesh) = mesh([("data", 2)]) else {
        return;
    };
    let f = spmd(|x: Tensor| x).over(&mesh).in_axes("data", 1);
    let message = panic_of(|| f(Tensor::ones(DType::F32, [4])));
    assert!(
        message.starts_with(
            "cannot spmd: the root (f32[4]) has no axis 1, which `.in_axes(\"data\", …)` divides; pass an axis of the leaf, or `None` (spmd at "
        ),
        "{message}"
    );
    let f = spmd(|x: Tensor| x).over(&mesh).in_axes("data", (0, 0));
    let message = panic_of(|| f(Tensor::ones(DType::F32, [4])));
    assert!(
        message
            .starts_with("cannot spmd: the axes of `.in_axes(\"data\", …)` do not fit the value: "),
        "{message}"
    );
}

#[test]
fn results_that_differ_are_refused() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let f = spmd(|x: Tensor| (psum(&x, "data"), x, axis_index("model")))
        .over(&mesh)
        .in_axes("data", 0);
    let message = panic_of(|| f(Tensor::ones(DType::F32, [4])));
    let expected = "cannot return from spmd: [1] (f32[2]) differs between the devices of `data`, but its axis is `None`; [2] (i32[]) differs between the devices of `model`, but its axis is `None`; return the same value on all devices, such as a mean by `pmean`, or set the axis with `.out_axes(\"data\", …)` and `.out_axes(\"model\", …)` (spmd at ";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn unknown_axes_are_refused() {
    let Some(mesh) = mesh([("data", 2)]) else {
        return;
    };
    let message = panic_of(|| spmd(|x: Tensor| x).over(&mesh).in_axes("batch", 0));
    assert_eq!(
        message,
        "cannot set `.in_axes(\"batch\", …)`: the mesh has the axes (data: 2), but no axis `batch`; name an axis of the mesh"
    );
    let f = spmd(|x: Tensor| psum(&x, "batch")).over(&mesh);
    let message = panic_of(|| f(Tensor::ones(DType::F32, [4])));
    assert_eq!(
        message,
        "cannot psum over the axis `batch`: the mesh has the axes `data`; name one of these axes"
    );
}

#[test]
fn invalid_meshes_are_refused() {
    let Some(client) = client() else { return };
    let message = |axes: &[(&str, usize)]| {
        let axes = axes.iter().copied();
        Mesh::try_new(client, axes).unwrap_err().to_string()
    };
    assert!(message(&[]).starts_with("cannot make the mesh (): it has no axes; "));
    assert_eq!(
        message(&[("a", 2), ("a", 2)]),
        "cannot make the mesh (a: 2, a: 2): two axes have the name `a`; give each axis its own name"
    );
    assert_eq!(
        message(&[("a", 2), ("b", 0)]),
        "cannot make the mesh (a: 2, b: 0): the axis `b` has length 0; pass the number of devices along the axis, at least 1"
    );
    assert_eq!(
        message(&[("a", 4), ("b", 4)]),
        "cannot make the mesh (a: 4, b: 4) on these devices: the device does not support a mesh of 16 devices, because the client has 8; load the client with `Options::new().set(\"cpu_device_count\", 16)`, or make an axis shorter"
    );
}

#[test]
fn other_transformations_are_refused_outside() {
    let Some(mesh) = mesh([("data", 2)]) else {
        return;
    };
    let f = || {
        spmd(|x: Tensor| psum(&x.sum(), "data"))
            .over(&mesh)
            .in_axes("data", 0)
    };
    let x = Tensor::ones(DType::F32, [4]);
    for message in [
        panic_of(|| grad(|x: &Tensor| f()(x.clone()))(&x)),
        panic_of(|| {
            jit({
                let f = f();
                move |x: Tensor| f(x)
            })(x.clone())
        }),
    ] {
        assert!(
            message.starts_with("cannot call spmd with the traced f32[4] at the root: "),
            "{message}"
        );
    }
}

#[test]
fn tensors_of_other_devices_are_refused() {
    let (Some(mesh), Some(client)) = (mesh([("data", 2)]), client()) else {
        return;
    };
    let x = device_put(&Tensor::ones(DType::F32, [4]), Device::from(client));
    let f = spmd(|x: Tensor| x).over(&mesh);
    let message = panic_of(|| f(x));
    assert!(
        message.starts_with("cannot call spmd on cpu mesh (data: 2) with f32[4] on cpu:0")
            && message.contains(" at the root"),
        "{message}"
    );
}

#[test]
fn error_of_the_function_is_returned() {
    let Some(mesh) = mesh([("data", 2)]) else {
        return;
    };
    let f = spmd(|x: Tensor| if x.shape() == [2] { Err("two") } else { Ok(x) })
        .over(&mesh)
        .in_axes("data", 0)
        .out_axes("data", 0);
    assert_eq!(f(Tensor::ones(DType::F32, [4])), Err("two"));
    assert!(f(Tensor::ones(DType::F32, [6])).is_ok());
}
