//! Environment variables: each unusable value is reported with the name of the variable, and the default is used.

use std::process::Command;

use pytree_transform::{DType, Tensor, error_if};

/// Computes with threads and with checks, in a process with other environment variables.
#[test]
fn program_of_the_child() {
    let x = Tensor::ones(DType::F32, [1 << 16]);
    assert_eq!((&x * 2.0).sum().item::<f32>(), 131_072.0);
    let is_checked = std::panic::catch_unwind(|| error_if(&x, &x.greater(0.0), "checked")).is_err();
    let has_nan = || Tensor::from([-1.0_f32]).sqrt().item::<f32>();
    let finds_nan = std::panic::catch_unwind(has_nan).is_err();
    println!("checked: {is_checked}, nans: {finds_nan}");
}

fn run(variable: &str, value: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "environment::program_of_the_child",
        "--nocapture",
    ]);
    command.env(variable, value);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{variable}={value}: {output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn unusable_variables_are_reported() {
    let threads = "a number of threads from 1 to 4096";
    for (variable, value, expected) in [
        ("PYTREE_NUM_THREADS", "abc", threads),
        ("PYTREE_NUM_THREADS", "0", threads),
        ("PYTREE_NUM_THREADS", "30000", threads),
        ("PYTREE_PORTABLE", "maybe", "0 or 1"),
        ("PYTREE_ERROR_IF", "2", "0 or 1"),
        ("PYTREE_DEBUG_NANS", "x", "0 or 1"),
        ("PYTREE_DEBUG_INFS", "x", "0 or 1"),
    ] {
        let text = run(variable, value);
        let warning = format!(
            "pytree: warning: the environment variable `{variable}` is ignored: expected {expected}, found `{value}`\n"
        );
        assert_eq!(text.matches(&warning).count(), 1, "{text}");
        assert!(text.contains("checked: true, nans: false"), "{text}");
    }
}

#[test]
fn usable_variables_have_an_effect() {
    for (variable, value, expected) in [
        ("PYTREE_NUM_THREADS", " 2 ", "checked: true, nans: false"),
        ("PYTREE_NUM_THREADS", "300", "checked: true, nans: false"),
        ("PYTREE_ERROR_IF", "false", "checked: false, nans: false"),
        ("PYTREE_ERROR_IF", "", "checked: true, nans: false"),
        ("PYTREE_DEBUG_NANS", "true", "checked: true, nans: true"),
        ("PYTREE_DEBUG_NANS", "0", "checked: true, nans: false"),
    ] {
        let text = run(variable, value);
        assert!(!text.contains("warning"), "{text}");
        assert!(text.contains(expected), "{variable}={value}: {text}");
    }
}
