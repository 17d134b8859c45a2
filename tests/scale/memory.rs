//! Peak memory grows with the number of equations or leaves, too. Each operation runs in a process of its own, which this
//! test starts: the system tells the peak of a process.

use std::process::Command;

use pytree::make_jaxpr;
use pytree::nn::{AttentionOptions, dot_product_attention};
use pytree::prelude::*;

use crate::measure::{MANY, alone};
use crate::models::{layers, numbers};
use crate::programs::{chain, vector};

/// What a process is to do, and at which size.
const TASK: &str = "PYTREE_SCALE_TASK";

/// How many times the peak at a size may be that at a tenth of it: ten, and what vectors reserve for more.
const MOST: f64 = 12.0;

const TASKS: [&str; 7] = [
    "recording",
    "first call",
    "grad",
    "vmap",
    "checkpoint saved",
    "checkpoint loaded",
    "diff",
];

const ATTENTION: [&str; 2] = ["attention", "attention and its gradient"];

/// The peak so far in KiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How much an operation adds to the peak of a new process.
fn added(task: &str, size: usize) -> f64 {
    let program = chain(size);
    let file = std::env::temp_dir().join(format!("pytree-scale-{}-peak", std::process::id()));
    if task == "checkpoint loaded" {
        // By another process, whose peak is not this one's.
        let outcome = child("checkpoint written", size);
        std::fs::rename(outcome, &file).unwrap();
    }
    let before = peak();
    match task {
        "recording" => drop(make_jaxpr(move |x: Tensor| program(&x))(vector())),
        "first call" => drop(jit(move |x: Tensor| program(&x))(vector())),
        "grad" => drop(grad(|x: &Tensor| program(x).sum())(&vector())),
        _ if ATTENTION.contains(&task) => {
            let x = Tensor::ones(DType::F32, [size, 2, 8]);
            let options = AttentionOptions::default();
            let attend = |x: &Tensor| dot_product_attention(x, x, x, &options).sum();
            if task == ATTENTION[0] {
                attend(&x);
            } else {
                drop(value_and_grad(attend)(&x));
            }
        }
        "vmap" => drop(vmap(|x: Tensor| program(&x))(Tensor::stack(
            &[vector(), vector()],
            0,
        ))),
        "checkpoint loaded" => drop(checkpoint::load(&file, &layers(size)).unwrap()),
        "diff" => {
            let (a, b) = (numbers(size), numbers(size + 1)[1..].to_vec());
            drop(diff(&a, &b).to_string());
        }
        _ => checkpoint::save(&file, &layers(size)).unwrap(),
    }
    let added = peak() - before;
    if task == "checkpoint written" {
        print!("<{}>", file.display());
    } else {
        let _ = std::fs::remove_file(&file);
    }
    added
}

/// What a new process of this test writes between brackets.
fn child(task: &str, size: usize) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::peak_memory_is_linear", "--nocapture"])
        .env(TASK, format!("{task}:{size}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let inside = text
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    inside.expect("the process writes its result").0.to_owned()
}

#[test]
fn peak_memory_is_linear() {
    if !cfg!(target_os = "linux") {
        return;
    }
    if let Ok(task) = std::env::var(TASK) {
        let (task, size) = task.split_once(':').unwrap();
        let added = added(task, size.parse().unwrap());
        println!("<{added}>");
        return;
    }
    let _alone = alone();
    let mut too_much = Vec::new();
    for task in TASKS {
        let peak = |size: usize| -> f64 { child(task, size).parse().unwrap() };
        let (small, large) = (peak(MANY / 10), peak(MANY));
        let line = format!(
            "{:7.1} {small:>9} KiB {large:>9} KiB  {task}",
            large / small
        );
        println!("{line}");
        if large > MOST * small {
            too_much.push(line);
        }
    }
    assert!(
        too_much.is_empty(),
        "more memory than in proportion:\n{}",
        too_much.join("\n")
    );
}

/// Whole scores would take four times the memory for twice the tokens.
#[test]
fn attention_memory_is_linear() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let _alone = alone();
    let lengths = [512, 1024, 2048, 4096, 8192];
    for task in ATTENTION {
        let mut most = f64::INFINITY;
        for tokens in lengths.into_iter().filter(|&tokens| tokens <= MANY / 12) {
            let peak: f64 = child(task, tokens).parse().unwrap();
            println!("        {peak:>9} KiB at {tokens} tokens  {task}");
            if !cfg!(debug_assertions) {
                assert!(peak < most, "{peak} KiB, not {most}");
            }
            most = 2.5 * peak + 4096.0;
        }
    }
}
