//! A call that fails leaves its arguments as they are, wherever it fails.
//!
//! The program writes, shares, swaps and overwrites its arguments, in loops, branches and calls. A failure is injected before each of its
//! statements, by each kind of function that can fail, at the top and inside of each kind of body.

use std::sync::atomic::{AtomicBool, Ordering};

use pytree_transform::extend::{Examples, Primitive, apply};
use pytree_transform::ix;
use pytree_transform::{
    AbstractArray, DType, Tensor, TensorError, cond, debug_callback, error_if, fori_loop,
    io_callback, jit, jit_mut, pure_callback, remat, scan, vmap, while_loop,
};

use crate::panics::catch;

/// Whether the injected functions fail. Only the test below sets it.
static FAILS: AtomicBool = AtomicBool::new(false);

fn fails() -> bool {
    FAILS.load(Ordering::SeqCst)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kernel {
    Panics,
    ReturnsNothing,
}

impl Primitive for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        match self {
            Self::Panics => assert!(!fails(), "stop"),
            Self::ReturnsNothing if fails() => return vec![],
            Self::ReturnsNothing => (),
        }
        operands.to_vec()
    }
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        (apply(self, &[&operands[0]]), axes.to_vec())
    }
}

/// Returns its operand, or fails.
type Failure = fn(&Tensor) -> Tensor;

const FAILURES: [(&str, Failure); 8] = [
    ("a pure callback", |x| {
        pure_callback(&[x], &[x.info().clone()], |values| {
            assert!(!fails(), "stop");
            values.to_vec()
        })
        .remove(0)
    }),
    ("a pure callback without results", |x| {
        pure_callback(&[x], &[x.info().clone()], |values| {
            if fails() { vec![] } else { values.to_vec() }
        })
        .remove(0)
    }),
    ("a callback", |x| {
        io_callback(&[x], &[x.info().clone()], |values| {
            assert!(!fails(), "stop");
            values.to_vec()
        })
        .remove(0)
    }),
    ("an observer", |x| {
        debug_callback(&[x], |_| assert!(!fails(), "stop"));
        x.clone()
    }),
    ("a check", |x| {
        let info = AbstractArray::new(DType::Bool, []);
        let holds = pure_callback(&[x], &[info], |_| vec![Tensor::from(fails())]);
        error_if(x, &holds[0], "stop")
    }),
    ("a kernel", |x| apply(&Kernel::Panics, &[x]).remove(0)),
    ("a kernel without results", |x| {
        apply(&Kernel::ReturnsNothing, &[x]).remove(0)
    }),
    ("a derivative", |x| {
        // The kernel is in a body that `remat` records.
        remat(|x: &Tensor| apply(&Kernel::Panics, &[x]).remove(0))(x)
    }),
];

/// Applies a failure inside of a body.
type Nesting = fn(Failure, &Tensor) -> Tensor;

const PLACES: [(&str, Nesting); 8] = [
    ("at the top", |failure, x| failure(x)),
    ("in a branch", |failure, x| {
        let branch = move |x: Tensor| failure(&x);
        cond(&x.sum().greater(-1e9), branch, |x| x, x.clone())
    }),
    ("in a scan", |failure, x| {
        let step = move |carry: Tensor, element: Tensor| (carry, failure(&element));
        scan(step, Tensor::from(0.0), x.clone()).1
    }),
    ("in a loop", |failure, x| {
        fori_loop(0, 2, move |_, x: Tensor| failure(&x), x.clone())
    }),
    ("in a condition", |failure, x| {
        let state = (Tensor::from(0), x.clone());
        let holds = move |(i, x): &(Tensor, Tensor)| i.less(2) & failure(x).sum().greater(-1e9);
        while_loop(holds, |(i, x)| (i + 1, x), state).1
    }),
    ("in a call", |failure, x| {
        jit(move |x: &Tensor| failure(x))(x)
    }),
    ("under vmap", |failure, x| {
        vmap(move |x: Tensor| failure(&x))(x.clone())
    }),
    ("in a branch that examples take under vmap", |failure, x| {
        let branch = move |x: Tensor| failure(&x);
        vmap(move |x: Tensor| cond(&x.greater(0.0), branch, |x| x, x.clone()))(x.clone())
    }),
];

type State = Vec<Tensor>;
type Statement = fn(&mut State, &Tensor);

/// The leaf in front of which the failure is injected, and the statement.
const STATEMENTS: [(usize, Statement); 9] = [
    (0, |m, x| m[0] = &m[0] * 2.0 + x),
    (1, |m, x| m[1] = m[1].at(ix![..2]).set(x.index(ix![..2]))),
    (2, |m, x| m[2] = m[2].maximum(x.dot(&m[0]))),
    (0, |m, _| m.swap(0, 2)),
    (1, |m, _| {
        let step = |sum: Tensor, x: Tensor| (&sum + &x, sum * x);
        m[1] = scan(step, Tensor::from(0.5_f32), m[1].clone()).1;
    }),
    (2, |m, x| {
        let is_large = m[2].sum().greater(1.0);
        m[2] = cond(
            &is_large,
            |(m, x)| m + x,
            |(m, _)| m,
            (m[2].clone(), x.clone()),
        );
    }),
    (0, |m, _| m[0] = jit(|m: &Tensor| m.square() / 3.0)(&m[0])),
    (1, |m, x| {
        m[1] = vmap(|(m, x): (Tensor, Tensor)| m - x)((m[1].clone(), x.clone()))
    }),
    (2, |m, _| m[2] = &m[0] + &m[1] * &m[2]),
];

fn arguments() -> (State, Tensor) {
    let leaf = |scale: f32| {
        (0..6)
            .map(|i| (i as f32 - 2.5) * scale)
            .collect::<Vec<f32>>()
    };
    let leaves = [0.3, 1.7, -0.9].map(|scale| Tensor::from(leaf(scale)));
    (leaves.to_vec(), Tensor::from(leaf(0.7)))
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u32>> {
    let bits = |tensor: &Tensor| tensor.to_vec::<f32>().iter().map(|x| x.to_bits()).collect();
    tensors.iter().map(bits).collect()
}

#[test]
fn failed_call_keeps_arguments_wherever_it_fails() {
    let unchanged = bits(&arguments().0);
    for (kind, failure) in FAILURES {
        for (place, inside) in PLACES {
            for at in 0..=STATEMENTS.len() {
                let program = move |m: &mut State, x: &Tensor| {
                    for (position, (leaf, statement)) in STATEMENTS.iter().enumerate() {
                        if position == at {
                            m[*leaf] = inside(failure, &m[*leaf]);
                        }
                        statement(m, x);
                    }
                    if at == STATEMENTS.len() {
                        m[1] = inside(failure, &m[1]);
                    }
                };
                let what = format!("{kind} {place} before statement {at}");
                let step = jit_mut(move |(m, x): (&mut State, Tensor)| program(m, &x));
                let (mut expected, x) = arguments();
                FAILS.store(false, Ordering::SeqCst);
                step((&mut expected, x));
                assert_ne!(bits(&expected), unchanged, "{what}");
                let (mut state, x) = arguments();
                FAILS.store(true, Ordering::SeqCst);
                assert!(catch(|| step((&mut state, x.clone()))).is_err(), "{what}");
                assert_eq!(bits(&state), unchanged, "{what}");
                FAILS.store(false, Ordering::SeqCst);
                step((&mut state, x));
                assert_eq!(bits(&state), bits(&expected), "{what}");
            }
        }
    }
}
