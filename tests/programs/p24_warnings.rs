//! Warnings about programs that run, but do not do what the user intended. A hook captures the warnings.

use std::panic::Location;
use std::sync::{LazyLock, Mutex};

use pytree::debug::{Warning, WarningKind, set_warning_hook};
use pytree::optim;
use pytree::prelude::*;
use pytree::transform::Traceable;

static CAPTURED: LazyLock<Mutex<Vec<Warning>>> = LazyLock::new(|| {
    set_warning_hook(|warning| CAPTURED.lock().unwrap().push(warning.clone()));
    Mutex::default()
});

/// Runs `program`, and returns the messages about functions that were built in the given lines of this file.
fn messages(kind: WarningKind, lines: std::ops::Range<u32>, program: impl FnOnce()) -> Vec<String> {
    LazyLock::force(&CAPTURED);
    program();
    let is_of = |line: &Location<'_>| line.file() == file!() && lines.contains(&line.line());
    let captured = CAPTURED.lock().unwrap();
    let own = captured
        .iter()
        .filter(|warning| warning.kind == kind && is_of(warning.line));
    own.map(|warning| warning.message.clone()).collect()
}

#[test]
fn a_function_built_in_a_loop_warns_once() {
    let start = line!();
    let program = || {
        for _ in 0..100 {
            jit(|x: Tensor| x + 1.0)(Tensor::from(1.0_f32));
        }
    };
    let found = messages(WarningKind::Rebuilt, start..line!(), program);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("p24_warnings.rs:"), "{found:?}");
    assert!(
        found[0].contains("call `jit` once, outside of the loop"),
        "{found:?}"
    );
}

const HELPER_BEGINS: u32 = line!();

/// A helper that compiles a function for each type. All these functions are built in the same line.
fn doubled<T: Traceable>(value: T) -> T {
    let twice = jit(|value: T| tree::map(&value, |leaf: &Tensor| leaf * 2.0));
    twice(value)
}

const HELPER_ENDS: u32 = line!();

macro_rules! doubled_tuples {
    ($($value:ident)*) => { doubled_tuples!(@ () $($value)*) };
    (@ ($($before:ident)*)) => {};
    (@ ($($before:ident)*) $value:ident $($rest:ident)*) => {
        doubled(($($before.clone(),)* $value.clone(),));
        doubled(vec![($($before.clone(),)* $value.clone(),)]);
        doubled([($($before.clone(),)* $value.clone(),)]);
        doubled(Some(($($before.clone(),)* $value.clone(),)));
        doubled(Box::new(($($before.clone(),)* $value.clone(),)));
        doubled_tuples!(@ ($($before)* $value) $($rest)*);
    };
}

#[test]
fn a_generic_helper_warns_only_for_a_repeated_type() {
    let helper = HELPER_BEGINS..HELPER_ENDS;
    let x = Tensor::from(1.0_f32);
    let many_types = || {
        doubled_tuples!(x x x x x x x x); // 40 types
    };
    let found = messages(WarningKind::Rebuilt, helper.clone(), many_types);
    assert!(found.is_empty(), "{found:?}");
    let one_type = || {
        for _ in 0..40 {
            doubled(x.clone());
        }
    };
    let found = messages(WarningKind::Rebuilt, helper, one_type);
    assert_eq!(found.len(), 1);
}

#[derive(Module, Clone, Debug)]
struct Net {
    linear: Linear,
    #[r#static]
    step: usize,
}

#[test]
fn a_static_value_that_changes_in_each_call_is_named() {
    let mut net = Net {
        linear: Linear::new(2, 1, &mut Rngs::new(0)),
        step: 0,
    };
    let x = Tensor::ones(DType::F32, [1, 2]);
    let start = line!();
    let train = jit(|(mut net, x): (Net, Tensor)| {
        net.step += 1;
        let y = net.linear.forward(&x);
        (net, y)
    });
    let program = || {
        for _ in 0..40 {
            (net, _) = train((net.clone(), x.clone()));
        }
    };
    let found = messages(WarningKind::Retraced, start..line!(), program);
    assert_eq!(train.traces(), 40);
    assert_eq!(found.len(), 1);
    let text = &found[0];
    assert!(
        text.contains("has traced its function 16 times in 16 calls"),
        "{text}"
    );
    assert!(
        text.contains("static value at [0]: step = 14 against step = 15"),
        "{text}"
    );
    assert!(
        text.contains("`#[state] step: Tensor`, initialized with `Tensor::from(0)`"),
        "{text}"
    );
}

#[test]
fn shapes_that_differ_in_each_call_are_named() {
    let start = line!();
    let sum = jit_mut(|(_, x): (&mut Tensor, Tensor)| x.sum());
    let mut nothing = Tensor::from(0);
    let program = || {
        for length in 0..40 {
            sum((&mut nothing, Tensor::ones(DType::F32, [length])));
        }
    };
    let found = messages(WarningKind::Retraced, start..line!(), program);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains(
            "[1]: f32[14] before, f32[15] now; the function is traced again for each new shape"
        ),
        "{found:?}"
    );
}

#[test]
fn a_few_shapes_that_are_used_often_do_not_warn() {
    let start = line!();
    let sum = jit(|x: Tensor| x.sum());
    let program = || {
        for _ in 0..3 {
            for length in 0..40 {
                sum(Tensor::ones(DType::F32, [length / 3]));
            }
        }
    };
    let found = messages(WarningKind::Retraced, start..line!(), program);
    assert_eq!((sum.traces(), found), (14, Vec::new()));
}

#[derive(Module, Clone, Debug)]
struct Noisy {
    linear: Linear,
    norm: BatchNorm,
    dropout: Dropout,
}

impl Noisy {
    fn new() -> Self {
        let mut rngs = Rngs::new(0);
        Self {
            linear: Linear::new(2, 3, &mut rngs),
            norm: BatchNorm::new(3, &mut rngs),
            dropout: Dropout::new(0.5, &mut rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.dropout
            .forward(&self.norm.forward(&self.linear.forward(x)))
    }
}

#[test]
fn states_that_a_compiled_function_drops_are_named() {
    let (net, x) = (Noisy::new(), Tensor::ones(DType::F32, [4, 2]));
    let start = line!();
    let forward = jit(|(mut net, x): (Noisy, Tensor)| net.forward(&x));
    let program = || {
        let masks = [(); 3].map(|()| forward((net.clone(), x.clone())));
        assert_eq!(masks[0], masks[1], "the same mask");
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert_eq!(found.len(), 1);
    let places = "[0].norm.mean, [0].norm.variance, [0].dropout.stream.count";
    assert!(found[0].contains(places), "{found:?}");
    assert!(
        found[0].contains("compile the function with `jit_mut`"),
        "{found:?}"
    );
}

#[test]
fn a_state_that_only_the_gradient_changes_is_named() {
    let (mut net, x) = (Noisy::new(), Tensor::ones(DType::F32, [4, 2]));
    let mut optimizer = Optimizer::new(&net, adam(0.1));
    let start = line!();
    let step = jit(
        |(mut net, mut optimizer, x): (Noisy, Optimizer<Noisy>, Tensor)| {
            let loss = |net: &Noisy| net.clone().forward(&x).square().mean();
            let gradient = grad(loss)(&net);
            optimizer.update(&mut net, &gradient);
            (net, optimizer)
        },
    );
    let program = || {
        for _ in 0..2 {
            (net, optimizer) = step((net.clone(), optimizer.clone(), x.clone()));
        }
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("[0].dropout.stream.count"), "{found:?}");
    assert!(
        !found[0].contains("[1]"),
        "the optimizer is returned: {found:?}"
    );
}

#[test]
fn an_optimizer_that_is_dropped_is_named() {
    let (net, x) = (Noisy::new(), Tensor::ones(DType::F32, [4, 2]));
    let optimizer = Optimizer::new(&net, adam(0.1));
    let start = line!();
    let step = jit(
        |(mut net, mut optimizer, x): (Noisy, Optimizer<Noisy>, Tensor)| {
            let (_, gradient) =
                value_and_grad_mut(|net: &mut Noisy| net.forward(&x).square().mean())(&mut net);
            optimizer.update(&mut net, &gradient);
            net
        },
    );
    let program = || {
        let net = step((net.clone(), optimizer.clone(), x.clone()));
        step((net, optimizer.clone(), x.clone()));
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("[1]") && !found[0].contains("[0]"),
        "{found:?}"
    );
}

#[test]
fn states_that_are_kept_or_new_do_not_warn() {
    let (mut net, x) = (Noisy::new(), Tensor::ones(DType::F32, [4, 2]));
    let mut rngs = Rngs::new(7);
    let start = line!();
    let forward = jit_mut(|(net, x): (&mut Noisy, Tensor)| net.forward(&x));
    let returned = jit(|(mut net, x): (Noisy, Tensor)| (net.forward(&x), net));
    let evaluated = jit(|(mut net, x): (Noisy, Tensor)| net.forward(&x));
    let drawn = jit(|(mut rngs, x): (Rngs, Tensor)| x + rngs.normal(DType::F32, [4, 2]));
    let program = || {
        for _ in 0..3 {
            forward((&mut net, x.clone()));
            net = returned((net.clone(), x.clone())).1;
            evaluated((eval(&net), x.clone()));
            drawn((rngs.fork(), x.clone()));
        }
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_stream_that_is_passed_twice_is_named() {
    let rngs = Rngs::new(7);
    let start = line!();
    let drawn = jit(|mut rngs: Rngs| rngs.normal(DType::F32, [4]));
    let program = || {
        assert_eq!(drawn(rngs.clone()), drawn(rngs.clone()));
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("default"), "{found:?}");
}

#[test]
fn states_that_a_loop_changes_are_named() {
    let (net, xs) = (Noisy::new(), Tensor::ones(DType::F32, [2, 4, 2]));
    let start = line!();
    let forward = jit(|(mut net, xs): (Noisy, Tensor)| {
        scan_mut(|net, x: Tensor| net.forward(&x), &mut net, xs)
    });
    let program = || {
        forward((net.clone(), xs.clone()));
        forward((net.clone(), xs.clone()));
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert_eq!(found.len(), 1);
    let places = "[0].norm.mean, [0].norm.variance, [0].dropout.stream.count";
    assert!(found[0].contains(places), "{found:?}");

    // In evaluation mode, the loop changes no state, so no state is dropped.
    let start = line!();
    let evaluate = jit(|(mut net, xs): (Noisy, Tensor)| {
        scan_mut(|net, x: Tensor| net.forward(&x), &mut net, xs)
    });
    let program = || {
        evaluate((eval(&net), xs.clone()));
        evaluate((eval(&net), xs.clone()));
    };
    let found = messages(WarningKind::DroppedState, start..line!(), program);
    assert!(found.is_empty(), "{found:?}");
}

#[derive(Module, Clone)]
struct Table {
    #[param]
    rows: Tensor,
}

/// Compiles a training step of a table that reads few rows, and returns the warnings so far.
fn dense_gradients(chain: optim::Chain) -> Vec<String> {
    let start = line!();
    let table = Table {
        rows: Tensor::zeros(DType::F32, [140_000, 32]),
    };
    let optimizer = Optimizer::new(&table, chain);
    let step = jit(
        |(mut table, mut optimizer, rows): (Table, Optimizer<Table>, Tensor)| {
            let loss = |table: &Table| table.rows.take(&rows, 0).square().sum();
            let gradient = grad(loss)(&table);
            optimizer.update(&mut table, &gradient);
            (table, optimizer)
        },
    );
    let rows = Tensor::zeros(DType::I32, [1000]);
    let program = || drop(step.lower(&(table, optimizer, rows)));
    messages(WarningKind::DenseGradient, start..line!(), program)
}

#[test]
fn what_reads_a_whole_gradient_is_named() {
    for chain in [sgd(0.1), optim::adagrad(0.1), optim::lazy_adam(0.1)] {
        assert_eq!(dense_gradients(chain), [""; 0]);
    }
    let found = dense_gradients(adam(0.1));
    assert_eq!(found.len(), 1, "{found:?}");
    for part in [
        "the gradient of a table f32[140000,32], of which ",
        "reads 1000 rows, becomes dense, because `add` at ",
        "`lazy_adam`",
    ] {
        assert!(found[0].contains(part), "{found:?}");
    }
}

/// The table of an output layer has a gradient of all rows.
#[test]
fn a_tied_table_is_named() {
    let start = line!();
    let tied = jit(|(table, rows): (Tensor, Tensor)| {
        let loss = |table: &Tensor| table.take(&rows, 0).matmul(&table.t()).square().sum();
        &table - grad(loss)(&table) * 0.1
    });
    let table = Tensor::zeros(DType::F32, [140_000, 32]);
    let rows = Tensor::zeros(DType::I32, [1000]);
    let program = || drop(tied.lower(&(table.clone(), rows.clone())));
    let found = messages(WarningKind::DenseGradient, start..line!(), program);
    assert_eq!(found.len(), 1, "{found:?}");
    let start = line!();
    let returned = jit(|(table, rows): (Tensor, Tensor)| {
        grad(|table: &Tensor| table.take(&rows, 0).square().sum())(&table)
    });
    let program = || drop(returned.lower(&(table, rows)));
    let found = messages(WarningKind::DenseGradient, start..line!(), program);
    assert!(
        found[0].contains("the compiled function returns it"),
        "{found:?}"
    );
}
