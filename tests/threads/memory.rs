//! Freed memory is kept for the process, not for each thread.

use pytree::memory;
use pytree::prelude::*;

use crate::threads::{is_program, report, run_again};

#[test]
fn idle_threads_hold_no_memory() {
    let test = "threads::memory::idle_threads_hold_no_memory";
    if !is_program(test) {
        run_again(test, 2);
        return;
    }
    // Each thread frees 100 MiB, in blocks of many sizes, and then idles until the memory of the process was read.
    let (idle, read) = (std::sync::Barrier::new(9), std::sync::Barrier::new(9));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2 {
                    let tensors: Vec<Tensor> = (0..25_usize)
                        .map(|n| Tensor::full(DType::F32, [(1 << 20) + n], n as f64) + 1.0)
                        .collect();
                    drop(tensors);
                }
                idle.wait();
                read.wait();
            });
        }
        idle.wait();
        let (held, resident) = (memory::held(), resident());
        read.wait();
        assert!(held <= memory::limit(), "{held}");
        assert!(resident < memory::limit() + (128 << 20), "{resident}");
    });
    assert!(memory::release() > 0);
    assert_eq!(memory::held(), 0);
    report("done");
}

/// The bytes that the process has in memory.
fn resident() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics
        .split(' ')
        .nth(1)
        .map(|pages| pages.parse::<usize>());
    pages.and_then(Result::ok).unwrap_or_default() * 4096
}
