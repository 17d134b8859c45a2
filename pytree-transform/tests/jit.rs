//! Compiled functions: their cache, the reasons for a retrace, threads, and the recorded jaxprs.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use pytree_core::{Pytree, PytreeOf, Ref, Shared, TreeError, Unflattener, Visitor};
use pytree_transform::{
    DType, Function, Jit, RetraceDifference, Tensor, grad, jit, make_jaxpr, verify, vmap,
};

fn ones(length: usize) -> Tensor {
    Tensor::ones(DType::F32, [length])
}

/// Returns a function and a counter of its runs. The function runs only when it is traced.
fn counted() -> (Jit<Tensor, Tensor>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let inner = Arc::clone(&count);
    let f = jit(move |x: Tensor| {
        inner.fetch_add(1, Ordering::Relaxed);
        x.sum()
    });
    (f, count)
}

/// A tensor that counts its visits.
struct Watched(Tensor, Arc<AtomicUsize>);

impl Pytree for Watched {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Ok(Self(Tensor::unflatten(source)?, Arc::default()))
    }
}
impl PytreeOf<Tensor> for Watched {}

#[test]
fn call_walks_its_argument_once_or_twice() {
    type Argument = (Watched, Vec<Tensor>);
    let f = jit(|(watched, others): Argument| others.iter().fold(watched.0, |sum, x| sum + x));
    let visits = Arc::new(AtomicUsize::new(0));
    let argument = |length: usize, others: usize| -> Argument {
        let watched = Watched(ones(length), Arc::clone(&visits));
        (watched, vec![ones(length); others])
    };
    let by_value = |length, others| {
        drop(f(argument(length, others)));
        visits.swap(0, Ordering::Relaxed)
    };
    let by_reference = |length, others| {
        drop(Function::call(&f, &argument(length, others)));
        visits.swap(0, Ordering::Relaxed)
    };
    assert_eq!(by_value(1, 1), 1, "nothing is compiled yet");
    let signatures = [
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (6, 1),
        (7, 2),
        (8, 3),
        (9, 3),
    ];
    for (number, (length, others)) in signatures.into_iter().enumerate() {
        let walks = match number % 2 {
            0 => by_value(length, others),
            _ => by_reference(length, others),
        };
        assert_eq!(walks, 2, "it is compiled for {length}, {others}");
    }
    assert_eq!(f.traces(), 9);
    let (older, newest) = signatures.split_at(4);
    for &(length, others) in newest {
        let walks = (by_value(length, others), by_reference(length, others));
        assert_eq!(walks, (1, 1), "{length}, {others} are among the newest");
    }
    for &(length, others) in older {
        let walks = (by_value(length, others), by_reference(length, others));
        assert_eq!(walks, (2, 2), "{length}, {others} are found by their hash");
    }
    assert_eq!(f.traces(), 9);
}

#[test]
fn many_shapes_hit_the_cache() {
    let (f, count) = counted();
    for round in 0..3 {
        for length in 0..200 {
            assert_eq!(f(ones(length)).item::<f32>(), length as f32, "{round}");
        }
    }
    assert_eq!(
        (count.load(Ordering::Relaxed), f.traces(), f.cached()),
        (200, 200, 200)
    );
}

#[test]
fn least_recently_used_shape_is_evicted() {
    let (f, count) = counted();
    let f = f.cache_size(8);
    for length in 0..8 {
        f(ones(length));
    }
    f(ones(0));
    f(ones(100));
    assert_eq!((f.traces(), f.cached()), (9, 8));
    f(ones(0));
    assert_eq!(f.traces(), 9, "it was used a moment ago");
    f(ones(1));
    assert_eq!((f.traces(), f.cached()), (10, 8), "it was the oldest");
    f.clear_cache();
    assert_eq!(f.cached(), 0);
    f(ones(1));
    assert_eq!(
        (f.traces(), f.cached(), count.load(Ordering::Relaxed)),
        (11, 1, 11)
    );
    let least = f.cache_size(0);
    least(ones(1));
    least(ones(1));
    assert_eq!((least.traces(), least.cached()), (1, 1));
}

#[test]
fn threads_trace_each_shape_once() {
    const THREADS: usize = 8;
    const SHAPES: usize = 12;
    let traced: Arc<Vec<AtomicUsize>> =
        Arc::new((0..SHAPES).map(|_| AtomicUsize::new(0)).collect());
    let inner = Arc::clone(&traced);
    let f = jit(move |x: Tensor| {
        inner[x.len()].fetch_add(1, Ordering::Relaxed);
        // The sleep is long enough for the other threads to arrive.
        thread::sleep(Duration::from_millis(2));
        x.sin().sum()
    });
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for start in 0..THREADS {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for call in 0..10 * SHAPES {
                    let length = (start + call) % SHAPES;
                    let expected = ones(length).sin().sum();
                    assert!((f(ones(length)) - expected).abs().item::<f32>() < 1e-5);
                }
            });
        }
    });
    for (length, count) in traced.iter().enumerate() {
        assert_eq!(count.load(Ordering::Relaxed), 1, "length {length}");
    }
    assert_eq!(f.traces(), SHAPES);
}

#[test]
fn panic_during_tracing_releases_waiting_threads() {
    let f = jit(|x: Tensor| {
        thread::sleep(Duration::from_millis(5));
        assert!(x.len() != 3, "three");
        x
    });
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    f(ones(3))
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().is_err());
        }
    });
    assert_eq!(f(ones(2)), ones(2));
}

#[test]
fn jitted_function_can_recurse_on_smaller_shapes() {
    fn halve(x: Tensor, again: &dyn Fn(Tensor) -> Tensor) -> Tensor {
        match x.len() {
            0 | 1 => x.sum(),
            length => again(x.reshape([2, length / 2]).sum_axes([0])),
        }
    }
    let inner: Arc<std::sync::OnceLock<Jit<Tensor, Tensor>>> = Arc::default();
    let known = Arc::clone(&inner);
    let f = jit(move |x: Tensor| halve(x, &|x| known.get().unwrap()(x)));
    inner.set(f.clone()).unwrap();
    assert_eq!(f(ones(8)).item::<f32>(), 8.0);
    assert_eq!(f.traces(), 4);
}

fn panics(function: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(function)).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn failed_traces_are_not_counted() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let f = jit(move |x: Tensor| {
        counted.fetch_add(1, Ordering::Relaxed);
        x + Tensor::from([1.0_f32, 2.0])
    });
    let wrong = || drop(f(ones(3)));
    let first = panics(wrong);
    assert!(first.contains("[3]"), "{first}");
    for _ in 0..40 {
        assert_eq!(panics(wrong), first, "the same error each time");
    }
    assert_eq!((f.traces(), f.cached()), (0, 0));
    assert_eq!(f(ones(2)).to_vec::<f32>(), [2.0, 3.0]);
    assert_eq!(f(ones(2)).to_vec::<f32>(), [2.0, 3.0]);
    assert_eq!((f.traces(), f.cached()), (1, 1));
    assert_eq!(f.why_retraced(), None, "no signature was traced before");
    assert_eq!(runs.load(Ordering::Relaxed), 42);

    let fallible = jit(|x: Tensor| x.try_add(Tensor::from([1.0_f32, 2.0])));
    for _ in 0..2 {
        assert!(fallible(ones(3)).is_err());
    }
    assert_eq!(fallible.traces(), 0);
    assert!(fallible(ones(2)).is_ok());
    assert_eq!(fallible.traces(), 1);
}

/// Runs each function on its own thread, all at once, and fails if a thread hangs.
fn all_end<T: Send + 'static>(functions: Vec<Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let count = functions.len();
    for (at, function) in functions.into_iter().enumerate() {
        let sender = sender.clone();
        let name = format!("caller {at}");
        let run = move || sender.send((at, function())).unwrap();
        thread::Builder::new().name(name).spawn(run).unwrap();
    }
    drop(sender);
    let limit = Duration::from_secs(20);
    let ended = (0..count).map(|_| receiver.recv_timeout(limit).expect("all threads end"));
    let mut ended: Vec<(usize, T)> = ended.collect();
    ended.sort_by_key(|(at, _)| *at);
    ended.into_iter().map(|(_, result)| result).collect()
}

/// Returns compiled functions in a ring: function `n`, while it is traced, calls function `n + 1`.
fn calling_each_other(count: usize) -> Vec<Jit<Tensor, Tensor>> {
    let all: Arc<std::sync::OnceLock<Vec<Jit<Tensor, Tensor>>>> = Arc::default();
    let barrier = Arc::new(Barrier::new(count));
    let functions: Vec<Jit<Tensor, Tensor>> = (0..count)
        .map(|at| {
            let (all, barrier) = (Arc::clone(&all), Arc::clone(&barrier));
            jit(move |x: Tensor| {
                if thread::current().name() == Some(&format!("caller {at}")) {
                    barrier.wait();
                    let next = &all.get().unwrap()[(at + 1) % count];
                    return next(x.clone()) * 0.0 + x + at as f32;
                }
                x + at as f32
            })
        })
        .collect();
    all.set(functions.clone()).unwrap();
    functions
}

#[test]
fn mutually_recursive_functions_do_not_deadlock() {
    for count in [2, 3] {
        let functions = calling_each_other(count);
        let calls = functions.iter().cloned().map(|f| {
            let call: Box<dyn FnOnce() -> f32 + Send> = Box::new(move || f(ones(1)).sum().item());
            call
        });
        let results = all_end(calls.collect());
        let expected: Vec<f32> = (0..count).map(|at| 1.0 + at as f32).collect();
        assert_eq!(results, expected);
        // A function is traced again only by a thread that no other thread could wait for.
        let traces: usize = functions.iter().map(Jit::traces).sum();
        assert!((count + 1..=2 * count).contains(&traces), "{traces} traces");
        assert!(functions.iter().all(|f| f.cached() == 1));
    }
}

#[test]
fn endless_recursion_is_an_error() {
    let inner: Arc<std::sync::OnceLock<Jit<Tensor, Tensor>>> = Arc::default();
    let known = Arc::clone(&inner);
    // The recursion passes through another compiled function.
    let between = jit(move |x: Tensor| known.get().unwrap()(x * 2.0));
    let f = jit(move |x: Tensor| between(x.sin()));
    inner.set(f.clone()).unwrap();
    let call: Box<dyn FnOnce() -> String + Send> = Box::new(move || {
        let call = AssertUnwindSafe(|| f(ones(2)));
        let error = catch_unwind(call).unwrap_err();
        *error.downcast::<String>().unwrap()
    });
    let text = all_end(vec![call]).remove(0);
    assert!(
        text.starts_with("cannot trace a compiled function that calls itself with an argument of the same structure, shapes and element types: PyTreeDef(*) of f32[2]; tracing this recursion would never end: "),
        "{text}"
    );
    assert!(
        text.contains("(jit at ") && text.contains("jit.rs:"),
        "{text}"
    );
}

#[test]
fn retrace_reason_names_every_leaf() {
    let f = jit(|(x, y): (Tensor, (Tensor, Tensor))| x.sum() + y.0.sum() + y.1.sum());
    f((ones(1), (ones(2), ones(3))));
    assert_eq!(f.why_retraced(), None);
    f((ones(1), (ones(4), ones(5))));
    let why = f.why_retraced().unwrap();
    assert_eq!(
        why.to_string(),
        "[1][0]: f32[2] before, f32[4] now\n[1][1]: f32[3] before, f32[5] now"
    );
    assert_eq!(why.line.file(), file!());
    let paths = why.differences.iter().map(|difference| match difference {
        RetraceDifference::Leaf { path, .. } => path.to_string(),
        other => panic!("{other}"),
    });
    assert_eq!(paths.collect::<Vec<_>>(), ["[1][0]", "[1][1]"]);

    let g = jit(|x: Vec<Tensor>| x[0].sum());
    g(vec![ones(1)]);
    g(vec![ones(1), ones(1)]);
    let why = g.why_retraced().unwrap();
    assert!(
        matches!(&why.differences[..], [RetraceDifference::Structure(_)]),
        "{why:?}"
    );
    assert_eq!(why, "number of children at the root: 1 against 2");
}

#[test]
fn unshared_argument_memory_is_reused() {
    let address = |x: &Tensor| x.read::<f32>().unwrap().as_ptr().addr();
    let f = jit(|x: Tensor| x.sort_like());
    let x = ones(1000);
    let before = address(&x);
    assert_eq!(address(&f(x)), before, "it was given");
    let x = ones(1000);
    let before = address(&x);
    assert_ne!(address(&f(x.clone())), before, "it is still held");
    assert_eq!(x, ones(1000));
    // The memory of shared nodes that are not returned is reused too.
    let of_shared = jit(|(x, y): (Shared<Tensor>, Shared<Tensor>)| (x.sort_like(), y));
    for _ in 0..2 {
        let (x, y) = (Shared::new(ones(1000)), Shared::new(ones(2)));
        let before = address(&x);
        let (z, same) = of_shared((x, y.clone()));
        assert_eq!(address(&z), before);
        assert!(same.same(&y));
    }
}

trait SortLike {
    fn sort_like(&self) -> Tensor;
}
impl SortLike for Tensor {
    /// An operation that is not fused and can write in place.
    fn sort_like(&self) -> Tensor {
        self.reshape([10, 100]).reshape([1000]).log()
    }
}

#[test]
fn nested_jit_is_one_call() {
    let inner = jit(|x: Tensor| x.sin() * x);
    let outer = jit(move |x: Tensor| inner(x.clone()) + inner(x));
    let jaxpr = outer.jaxpr(&ones(2));
    let names: Vec<_> = jaxpr.equations().map(|equation| equation.name()).collect();
    assert_eq!(names, ["jit", "jit", "add"]);
    let lowered = outer.lower(&ones(2));
    let names: Vec<_> = lowered
        .jaxpr()
        .equations()
        .map(|equation| equation.name())
        .collect();
    assert_eq!(
        names,
        ["jit", "add"],
        "what is called twice with the same runs once"
    );
    assert_eq!(jaxpr.equations().next().unwrap().bodies()[0].0, "jaxpr");
}

#[test]
fn a_captured_tensor_is_a_constant() {
    let table = Tensor::from([1.0_f32, 2.0]);
    let inner = table.clone();
    let f = jit(move |x: Tensor| x * &inner);
    let jaxpr = f.jaxpr(&ones(2));
    assert_eq!(
        jaxpr.to_string(),
        "{ lambda a:f32[2]; b:f32[2]. let c:f32[2] = mul b a in (c,) }"
    );
    assert_eq!(jaxpr.constants().collect::<Vec<_>>(), [&table]);
}

#[test]
fn jaxpr_is_callable() {
    let x = Tensor::from([0.5_f64, 1.5]);
    let jaxpr = make_jaxpr(|x: Tensor| x.sin() * x)(x.clone());
    assert_eq!(jaxpr.inputs()[0].to_string(), "f64[2]");
    assert_eq!(jaxpr.outputs()[0].to_string(), "f64[2]");
    let run = |x: &Tensor| jaxpr.evaluate(std::slice::from_ref(x))[0].sum();
    let slope = grad(run)(&x);
    assert!((slope - (x.cos() * &x + x.sin())).abs().max().item::<f64>() < 1e-12);
    let rows = vmap(|x: Tensor| jaxpr.evaluate(&[x])[0].clone());
    assert_eq!(
        rows(Tensor::stack(&[x.clone(), x.clone()], 0)).shape(),
        [2, 2]
    );
    let again = make_jaxpr(|x: Tensor| jaxpr.evaluate(&[x]))(x);
    assert_eq!(again.to_string(), jaxpr.to_string());
    for equation in jaxpr.equations() {
        assert_eq!(equation.line().file(), file!(), "{equation:?}");
    }
}

#[test]
fn jaxpr_call_error_names_expected_inputs() {
    let jaxpr = make_jaxpr(|(x, y): (Tensor, Tensor)| x + y)((ones(2), ones(2)));
    let error = jaxpr.try_evaluate(&[ones(3)]).unwrap_err().to_string();
    assert!(error.contains("expected 2 inputs, found 1"), "{error}");
    assert!(
        error.contains("expected f32[2] for input 0, found f32[3]"),
        "{error}"
    );
    assert!(
        error.contains("record the function again with `make_jaxpr`"),
        "{error}"
    );
}

#[test]
fn derived_jaxprs_are_well_formed() {
    let loss = |x: &Tensor| (x.sin() * x).sum();
    let compiled = jit(move |x: Tensor| loss(&x));
    let x = ones(3);
    for jaxpr in [
        make_jaxpr(grad(loss))(x.clone()),
        make_jaxpr(grad(compiled.clone()))(x.clone()),
        make_jaxpr(vmap(compiled.clone()))(Tensor::ones(DType::F32, [2, 3])),
        make_jaxpr(vmap(grad(compiled)))(Tensor::ones(DType::F32, [2, 3])),
    ] {
        assert_eq!(verify(&jaxpr), Ok(()), "{jaxpr}");
    }
}

#[test]
fn make_jaxpr_accepts_values_and_references() {
    let by_reference = make_jaxpr(|x: Tensor| x.exp());
    let text = by_reference.call(&ones(1)).to_string();
    assert_eq!(text, by_reference(ones(1)).to_string());
}

/// The variables of a thread are destroyed in the reverse order of their first use, so this one outlives the library's.
#[test]
fn transformations_work_in_destructors_of_a_thread() {
    struct AtEnd(Option<std::sync::mpsc::Sender<Vec<f32>>>);
    impl AtEnd {
        fn run() -> Vec<f32> {
            let x = Tensor::from([3.0_f32, 5.0]);
            let square = jit(|x: Tensor| (&x * &x + 1.0_f32).sum());
            let slope = grad(|x: &Tensor| (x * x).sum());
            let (scale, count) = (Tensor::from(2.0_f32), Ref::new(Tensor::from(1.0_f32)));
            let counted =
                jit(|(count, x): (Ref<Tensor>, Tensor)| count.update(|count| count + x.sum()));
            counted((count.clone(), x.clone()));
            let rows = vmap(move |x: Tensor| x * &scale);
            let mut found = square(x.clone()).to_vec::<f32>();
            found.extend(slope(&x).to_vec::<f32>());
            found.extend(count.get().to_vec::<f32>());
            found.extend(rows(x).to_vec::<f32>());
            found
        }
    }
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let sender = self.0.take().unwrap();
            sender.send(Self::run()).unwrap();
        }
    }
    std::thread_local! {
        static AT_END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) };
    }
    let (sender, found) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        AT_END.set(Some(AtEnd(Some(sender))));
        AtEnd::run()
    });
    // 9 + 1 + 25 + 1, the derivatives 2x, 1 + 3 + 5, and 2x.
    let expected = [36.0, 6.0, 10.0, 9.0, 6.0, 10.0];
    assert_eq!(thread.join().unwrap(), expected);
    assert_eq!(found.recv().unwrap(), expected);
}
