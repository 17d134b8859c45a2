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
use pytree_transform::device::Mesh;
use pytree_transform::{DType, Tensor, pmax, psum, spmd};

/// The longest time from the failure of one process to the end of the run.
const SOON: Duration = Duration::from_secs(10);

/// Runs `body` in three processes, which are the devices of a mesh. Checks that the run fails soon, and returns what it
/// printed.
fn fails(test: &str, body: impl FnOnce(usize, &Mesh)) -> Option<String> {
    if is_started(test) {
        let processes = Processes::start().unwrap();
        let mesh = Mesh::new(&processes, [("data", 3)]);
        body(processes.rank(), &mesh);
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

/// Calls a function with a collective for ever.
fn train(mesh: &Mesh) -> ! {
    let step = spmd(|x: Tensor| psum(&x.sin(), "data") * 0.1).over(mesh);
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
        train(&Mesh::new(&processes, [("data", 3)]));
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
    let text = fails("panic_ends_run", |rank, mesh| {
        let sum = spmd(|x: Tensor| psum(&x, "data") * 0.1).over(mesh);
        let mut x = Tensor::ones(DType::F32, [3]);
        for step in 0.. {
            assert!(step < 100 || rank != 2, "step {step} fails");
            x = sum(x);
        }
    });
    if let Some(text) = text {
        assert!(text.contains("step 100 fails"), "{text}");
    }
}

#[test]
fn early_end_of_process_ends_run() {
    let text = fails("early_end_of_process_ends_run", |rank, mesh| {
        if rank == 0 {
            train(mesh);
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
    let text = fails("different_collectives_end_run", |rank, mesh| {
        let x = Tensor::ones(DType::F32, [3]);
        if rank == 1 {
            println!("line {}", line!() + 1);
            drop(spmd(|x: Tensor| pmax(&x, "data")).over(mesh)(x));
        } else {
            drop(spmd(|x: Tensor| psum(&x, "data")).over(mesh)(x));
        }
    });
    if let Some(text) = text {
        let line = text.split("line ").nth(1).unwrap();
        let line: String = line.chars().take_while(char::is_ascii_digit).collect();
        assert!(text.contains(&format!("endings.rs:{line}")), "{text}");
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
    let text = fails("different_shapes_end_run", |rank, mesh| {
        let x = Tensor::ones(DType::F32, [3 + rank]);
        let _sum = spmd(|x: Tensor| psum(&x, "data")).over(mesh)(x);
    });
    if let Some(text) = text {
        assert!(
            text.contains("rank 2 calls psum axes=('data',) of f32[5]"),
            "{text}"
        );
    }
}

#[test]
fn different_parts_of_a_tensor_end_run() {
    let text = fails("different_parts_of_a_tensor_end_run", |rank, mesh| {
        let own = Tensor::ones(DType::F32, [3 + rank, 2]);
        let _whole = mesh.tensor_from_process_data(&own, "data");
    });
    if let Some(text) = text {
        for part in ["rank 0", "f32[3,2]", "rank 2", "f32[5,2]"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}

#[test]
fn read_of_divided_tensor_in_one_process_ends_run() {
    let test = "read_of_divided_tensor_in_one_process_ends_run";
    let text = fails(test, |rank, mesh| {
        let double = spmd(|x: Tensor| x * 2.0).over(mesh);
        let double = double.in_axes("data", 0).out_axes("data", 0);
        let doubled = double(Tensor::ones(DType::F32, [6]));
        if rank == 1 {
            println!("{doubled}");
        }
    });
    if let Some(text) = text {
        assert!(text.contains("rank 0 has ended"), "{text}");
        assert!(
            text.contains("rank 1 calls read of the divided f32[6]"),
            "{text}"
        );
    }
}

/// The processes along one axis wait for each other, and one along the other axis ends.
#[test]
fn early_end_along_other_axis_ends_run() {
    let test = "early_end_along_other_axis_ends_run";
    if is_started(test) {
        let processes = Processes::start().unwrap();
        let mesh = Mesh::new(&processes, [("data", 2), ("model", 2)]);
        if processes.rank() != 3 {
            let sum = spmd(|x: Tensor| psum(&psum(&x, "data"), "model")).over(&mesh);
            sum(Tensor::ones(DType::F32, [3]));
        }
        return;
    }
    let start = Instant::now();
    let output = command(4, test).output().unwrap();
    let text = printed(&output);
    assert!(!output.status.success(), "{text}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(
        text.contains("rank 0 calls psum axes=('data',) of f32[3]"),
        "{text}"
    );
    assert!(text.contains("rank 3 has ended"), "{text}");
}
