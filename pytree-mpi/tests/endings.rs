//! A run ends in all processes, or it ends soon with a status that is not zero.
//!
//! Each test starts itself again with `mpiexec`.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod launch;

use std::process::Command;
use std::time::{Duration, Instant};

use launch::{command, is_started, printed};
use pytree_mpi::Processes;
use pytree_transform::{DType, Tensor, jit, pmax, psum};

/// The longest time from the failure of one process to the end of the run.
const SOON: Duration = Duration::from_secs(10);

/// Runs `body` in three processes. Checks that the run fails soon, and returns what it printed.
fn fails(test: &str, body: impl FnOnce(&Processes)) -> Option<String> {
    if is_started(test) {
        let processes = Processes::start().unwrap();
        processes.along("data", || body(&processes));
        return None;
    }
    let start = Instant::now();
    let output = command(3, test).output().unwrap();
    let text = printed(&output);
    assert!(!output.status.success(), "{test} succeeded:\n{text}");
    assert!(
        start.elapsed() < SOON,
        "{test} took {:?}:\n{text}",
        start.elapsed()
    );
    Some(text)
}

/// Calls a compiled function with a collective for ever.
fn train() -> ! {
    let step = jit(|x: Tensor| psum(&x.sin(), "data") * 0.1);
    let mut x = Tensor::ones(DType::F32, [100]);
    loop {
        x = step(x);
    }
}

/// The variable that tells a started process when it is killed, in milliseconds after its start.
const KILLED: &str = "PYTREE_MPI_KILLED";

/// Kills this process with the signal that no process can handle.
fn kill() {
    let own = std::process::id().to_string();
    let killed = Command::new("kill").args(["-KILL", &own]).status();
    unreachable!("{killed:?}");
}

#[test]
fn killed_process_ends_run() {
    let test = "killed_process_ends_run";
    if is_started(test) {
        let processes = Processes::start().unwrap();
        let after = std::env::var(KILLED).unwrap().parse().unwrap();
        if processes.rank() == 1 {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(after));
                kill();
            });
        }
        processes.along("data", train);
    }
    for after in [0, 30, 110, 270, 610] {
        let start = Instant::now();
        let mut command = command(3, test);
        let output = command.env(KILLED, after.to_string()).output().unwrap();
        let text = printed(&output);
        assert!(!output.status.success(), "{after} ms:\n{text}");
        assert!(
            start.elapsed() < SOON,
            "{after} ms took {:?}",
            start.elapsed()
        );
        assert!(text.contains("signal 9"), "{after} ms:\n{text}");
    }
}

#[test]
fn panic_ends_run() {
    let text = fails("panic_ends_run", |processes| {
        let mut x = Tensor::ones(DType::F32, [3]);
        for step in 0.. {
            assert!(step < 100 || processes.rank() != 2, "step {step} fails");
            x = psum(&x, "data") * 0.1;
        }
    });
    if let Some(text) = text {
        assert!(text.contains("step 100 fails"), "{text}");
    }
}

#[test]
fn early_end_of_process_ends_run() {
    let text = fails("early_end_of_process_ends_run", |processes| {
        if processes.rank() == 0 {
            train();
        }
    });
    if let Some(text) = text {
        assert!(
            text.contains("rank 0 calls psum axes=('data',) of f32[100]"),
            "{text}"
        );
        assert!(text.contains("rank 1 has ended"), "{text}");
        assert!(text.contains("rank 2 has ended"), "{text}");
    }
}

#[test]
fn different_collectives_end_run() {
    let text = fails("different_collectives_end_run", |processes| {
        let x = Tensor::ones(DType::F32, [3]);
        if processes.rank() == 1 {
            drop(pmax(&x, "data"));
        } else {
            drop(psum(&x, "data"));
        }
    });
    if let Some(text) = text {
        assert!(
            text.contains("rank 0 calls psum axes=('data',) of f32[3]"),
            "{text}"
        );
        assert!(
            text.contains("rank 1 calls pmax axes=('data',) of f32[3]"),
            "{text}"
        );
    }
}

#[test]
fn different_shapes_end_run() {
    let text = fails("different_shapes_end_run", |processes| {
        let _sum = psum(&Tensor::ones(DType::F32, [3 + processes.rank()]), "data");
    });
    if let Some(text) = text {
        assert!(
            text.contains("rank 2 calls psum axes=('data',) of f32[5]"),
            "{text}"
        );
    }
}
