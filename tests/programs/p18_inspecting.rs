//! Inspects a function: its jaxpr, the executed operations, the reason for a retrace, the printed values, and the
//! origin of a NaN.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use pytree::debug::{debug_nans, debug_print};
use pytree::prelude::*;
use pytree::transform::verify;
use pytree::{Jaxpr, make_jaxpr};

fn predict(weight: &Tensor, x: &Tensor) -> Tensor {
    (x.matmul(weight) - 1.0).tanh()
}

#[test]
fn a_jaxpr_is_read_like_a_program() {
    let (weight, x) = (
        Tensor::ones(DType::F32, [3]),
        Tensor::ones(DType::F32, [2, 3]),
    );
    let jaxpr: Jaxpr = make_jaxpr(|(weight, x): (Tensor, Tensor)| predict(&weight, &x).sum())((
        weight.clone(),
        x.clone(),
    ));
    assert_eq!(
        jaxpr.to_string(),
        "\
{ lambda ; a:f32[3] b:f32[2,3]. let
    c:f32[2] = dot_general[dimension_numbers=(([1], [0]), ([], []))] b a
    d:f32[2] = full[dtype=f32 shape=(2,) value=1.0] 
    e:f32[2] = sub c d
    f:f32[2] = tanh e
    g:f32[] = reduce_sum[axes=(0,)] f
  in (g,) }"
    );
    assert_eq!(verify(&jaxpr), Ok(()));
    let product = jaxpr.equations().next().unwrap();
    assert_eq!(
        (product.name(), product.line().file()),
        ("dot_general", file!())
    );
    assert_eq!(
        jaxpr.evaluate(&[weight, x])[0].item::<f32>(),
        2.0 * 2.0_f32.tanh()
    );
}

#[test]
fn passes_remove_unneeded_operations() {
    let f = jit(|x: Tensor| {
        let unused = x.exp();
        let twice = x.sin() * x.sin() * 1.0;
        drop(unused);
        -(-twice)
    });
    let lowered = f.lower(&Tensor::ones(DType::F32, [1000]));
    assert_eq!(
        lowered.jaxpr().to_string(),
        "{ lambda ; a:f32[1000]. let b:f32[1000] = sin a; c:f32[1000] = mul b b in (c,) }"
    );
    assert!(lowered.schedule()[0].fused);
    assert_eq!(lowered.memory().buffers, 1);
    assert_eq!(
        lowered.to_string().lines().skip(1).collect::<Vec<_>>(),
        [
            "step 0: fused sin, mul (reads 1, writes 1)",
            "memory: 4000 bytes of inputs, 0 of constants, 4000 of outputs; at most 4000 for results, 1 buffers",
        ]
    );
}

#[test]
fn nan_names_its_line() {
    let loss = jit(|x: Tensor| x.log().sum());
    let line = line!() - 1;
    let run = AssertUnwindSafe(|| debug_nans(|| loss(Tensor::from([1.0_f32, -2.0]))));
    let message = *catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains(&format!("`log` at {}:{line}:", file!())),
        "{message}"
    );
    assert!(
        message.contains("b:f32[2] = log a; operand 0 is f32[2] with values from -2 to 1"),
        "{message}"
    );
}

#[test]
fn intended_nan_is_no_error_until_it_is_selected() {
    let logits = Tensor::from([[1.0_f32, 2.0, 0.5], [0.0, -1.0, 3.0]]);
    let loss = jit(|(logits, labels): (Tensor, Tensor)| {
        let loss = |logits: &Tensor| softmax_cross_entropy(logits, &labels).mean();
        value_and_grad(loss)(&logits)
    });
    let embed = Embed::new(5, 4, &mut Rngs::new(0));
    let rows = jit(|(embed, indices): (Embed, Tensor)| embed.forward(&indices));
    let plain = loss((logits.clone(), Tensor::from([1, -1])));
    let (good, bad) = (
        Tensor::from([[0, 4], [-5, 2]]),
        Tensor::from([[0, 4], [5, 2]]),
    );
    let expected = rows((embed.clone(), good.clone()));
    debug_nans(|| {
        let (value, slope) = loss((logits.clone(), Tensor::from([1, -1])));
        assert_eq!((value, slope), plain);
        assert_eq!(rows((embed.clone(), good)), expected);
    });
    // A label or an index that is out of range is an error, which names its operands.
    let message = |run: &dyn Fn()| {
        let run = AssertUnwindSafe(|| debug_nans(run));
        *catch_unwind(run).unwrap_err().downcast::<String>().unwrap()
    };
    let of_label = message(&|| drop(loss((logits.clone(), Tensor::from([1, 3])))));
    assert!(of_label.contains("`select` at "), "{of_label}");
    assert!(
        of_label.contains("returned NaN in 1 of 2 elements"),
        "{of_label}"
    );
    let of_index = message(&|| drop(rows((embed.clone(), bad.clone()))));
    assert!(
        of_index.contains("returned NaN in 4 of 16 elements"),
        "{of_index}"
    );
}

/// Prints values. The next test runs this function in another process, and reads the output of the process.
#[test]
fn prints() {
    let step = jit(|x: Tensor| {
        let y = x.square();
        debug_print!("x = {x}, y = {y}", x = x, y = y);
        y.sum()
    });
    step(Tensor::from([1.0_f32, 2.0]));
    vmap(step.clone())(Tensor::from([[3.0_f32], [4.0]]));
    grad(step)(&Tensor::from([5.0_f32]));
    debug_print!("done");
}

#[test]
fn prints_are_on_stdout_in_order() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "programs::p18_inspecting::prints",
            "--nocapture",
            "--test-threads=1",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The first printed text follows the name of the test on the same line.
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| match line.find("x = ") {
            Some(start) => Some(&line[start..]),
            None => (line == "done").then_some(line),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "x = [1. 2.], y = [1. 4.]",
            "x = [3.], y = [9.]",
            "x = [4.], y = [16.]",
            "x = [5.], y = [25.]",
            "done",
        ],
        "{text}"
    );
}

#[test]
fn the_environment_turns_checks_on() {
    let run = |variable: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "programs::p18_inspecting::an_infinity_and_nan_if_asked",
                "--nocapture",
            ])
            .env("P18_CHILD", "1")
            .env_remove("PYTREE_DEBUG_NANS")
            .env_remove("PYTREE_DEBUG_INFS")
            .env(variable, "1")
            .output()
            .unwrap()
    };
    let none = run("P18_NOTHING");
    assert!(none.status.success());
    for (variable, what) in [
        ("PYTREE_DEBUG_NANS", "NaN"),
        ("PYTREE_DEBUG_INFS", "an infinity"),
    ] {
        let output = run(variable);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && text.contains(&format!("returned {what} in 1 of 1")),
            "{text}"
        );
    }
}

/// Does nothing unless it runs in a process that the test above started.
#[test]
fn an_infinity_and_nan_if_asked() {
    if std::env::var_os("P18_CHILD").is_some() {
        let zero = Tensor::from(0.0_f32);
        drop((&zero / &zero, 1.0 / zero));
    }
}
