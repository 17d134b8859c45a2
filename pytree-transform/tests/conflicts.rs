//! Concurrent calls that read and write the same references. Each call takes effect at one instant, or not at all.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a failed unwrap is a failed test, and says where"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pytree_core::Ref;
use pytree_transform::{
    DType, Jit, Tensor, cond, debug_callback, fori_loop, grad, jit, jvp, scan, value_and_grad,
    value_and_grad_mut, vjp, vmap, vmap_mut, while_loop,
};

type Number = Ref<Tensor>;

fn number(value: f32) -> Number {
    Ref::new(Tensor::from(value))
}

fn value(number: &Number) -> f32 {
    number.get().item()
}

/// Sets a reference from another thread, and waits until it is set.
fn set_elsewhere(number: &Number, value: f32) {
    thread::scope(|scope| {
        scope.spawn(|| number.set(Tensor::from(value)));
    });
}

fn panics<T>(function: impl FnOnce() -> T) -> String {
    let error = catch_unwind(AssertUnwindSafe(function))
        .err()
        .expect("it panics");
    *error.downcast::<String>().unwrap()
}

/// Runs `work` on several threads that start together.
fn on_threads(count: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        for at in 0..count {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(at);
            });
        }
    });
}

#[test]
fn jitted_counter_loses_no_update() {
    let count = Ref::new(Tensor::from(0));
    let increment = jit(|count: Ref<Tensor>| count.update(|count| count + 1));
    on_threads(4, |_| {
        for _ in 0..1000 {
            increment(count.clone());
        }
    });
    assert_eq!(count.get().item::<i32>(), 4000);
    assert_eq!(increment.traces(), 1);
}

#[test]
fn no_reader_sees_half_a_call() {
    let pair = (number(1000.0), number(0.0));
    let transfer = jit(|((from, to), amount): ((Number, Number), Tensor)| {
        from.update(|from| from - &amount);
        to.update(|to| to + &amount);
    });
    let both = jit(|(left, right): (Number, Number)| (left.get(), right.get()));
    let done = AtomicUsize::new(0);
    on_threads(4, |at| {
        if at < 2 {
            for _ in 0..500 {
                transfer((pair.clone(), Tensor::from(1.0_f32 + at as f32)));
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        while done.load(Ordering::Relaxed) < 2 {
            let (left, right) = both(pair.clone());
            assert_eq!(left.item::<f32>() + right.item::<f32>(), 1000.0);
        }
    });
    assert_eq!((value(&pair.0), value(&pair.1)), (-500.0, 1500.0));
}

#[test]
fn read_references_are_part_of_a_call() {
    // Each call sets one of two ones to 0 if the other is 1. In every order of the calls, only the first call sets
    // one. The mean is 1; computing it takes long enough for the calls to overlap.
    let pair = (number(1.0), number(1.0));
    let ones = Tensor::ones(DType::F32, [20_000]);
    let (for_left, for_right) = (ones.clone(), ones);
    let left = jit(move |(left, right): (Number, Number)| {
        left.set(left.get() - right.get() * for_left.mean())
    });
    let right = jit(move |(left, right): (Number, Number)| {
        right.set(right.get() - left.get() * for_right.mean())
    });
    for _ in 0..100 {
        pair.0.set(Tensor::from(1.0_f32));
        pair.1.set(Tensor::from(1.0_f32));
        on_threads(2, |at| {
            if at == 0 {
                left(pair.clone())
            } else {
                right(pair.clone())
            }
        });
        assert_eq!(value(&pair.0) + value(&pair.1), 1.0);
    }
}

#[test]
fn references_inside_of_references_are_compared() {
    let inner: Vec<Number> = (0..3).map(|_| number(0.0)).collect();
    let outer = Ref::new(inner.clone());
    let count = jit(|outer: Ref<Vec<Number>>| {
        for number in outer.get() {
            number.update(|number| number + 1.0);
        }
    });
    on_threads(3, |at| {
        for _ in 0..300 {
            match at {
                0 => outer.update(|mut numbers| {
                    numbers.rotate_left(1);
                    numbers
                }),
                _ => count(outer.clone()),
            }
        }
    });
    assert!(inner.iter().all(|number| value(number) == 600.0));
}

#[test]
fn conflicting_compiled_call_runs_again() {
    let (total, other) = (number(1.0), number(2.0));
    let (seen, is_first) = (other.clone(), AtomicBool::new(true));
    let f: Jit<(Number, Number, Tensor), Tensor> =
        jit(move |(total, other, x): (Number, Number, Tensor)| {
            if is_first.swap(false, Ordering::Relaxed) {
                set_elsewhere(&seen, 20.0);
            }
            total.update(|total| total + other.get() * x.sum());
            x + 1.0
        });
    // Both runs need the other argument, although there is no other reference to it.
    let x = Tensor::ones(DType::F32, [1000]);
    let y = f((total.clone(), other.clone(), x));
    assert_eq!(value(&total), 20_001.0);
    assert_eq!(y.to_vec::<f32>(), vec![2.0; 1000]);
    assert_eq!(f.traces(), 1);
}

#[test]
fn conflict_with_another_shape_is_traced_again() {
    let list = number(1.0);
    let (seen, is_first) = (list.clone(), AtomicBool::new(true));
    let f = jit(move |list: Number| {
        if is_first.swap(false, Ordering::Relaxed) {
            thread::scope(|scope| {
                scope.spawn(|| seen.set(Tensor::from([1.0_f32, 2.0])));
            });
        }
        list.update(|list| list * 2.0);
    });
    f(list.clone());
    assert_eq!(list.get().to_vec::<f32>(), [2.0, 4.0]);
    assert_eq!(f.traces(), 2);
}

#[test]
fn same_value_written_again_is_a_conflict() {
    let total = number(1.0);
    let (seen, is_first) = (total.clone(), AtomicBool::new(true));
    let runs = AtomicUsize::new(0);
    let text = panics(|| {
        grad(|(total, x): &(Number, Tensor)| {
            runs.fetch_add(1, Ordering::Relaxed);
            if is_first.swap(false, Ordering::Relaxed) {
                set_elsewhere(&seen, 5.0);
                set_elsewhere(&seen, 1.0);
            }
            total.update(|total| total + 1.0);
            x * 2.0
        })(&(total.clone(), Tensor::from(1.0_f32)))
    });
    assert!(
        text.contains("another thread wrote the reference at [0] "),
        "{text}"
    );
    assert_eq!((value(&total), runs.into_inner()), (1.0, 1));
}

#[test]
fn effects_happen_once_and_conflicts_are_errors() {
    let (total, other) = (number(1.0), number(2.0));
    let (seen, calls) = (other.clone(), std::sync::Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    let f = jit(move |(total, other): (Number, Number)| {
        let (seen, calls) = (seen.clone(), counted.clone());
        debug_callback(&[&total.get()], move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            set_elsewhere(&seen, 7.0);
        });
        total.set(other.get());
    });
    let text = panics(|| f((total.clone(), other.clone())));
    assert!(
        text.starts_with("cannot write the results of a compiled function with effects: another thread wrote the reference at [1] while it ran, so the result is out of date and nothing is written; the call is not repeated, because its effects would happen twice: hold a lock while any thread runs the function or writes the reference, or remove effects such as printing (jit at "),
        "{text}"
    );
    assert!(text.contains("conflicts.rs:"), "{text}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!((value(&total), value(&other)), (1.0, 7.0));
}

#[test]
fn write_of_own_callback_is_named() {
    let (total, other) = (number(1.0), number(2.0));
    let seen = other.clone();
    let f = jit(move |(total, other): (Number, Number)| {
        let seen = seen.clone();
        debug_callback(&[&total.get()], move |_| seen.set(Tensor::from(7.0_f32)));
        total.set(other.get());
    });
    let text = panics(|| f((total.clone(), other.clone())));
    assert!(
        text.starts_with("cannot write the results of a compiled function with effects: this thread wrote the reference at [1] while it ran, so the result is out of date and nothing is written; the write is in a callback of the call, or in other code that runs during the call and is not part of it: let the callback return the value instead, or write the reference before or after the call (jit at "),
        "{text}"
    );
    assert_eq!((value(&total), value(&other)), (1.0, 7.0));
}

#[test]
fn effects_that_read_do_not_conflict() {
    let other = number(2.0);
    let seen = other.clone();
    let f = jit(move |other: Number| {
        let seen = seen.clone();
        debug_callback(&[&other.get()], move |_| set_elsewhere(&seen, 7.0));
        other.get() * 3.0
    });
    assert_eq!(f(other.clone()).item::<f32>(), 6.0);
    assert_eq!(f(other).item::<f32>(), 21.0);
}

/// Checks that a call that writes the first reference is refused if another thread writes the second reference during
/// the call.
fn refused(name: &str, call: impl Fn(&(Number, Number), &(dyn Fn() + Sync))) {
    let pair = (number(1.0), number(2.0));
    let text = panics(|| call(&pair, &|| set_elsewhere(&pair.1, 9.0)));
    let message =
        format!("cannot write the results of `{name}`: another thread wrote the reference at ");
    assert!(text.starts_with(&message), "{text}");
    assert!(
        text.contains("compile the calling function with `jit`, which retries a call after such a conflict, or hold a lock while any thread runs the function or writes the reference"),
        "{text}"
    );
    assert!(
        text.contains(&format!("({name} at ")) && text.contains("conflicts.rs:"),
        "{text}"
    );
    assert_eq!((value(&pair.0), value(&pair.1)), (1.0, 9.0), "{name}");
    // Without the other thread, the call succeeds.
    call(&pair, &|| ());
    assert_ne!(value(&pair.0), 1.0, "{name}");
}

fn step((left, right): &(Number, Number)) -> Tensor {
    left.update(|left| left + right.get());
    left.get() * right.get()
}

#[test]
fn eager_derivatives_are_refused() {
    refused("grad", |pair, meanwhile| {
        drop(grad(|pair: &(Number, Number)| {
            meanwhile();
            step(pair)
        })(pair));
    });
    refused("grad", |pair, meanwhile| {
        drop(value_and_grad(|pair: &(Number, Number)| {
            meanwhile();
            step(pair)
        })(pair));
    });
    refused("grad", |pair, meanwhile| {
        let mut model = (pair.clone(), Tensor::from(1.0_f32));
        let run = value_and_grad_mut(|(pair, count): &mut ((Number, Number), Tensor)| {
            meanwhile();
            *count = &*count + 1.0;
            step(pair)
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| drop(run(&mut model))));
        let expected = if outcome.is_ok() { 2.0 } else { 1.0 };
        assert_eq!(model.1.item::<f32>(), expected);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    refused("vjp", |pair, meanwhile| {
        let function = |pair: &(Number, Number)| {
            meanwhile();
            step(pair)
        };
        drop(vjp(function, pair));
    });
    refused("jvp", |pair, meanwhile| {
        let function = |pair: &(Number, Number)| {
            meanwhile();
            step(pair)
        };
        drop(jvp(function, pair, &(number(1.0), number(1.0))));
    });
}

#[test]
fn eager_batches_are_refused() {
    refused("vmap", |pair, meanwhile| {
        let x = Tensor::from([1.0_f32, 2.0]);
        let run = vmap(|(pair, x): ((Number, Number), Tensor)| {
            meanwhile();
            step(&pair);
            x
        });
        drop(run.in_axes((None, 0))((pair.clone(), x)));
    });
    refused("vmap_mut", |pair, meanwhile| {
        let mut x = Tensor::from([1.0_f32, 2.0]);
        let run = vmap_mut(|(x, pair): (&mut Tensor, (Number, Number))| {
            meanwhile();
            step(&pair);
            *x = &*x + 1.0;
        });
        run.in_axes((0, None))((&mut x, pair.clone()));
    });
}

#[test]
fn eager_control_flow_is_refused() {
    refused("scan", |pair, meanwhile| {
        let run = |pair: (Number, Number), x: Tensor| {
            meanwhile();
            step(&pair);
            (pair, x)
        };
        drop(scan(run, pair.clone(), Tensor::from([1.0_f32, 2.0])));
    });
    refused("scan", |(left, right), meanwhile| {
        // The looped inputs are only read.
        let rights = Ref::new(Tensor::from([1.0_f32, 2.0]));
        let run = |(left, right): (Number, Number), _: Number| {
            meanwhile();
            step(&(left.clone(), right.clone()));
            ((left, right), ())
        };
        drop(scan(run, (left.clone(), right.clone()), rights));
    });
    refused("fori_loop", |pair, meanwhile| {
        let run = |_: Tensor, pair: (Number, Number)| {
            meanwhile();
            step(&pair);
            pair
        };
        drop(fori_loop(0, 2, run, pair.clone()));
    });
    refused("while_loop", |pair, meanwhile| {
        let run = |pair: (Number, Number)| {
            meanwhile();
            step(&pair);
            pair
        };
        let condition = |pair: &(Number, Number)| pair.0.get().less(10.0);
        drop(while_loop(condition, run, pair.clone()));
    });
    refused("cond", |pair, meanwhile| {
        let run = |pair: (Number, Number)| {
            meanwhile();
            step(&pair)
        };
        drop(cond(&Tensor::from(true), run, run, pair.clone()));
    });
}

#[test]
fn loop_inputs_are_compared_too() {
    let (total, inputs) = (number(0.0), Ref::new(Tensor::from([1.0_f32, 2.0])));
    let seen = inputs.clone();
    let text = panics(|| {
        let run = |total: Number, x: Number| {
            thread::scope(|scope| {
                scope.spawn(|| seen.set(Tensor::from([5.0_f32, 5.0])));
            });
            total.update(|total| total + x.get());
            (total, ())
        };
        scan(run, total.clone(), inputs.clone())
    });
    assert!(text.contains("the reference at the root "), "{text}");
    assert_eq!(value(&total), 0.0);
}

#[test]
fn eager_reads_do_not_conflict() {
    let pair = (number(1.0), number(2.0));
    let gradient = grad(|both: &(Number, Number)| {
        set_elsewhere(&pair.1, 9.0);
        both.0.get() * both.1.get()
    })(&pair);
    assert_eq!(gradient.0.leaves()[0].item::<f32>(), 2.0);
}

#[test]
fn panic_writes_no_reference() {
    let pair = (number(-1.0), number(0.0));
    let f = jit(|(left, right): (Number, Number)| {
        right.set(Tensor::from(5.0_f32));
        left.update(|left| left.log());
    })
    .check_nans();
    panics(|| f(pair.clone()));
    assert_eq!((value(&pair.0), value(&pair.1)), (-1.0, 0.0));
    pair.0.set(Tensor::from(1.0_f32));
    f(pair.clone());
    assert_eq!((value(&pair.0), value(&pair.1)), (0.0, 5.0));
}
