//! Threads: those of the user beside compiled functions, and those that share long work.
//!
//! The number of threads is set once for a process, so each test starts its program again with other numbers.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod bits;
mod memory;
mod tasks;

use std::process::Command;

/// The variable that tells a started program what to run.
const PROGRAM: &str = "PYTREE_TEST_PROGRAM";

/// The numbers of threads that programs run with.
const THREADS: [usize; 4] = [1, 2, 3, 8];

/// Runs the test of a name again as a program of its own, with so many threads, and returns the lines that it printed
/// for [`report`].
fn run_again(test: &str, threads: usize) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PROGRAM, test)
        .env("PYTREE_NUM_THREADS", threads.to_string())
        .env("RAYON_NUM_THREADS", threads.to_string())
        // The C library gives large blocks back to the system as soon as they are freed, so that the memory of the process
        // is what the library keeps.
        .env("MALLOC_MMAP_THRESHOLD_", "1048576")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{test} with {threads} threads:\n{text}\n{errors}"
    );
    let lines: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once("report: "))
        .map(|(_, line)| line.to_owned())
        .collect();
    assert!(!lines.is_empty(), "{test} reported nothing:\n{text}");
    lines
}

/// Whether this process was started by [`run_again`] for a test.
fn is_program(test: &str) -> bool {
    std::env::var(PROGRAM).is_ok_and(|program| program == test)
}

/// Prints a line for [`run_again`].
fn report(line: &str) {
    println!("\nreport: {line}");
}
