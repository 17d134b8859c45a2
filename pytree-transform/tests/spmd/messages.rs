//! Messages about axes, meshes, shardings and references.

use pytree_core::Ref;
use pytree_transform::device::{Device, Mesh, device_put, shard};
use pytree_transform::{DType, Tensor, axis_index, jit, pmean, psum, spmd, vmap};

use crate::spmd::{host, panic_of};

/// Returns the message of a function on a mesh with the axes `data` and `model`.
fn message_of(f: impl Fn(Tensor) -> Tensor + Send + Sync) -> String {
    let f = spmd(f).over(&host(["data", "model"]));
    panic_of(|| f(Tensor::ones(DType::F32, [2])))
}

#[test]
fn unknown_axes_list_those_of_the_mesh() {
    assert_eq!(
        message_of(|x| psum(&x, "batch")),
        "cannot psum over the axis `batch`: the mesh has the axes `data`, `model`; name one of these axes"
    );
    assert_eq!(
        message_of(|x| pmean(&x, ["data", "modle"])),
        "cannot pmean over the axis `modle`: the mesh has the axes `data`, `model`; name one of these axes (did you mean `model`?)"
    );
    let in_vmap = message_of(|x| {
        let f = |x: Tensor| x + axis_index("exampel").convert(DType::F32);
        vmap(f).axis_name("example")(x)
    });
    assert_eq!(
        in_vmap,
        "cannot axis_index over the axis `exampel`: the mesh has the axes `data`, `model`, and the enclosing `vmap`s have the names `example`; name one of these axes (did you mean `example`?)"
    );
    let of_option = panic_of(|| spmd(|x: Tensor| x).over(&host(["data"])).in_axes("dta", 0));
    assert_eq!(
        of_option,
        "cannot set `.in_axes(\"dta\", …)`: the mesh has the axes (data: 1), but no axis `dta` (did you mean `data`?); name an axis of the mesh"
    );
}

#[test]
fn meshes_of_nothing_useful_say_what_to_pass() {
    assert_eq!(
        panic_of(|| host(["data", ""])),
        "cannot make the mesh (data: 1, : 1): axis 1 has the name \"\"; give each axis a name, for instance `data`"
    );
    let of_mesh = panic_of(|| Mesh::new(host(["data"]).device(), [("model", 1)]));
    assert_eq!(
        of_mesh,
        "cannot make the mesh (model: 1) on these devices: the device does not support a mesh of another mesh, the host mesh (data: 1); pass the client of the devices, the processes, or `Device::HOST`, as in `Mesh::new(&client, [(\"data\", 4)])`"
    );
}

#[test]
fn shard_is_refused_on_all_kinds_of_devices() {
    let here = "cannot call `shard` at pytree-transform/tests/spmd/messages.rs:";
    let reason = " inside of spmd: a tensor is the part of one device there, and is divided by `.in_axes` and `.out_axes`; remove `shard`, or compile the function with `jit(f).on(&mesh)` (spmd at pytree-transform/tests/spmd/messages.rs:";
    let direct = message_of(|x| shard(&x, "data"));
    assert!(
        direct.starts_with(here) && direct.contains(reason),
        "{direct}"
    );
    let inner = jit(|x: Tensor| shard(&x, "data") * 2.0);
    let in_jit = message_of(|x| inner(x) + 1.0);
    assert!(
        in_jit.starts_with(here) && in_jit.contains(reason),
        "{in_jit}"
    );
}

#[test]
fn writes_of_references_say_why() {
    let f = spmd(|(total, x): (Ref<Tensor>, Tensor)| total.set(psum(&x.sum(), "data")));
    let f = f.over(&host(["data"])).in_axes("data", (None, 0));
    let total = Ref::new(Tensor::from(0.0_f32));
    let message = panic_of(|| f((total.clone(), Tensor::ones(DType::F32, [2]))));
    let expected = "cannot write the reference at [0] inside of spmd: the devices may write different values; return the value, made equal for instance by `pmean`, and write the reference after the call (spmd at ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(total.get().item::<f32>(), 0.0);
}

#[test]
fn values_that_are_not_known_are_those_of_spmd() {
    let total = Ref::new(Tensor::from(1.0_f32));
    let of_reference = message_of(|x| x * total.get());
    let expected =
        "cannot read a reference inside of `spmd` if the reference was created outside: ";
    assert!(of_reference.starts_with(expected), "{of_reference}");
    let of_value = message_of(|x| if x.sum().item::<f32>() > 0.0 { x } else { -x });
    let expected = "cannot read the value of a traced f32[]: inside spmd, ";
    assert!(of_value.starts_with(expected), "{of_value}");
}

#[test]
fn tensors_on_another_mesh_are_refused_as_arguments_and_moved_as_captured() {
    let other = device_put(
        &Tensor::from([1.0_f32, 2.0]),
        host(["model"]).divided("model"),
    );
    let mesh = host(["data"]);
    let message = panic_of(|| spmd(|x: Tensor| x).over(&mesh)(other.clone()));
    assert!(
        message.starts_with("cannot call spmd on host mesh (data: 1) with f32[2] on host mesh (model: 1) at the root: ")
            && message.contains(" (spmd at pytree-transform/tests/spmd/messages.rs:"),
        "{message}"
    );
    let f = spmd(|x: Tensor| psum(&(x * &other).sum(), "data"));
    let f = f.over(&mesh).in_axes("data", 0);
    assert_eq!(f(Tensor::from([3.0_f32, 4.0])).item::<f32>(), 11.0);
    assert_eq!(
        Device::from(&mesh),
        *f(Tensor::from([3.0_f32, 4.0])).device()
    );
}
