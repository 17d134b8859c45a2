//! Loops with small bodies return the bits of their operations run one by one.

#[path = "../../benches/support/loops.rs"]
mod cases;
#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the labels are for other programs, and the goldens of training have the file, too"
)]
#[path = "../../examples/digits/workload.rs"]
mod workload;

use pytree::control::fori_loop;
use pytree::debug::debug_nans;
use pytree::prelude::*;

/// The number of rounds of a loop. The ring buffer is full after 64.
const ROUNDS: usize = 70;

/// Checks a compiled function beside the same function with checks, which run each operation, and each round, on its own.
fn check(name: &str, function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static, w: &Tensor) {
    let function = jit(move |w: Tensor| function(&w));
    let expected = debug_nans(|| function(w.clone()));
    // The second run finds the memory of the first one.
    for _ in 0..2 {
        let found = function(w.clone());
        assert_eq!(found.info(), expected.info(), "{name}");
        assert_eq!(
            found.bytes(),
            expected.bytes(),
            "{name}: {found} {expected}"
        );
    }
}

#[test]
fn small_loops_match_their_operations() {
    for case in cases::CASES {
        let (name, _, has_gradient, _) = *case;
        let (w, function) = (cases::parameters(case), cases::function(case, ROUNDS));
        check(name, function, &w);
        let inner = jit(move |w: Tensor| function(&w));
        check(name, move |w| inner(w.clone()), &w);
        let batch = Tensor::stack(&[&w * 0.5, w.clone(), &w * 0.9], 0);
        check(
            name,
            move |w| vmap(move |w: Tensor| function(&w))(w.clone()),
            &batch,
        );
        if has_gradient {
            check(name, move |w| grad(function)(w), &w);
            check(name, move |w| vmap(grad(function))(w.clone()), &batch);
        }
    }
}

/// A function of a matrix, of indices along an axis, and of a row for each index.
type Update = fn(&Tensor, &Tensor, &Tensor) -> Tensor;

#[rustfmt::skip]
const UPDATES: [(&str, Update); 6] = [
    ("set", |x, at, rows| x.at_indices(at, 0).set(rows)),
    ("set of the last axis", |x, at, rows| x.at_indices(at, 1).set(rows.t())),
    ("add", |x, at, rows| x.at_indices(at, 0).add(rows)),
    ("multiply", |x, at, rows| x.at_indices(at, 0).multiply(rows)),
    ("min", |x, at, rows| x.at_indices(at, 0).min(rows)),
    ("max", |x, at, rows| x.at_indices(at, 0).max(rows)),
];

/// Indices that occur twice, that count from the end, and that are out of range, at first or in later rounds.
const INDICES: [i32; 7] = [1, 1, -2, 9, -9, 0, 3];

#[test]
fn updates_at_indices_match_their_operations() {
    let numbers = |shape: &[usize], dtype, seed: usize| {
        let number = |n: usize| ((n * 37 + seed) % 23) as f32 * 0.25 - 2.0;
        let count = shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(number).collect();
        Tensor::new(shape, numbers).convert(dtype)
    };
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::I32,
        DType::U32,
        DType::U8,
    ];
    for dtype in dtypes.into_iter().chain([DType::Bool]) {
        for (name, update) in UPDATES {
            // Bools are only set.
            if dtype == DType::Bool && !name.starts_with("set") {
                continue;
            }
            let rows = numbers(&[INDICES.len(), 5], dtype, 5);
            // In a batch, the indices are those of all examples, or each example has its own.
            for has_own_indices in [false, true] {
                let rows = rows.clone();
                let function = move |x: &Tensor| {
                    let mut at = Tensor::from(INDICES);
                    if has_own_indices {
                        at += x.index(ix![0, 0]).convert(DType::I32);
                    }
                    fori_loop(
                        0,
                        4,
                        |i, x: Tensor| update(&x, &(&at + i), &rows),
                        x.clone(),
                    )
                };
                let name = format!("{name} of {dtype}");
                let batch = numbers(&[3, 5, 5], dtype, 3);
                let x = batch.index(ix![0]);
                check(&name, function.clone(), &x);
                let vmapped = function.clone();
                check(
                    &name,
                    move |x| vmap(|x: Tensor| vmapped(&x))(x.clone()),
                    &batch,
                );
                if dtype.is_float() {
                    let slope = move |x: &Tensor| grad(|x: &Tensor| function(x).square().sum())(x);
                    check(&name, slope.clone(), &x);
                    check(
                        &name,
                        move |x| vmap(|x: Tensor| slope(&x))(x.clone()),
                        &batch,
                    );
                }
            }
        }
    }
}
