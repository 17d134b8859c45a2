//! A process that writes or reads its parts of a model on a mesh needs the memory of these parts and of one part more.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unsafe_code,
    missing_docs,
    reason = "an allocator that counts hands everything on to the system's"
)]

#[path = "shards/mesh.rs"]
mod mesh;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::checkpoint::{SaveOptions, Writers};
use pytree::device::Mesh;
use pytree::nn::{Initializer, LinearOptions};
use pytree::prelude::*;

use crate::mesh::Held;

/// The bytes that are allocated now, and the most that were allocated since the last call of [`peak`].
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn add(size: usize) {
    let now = NOW.fetch_add(size, Ordering::SeqCst) + size;
    MOST.fetch_max(now, Ordering::SeqCst);
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist while the elements are copied.
        add(size);
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of a function, and the most memory that it needed at a time, its result included.
fn peak<R>(function: impl FnOnce() -> R) -> (R, usize) {
    let before = NOW.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    let result = function();
    (result, MOST.load(Ordering::SeqCst) - before)
}

/// One large layer and its moments, so that a gathered tensor would be a large share of the whole.
fn model() -> (Mlp, Optimizer<Mlp>) {
    let options = LinearOptions {
        weight_init: Initializer::Zeros,
        ..LinearOptions::default()
    };
    let rngs = &mut Rngs::new(0);
    let layers = [1024, 2048, 1024, 2048];
    let model = Mlp::with_options(&layers, Activation::Relu, options, rngs);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    (model, optimizer)
}

/// Returns the parts of a process that holds one device of a mesh, without a copy of the whole.
fn own(rank: usize, axes: [usize; 2]) -> (Mlp, Optimizer<Mlp>) {
    let mesh = Mesh::new(&Held(rank..rank + 1), [("i", axes[0]), ("j", axes[1])]);
    graph::map(&model(), |x: &Tensor| {
        let axes = mesh.axes().enumerate();
        let fits = axes.filter_map(|(axis, (name, devices))| {
            let length = x.shape().get(axis)?;
            length.is_multiple_of(devices).then_some((name, axis))
        });
        mesh.put(x, &mesh.sharding(fits))
    })
}

/// All checks are in one test, because tests run at the same time and allocate from the same system. The processes are
/// one after the other: while rank 0 waits for the others, they write.
#[test]
fn no_process_holds_the_model() {
    // The pool of freed memory has a limit of its own, and is no part of the measurement.
    pytree::memory::set_limit(0);
    let folder = std::env::temp_dir().join(format!("pytree-sharded-memory-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let leaves = |state: &(Mlp, Optimizer<Mlp>)| -> usize {
        let leaves = graph::leaves::<Tensor, _>(state);
        leaves.iter().map(|x| x.len() * 4).sum()
    };
    let size = leaves(&model());
    let share = |bytes: usize| bytes as f64 / size as f64;
    let part = share(2 * 1024 * 1024 * 4 / 4);
    let number = Cell::new(0);
    let mut waiting: Vec<usize> = Vec::new();
    for rank in (0..4).rev() {
        let state = own(rank, [2, 2]);
        // All processes agree on the number of the first, and all have written.
        let exchange = |own: i64| {
            if !(0..=1).contains(&own) {
                number.set(if number.get() == 0 { own } else { number.get() });
                return vec![number.get(); 4];
            }
            vec![own; 4]
        };
        let writers = Writers::new(rank, 4, exchange);
        let options = SaveOptions::new();
        let (saved, most) =
            peak(|| checkpoint::save_sharded_with(&folder, &state, &options, &writers));
        saved.unwrap();
        println!(
            "rank {rank} writes: {most} bytes beside its parts, {:.3} of the model of {size} bytes",
            share(most)
        );
        assert!(share(most) < 1.3 * part, "{}", share(most));
        waiting.push(most);
    }
    assert_eq!(waiting.len(), 4);
    for (rank, axes) in [(0, [2, 2]), (3, [4, 1]), (1, [1, 4]), (2, [1, 4])] {
        let template = own(rank, axes);
        let (loaded, most) = peak(|| checkpoint::load(&folder, &template).unwrap());
        println!(
            "rank {rank} of {axes:?} reads: {most} bytes, {:.3} of the model, of which its parts are 0.250",
            share(most)
        );
        assert!(share(most) < 0.25 + 1.3 * part, "{}", share(most));
        assert!(share(most) > 0.25, "{}", share(most));
        drop(loaded);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
