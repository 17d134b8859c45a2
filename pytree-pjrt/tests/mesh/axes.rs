//! Meshes with several axes, and other transformations inside of `spmd`.

use pytree_transform::{
    DType, Tensor, Tiling, all_gather, axis_index, jit, pmax, pmean, psum, scan, spmd, vmap,
};

use crate::mesh::{assert_near, mesh, numbers};

/// A function whose value depends on both axes, in the order of their names.
fn mixed(x: Tensor) -> Tensor {
    let by_model = psum(&x, "model") * (axis_index(("data", "model")).convert(DType::F32) + 1.0);
    by_model + pmax(&x, "data") - pmean(&x, ("model", "data"))
}

#[test]
fn two_axes_equal_nested_vmaps() {
    for (data, model) in [(2, 2), (4, 2), (2, 4), (1, 8)] {
        let Some(mesh) = mesh([("data", data), ("model", model)]) else {
            return;
        };
        let x = numbers(&[data * 3, model * 2]);
        let on_devices = spmd(mixed)
            .over(&mesh)
            .in_axes("data", 0)
            .in_axes("model", 1)
            .out_axes("data", 0)
            .out_axes("model", 1);
        let nested = vmap(vmap(mixed).axis_name("model").in_axes(1).out_axes(1)).axis_name("data");
        let parts = x.reshape([data, 3, model, 2]);
        let expected = nested(parts).reshape(x.shape());
        assert_near(&on_devices(x), &expected, 1e-4);
    }
}

#[test]
fn both_axes_divide_one_axis() {
    let Some(mesh) = mesh([("data", 4), ("model", 2)]) else {
        return;
    };
    let position = |x: Tensor| {
        let own = axis_index(("data", "model"));
        (
            x.clone(),
            own.reshape([1]),
            all_gather(&x, ("data", "model"), 0, Tiling::Tiled),
        )
    };
    let f = spmd(position)
        .over(&mesh)
        .in_axes("data", 0)
        .in_axes("model", 0)
        .out_axes("data", (0, 0, None))
        .out_axes("model", (0, 0, None));
    let x = Tensor::arange(DType::I32, 16);
    let (same, positions, all) = f(x.clone());
    assert_eq!(same, x);
    assert_eq!(positions.to_vec::<i32>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(all, x);
}

/// A layer whose weight is divided by columns, followed by one whose weight is divided by rows.
#[test]
fn divided_weights_equal_whole_weights() {
    let Some(mesh) = mesh([("data", 2), ("model", 4)]) else {
        return;
    };
    let (first, second, x) = (numbers(&[6, 16]), numbers(&[16, 3]), numbers(&[8, 6]));
    let forward = |(first, second, x): (Tensor, Tensor, Tensor)| {
        psum(&x.matmul(&first).tanh().matmul(&second), "model")
    };
    let parallel = spmd(forward)
        .over(&mesh)
        .in_axes("data", (None, None, 0))
        .in_axes("model", (1, 0, None))
        .out_axes("data", 0);
    let expected = x.matmul(&first).tanh().matmul(&second);
    assert_near(&parallel((first, second, x)), &expected, 1e-5);
}

#[test]
fn transformations_inside_equal_those_of_vmap() {
    fn inside(x: Tensor) -> Tensor {
        let step = |total: Tensor, row: Tensor| {
            let total = total + pmean(&row, "i");
            (total.clone(), total)
        };
        let (total, all) = scan(step, Tensor::zeros(DType::F32, [3]), x);
        let scaled = jit(|(all, total): (Tensor, Tensor)| all * psum(&total, "i"));
        vmap(move |row: Tensor| pmax(&row, "i").sin())(scaled((all, total)))
    }
    for count in [2, 4, 8] {
        let Some(mesh) = mesh([("i", count)]) else {
            return;
        };
        let x = numbers(&[count * 4, 3]);
        let found = spmd(inside).over(&mesh).in_axes("i", 0)(x.clone());
        let batch = Tensor::stack(&x.split(count, 0), 0);
        let expected = vmap(inside).axis_name("i").out_axes(None)(batch);
        assert_near(&found, &expected, 1e-5);
    }
}

/// A `vmap` with the name of an axis of the mesh binds the name inside.
#[test]
fn inner_axis_hides_mesh_axis() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let f = |x: Tensor| {
        vmap(|x: Tensor| psum(&x, "i"))
            .axis_name("i")
            .out_axes(None)(x)
    };
    let f = spmd(f).over(&mesh).in_axes("i", 0).out_axes("i", 0);
    let x = Tensor::arange(DType::I32, 16).reshape([8, 2]);
    assert_eq!(f(x), Tensor::from([2, 4, 10, 12, 18, 20, 26, 28]));
}
