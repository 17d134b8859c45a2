//! Meshes with several axes, reads, other divisions, and mistakes.

use pytree::collectives::{all_gather, axis_index, pmax, pmean, psum};
use pytree::debug::debug_nans;
use pytree::device::{Device, Mesh, device_put};

use crate::processes::threads::{calls, in_threads};
use crate::processes::*;

fn message<R>(action: impl FnOnce() -> R) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(action())));
    *panic.unwrap_err().downcast::<String>().unwrap()
}

/// A function whose value depends on both axes, in the order of their names.
fn mixed(x: Tensor) -> Tensor {
    let by_model = psum(&x, "model") * (axis_index(("data", "model")).convert(DType::F32) + 1.0);
    by_model + pmax(&x, "data") - pmean(&x, ("model", "data"))
}

#[test]
fn two_axes_have_bits_of_nested_vmaps() {
    for (data, model) in [(2, 2), (3, 2), (1, 4), (2, 1)] {
        let x = examples(data * 3, &[model * 2]);
        let nested = vmap(vmap(mixed).axis_name("model").in_axes(1).out_axes(1)).axis_name("data");
        let expected = nested(x.reshape([data, 3, model, 2])).reshape(x.shape());
        let of_all = in_threads(data * model, |all| {
            let mesh = Mesh::new(all, [("data", data), ("model", model)]);
            let parallel = spmd(mixed).over(&mesh);
            let parallel = parallel.in_axes("data", 0).in_axes("model", 1);
            let parallel = parallel.out_axes("data", 0).out_axes("model", 1);
            parallel(x.clone()).to_host()
        });
        for found in of_all {
            assert!(bits(&found) == bits(&expected), "{data} by {model}");
        }
    }
}

#[test]
fn both_axes_divide_one_axis() {
    let x = Tensor::arange(DType::I32, 12);
    let of_all = in_threads(6, |all| {
        let mesh = Mesh::new(all, [("data", 2), ("model", 3)]);
        let position = |x: Tensor| {
            let own = axis_index(("data", "model"));
            let all = all_gather(&x, ("data", "model"), 0, Tiling::Tiled);
            (x, own.reshape([1]), all)
        };
        let f = spmd(position).over(&mesh);
        let f = f.in_axes("data", 0).in_axes("model", 0);
        let f = f.out_axes("data", (0, 0, None));
        let f = f.out_axes("model", (0, 0, None));
        let (same, positions, all) = f(x.clone());
        [same.to_host(), positions.to_host(), all.to_host()]
    });
    for [same, positions, all] in of_all {
        assert_eq!(same, x);
        assert_eq!(positions.to_vec::<i32>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all, x);
    }
}

#[test]
fn equal_elements_are_read_without_communication() {
    let sums = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let sum = spmd(|x: Tensor| psum(&x.sum(), "data")).over(&mesh);
        let sum = sum.in_axes("data", 0)(Tensor::from([1.0_f32, 2.0]));
        // If a read waited for the other process, this process would wait for ever.
        (all.rank() == 0).then(|| sum.item::<f32>())
    });
    assert_eq!(sums, [Some(3.0), None]);
}

#[test]
fn divided_tensors_are_operands_everywhere() {
    let x = examples(4, &[6]);
    let of_all = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let double = spmd(|x: Tensor| x * 2.0).over(&mesh);
        let by_rows = double.in_axes("data", 0).out_axes("data", 0);
        let by_columns = spmd(|x: Tensor| x + 1.0).over(&mesh);
        let by_columns = by_columns.in_axes("data", 1).out_axes("data", 1);
        let whole = spmd(|x: Tensor| x.sum()).over(&mesh);
        let doubled = by_rows(x.clone());
        let moved = by_columns(doubled.clone());
        let eager = &doubled - 1.0;
        assert_eq!(eager.device(), mesh.device());
        let compiled = jit(|x: Tensor| x.sin())(doubled.clone());
        let put = device_put(&x, &mesh);
        [
            doubled.clone(),
            moved,
            eager,
            compiled,
            whole(doubled),
            by_rows(put),
        ]
        .map(|found| found.to_host())
    });
    let twice = &x * 2.0;
    let expected = [
        twice.clone(),
        &twice + 1.0,
        &twice - 1.0,
        twice.sin(),
        twice.sum(),
        twice,
    ];
    for found in of_all {
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn process_data_is_used_without_communication() {
    let of_all = in_threads(4, |all| {
        let mesh = Mesh::new(all, [("data", 2), ("model", 2)]);
        let own = Tensor::full(DType::F32, [3, 2], (all.rank() / 2) as f64);
        let x = mesh.tensor_from_process_data(&own, "data");
        assert_eq!(x.shape(), [6, 2]);
        assert_eq!(x.sharding().unwrap().spec(), "data".into());
        let double = spmd(|x: Tensor| x * 2.0).over(&mesh);
        let double = double.in_axes("data", 0).out_axes("data", 0);
        let doubled = double(x);
        let shards = doubled.shards();
        assert_eq!(shards.len(), 1);
        assert_eq!(shards[0].device(), all.rank());
        assert_eq!(shards[0].replica(), all.rank() % 2);
        assert_eq!(shards[0].index()[0].start, all.rank() / 2 * 3);
        // If this communicated, this process would wait for ever.
        (all.rank() == 3).then(|| shards[0].read())
    });
    assert_eq!(of_all[3], Some(Tensor::full(DType::F32, [3, 2], 2.0)));
}

#[test]
fn tensor_is_read_by_shards_and_whole() {
    let x = examples(4, &[6]);
    let of_all = in_threads(4, |all| {
        let mesh = Mesh::new(all, [("data", 2), ("model", 2)]);
        let put = device_put(&x, mesh.divided(("model", "data")));
        let from = mesh.tensor_from_callback(x.info(), ("model", "data"), |index| {
            x.index([index[0].clone().into(), index[1].clone().into()])
        });
        [
            put.shards()[0].read(),
            from.shards()[0].read(),
            put.to_host(),
            from.to_host(),
        ]
    });
    for (rank, [put, from, whole, other]) in of_all.into_iter().enumerate() {
        let (column, row) = (rank / 2 * 3, rank % 2 * 2);
        let part = x.index(ix![row..row + 2, column..column + 3]);
        assert_eq!((&put, &from), (&part, &part));
        assert_eq!((&whole, &other), (&x, &x));
    }
}

#[test]
fn host_alone_is_mesh() {
    let mesh = Mesh::new(&Device::HOST, [("data", 1), ("model", 1)]);
    assert_eq!(mesh.to_string(), "host mesh (data: 1, model: 1)");
    let f = spmd(|x: Tensor| psum(&x, ("data", "model")) + pmax(&x, "data")).over(&mesh);
    let f = f.in_axes("data", 0).out_axes("data", 0);
    let x = Tensor::from([1.0_f32, 2.0]);
    assert_eq!(f(x.clone()), &x * 2.0);
    // From any thread.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| f(x.clone()).to_vec::<f32>());
        assert_eq!(other.join().unwrap(), [2.0, 4.0]);
    });
    assert_eq!(
        message(|| Mesh::new(&Device::HOST, [("data", 4)])),
        "cannot make the mesh (data: 4) on these devices: the device does not support a mesh of 4 devices, because the host is one device; choose the length 1 for each axis, or make the mesh of a client or of processes"
    );
    assert_eq!(
        message(|| Mesh::new(mesh.device(), [("data", 1)])),
        "cannot make the mesh (data: 1) on these devices: the device does not support a mesh of another mesh, the host mesh (data: 1, model: 1); pass the client of the devices, the processes, or `Device::HOST`, as in `Mesh::new(&client, [(\"data\", 4)])`"
    );
}

#[test]
fn mesh_has_all_processes() {
    let messages = in_threads(3, |all| message(|| Mesh::new(all, [("data", 2)])));
    assert_eq!(
        messages[0],
        "cannot make the mesh (data: 2) on these devices: the device does not support a mesh of 2 processes, because the run has 3; choose lengths whose product is 3, or start 2 processes"
    );
}

#[test]
fn other_threads_do_not_communicate() {
    let messages = in_threads(1, |all| {
        let mesh = Mesh::new(all, [("data", 1)]);
        let sum = spmd(|x: Tensor| psum(&x, "data")).over(&mesh);
        let x = device_put(&Tensor::from([1.0_f32]), &mesh);
        let sum = &sum;
        std::thread::scope(|scope| {
            let other = scope.spawn(move || message(|| sum(x)));
            other.join().unwrap()
        })
    });
    assert!(
        messages[0].contains("does not support a call from another thread than the thread that made the mesh, because only that thread communicates; call the function in the thread that made the mesh"),
        "{}",
        messages[0]
    );
}

#[test]
fn uneven_batch_is_refused() {
    let messages = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let sum = spmd(|(x, y): (Tensor, Tensor)| psum(&(x.sum() + y.sum()), "data")).over(&mesh);
        let sum = sum.in_axes("data", (None, 0));
        let (x, y) = (
            Tensor::zeros(DType::F32, [3]),
            Tensor::zeros(DType::F32, [5, 2]),
        );
        message(|| sum((x, y)))
    });
    for message in messages {
        assert!(
            message.starts_with("cannot divide the argument of spmd among the devices: axis 0 of [1] (f32[5,2]) has length 5, which is not a multiple of the 2 devices of `data`"),
            "{message}"
        );
    }
}

/// If equal collectives were merged, processes with other constants would communicate in another way.
#[test]
fn processes_with_different_constants_communicate_alike() {
    let found = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let first = Tensor::from([1.0_f32, 2.0]);
        let second = Tensor::from([1.0_f32, 2.0 + all.rank() as f32]);
        let sums = spmd(move |x: Tensor| {
            let one = psum(&(&x * &first), "data");
            let other = psum(&(&x * &second), "data");
            (one, other)
        });
        let (one, other) = sums.over(&mesh)(Tensor::from([1.0_f32, 1.0]));
        (one.to_vec::<f32>(), other.to_vec::<f32>())
    });
    for (one, other) in found {
        assert_eq!((one, other), (vec![2.0, 4.0], vec![2.0, 5.0]));
    }
}

/// Sums of several shapes. Some depend on others.
fn sums(x: Tensor) -> Tensor {
    let sum = |x: &Tensor| psum(x, "data");
    let row = sum(&x.sum_axes([0]));
    let whole = sum(&x);
    let count = sum(&Tensor::ones(DType::I32, [2])).sum();
    let scaled = sum(&(x.cos() * &row));
    let mean = pmean(&(x.mean(), x.max_axes([1])), "data");
    scaled + whole * row + mean.0 * count.convert(DType::F32) + mean.1.reshape([4, 1])
}

#[test]
fn small_sums_are_one_exchange() {
    let x = examples(3, &[4, 5]);
    check("sums", &x, sums);
    let of_all = in_threads(3, |all| {
        let mesh = Mesh::new(all, [("data", 3)]);
        let part = |x: Tensor| sums(x.reshape([4, 5])).reshape([1, 4, 5]);
        let f = spmd(part).over(&mesh);
        let f = f.in_axes("data", 0).out_axes("data", 0);
        let _first = f(x.clone());
        calls();
        let _second = f(x.clone());
        calls()
    });
    for calls in of_all {
        assert_eq!(
            calls,
            [
                "psum axes=('data',) of i32[2]",
                "psum axes=('data',) of f32[30]",
                "psum axes=('data',) of f32[4,5]"
            ]
        );
    }
}

#[test]
fn large_sums_are_not_joined() {
    let of_all = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let f = spmd(|(x, y, z): (Tensor, Tensor, Tensor)| psum_of(&[x, y, z])).over(&mesh);
        let zeros = |length: usize| Tensor::zeros(DType::F32, [length]);
        let results = f((zeros(3), zeros(4000), zeros(5)));
        assert!(
            results
                .iter()
                .all(|result| result.sum().item::<f32>() == 0.0)
        );
        calls()
    });
    for calls in of_all {
        assert_eq!(
            calls,
            [
                "psum axes=('data',) of f32[4000]",
                "psum axes=('data',) of f32[8]"
            ]
        );
    }
}

fn psum_of(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors.iter().map(|tensor| psum(tensor, "data")).collect()
}

/// Each process checks the results of its own operations.
#[test]
fn processes_check_their_results() {
    let line = line!() + 4;
    let messages = in_threads(2, |all| {
        let mesh = Mesh::new(all, [("data", 2)]);
        let f = spmd(|x: Tensor| {
            let y = x.log();
            psum(&y.sum(), "data")
        });
        let f = f.over(&mesh).in_axes("data", 0);
        assert_eq!(
            debug_nans(|| f(Tensor::ones(DType::F32, [4]))).item::<f32>(),
            0.0
        );
        message(|| debug_nans(|| f(Tensor::from([1.0_f32, -2.0, -3.0, -4.0]))))
    });
    for (message, count) in messages.iter().zip([1, 2]) {
        let expected = format!("`log` at tests/processes/meshes.rs:{line}:");
        assert!(message.starts_with(&expected), "{message}");
        let expected = format!("returned NaN in {count} of 2 elements");
        assert!(message.contains(&expected), "{message}");
    }
}
