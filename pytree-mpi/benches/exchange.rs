//! How long a sum over processes takes: `cargo bench -p pytree-mpi --features link [-- 2]`.
//!
//! The program starts itself with `mpiexec`, with the given number of processes or 2, and one thread in each. The processes
//! sum tensors of several sizes with `psum`. It prints a line for each size, and from the smallest and the largest
//! size the latency and the bandwidth of `time = latency + bytes / bandwidth`. From these it estimates the sums of more
//! processes, see [`estimate`].

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark is read as a script"
)]

use std::process::{Command, ExitCode};
use std::time::Instant;

use pytree_mpi::Processes;
use pytree_transform::device::Mesh;
use pytree_transform::{DType, Tensor, psum, spmd};

/// Tells a process that `mpiexec` started it.
const STARTED: &str = "PYTREE_MPI_BENCHMARK";

/// The sums in the longer of the two functions whose difference is measured.
const SUMS: usize = 11;

fn main() -> ExitCode {
    if std::env::var_os(STARTED).is_some() {
        measure();
        return ExitCode::SUCCESS;
    }
    let count = std::env::args().skip(1).find(|it| !it.starts_with("--"));
    let status = Command::new("mpiexec")
        .args(["-n", count.as_deref().unwrap_or("2"), "--oversubscribe"])
        .arg("--allow-run-as-root")
        .arg(std::env::current_exe().unwrap())
        .env(STARTED, "1")
        .env("PYTREE_NUM_THREADS", "1")
        .status();
    let succeeded = status.expect("mpiexec starts").success();
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn measure() {
    let processes = Processes::start().unwrap();
    let size = processes.size();
    let mesh = Mesh::new(&processes, [("data", size)]);
    let mut points = Vec::new();
    for bytes in [
        4_usize,
        1 << 10,
        1 << 14,
        1 << 18,
        1 << 20,
        1 << 22,
        1 << 24,
    ] {
        let x = Tensor::ones(DType::F32, [bytes / 4]);
        let seconds = (time(&mesh, &x, SUMS) - time(&mesh, &x, 1)) / (SUMS - 1) as f64;
        points.push((bytes as f64, seconds));
        if processes.rank() == 0 {
            let rate = bytes as f64 / seconds / 1e9;
            println!(
                "{bytes:9} bytes: {:9.2} µs a sum, {rate:.3} GB/s",
                seconds * 1e6
            );
        }
    }
    let ((_, latency), (bytes, seconds)) = (points[0], points[points.len() - 1]);
    if processes.rank() == 0 {
        let bandwidth = bytes / (seconds - latency) / 1e9;
        println!(
            "{size} processes: latency {:.2} µs, bandwidth {bandwidth:.3} GB/s",
            latency * 1e6
        );
        // The bytes of the gradients of the training cases C1, C2 and C3.
        for bytes in [105_000.0, 2_680_000.0, 23_300_000.0] {
            for count in [8.0, 64.0, 1000.0] {
                let seconds = estimate(count, bytes, latency, bandwidth * 1e9);
                println!(
                    "estimate: {count} processes sum {bytes} bytes in {:.2} ms",
                    seconds * 1e3
                );
            }
        }
    }
}

/// Returns the estimated time of a sum of more than two processes. Each process sends the parts that others sum, and then its
/// own sum: two exchanges, each of `(n - 1) / n` of the bytes, in messages whose number grows with the logarithm of `n`.
fn estimate(count: f64, bytes: f64, latency: f64, bandwidth: f64) -> f64 {
    2.0 * (count.log2().ceil() * latency + (count - 1.0) / count * bytes / bandwidth)
}

/// Returns the median time of a call that sums a tensor so many times, each time the result of the sum before.
fn time(mesh: &Mesh, x: &Tensor, sums: usize) -> f64 {
    let share = 1.0 / mesh.devices() as f64;
    let function = move |x: Tensor| (0..sums).fold(x, |x, _| psum(&(x * share), "data"));
    let call = spmd(function).over(mesh);
    let mut times: Vec<f64> = (0..40)
        .map(|_| {
            let start = Instant::now();
            let calls = if x.info().len() < 1 << 16 { 50 } else { 2 };
            for _ in 0..calls {
                drop(call(x.clone()));
            }
            start.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
