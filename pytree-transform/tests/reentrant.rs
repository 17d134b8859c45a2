//! User code that the library runs while it compares and visits arguments can call the library.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use pytree_core::statics::StaticValue;
use pytree_core::{Module, Pytree, PytreeOf, TreeError, Unflattener, Visitor};
use pytree_transform::{Jit, Tensor, jit};

thread_local! {
    /// Whether user code is running that the library called.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls the library, unless this call is already inside of such a call.
fn call_back(compiled: impl Fn()) {
    if !INSIDE.replace(true) {
        compiled();
        INSIDE.set(false);
    }
}

/// Returns a vector with a new length, so that the next compiled call is traced.
fn of_new_length() -> Tensor {
    static NEXT: AtomicUsize = AtomicUsize::new(10);
    let length = NEXT.fetch_add(1, Ordering::Relaxed);
    Tensor::from(vec![1.0_f32; length])
}

/// A static value whose comparison and hash call the function that is being compiled for it.
#[derive(Clone, Copy)]
struct Reentrant;

impl StaticValue for Reentrant {
    fn static_eq(&self, _: &Self) -> bool {
        call_back(|| drop(doubled()(Holder::new(of_new_length()))));
        true
    }
    fn static_hash(&self, mut hasher: &mut dyn Hasher) {
        call_back(|| drop(doubled()(Holder::new(of_new_length()))));
        1.hash(&mut hasher);
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reentrant")
    }
}

#[derive(Module, Clone)]
struct Holder {
    #[param]
    x: Tensor,
    #[r#static]
    how: Reentrant,
}

impl Holder {
    fn new(x: Tensor) -> Self {
        Self { x, how: Reentrant }
    }
}

fn doubled() -> &'static Jit<Holder, Tensor> {
    static DOUBLED: OnceLock<Jit<Holder, Tensor>> = OnceLock::new();
    DOUBLED.get_or_init(|| jit(|holder: Holder| holder.x * 2.0))
}

/// A pytree whose visit calls the function that is being compiled for it.
#[derive(Clone)]
struct Visited(Tensor);

impl Pytree for Visited {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        call_back(|| drop(tripled()(Visited(of_new_length()))));
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Tensor::unflatten(source).map(Self)
    }
}
impl PytreeOf<Tensor> for Visited {}

fn tripled() -> &'static Jit<Visited, Tensor> {
    static TRIPLED: OnceLock<Jit<Visited, Tensor>> = OnceLock::new();
    TRIPLED.get_or_init(|| jit(|visited: Visited| visited.0 * 3.0))
}

/// Runs a function on several threads and fails if a thread hangs.
fn all_end(function: fn()) {
    const THREADS: usize = 3;
    let (sender, receiver) = mpsc::channel();
    for _ in 0..THREADS {
        let sender = sender.clone();
        thread::spawn(move || {
            function();
            sender.send(()).unwrap();
        });
    }
    for _ in 0..THREADS {
        receiver
            .recv_timeout(Duration::from_secs(60))
            .expect("no lock is held while user code runs");
    }
}

#[test]
fn static_value_calls_the_compiled_function() {
    all_end(|| {
        for _ in 0..20 {
            let result = doubled()(Holder::new(Tensor::from([1.0_f32, 2.0])));
            assert_eq!(result.to_vec::<f32>(), [2.0, 4.0]);
        }
    });
}

#[test]
fn visit_calls_the_compiled_function() {
    all_end(|| {
        for _ in 0..20 {
            let result = tripled()(Visited(Tensor::from([1.0_f32, 2.0])));
            assert_eq!(result.to_vec::<f32>(), [3.0, 6.0]);
        }
    });
}
