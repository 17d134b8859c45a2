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
        let [found, expected] = [&found, &expected].map(|it| {
            it.to_vec::<f32>()
                .into_iter()
                .map(f32::to_bits)
                .collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{name}");
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
