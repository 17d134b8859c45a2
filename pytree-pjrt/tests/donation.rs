//! A function that returns a model of its argument's size needs the memory of one model. A program of its own, because it reads
//! the memory of the whole process.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]
#![cfg(target_os = "linux")]

mod common;

use pytree_transform::device::device_put;
use pytree_transform::{DType, Tensor, jit};

use crate::common::{client, skipped};

/// A value of `/proc/self/status` in MiB.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024
}

/// By how many MiB the memory of the process rises above its current use in a function.
fn peak(work: impl FnOnce()) -> usize {
    // Sets the peak to the current use.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    work();
    status("VmHWM:") - before
}

#[test]
fn steps_need_the_memory_of_one_model() {
    // MiB of each of two tensors.
    const SIZE: usize = 64;
    let Some(client) = client() else { return };
    if client.platform_name() != "cpu" {
        return skipped("the test measures the memory of the process, and the device has its own");
    }
    let step = jit(|(x, y): (Tensor, Tensor)| {
        let next = &x * 0.5 + &y;
        (next.clone(), y - next)
    });
    let first = |x: &Tensor| x.index(pytree_transform::ix![0]).item::<f32>();
    let new = || device_put(&Tensor::ones(DType::F32, [SIZE << 18]), client);
    let mut state = step((new(), new()));
    assert_eq!(first(&state.0), 1.5);
    let nothing = (Tensor::from(0.0_f32), Tensor::from(0.0_f32));
    // Neither the memory of the host nor a first compilation counts.
    pytree_transform::memory::release();
    let donated = peak(|| {
        for _ in 0..10 {
            state = step(std::mem::replace(&mut state, nothing.clone()));
        }
        first(&state.0);
    });
    let kept = peak(|| {
        let next = step((state.0.clone(), state.1.clone()));
        first(&next.0);
    });
    println!("donated: {donated} MiB, kept: {kept} MiB");
    assert!(donated < SIZE / 4, "memory grows by {donated} MiB");
    assert!(kept >= 2 * SIZE, "results without memory: {kept} MiB");
}
