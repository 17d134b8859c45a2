//! Meshes of processes. Threads are the processes here; the tests of `pytree-mpi` start processes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod meshes;
pub(crate) mod threads;
mod training;

use pytree::collectives::{
    Tiling, all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin, ppermute, pshuffle,
    psum, psum_scatter,
};
use pytree::control::scan;
use pytree::device::Mesh;
use pytree::prelude::*;
use pytree::spmd;

use threads::in_threads;

/// Returns an example for each process, with elements of many magnitudes, so that the order of a sum shows in its bits.
pub(crate) fn examples(size: usize, shape: &[usize]) -> Tensor {
    let shape = [&[size], shape].concat();
    let numbers = Tensor::arange(DType::F32, shape.iter().product()) * 0.7;
    (numbers.sin() * (numbers.cos() * 9.0).exp()).reshape(shape)
}

pub(crate) fn bits(tensor: &Tensor) -> Vec<u64> {
    let wide = tensor.convert(DType::F64).to_vec::<f64>();
    wide.into_iter().map(f64::to_bits).collect()
}

/// Runs a function on the devices of a mesh, of which each has one example. Returns the results of all devices, stacked.
fn on_mesh(mesh: &Mesh, examples: &Tensor, function: fn(Tensor) -> Tensor) -> Tensor {
    let one = move |part: Tensor| {
        let result = function(part.reshape(&part.shape()[1..]));
        result.reshape([&[1], result.shape()].concat())
    };
    let parallel = spmd(one).over(mesh);
    let parallel = parallel.in_axes("data", 0).out_axes("data", 0);
    let (first, second) = (parallel(examples.clone()), parallel(examples.clone()));
    assert_eq!(parallel.traces(), 1);
    assert_eq!(first.device(), mesh.device());
    assert!(bits(&first) == bits(&second));
    first.to_host()
}

/// Checks that a function returns the same bits in each process as in a `vmap`.
fn check(name: &str, examples: &Tensor, function: fn(Tensor) -> Tensor) {
    let expected = vmap(function).axis_name("data")(examples.clone());
    let size = examples.shape()[0];
    let of_all = in_threads(size, |all| {
        let mesh = Mesh::new(all, [("data", size)]);
        on_mesh(&mesh, examples, function)
    });
    for found in of_all {
        assert_eq!(found.info(), expected.info(), "{name}");
        assert!(
            bits(&found) == bits(&expected),
            "{name}: {found} and not {expected}"
        );
    }
}

#[test]
fn reductions_have_bits_of_vmap() {
    for size in [1, 2, 3, 5, 8] {
        let x = examples(size, &[4, 3]);
        check("psum", &x, |x| psum(&x.sin(), "data") * 2.0);
        check("psum of a number", &x, |x| psum(&x.sum(), "data"));
        check("pmean", &x, |x| pmean(&x, "data"));
        check("pmax", &x, |x| pmax(&x, "data"));
        check("pmin", &x, |x| pmin(&x, "data"));
        check("no elements", &examples(size, &[0]), |x| psum(&x, "data"));
        // Processes reduce parts of long tensors.
        let long = examples(size, &[9_001]);
        check("long psum", &long, |x| psum(&x, "data"));
        check("long pmax", &long, |x| pmax(&x, "data"));
    }
}

#[test]
fn moves_are_those_of_vmap() {
    for size in [2, 3, 4] {
        let x = examples(size, &[size, 2 * size]);
        check("axis_index", &x, |x| {
            x * axis_index("data").convert(DType::F32)
        });
        check("axis_size", &x, |x| x * axis_size("data") as f64);
        check("all_gather", &x, |x| {
            all_gather(&x, "data", 1, Tiling::Stacked)
        });
        check("all_gather, tiled", &x, |x| {
            all_gather(&x, "data", -1, Tiling::Tiled)
        });
        check("all_to_all", &x, |x| {
            all_to_all(&x, "data", 0, 1, Tiling::Stacked)
        });
        check("all_to_all, tiled", &x, |x| {
            all_to_all(&x, "data", 1, 0, Tiling::Tiled)
        });
        check("psum_scatter", &x, |x| {
            psum_scatter(&x, "data", 0, Tiling::Stacked)
        });
        check("ppermute", &x, |x| ppermute(&x, "data", [(0, 1)]));
        check("pshuffle", &x, |x| {
            let next = (0..axis_size("data")).map(|place| (place + 1) % axis_size("data"));
            pshuffle(&x, "data", next.collect::<Vec<_>>())
        });
    }
}

#[test]
fn each_dtype_has_bits_of_vmap() {
    for &dtype in DType::ALL {
        let x = examples(3, &[5]).abs().convert(DType::I32).convert(dtype);
        let name = dtype.to_string();
        check(&name, &x, |x| psum(&x, "data"));
        check(&name, &x, |x| pmax(&x, "data"));
        check(&name, &x, |x| all_gather(&x, "data", 0, Tiling::Stacked));
        check(&name, &x, |x| ppermute(&x, "data", [(1, 0)]));
        check(&name, &x.reshape([3, 5, 1]), |x| {
            all_gather(&x, "data", 1, Tiling::Tiled)
        });
    }
}

#[test]
fn collectives_work_inside_of_transformations() {
    let x = examples(3, &[4, 3]);
    check("vmap", &x, |x| {
        vmap(|row: Tensor| psum(&row, "data") * axis_index("data").convert(DType::F32))(x)
    });
    check("two axes", &x, |x| {
        vmap(|row: Tensor| psum(&row, ["rows", "data"])).axis_name("rows")(x)
    });
    check("an inner axis of the same name", &x, |x| {
        vmap(|row: Tensor| psum(&row, "data")).axis_name("data")(x)
    });
    check("jit", &x, |x| jit(|x: Tensor| pmax(&x, "data"))(x));
    check("scan", &x, |x| {
        let step = |sum: Tensor, row: Tensor| {
            let sum = psum(&(sum + row.sum()), "data");
            (sum.clone(), sum)
        };
        scan(step, x.sum() * 0.0, x).1
    });
}

#[test]
fn gradients_have_bits_of_vmap() {
    let x = examples(3, &[3, 2]);
    check("psum", &x, |x| {
        grad(|x: &Tensor| psum(&x.sin(), "data").square().sum())(&x)
    });
    check("pmean of a number", &x, |x| {
        grad(|x: &Tensor| pmean(&x.square().sum(), "data"))(&x)
    });
    check("pmax", &x, |x| {
        grad(|x: &Tensor| (pmax(x, "data") * x).sum())(&x)
    });
    check("all_gather", &x, |x| {
        grad(|x: &Tensor| {
            let all = all_gather(x, "data", 0, Tiling::Stacked);
            all.square().sum()
        })(&x)
    });
    check("all_to_all", &x, |x| {
        grad(|x: &Tensor| {
            let all = all_to_all(&x.sin(), "data", 0, 0, Tiling::Stacked);
            all.square().sum()
        })(&x)
    });
    check("ppermute", &x, |x| {
        grad(|x: &Tensor| {
            let moved = ppermute(&x.sin(), "data", [(0, 1), (1, 0)]);
            moved.square().sum()
        })(&x)
    });
    check("grad of grad", &x, |x| {
        grad(|x: &Tensor| {
            let slope = grad(|x: &Tensor| psum(&x.sin(), "data").square().sum())(x);
            (slope * x).sum()
        })(&x)
    });
}
