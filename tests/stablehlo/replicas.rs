//! Collectives: the examples of a `vmap` with a named axis are the replicas of a module.

use std::sync::Mutex;

use pytree::collectives::{
    Tiling, all_gather, all_to_all, axis_index, pmax, pmean, pmin, ppermute, psum, psum_scatter,
};
use pytree::stablehlo::StableHlo;
use pytree::{DType, Tensor, grad, ix, jit, vmap};

use crate::stablehlo::record::record_replicas;

type Example = fn(&Tensor) -> Tensor;

const OF_ONE_AXIS: [(&str, Example); 10] = [
    ("psum", |x| psum(&x.sin(), "i") * x),
    ("psum of the same", |x| {
        psum(&Tensor::from(0.5).convert(x.dtype()), "i") * x
    }),
    ("pmean", |x| x - pmean(x, "i")),
    ("pmax", |x| pmax(&x.sin(), "i")),
    ("pmin", |x| pmin(&x.sin(), "i") * x),
    ("all_gather", |x| {
        all_gather(&x.sin(), "i", 1, Tiling::Stacked)
    }),
    ("all_gather tiled", |x| {
        all_gather(&x.sin(), "i", 0, Tiling::Tiled)
    }),
    ("axis_index", |x| axis_index("i").convert(x.dtype()) * x),
    ("ppermute", |x| ppermute(x, "i", [(0, 2), (2, 1)])),
    ("gradient of psum", |x| {
        grad(|x: &Tensor| (psum(&x.sin(), "i") * x).sum())(x)
    }),
];

/// Returns the module of the example function, and the results of all examples.
fn lowered(example: Example, x: &Tensor, axes: &[&'static str]) -> (StableHlo, Tensor) {
    let module: Mutex<Option<StableHlo>> = Mutex::new(None);
    let compiled = jit(move |x: Tensor| example(&x));
    let of_example = |x: Tensor| {
        *module.lock().unwrap() = Some(compiled.stablehlo(&x));
        compiled(x)
    };
    let results = match axes {
        [axis] => vmap(of_example).axis_name(*axis)(x.clone()),
        [outer, inner] => vmap(vmap(of_example).axis_name(*inner)).axis_name(*outer)(x.clone()),
        _ => panic!("{} axes", axes.len()),
    };
    let module = module.lock().unwrap().take().unwrap();
    (module, results)
}

/// Returns the examples along the first axes, each in a list of its own.
fn examples(x: &Tensor, axes: usize) -> Vec<Vec<Tensor>> {
    let mut rows = vec![x.clone()];
    for _ in 0..axes {
        rows = rows
            .iter()
            .flat_map(|rows| (0..rows.shape()[0]).map(|row| rows.index(ix![row as isize])))
            .collect();
    }
    rows.into_iter().map(|row| vec![row]).collect()
}

#[test]
fn collectives_work_over_replicas() {
    for dtype in [DType::F64, DType::BF16] {
        for (name, example) in OF_ONE_AXIS {
            let x = Tensor::arange(DType::F64, 6) * 0.7;
            let x = x.convert(dtype).reshape([3, 2]);
            let name = format!("{name} of {dtype}");
            let (module, results) = lowered(example, &x, &["i"]);
            assert_eq!(module.replica_axes(), [("i", 3)], "{name}");
            record_replicas(&name, &module, &examples(&x, 1), &examples(&results, 1));
        }
    }
    let exchange: [(&str, Example); 4] = [
        ("all_to_all", |x| {
            all_to_all(&x.sin(), "i", 0, 1, Tiling::Stacked) * x.t()
        }),
        ("all_to_all tiled", |x| {
            all_to_all(&x.sin(), "i", 0, 1, Tiling::Tiled)
        }),
        ("psum_scatter", |x| {
            psum_scatter(&x.sin(), "i", 1, Tiling::Stacked)
        }),
        ("psum_scatter tiled", |x| {
            psum_scatter(&x.sin(), "i", 0, Tiling::Tiled)
        }),
    ];
    for (name, example) in exchange {
        let x = (Tensor::arange(DType::F64, 27) * 0.7).reshape([3, 3, 3]);
        let (module, results) = lowered(example, &x, &["i"]);
        record_replicas(name, &module, &examples(&x, 1), &examples(&results, 1));
    }
}

#[test]
fn collectives_work_over_two_axes() {
    let programs: [(&str, Example); 4] = [
        ("psum over both", |x| psum(x, ["i", "j"])),
        ("psum over each", |x| psum(x, "i") - psum(&x.sin(), "j")),
        ("ppermute over the inner", |x| {
            psum(x, "i") + ppermute(x, "j", [(0, 1), (1, 2)])
        }),
        ("positions", |x| {
            let place = axis_index("i") * 10 + axis_index("j");
            all_gather(&(place.convert(DType::F64) + x), "i", 0, Tiling::Stacked)
        }),
    ];
    for (name, example) in programs {
        let x = (Tensor::arange(DType::F64, 12) * 0.7).reshape([2, 3, 2]);
        let (module, results) = lowered(example, &x, &["i", "j"]);
        assert_eq!(module.replica_axes(), [("i", 2), ("j", 3)], "{name}");
        record_replicas(name, &module, &examples(&x, 2), &examples(&results, 2));
    }
}
