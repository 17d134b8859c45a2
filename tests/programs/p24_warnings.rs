//! Warnings about programs that work but not as intended. A hook captures them.

use std::panic::Location;
use std::sync::{LazyLock, Mutex};

use pytree::debug::{Warning, WarningKind, set_warning_hook};
use pytree::jit_mut;
use pytree::prelude::*;
use pytree::transform::Traceable;

static CAPTURED: LazyLock<Mutex<Vec<Warning>>> = LazyLock::new(|| {
    set_warning_hook(|warning| CAPTURED.lock().unwrap().push(warning.clone()));
    Mutex::default()
});

/// Returns the messages about functions that this file built in some lines, while `program` ran.
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
        found[0].contains("build it once, outside of the loop"),
        "{found:?}"
    );
}

const HELPER_BEGINS: u32 = line!();

/// A helper that compiles a function for each type: one line, many types.
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
        text.contains("`#[state] step: Tensor`, created by `Tensor::from(0)`"),
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
        found[0].contains("[1]: f32[14] before, f32[15] now; each new shape"),
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
