//! Collectives between processes equal those of a `vmap` over the same examples, bit for bit.
//!
//! Each test starts itself again with `mpiexec`.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod launch;

use launch::{command, is_started, printed};
use pytree_mpi::{MpiError, Processes};
use pytree_transform::device::Mesh;
use pytree_transform::{
    DType, Tensor, Tiling, all_gather, all_to_all, axis_index, axis_size, grad, jit, pmax, pmean,
    pmin, ppermute, pshuffle, psum, scan, spmd, vmap,
};

/// Calls `body` in `count` processes, which run the test of this name again.
fn in_processes(count: usize, test: &str, body: impl FnOnce(&Processes)) {
    if is_started(test) {
        let processes = Processes::start().unwrap();
        assert_eq!(processes.size(), count);
        body(&processes);
        println!("rank {} is done", processes.rank());
        return;
    }
    let output = command(count, test).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success(), "{test}:\n{text}");
    for rank in 0..count {
        assert!(
            text.contains(&format!("rank {rank} is done")),
            "{test}:\n{text}"
        );
    }
}

/// Returns an example for each process, with elements of many magnitudes, so that the order of a sum shows in its bits.
fn examples(size: usize, shape: &[usize]) -> Tensor {
    let shape = [&[size], shape].concat();
    let numbers = Tensor::arange(DType::F32, shape.iter().product()) * 0.7;
    (numbers.sin() * (numbers.cos() * 9.0).exp()).reshape(shape)
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    let wide = tensor.convert(DType::F64).to_vec::<f64>();
    wide.into_iter().map(f64::to_bits).collect()
}

/// Checks that a function returns the same bits on the processes of a mesh as in a `vmap`.
fn check(processes: &Processes, name: &str, examples: &Tensor, function: fn(Tensor) -> Tensor) {
    let expected = vmap(function).axis_name("data")(examples.clone());
    let mesh = Mesh::new(processes, [("data", processes.size())]);
    let one = move |part: Tensor| {
        let result = function(part.reshape(&part.shape()[1..]));
        result.reshape([&[1], result.shape()].concat())
    };
    let parallel = spmd(one).over(&mesh);
    let parallel = parallel.in_axes("data", 0).out_axes("data", 0);
    for call in ["first", "second"] {
        let found = parallel(examples.clone());
        assert_eq!(found.info(), expected.info(), "{name}, {call} call");
        assert!(
            bits(&found) == bits(&expected),
            "{name}, {call} call: {found} and not {expected}"
        );
    }
    assert_eq!(parallel.traces(), 1, "{name}");
}

fn check_all(processes: &Processes) {
    check_sums(processes);
    check_moves(processes);
    check_inside_of_others(processes);
    check_long(processes);
    check_dtypes(processes);
    check_gradients(processes);
}

fn check_sums(processes: &Processes) {
    let x = examples(processes.size(), &[4, 3]);
    check(processes, "psum", &x, |x| psum(&x.sin(), "data") * 2.0);
    check(processes, "psum of a number", &x, |x| {
        psum(&x.sum(), "data")
    });
    check(processes, "pmean", &x, |x| pmean(&x, "data"));
    check(processes, "pmax", &x, |x| pmax(&x, "data"));
    check(processes, "pmin", &x, |x| pmin(&x, "data"));
    check(
        processes,
        "sums of no elements",
        &examples(processes.size(), &[0]),
        |x| psum(&x, "data"),
    );
}

fn check_moves(processes: &Processes) {
    let size = processes.size();
    let x = examples(size, &[size, 2 * size]);
    check(processes, "axis_index", &x, |x| {
        x * axis_index("data").convert(DType::F32)
    });
    check(processes, "axis_size", &x, |x| x * axis_size("data") as f64);
    check(processes, "all_gather", &x, |x| {
        all_gather(&x, "data", 1, Tiling::Stacked)
    });
    check(processes, "all_gather, tiled", &x, |x| {
        all_gather(&x, "data", -1, Tiling::Tiled)
    });
    check(processes, "all_to_all", &x, |x| {
        all_to_all(&x, "data", 0, 1, Tiling::Stacked)
    });
    check(processes, "all_to_all, tiled", &x, |x| {
        all_to_all(&x, "data", 1, 0, Tiling::Tiled)
    });
    check(processes, "ppermute", &x, |x| {
        ppermute(&x, "data", [(0, 1)])
    });
    check(processes, "pshuffle", &x, |x| {
        let next = (0..axis_size("data")).map(|place| (place + 1) % axis_size("data"));
        pshuffle(&x, "data", next.collect::<Vec<_>>())
    });
}

fn check_inside_of_others(processes: &Processes) {
    let x = examples(processes.size(), &[4, 3]);
    check(processes, "vmap", &x, |x| {
        vmap(|row: Tensor| psum(&row, "data") * axis_index("data").convert(DType::F32))(x)
    });
    check(processes, "two axes", &x, |x| {
        vmap(|row: Tensor| psum(&row, ["rows", "data"])).axis_name("rows")(x)
    });
    check(processes, "an inner axis of the same name", &x, |x| {
        vmap(|row: Tensor| psum(&row, "data")).axis_name("data")(x)
    });
    check(processes, "jit", &x, |x| {
        jit(|x: Tensor| pmax(&x, "data"))(x)
    });
    check(processes, "scan", &x, |x| {
        let first = x.sum() * 0.0;
        let step = |sum: Tensor, row: Tensor| {
            let sum = psum(&(sum + row.sum()), "data");
            (sum.clone(), sum)
        };
        scan(step, first, x).1
    });
}

fn check_long(processes: &Processes) {
    // A debug build sends these tensors in several messages.
    let size = processes.size();
    let x = examples(size, &[size, 300_001]);
    check(processes, "long psum", &x, |x| psum(&x, "data"));
    check(processes, "long pmax", &x, |x| pmax(&x, "data"));
    check(processes, "long all_gather", &x, |x| {
        all_gather(&x, "data", 0, Tiling::Stacked)
    });
    check(processes, "long all_to_all", &x, |x| {
        all_to_all(&x, "data", 0, 0, Tiling::Stacked)
    });
    check(processes, "long ppermute", &x, |x| {
        ppermute(&x, "data", [(1, 0), (0, 1)])
    });
}

fn check_dtypes(processes: &Processes) {
    for dtype in [
        DType::Bool,
        DType::I8,
        DType::U16,
        DType::I32,
        DType::I64,
        DType::BF16,
        DType::F16,
        DType::F64,
    ] {
        let x = examples(processes.size(), &[5])
            .convert(DType::I32)
            .convert(dtype);
        let name = dtype.to_string();
        check(processes, &name, &x, |x| psum(&x, "data"));
        check(processes, &name, &x, |x| pmax(&x, "data"));
        check(processes, &name, &x, |x| {
            all_gather(&x, "data", 0, Tiling::Stacked)
        });
        check(processes, &name, &x, |x| ppermute(&x, "data", [(1, 0)]));
    }
}

fn check_gradients(processes: &Processes) {
    let size = processes.size();
    let x = examples(size, &[size, 2]);
    check(processes, "grad of psum", &x, |x| {
        grad(|x: &Tensor| psum(&x.sin(), "data").square().sum())(&x)
    });
    check(processes, "grad of pmean in a number", &x, |x| {
        grad(|x: &Tensor| pmean(&x.square().sum(), "data"))(&x)
    });
    check(processes, "grad of pmax", &x, |x| {
        grad(|x: &Tensor| (pmax(x, "data") * x).sum())(&x)
    });
    check(processes, "grad of all_gather", &x, |x| {
        grad(|x: &Tensor| all_gather(x, "data", 0, Tiling::Stacked).square().sum())(&x)
    });
    check(processes, "grad of all_to_all", &x, |x| {
        grad(|x: &Tensor| {
            all_to_all(&x.sin(), "data", 0, 0, Tiling::Stacked)
                .square()
                .sum()
        })(&x)
    });
    check(processes, "grad of ppermute", &x, |x| {
        grad(|x: &Tensor| ppermute(&x.sin(), "data", [(0, 1), (1, 0)]).square().sum())(&x)
    });
    check(processes, "grad of grad", &x, |x| {
        grad(|x: &Tensor| {
            let slope = grad(|x: &Tensor| psum(&x.sin(), "data").square().sum())(x);
            (slope * x).sum()
        })(&x)
    });
}

#[test]
fn one_process_computes_like_vmap() {
    in_processes(1, "one_process_computes_like_vmap", |processes| {
        check_sums(processes);
        check_dtypes_of_one(processes);
    });
}

fn check_dtypes_of_one(processes: &Processes) {
    let x = examples(1, &[1, 3]);
    check(processes, "all_to_all", &x, |x| {
        all_to_all(&x, "data", 0, 1, Tiling::Stacked)
    });
    check(processes, "ppermute", &x, |x| {
        ppermute(&x, "data", [(0, 0)])
    });
}

#[test]
fn two_processes_compute_like_vmap() {
    in_processes(2, "two_processes_compute_like_vmap", check_all);
}

#[test]
fn three_processes_compute_like_vmap() {
    in_processes(3, "three_processes_compute_like_vmap", check_all);
}

/// A function whose value depends on both axes, in the order of their names.
fn mixed(x: Tensor) -> Tensor {
    let by_model = psum(&x, "model") * (axis_index(("data", "model")).convert(DType::F32) + 1.0);
    by_model + pmax(&x, "data") - pmean(&x, ("model", "data"))
}

#[test]
fn two_axes_compute_like_nested_vmaps() {
    in_processes(4, "two_axes_compute_like_nested_vmaps", |processes| {
        for (data, model) in [(2, 2), (4, 1), (1, 4)] {
            let mesh = Mesh::new(processes, [("data", data), ("model", model)]);
            // Short and long messages.
            for columns in [2, 40_000] {
                let x = examples(data * 3, &[model * columns]);
                let parallel = spmd(mixed).over(&mesh);
                let parallel = parallel.in_axes("data", 0).in_axes("model", 1);
                let parallel = parallel.out_axes("data", 0).out_axes("model", 1);
                let nested = vmap(mixed).axis_name("model").in_axes(1).out_axes(1);
                let nested = vmap(nested).axis_name("data");
                let expected = nested(x.reshape([data, 3, model, columns])).reshape(x.shape());
                assert!(bits(&parallel(x)) == bits(&expected), "{data} by {model}");
            }
        }
        // Meshes may end in any order, also after the processes.
        assert_eq!(Processes::start().unwrap_err(), MpiError::AlreadyStarted);
    });
}
