//! Functions that XLA divides among the devices of a mesh, compared with the host.

use pytree_transform::device::{Mesh, PartitionSpec, device_put, shard, wait};
use pytree_transform::fori_loop;
use pytree_transform::{DType, Tensor, grad, jit, psum, spmd, vmap};

use crate::mesh::{assert_near, mesh, numbers};

pub(crate) fn two_by_two() -> Option<Mesh> {
    mesh([("data", 2), ("model", 2)])
}

#[track_caller]
fn assert_spec(tensor: &Tensor, spec: impl Into<PartitionSpec>) {
    let sharding = tensor.sharding().expect("a tensor on a mesh");
    assert_eq!(sharding.spec(), spec.into());
}

#[test]
fn divided_operands_stay_divided() {
    let Some(mesh) = two_by_two() else { return };
    let (x, weight) = (numbers(&[4, 6]), numbers(&[6, 8]));
    let divided = device_put(&x, mesh.divided("data"));
    let columns = device_put(&weight, mesh.divided((None, "model")));
    assert_spec(&divided, "data");
    let f = jit(|(x, weight): (Tensor, Tensor)| x.matmul(&weight).tanh());
    let y = f((divided, columns));
    assert_eq!(y.device(), mesh.device());
    assert_spec(&y, ("data", "model"));
    assert_near(&y, &x.matmul(&weight).tanh(), 1e-6);
}

#[test]
fn annotation_decides_the_result() {
    let Some(mesh) = two_by_two() else { return };
    let f = jit(|x: Tensor| shard(&(x * 2.0), (None, ("model", "data")))).on(&mesh);
    let x = numbers(&[3, 8]);
    let y = f(x.clone());
    assert_spec(&y, (None, ("model", "data")));
    assert_eq!(y, x * 2.0);
}

type Named = (&'static str, fn(Tensor) -> Tensor);

/// Each function is compiled for each layout of its operand, and equals the function on the host.
#[test]
fn operations_equal_those_of_the_host() {
    let Some(mesh) = two_by_two() else { return };
    let functions: [Named; 10] = [
        ("softmax", |x| {
            let e = (&x - x.max_axes([-1]).expand_dims(-1)).exp();
            &e / e.sum_axes([-1]).expand_dims(-1)
        }),
        ("matmul", |x| x.matmul(&x.transpose([1, 0]))),
        ("sum", |x| x.sum_axes([0])),
        ("cumsum", |x| x.cumsum(0) + x.cumsum(1)),
        ("sort", |x| x.sort(0)),
        ("argmax", |x| x.argmax(1).convert(DType::F32)),
        ("reshape", |x| x.reshape([6, 16]).sum_axes([1])),
        ("slices", |x| {
            let parts = x.split(4, 0);
            &parts[0] * &parts[3]
        }),
        ("reverse", |x| x.reverse([0, 1]) * x),
        ("loop", |x| {
            fori_loop(0, 3, |_, x: Tensor| shard(&x.sin(), ("model", None)), x)
        }),
    ];
    let specs: [PartitionSpec; 5] = [
        ().into(),
        "data".into(),
        (None, "model").into(),
        ("model", "data").into(),
        [["data", "model"]].into(),
    ];
    let x = numbers(&[8, 12]);
    for (name, function) in functions {
        let expected = jit(function)(x.clone());
        let compiled = jit(function).on(&mesh);
        for spec in &specs {
            let divided = device_put(&x, mesh.divided(spec));
            assert_spec(&divided, spec);
            let found = compiled(divided);
            assert_eq!(found.device(), mesh.device(), "{name} of {spec}");
            assert_near(&found, &expected, 2e-5);
        }
        assert_eq!(compiled.traces(), 1, "{name}");
    }
}

#[test]
fn operations_outside_of_functions_stay_divided() {
    let Some(mesh) = two_by_two() else { return };
    let x = numbers(&[4, 6]);
    let divided = device_put(&x, mesh.divided(("data", "model")));
    let y = (&divided * &divided).exp();
    assert_spec(&y, ("data", "model"));
    assert_near(&y, &(&x * &x).exp(), 1e-6);
    assert_near(&divided.sum_axes([0]), &x.sum_axes([0]), 1e-6);
    assert_spec(&Tensor::zeros_like(&divided), ("data", "model"));
    assert_eq!(
        Tensor::full_like(&divided, 2.0),
        Tensor::full(DType::F32, [4, 6], 2.0)
    );
    assert_spec(&Tensor::zeros_like(&device_put(&x, &mesh)), ());
}

#[test]
fn tensors_move_between_shardings() {
    let Some(mesh) = two_by_two() else { return };
    let x = numbers(&[4, 8]);
    let mut moved = device_put(&x, &mesh);
    let specs: [PartitionSpec; 5] = [
        "data".into(),
        (None, ("data", "model")).into(),
        ("model", "data").into(),
        ().into(),
        (None, ("model", "data")).into(),
    ];
    for spec in specs {
        moved = device_put(&moved, mesh.divided(&spec));
        assert_spec(&moved, &spec);
        assert_eq!(moved, x);
        // `shard` outside of a compiled function does the same.
        moved = shard(&moved, ("data", None));
        assert_spec(&moved, "data");
    }
    let (x, y) = device_put(&(x.clone(), x), mesh.divided((None, "model")));
    assert_spec(&x, (None, "model"));
    assert_eq!(x, y);
}

#[test]
fn gradients_of_annotated_functions_equal_the_host() {
    let Some(mesh) = two_by_two() else { return };
    let loss = |x: &Tensor| shard(&(x * x).sin(), ("data", "model")).sum();
    let x = numbers(&[4, 8]);
    let expected = grad(loss)(&x);
    let on_mesh = jit(move |x: Tensor| grad(loss)(&x)).on(&mesh);
    let gradient = on_mesh(x.clone());
    assert_near(&gradient, &expected, 1e-6);
    assert_spec(&gradient, ("data", "model"));
    // Outside of a compiled function.
    let divided = device_put(&x, mesh.divided("model"));
    assert_near(&grad(loss)(&divided), &expected, 1e-6);
    // Second derivatives.
    let second = move |x: &Tensor| (grad(loss)(x) * x).sum();
    let on_mesh = jit(move |x: Tensor| grad(second)(&x)).on(&mesh);
    assert_near(&on_mesh(divided), &grad(second)(&x), 1e-5);
}

#[test]
fn batched_annotations_leave_the_batch_to_the_compiler() {
    let Some(mesh) = two_by_two() else { return };
    let f = vmap(|x: Tensor| shard(&x.exp(), "model"));
    let x = numbers(&[4, 8]);
    let y = jit(f).on(&mesh)(x.clone());
    assert_near(&y, &x.exp(), 1e-6);
    assert_spec(&y, (None, "model"));
}

#[test]
fn half_precision_is_divided() {
    let Some(mesh) = two_by_two() else { return };
    let x = numbers(&[4, 8]).convert(DType::BF16);
    let f = |x: Tensor| shard(&(&x * &x), "data");
    let found = jit(f).on(&mesh)(device_put(&x, mesh.divided((None, "model"))));
    assert_eq!(found, jit(f)(x));
}

/// The memory of an argument that nobody else holds may be reused. A clone stays unchanged.
#[test]
fn shared_arguments_stay_unchanged() {
    let Some(mesh) = two_by_two() else { return };
    let step = jit(|x: Tensor| (&x * 2.0).sin() + x);
    let x = device_put(&numbers(&[1000, 100]), mesh.divided("data"));
    wait(&x);
    let (kept, before) = (x.clone(), numbers(&[1000, 100]));
    let (mut y, mut expected) = (x, before.clone());
    for _ in 0..3 {
        y = step(y);
        expected = step(expected);
    }
    assert_eq!(kept, before);
    assert_spec(&y, "data");
    assert_near(&y, &expected, 1e-5);
}

#[test]
fn captured_tensors_keep_their_shardings() {
    let Some(mesh) = two_by_two() else { return };
    let (x, weight) = (numbers(&[4, 8]), numbers(&[8, 6]));
    let captured = device_put(&weight, mesh.divided((None, "model")));
    let f = jit(move |x: Tensor| (x.matmul(&captured), captured.clone()));
    let (y, same) = f(x.clone());
    assert_near(&y, &x.matmul(&weight), 1e-6);
    assert_spec(&y, (None, "model"));
    assert_spec(&same, (None, "model"));
}

/// Leaves that the function does not use or returns unchanged keep their shardings.
#[test]
fn unchanged_leaves_keep_their_shardings() {
    let Some(mesh) = two_by_two() else { return };
    let f = jit(|(x, unused, y): (Tensor, Tensor, Tensor)| {
        drop(unused);
        (y.clone(), x.sum(), y)
    });
    let x = numbers(&[4, 8]);
    let divided = device_put(&x, mesh.divided("data"));
    let (first, sum, second) = f((divided.clone(), x.clone(), divided));
    assert_spec(&first, "data");
    assert_eq!((first, second), (x.clone(), x.clone()));
    assert_near(&sum, &x.sum(), 1e-5);
}

#[test]
fn divided_arguments_are_moved_for_spmd() {
    let Some(mesh) = two_by_two() else { return };
    let f = spmd(|x: Tensor| &x + psum(&x.sum(), "data"))
        .over(&mesh)
        .in_axes("data", 0)
        .out_axes("data", 0);
    let x = numbers(&[4, 8]);
    let columns = device_put(&x, mesh.divided((None, ("model", "data"))));
    let y = f(columns);
    assert_spec(&y, "data");
    assert_near(&y, &(&x + x.sum()), 1e-5);
    // The result is an operand of a function that XLA divides.
    assert_near(&y.cos(), &(&x + x.sum()).cos(), 1e-4);
}

/// What each device holds comes from the compiled program.
#[test]
fn compiled_program_shows_the_parts() {
    let Some(mesh) = two_by_two() else { return };
    let f = jit(|(x, weight): (Tensor, Tensor)| shard(&x.matmul(&weight), ("data", "model")));
    let f = f.on(&mesh);
    let argument = device_put(&numbers(&[4, 6]), mesh.divided("data"));
    let argument = (argument, numbers(&[6, 8]));
    let shardings = f.shardings(&argument);
    let parts: Vec<&[usize]> = shardings.inputs.iter().map(|leaf| &leaf.part[..]).collect();
    assert_eq!(
        parts,
        [&[2, 6], &[6, 8]],
        "the weight on the host is not divided"
    );
    assert_eq!(shardings.outputs[0].part, [2, 4]);
    let expected = "input     whole     on each device  spec\n\
                    [0]       f32[4,6]  f32[2,6]        (\"data\",)\n\
                    [1]       f32[6,8]  f32[6,8]        ()\n\
                    output    whole     on each device  spec\n\
                    the root  f32[4,8]  f32[2,4]        (\"data\", \"model\")\n";
    assert_eq!(shardings.to_string(), expected);
}

#[test]
fn meshes_of_other_shapes_divide() {
    let Some(cube) = mesh([("a", 2), ("b", 2), ("c", 2)]) else {
        return;
    };
    let x = numbers(&[8, 4, 6]);
    let divided = device_put(&x, cube.divided((("c", "a"), "b")));
    let f = jit(|x: Tensor| shard(&x.transpose([2, 0, 1]).tanh(), ("b", ("a", "c"))));
    let y = f(divided);
    assert_spec(&y, ("b", ("a", "c")));
    assert_near(&y, &x.transpose([2, 0, 1]).tanh(), 1e-6);
    let Some(line) = mesh([("data", 8)]) else {
        return;
    };
    let one = mesh([("data", 1)]).unwrap();
    for mesh in [line, one] {
        let y = jit(|x: Tensor| x.sum_axes([1])).on(&mesh)(device_put(&x, mesh.divided("data")));
        assert_near(&y, &x.sum_axes([1]), 1e-5);
    }
}

#[test]
fn threads_call_one_function() {
    let Some(mesh) = two_by_two() else { return };
    let f = jit(|x: Tensor| shard(&(&x + x.sum()), "data")).on(&mesh);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (f, mesh) = (&f, &mesh);
            scope.spawn(move || {
                for call in 0..10 {
                    let x = Tensor::from([thread, thread, thread, thread]);
                    let x = if call % 2 == 0 {
                        x
                    } else {
                        device_put(&x, mesh.divided("model"))
                    };
                    assert_eq!(f(x).to_vec::<i32>(), [thread * 5; 4]);
                }
            });
        }
    });
}
