//! Checks and effects run only for the examples that reach them, in the order of the program and of the examples.

use std::sync::{Arc, Mutex};

use pytree_transform::extend::{Examples, Primitive, apply};
use pytree_transform::{
    AbstractArray, DType, HostBatches, Tensor, TensorError, cond, debug_callback, debug_nans,
    error_if, grad, io_callback, jit, pure_callback_with, switch, vmap, while_loop,
};

use crate::panics::catch;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, name: &'static str, x: &Tensor) {
        let seen = Arc::clone(&self.0);
        debug_callback(&[x], move |values| {
            seen.lock().unwrap().push(format!("{name} {}", values[0]));
        });
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The root of a number, which must be positive, and zero for other numbers.
fn root(x: Tensor) -> Tensor {
    cond(
        &x.greater(0.0),
        |x: Tensor| error_if(&x, &x.less_equal(0.0), "expected a positive number").sqrt(),
        |x| x * 0.0,
        x.clone(),
    )
}

#[test]
fn check_in_branch_spares_other_examples() {
    let x = Tensor::from([4.0_f64, -1.0, 0.0]);
    let expected = Tensor::from([2.0_f64, 0.0, 0.0]);
    assert_eq!(vmap(root)(x.clone()), expected);
    assert_eq!(jit(vmap(root))(x.clone()), expected);
    let slope = grad(|x: &Tensor| vmap(root)(x.clone()).sum())(&x);
    assert_eq!(slope, Tensor::from([0.25_f64, 0.0, 0.0]));
    // The message names the example.
    let wrong = |x: Tensor| {
        let on_true = |x: Tensor| error_if(&x, &x.greater(3.0), "too large");
        cond(&x.greater(0.0), on_true, |x| x, x.clone())
    };
    let message = catch(|| vmap(wrong)(Tensor::from([1.0_f64, -9.0, 4.0])));
    let message = message.unwrap_err().message;
    assert!(
        message.contains("too large")
            && message.contains("example [2]")
            && message.ends_with(": 4.0"),
        "{message}"
    );
}

#[test]
fn check_in_loop_spares_ended_examples() {
    let halved = |x: Tensor| {
        while_loop(
            |x: &Tensor| x.greater(1.0),
            |x| error_if(&x, &x.less_equal(1.0), "ended") * 0.5,
            x,
        )
    };
    let x = Tensor::from([0.5_f64, 3.0, 100.0]);
    let expected = Tensor::from([0.5_f64, 0.75, 0.781_25]);
    assert_eq!(vmap(halved)(x.clone()), expected);
    assert_eq!(jit(vmap(halved))(x), expected);
}

#[test]
fn effects_follow_program_and_examples() {
    let seen = Seen::default();
    let notes = seen.clone();
    let f = move |x: Tensor| {
        let body = |x: Tensor| {
            notes.note("body", &x);
            cond(
                &x.greater(5),
                |x: Tensor| {
                    notes.note("large", &x);
                    notes.note("again", &x);
                    x - 3
                },
                |x| x - 1,
                x.clone(),
            )
        };
        let holds = |x: &Tensor| {
            notes.note("holds", x);
            x.greater(3)
        };
        while_loop(holds, body, x)
    };
    let batch = Tensor::from([7, 4, 6]);
    let expected = [
        "holds 7", "holds 4", "holds 6", "body 7", "body 4", "body 6", "large 7", "large 6",
        "again 7", "again 6", "holds 4", "holds 3", "holds 3", "body 4", "holds 3",
    ];
    assert_eq!(vmap(&f)(batch.clone()).to_vec::<i32>(), [3, 3, 3]);
    assert_eq!(seen.take(), expected);
    jit(vmap(f))(batch);
    assert_eq!(seen.take(), expected);
}

#[test]
fn skipped_results_are_zeros_and_end_loops() {
    // A loop until the host agrees, in a branch that one example does not take.
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let f = move |x: Tensor| {
        let is_ready = |n: &Tensor| {
            let count = Arc::clone(&count);
            let answer = move |values: &[Tensor]| {
                *count.lock().unwrap() += 1;
                vec![Tensor::from(values[0].item::<i32>() >= 3)]
            };
            io_callback(&[n], &[AbstractArray::new(DType::Bool, [])], answer).remove(0)
        };
        let wait = |n: Tensor| while_loop(|n: &Tensor| !is_ready(n), |n| n + 1, n);
        cond(&x.greater(0), wait, |n| n, x.clone())
    };
    assert_eq!(vmap(f)(Tensor::from([1, -5])).to_vec::<i32>(), [3, -5]);
    assert_eq!(*asked.lock().unwrap(), 3);
}

#[test]
fn pure_functions_are_not_called_for_other_examples() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    for batches in [HostBatches::EachExample, HostBatches::Whole] {
        let calls = Arc::clone(&calls);
        let f = move |x: Tensor| {
            let on_true = |x: Tensor| {
                let calls = Arc::clone(&calls);
                let same = move |values: &[Tensor]| {
                    calls.lock().unwrap().push(values[0].to_vec::<i32>());
                    vec![values[0].clone()]
                };
                pure_callback_with(&[&x], &[x.info().clone()], batches, same).remove(0)
            };
            cond(&x.greater(0), on_true, |x| x * 10, x.clone())
        };
        assert_eq!(
            vmap(&f)(Tensor::from([1, -1, 2])).to_vec::<i32>(),
            [1, -10, 2]
        );
        assert_eq!(vmap(f)(Tensor::from([-1, -2])).to_vec::<i32>(), [-10, -20]);
    }
    assert_eq!(*calls.lock().unwrap(), [vec![1], vec![2], vec![1, -1, 2]]);
}

/// Adds one, and counts in a list. Its batch rule takes whole batches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counted;

static COUNTED: Mutex<Vec<Vec<i32>>> = Mutex::new(Vec::new());

impl Primitive for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        COUNTED.lock().unwrap().push(operands[0].to_vec::<i32>());
        vec![&operands[0] + 1]
    }
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        (apply(self, &[&operands[0]]), vec![axes[0]])
    }
    fn has_effect(&self) -> bool {
        true
    }
}

#[test]
fn own_operation_with_effect_is_conditional() {
    let f = |x: Tensor| {
        let on_true = |x: Tensor| apply(&Counted, &[&x]).remove(0);
        cond(&x.greater(0), on_true, |x| x, x.clone())
    };
    let taken = || std::mem::take(&mut *COUNTED.lock().unwrap());
    let x = Tensor::from([1, -1, 2]);
    assert_eq!(vmap(f)(x.clone()).to_vec::<i32>(), [2, -1, 3]);
    assert_eq!(taken(), [vec![1], vec![2]]);
    // Without a condition, its own rule decides.
    vmap(|x: Tensor| apply(&Counted, &[&x]).remove(0))(x.clone());
    assert_eq!(taken(), [vec![1, -1, 2]]);
    // All evaluations are made, also those without a use.
    let unused = jit(|x: &Tensor| {
        apply(&Counted, &[x]);
        apply(&Counted, &[x]);
        x + 5
    });
    unused(&x);
    assert_eq!(taken().len(), 2);
}

#[test]
fn nan_in_a_branch_of_a_switch_is_reported_where_it_is_taken() {
    let f = |(index, x): (Tensor, Tensor)| {
        let (root, scaled) = (|x: Tensor| x.sqrt(), |x: Tensor| (x * 3.0).sqrt());
        switch(&index, &[&root, &scaled, &|x| -x, &root], x)
    };
    let index = Tensor::from([0, 2, 1, 2, 3]);
    let x = Tensor::from([4.0_f64, -1.0, 3.0, -2.0, 9.0]);
    let expected = Tensor::from([2.0_f64, 1.0, 3.0, 2.0, 3.0]);
    assert_eq!(debug_nans(|| vmap(f)((index.clone(), x.clone()))), expected);
    assert_eq!(
        debug_nans(|| jit(vmap(f))((index.clone(), x.clone()))),
        expected
    );
    debug_nans(|| grad(|x: &Tensor| vmap(f)((index.clone(), x.clone())).sum())(&x));
    let message =
        catch(|| debug_nans(|| vmap(f)((Tensor::from([0, 1, 3]), Tensor::from([1.0, -1.0, 1.0])))));
    let message = message.unwrap_err().message;
    assert!(
        message.contains("NaN in 1 of 3 elements") && message.contains("began in `sqrt`"),
        "{message}"
    );
}

/// An operand may be NaN for an example that does not take the branch which computes with it.
#[test]
fn nan_operand_of_a_branch_not_taken_is_not_reported() {
    let f = |x: Tensor| {
        let is_nan = x.not_equal(&x);
        cond(&is_nan, |x: Tensor| Tensor::zeros_like(&x), |x| x * 2.0, x)
    };
    let x = Tensor::from([f64::NAN, 1.0]);
    let slope = debug_nans(|| grad(|x: &Tensor| vmap(f)(x.clone()).sum())(&x));
    assert_eq!(slope, Tensor::from([0.0_f64, 2.0]));
}
