//! The body of a scan with named axes: `shaped!` checks the carry, which must keep its shape.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::axes::{NamedAxes, Scope};
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Cell {
    #[param("in hidden")]
    input: Tensor,
    #[param("hidden hidden")]
    recurrent: Tensor,
}

impl Cell {
    fn new(inputs: usize, hidden: usize) -> Self {
        let mut rngs = Rngs::new(0);
        Self {
            input: rngs.normal(DType::F32, [inputs, hidden]),
            recurrent: rngs.normal(DType::F32, [hidden, hidden]) * 0.1,
        }
    }

    #[shapes(hidden = "batch hidden", x = "batch in", return = "batch hidden")]
    fn step(&self, hidden: &Tensor, x: &Tensor) -> Tensor {
        (x.matmul(&self.input) + hidden.matmul(&self.recurrent)).tanh()
    }

    /// Returns the hidden states of all time steps.
    #[shapes(xs = "time batch in", return = "time batch hidden")]
    fn forward(&self, xs: &Tensor) -> Tensor {
        let start = Tensor::zeros(DType::F32, [xs.shape()[1], self.recurrent.shape()[0]]);
        let body = shaped!(
            hidden = "batch hidden",
            x = "batch in",
            return = ("batch hidden", "batch hidden"),
            |hidden: Tensor, x: Tensor| {
                let hidden = self.step(&hidden, &x);
                (hidden.clone(), hidden)
            }
        );
        scan(body, start, xs.clone()).1
    }
}

#[test]
fn scan_of_a_checked_body_runs_everywhere() {
    let cell = Cell::new(3, 4);
    let xs = Key::new(1).normal(DType::F32, [6, 2, 3]);
    let states = cell.forward(&xs);
    assert_eq!(states.shape(), [6, 2, 4]);
    let compiled = jit(|(cell, xs): (Cell, Tensor)| cell.forward(&xs));
    let distance = (compiled((cell.clone(), xs.clone())) - states).abs().max();
    assert!(distance.item::<f32>() < 1e-5);
    let gradient = grad(|cell: &Cell| cell.forward(&xs).square().mean())(&cell);
    assert_eq!(gradient["recurrent"].shape(), [4, 4]);
}

#[test]
fn growing_carry_is_reported_with_its_axis() {
    let body = shaped!(
        carry = "hidden",
        x = "in",
        return = ("hidden", _),
        |carry: Tensor, x: Tensor| {
            let next = Tensor::concatenate(&[carry, x.clone()], 0);
            (next, x)
        }
    );
    let start = Tensor::zeros(DType::F32, [4]);
    let xs = Tensor::ones(DType::F32, [6, 3]);
    assert_eq!(
        panic_message(|| scan(body, start, xs)),
        "the closure: the result.0 is f32[7], expected [hidden] with hidden = 4 (from carry as [hidden]); \
         this is a mistake in the closure itself, at tests/programs/p36_scan_body.rs:LINE, and not in its arguments"
    );
}

#[test]
fn batch_before_time_is_reported_by_the_step() {
    let cell = Cell::new(3, 4);
    let xs = Key::new(1).normal(DType::F32, [6, 2, 5]);
    assert_eq!(
        panic_message(|| cell.forward(&xs)),
        "Cell::forward: xs is f32[6,2,5], expected [time batch in] with in = 3 (from input: f32[3,4] as [in hidden]); \
         pass xs with in = 3, or make the Cell with in = 5"
    );
}

/// A cell that counts the checks of its axes.
struct Counted {
    cell: Cell,
    checks: AtomicUsize,
}

impl NamedAxes for Counted {
    fn bind_axes(&self, scope: &mut Scope) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.cell.bind_axes(scope);
    }
}

impl Counted {
    #[shapes(xs = "time batch in", return = "time batch _")]
    fn forward(&self, xs: &Tensor) -> Tensor {
        self.cell.forward(xs)
    }
}

#[test]
fn checks_run_while_the_function_is_recorded() {
    let counted = Arc::new(Counted {
        cell: Cell::new(3, 4),
        checks: AtomicUsize::new(0),
    });
    let checks = || counted.checks.load(Ordering::Relaxed);
    let xs = Tensor::ones(DType::F32, [6, 2, 3]);
    for _ in 0..3 {
        counted.forward(&xs);
    }
    assert_eq!(checks(), 3);

    let inside = counted.clone();
    let gradient = jit(move |xs: Tensor| grad(|xs: &Tensor| inside.forward(xs).sum())(&xs));
    for _ in 0..5 {
        gradient(xs.clone());
    }
    assert_eq!((gradient.traces(), checks()), (1, 4));
}
