//! Tasks of a user's thread pool beside compiled functions.

use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::prelude::*;

use crate::threads::{THREADS, is_program, report, run_again};

/// Tasks that trace a function with a long product in it, and tasks that only make tensors.
fn run_tasks() {
    let weights = Tensor::full(DType::F32, [600, 600], 1.0 / 600.0);
    let failures = AtomicUsize::new(0);
    rayon::scope(|scope| {
        for task in 0..60 {
            let (weights, failures) = (&weights, &failures);
            scope.spawn(move |_| {
                // The product of what is captured is computed while the function is traced.
                let weights = weights.clone();
                let scale = jit(move |x: Tensor| weights.matmul(&weights).sum() * x);
                let result = scale(Tensor::from(task as f32));
                let zeros = Tensor::zeros(DType::F32, [4]);
                let expected = 600.0 * task as f32;
                let right = !zeros.is_traced()
                    && !result.is_traced()
                    && (result.item::<f32>() - expected).abs() <= 1e-3 * expected;
                failures.fetch_add(usize::from(!right), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(failures.into_inner(), 0, "tasks ran inside of a trace");
    report("done");
}

#[test]
fn tasks_run_outside_of_other_traces() {
    let test = "threads::tasks::tasks_run_outside_of_other_traces";
    if is_program(test) {
        return run_tasks();
    }
    for threads in THREADS {
        run_again(test, threads);
    }
}

#[test]
fn compiled_functions_run_in_parallel() {
    let step = jit(|x: Tensor| x.matmul(&x).tanh().sum());
    let x = Tensor::full(DType::F32, [300, 300], 0.01);
    let expected = step(x.clone()).item::<f32>();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(step(x.clone()).item::<f32>().to_bits(), expected.to_bits());
                }
            });
        }
    });
}
