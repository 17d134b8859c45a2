//! Messages about specs, rules and shardings.

use pytree_core::{Filter, Module};
use pytree_transform::device::{ShardingRules, device_put, shard, visualize_sharding, with_device};
use pytree_transform::{DType, Tensor, jit, spmd};

use crate::mesh::partitions::two_by_two;
use crate::mesh::{mesh, panic_of};

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(DType::F32, shape)
}

#[derive(Module, Clone)]
struct Layer {
    #[param("in heads")]
    weight: Tensor,
    #[param("heads")]
    bias: Tensor,
}

fn layer() -> Layer {
    Layer {
        weight: ones(&[4, 6]),
        bias: ones(&[6]),
    }
}

/// All leaves that do not fit are listed, with key paths, shapes, names and lengths.
#[test]
fn specs_that_do_not_fit_list_all_leaves() {
    let Some(mesh) = mesh([("data", 4), ("model", 2)]) else {
        return;
    };
    let batch = (ones(&[6, 3]), (ones(&[8]), ones(&[])));
    let message = panic_of(|| device_put(&batch, mesh.divided(("data", "modle"))));
    assert_eq!(
        message,
        "cannot put the value on cpu mesh (data: 4, model: 2): the spec (\"data\", \"modle\") names the axis `modle`, but the mesh has the axes (data: 4, model: 2) (did you mean `model`?); axis 0 of [0] (f32[6,3]) has length 6, which is not a multiple of the 4 devices of `data`; the spec (\"data\", \"modle\") has 2 members, but [1][0] (f32[8]) has 1 axis; the spec (\"data\", \"modle\") has 2 members, but [1][1] (f32[]) has 0 axes; name axes of the mesh; pad the axis, or write `None` for it; write at most one member for each axis of the tensor"
    );
}

#[test]
fn repeated_names_are_refused() {
    let Some(mesh) = two_by_two() else { return };
    let message = panic_of(|| device_put(&ones(&[4, 4]), mesh.divided(("data", "data"))));
    assert_eq!(
        message,
        "cannot put the value on cpu mesh (data: 2, model: 2): the spec (\"data\", \"data\") names the axis `data` of the mesh twice; name each axis of the mesh once in a spec, because it divides only one axis of a tensor"
    );
}

#[test]
fn rules_for_nothing_are_refused() {
    let Some(mesh) = two_by_two() else { return };
    let rules = ShardingRules::new()
        .axis("head", "model")
        .axis_where(Filter::path("bias"), "in", "data")
        .leaf(Filter::path("wieght"), ("data",));
    let message = panic_of(|| device_put(&layer(), mesh.divided(rules)));
    assert_eq!(
        message,
        "cannot put the value on cpu mesh (data: 2, model: 2): the rule `axis(\"head\", \"model\")` applies to no leaf: its leaves have the axes `heads`, `in` (did you mean `heads`?); the rule `axis_where(path(bias), \"in\", \"data\")` applies to no leaf: its leaves have the axes `heads`; the rule `leaf(path(wieght), (\"data\",))`: no leaf at wieght; did you mean `weight`?; name an axis that a module declares, as in `#[param(\"in out\")]`, or remove the rule; write a filter that accepts a leaf, or remove the rule"
    );
}

#[test]
fn uneven_axes_of_rules_name_the_leaves() {
    let Some(mesh) = mesh([("model", 4)]) else {
        return;
    };
    let rules = ShardingRules::new().axis("heads", "model");
    let message = panic_of(|| device_put(&layer(), mesh.divided(&rules)));
    assert_eq!(
        message,
        "cannot put the value on cpu mesh (model: 4): axis 1 of weight (f32[4,6]) has length 6, which is not a multiple of the 4 devices of `model`; axis 0 of bias (f32[6]) has length 6, which is not a multiple of the 4 devices of `model`; pad the axis, or write `None` for it"
    );
}

#[test]
fn annotations_are_checked_when_recorded() {
    let message = panic_of(|| jit(|x: Tensor| shard(&x, ("data", None)))(ones(&[4])));
    assert_eq!(
        message,
        "cannot shard the value: the spec (\"data\", None) has 2 members, but the root (f32[4]) has 1 axis; write at most one member for each axis of the tensor"
    );
}

#[test]
fn annotations_are_checked_when_compiled() {
    let Some(mesh) = two_by_two() else { return };
    let f = jit(|x: Tensor| shard(&x, ("batch", "model"))).on(&mesh);
    let message = panic_of(|| f(ones(&[4, 3])));
    let (before, after) = message.split_once(" at pytree-pjrt").unwrap();
    assert_eq!(before, "cannot compile `jit");
    assert!(
        after.contains("on cpu mesh (data: 2, model: 2): the device does not support the operation `shard` at ")
            && after.ends_with("the spec (\"batch\", \"model\") names the axis `batch`, but the mesh has the axes (data: 2, model: 2); axis 1 of the tensor (f32[4,3]) has length 3, which is not a multiple of the 2 devices of `model`; name axes of the mesh; pad the axis, or write `None` for it"),
        "{message}"
    );
}

#[test]
fn annotations_inside_of_spmd_are_refused() {
    let Some(mesh) = two_by_two() else { return };
    let f = spmd(|x: Tensor| shard(&x, "model"))
        .over(&mesh)
        .in_axes("data", 0)
        .out_axes("data", 0);
    let message = panic_of(|| f(ones(&[4, 2])));
    assert!(
        message.starts_with("cannot call `shard` at pytree-pjrt/tests/mesh/sharding_errors.rs:")
            && message.contains(" inside of spmd: a tensor is the part of one device there, and is divided by `.in_axes` and `.out_axes`; remove `shard`, or compile the function with `jit(f).on(&mesh)` (spmd at "),
        "{message}"
    );
}

#[test]
fn chosen_mesh_checks_outside_of_functions() {
    let Some(mesh) = two_by_two() else { return };
    let message = panic_of(|| with_device(&mesh, || shard(&ones(&[3]), "data")));
    assert_eq!(
        message,
        "cannot shard the value on cpu mesh (data: 2, model: 2): axis 0 of the root (f32[3]) has length 3, which is not a multiple of the 2 devices of `data`; pad the axis, or write `None` for it"
    );
    let x = with_device(&mesh, || shard(&ones(&[4]), "data"));
    assert_eq!(x.sharding().unwrap().spec(), "data".into());
}

#[test]
fn traced_tensors_have_no_picture() {
    let message = panic_of(|| {
        jit(|x: Tensor| {
            let _ = visualize_sharding(&x);
            x
        })(ones(&[4]))
    });
    assert_eq!(
        message,
        "cannot visualize the sharding of a traced f32[4]: return the tensor from the function, and visualize the result"
    );
}

#[test]
fn tensors_of_two_meshes_are_refused() {
    let (Some(first), Some(second)) = (two_by_two(), two_by_two()) else {
        return;
    };
    let x = device_put(&ones(&[4]), first.divided("data"));
    let y = device_put(&ones(&[4]), second.divided("data"));
    let message = panic_of(|| x + y);
    assert!(
        message.starts_with("cannot add f32[4] on cpu mesh (data: 2, model: 2) and f32[4] on cpu mesh (data: 2, model: 2), another device of this name: "),
        "{message}"
    );
}
