//! Axes of processes: collectives between the processes of a communicator. Threads stand for processes here; the tests
//! of `pytree-mpi` start processes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod threads;

use std::rc::Rc;

use pytree::collectives::{
    CollectiveCall, Communicator, Tiling, all_gather, all_to_all, axis_index, axis_size, pmax,
    pmean, pmin, ppermute, pshuffle, psum, with_communicator,
};
use pytree::control::scan;
use pytree::prelude::*;
use pytree::unstack;

use threads::in_threads;

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

/// Checks that a function returns the same bits in each process, compiled and not compiled, as in a `vmap`.
fn check(name: &str, examples: &Tensor, function: fn(Tensor) -> Tensor) {
    let expected = unstack(&vmap(function).axis_name("data")(examples.clone()));
    let own = unstack(examples);
    let found = in_threads(own.len(), |rank| {
        let compiled = jit(function);
        let x = &own[rank];
        let found = [
            function(x.clone()),
            compiled(x.clone()),
            compiled(x.clone()),
        ];
        assert_eq!(compiled.traces(), 1, "{name}");
        found
    });
    for (found, expected) in found.iter().zip(&expected) {
        for found in found {
            assert_eq!(found.info(), expected.info(), "{name}");
            assert!(
                bits(found) == bits(expected),
                "{name}: {found} and not {expected}"
            );
        }
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
        check("ppermute", &x, |x| ppermute(&x, "data", [(0, 1)]));
        check("pshuffle", &x, |x| {
            let next = (0..axis_size("data")).map(|place| (place + 1) % axis_size("data"));
            pshuffle(&x, "data", next.collect::<Vec<_>>())
        });
    }
}

#[test]
fn each_dtype_has_bits_of_vmap() {
    use DType::{BF16, Bool, F16, F64, I8, I16, I32, I64, U8, U16, U32};
    for dtype in [Bool, I8, I16, I32, I64, U8, U16, U32, BF16, F16, F64] {
        let x = examples(3, &[5]).abs().convert(I32).convert(dtype);
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

type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);

/// One step of training with one part of the batch.
fn step((mut model, mut optimizer, x, y): Step) -> ((Mlp, Optimizer<Mlp>), Tensor) {
    let loss = |model: &Mlp| mse(&model.forward(&x), &y);
    let (loss, gradient) = value_and_grad(loss)(&model);
    let (loss, gradient) = pmean(&(loss, gradient), "data");
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss)
}

#[test]
fn processes_train_like_one() {
    let x = examples(12, &[2]).tanh();
    let y = x.square().sum().reshape([1, 1]) + x.index(ix![.., ..1]);
    let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
    let start = (model.clone(), Optimizer::new(&model, adam(1e-2)));
    let losses = |size: usize| {
        let of_all = in_threads(size, |rank| {
            let step = jit(step);
            let rows = 12 / size;
            let own = |t: &Tensor| t.index(ix![rank * rows..(rank + 1) * rows]);
            let mut state = start.clone();
            let mut losses = Vec::new();
            for _ in 0..20 {
                let (next, loss) = step((state.0, state.1, own(&x), own(&y)));
                state = next;
                losses.push(loss.item::<f32>());
            }
            losses
        });
        assert!(of_all.iter().all(|losses| *losses == of_all[0]));
        of_all[0].clone()
    };
    let expected = losses(1);
    assert!(expected[19] < expected[0]);
    for size in [2, 3, 4] {
        for (found, expected) in losses(size).iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0));
        }
    }
}

/// If equal collectives were merged, processes with other constants would communicate in another way.
#[test]
fn processes_with_different_constants_communicate_alike() {
    let found = in_threads(2, |rank| {
        let first = Tensor::from([1.0_f32, 2.0]);
        let second = Tensor::from([1.0_f32, 2.0 + rank as f32]);
        let sums = jit(move |x: Tensor| {
            let one = psum(&(&x * &first), "data");
            let other = psum(&(&x * &second), "data");
            (one, other)
        });
        let (one, other) = sums(Tensor::from([1.0_f32, 1.0]));
        (one.to_vec::<f32>(), other.to_vec::<f32>())
    });
    for (one, other) in found {
        assert_eq!((one, other), (vec![2.0, 4.0], vec![2.0, 5.0]));
    }
}

/// The executor runs small equations first, but not collectives.
#[test]
fn processes_with_different_shapes_communicate_in_order() {
    let found = in_threads(2, |rank| {
        let sums = jit(|x: Tensor| {
            let large = pmax(&x.max(), "data");
            let small = psum(&Tensor::ones(DType::F32, [2]), "data");
            (large, small)
        });
        let (large, small) = sums(Tensor::ones(DType::F32, [if rank == 0 { 3 } else { 300 }]));
        (large.item::<f32>(), small.to_vec::<f32>())
    });
    assert_eq!(found, [(1.0, vec![2.0, 2.0]), (1.0, vec![2.0, 2.0])]);
}

/// A process without others.
#[derive(Debug)]
struct Alone;

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn all_gather(&self, call: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
        assert_eq!(call.to_string(), "psum axes=('data',) of f32[2]");
        all.copy_from_slice(own);
    }
    fn all_to_all(&self, _: &CollectiveCall<'_>, _: &[u8], _: &mut [u8]) {
        unreachable!()
    }
    fn permute(
        &self,
        _: &CollectiveCall<'_>,
        _: &[u8],
        _: Option<usize>,
        _: Option<usize>,
        _: &mut [u8],
    ) {
        unreachable!()
    }
}

fn message(action: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
    *panic.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn axis_of_processes_ends_with_its_call() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let sum = jit(|x: Tensor| psum(&x, "data"));
    assert_eq!(
        with_communicator("data", Rc::new(Alone), || sum(x.clone())),
        x
    );
    let unbound = message(|| drop(sum(x.clone())));
    assert!(unbound.contains("`data`"), "{unbound}");
    let failed = message(|| with_communicator("data", Rc::new(Alone), || panic!("{}", "failed")));
    assert_eq!(failed, "failed");
    message(|| drop(psum(&x, "data")));
    let other = message(|| with_communicator("data", Rc::new(Alone), || drop(psum(&x, "rows"))));
    assert!(
        other.contains("`rows`") && other.contains("`data`"),
        "{other}"
    );
}

#[test]
fn axis_of_processes_begins_outside_of_transformations() {
    let inside = jit(|x: Tensor| with_communicator("data", Rc::new(Alone), || psum(&x, "data")));
    assert_eq!(
        message(|| drop(inside(Tensor::from([1.0_f32, 2.0])))),
        "cannot bind the axis of processes `data` inside of a transformation such as `jit`, `grad` or `vmap`; bind the axis around the transformed function, or around the whole program"
    );
}
