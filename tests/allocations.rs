//! A compiled training step allocates no memory for its arrays from the system: it reuses the memory that the
//! previous step freed.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "an allocator that counts hands everything on to the system's"
)]

#[path = "../benches/support/loops.rs"]
mod loops;
#[allow(dead_code, reason = "the labels are for other programs")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::collectives::psum;
use pytree::device::{Device, Mesh};
use pytree::prelude::*;
use pytree::spmd;

/// Smaller blocks are left to the system's allocator, which keeps them itself.
const LARGE: usize = 4 << 10;

thread_local! {
    static BLOCKS: Cell<usize> = const { Cell::new(0) };
    static LARGE_BLOCKS: Cell<usize> = const { Cell::new(0) };
}

/// The bytes of the largest block that a thread has allocated.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count(size: usize) {
    LARGEST.fetch_max(size, Ordering::Relaxed);
    let _ = BLOCKS.try_with(|blocks| blocks.set(blocks.get() + 1));
    if size > LARGE {
        let _ = LARGE_BLOCKS.try_with(|blocks| blocks.set(blocks.get() + 1));
    }
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of large allocations in each of several training steps, after a few warm-up steps.
fn large_blocks_by_step(sizes: &[usize], batch: usize) -> Vec<usize> {
    let mut model = Mlp::new(sizes, Activation::Gelu, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let step = jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    );
    let x = Key::new(1).normal(DType::F32, [batch, sizes[0]]);
    let y = Tensor::zeros(DType::I32, [batch]);
    let mut blocks = Vec::new();
    for _ in 0..8 {
        let before = LARGE_BLOCKS.get();
        let loss;
        (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
        assert!(loss.item::<f32>().is_finite());
        blocks.push(LARGE_BLOCKS.get() - before);
    }
    blocks
}

/// Held by each test: the tests share the memory of freed arrays, and one test would take the arrays of the other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn steady_training_step_allocates_no_arrays() {
    let _alone = ALONE.lock();
    let blocks = large_blocks_by_step(&[96, 256, 128, 10], 64);
    assert!(blocks[0] > 20, "the count counts: {blocks:?}");
    // Three products forward and five backward, whose kernels may lay out an operand anew.
    assert!(blocks[3..].iter().all(|&count| count <= 8), "{blocks:?}");
}

#[test]
fn step_that_writes_its_model_allocates_no_arrays() {
    let _alone = ALONE.lock();
    let sizes = [96, 256, 128, 10];
    let mut model = Mlp::new(&sizes, Activation::Gelu, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let step = jit_mut(
        |(model, optimizer, x, y): (&mut Mlp, &mut Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let x = Key::new(1).normal(DType::F32, [64, sizes[0]]);
    let y = Tensor::zeros(DType::I32, [64]);
    let mut blocks = Vec::new();
    for _ in 0..8 {
        let before = LARGE_BLOCKS.get();
        let loss = step((&mut model, &mut optimizer, x.clone(), y.clone()));
        assert!(loss.item::<f32>().is_finite());
        blocks.push(LARGE_BLOCKS.get() - before);
    }
    assert!(blocks[3..].iter().all(|&count| count <= 8), "{blocks:?}");

    // The parameters are updated where they are.
    let weights = |model: &Mlp| model.layers[0].weight.to_vec::<f32>();
    let before = weights(&model);
    pytree::memory::release();
    let blocks = LARGE_BLOCKS.get();
    let double = jit_mut(|model: &mut Mlp| {
        *model = tree::map(&*model, |leaf: &Tensor| leaf * 2.0);
    });
    double(&mut model);
    let traced = LARGE_BLOCKS.get();
    double(&mut model);
    assert_eq!(LARGE_BLOCKS.get(), traced, "no array is allocated");
    assert!(traced >= blocks);
    let expected: Vec<f32> = before.iter().map(|weight| weight * 4.0).collect();
    assert_eq!(weights(&model), expected);
}

#[test]
fn step_on_mesh_of_host_writes_over_its_argument() {
    let _alone = ALONE.lock();
    let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    let step = spmd(|x: Tensor| psum(&x.sum(), "data") * 0.0 + x.sin()).over(&mesh);
    let step = step.in_axes("data", 0).out_axes("data", 0);
    let mut x = step(Tensor::ones(DType::F32, [1 << 16]));
    // Without a pool, each array that is not written over an argument is an allocation.
    let limit = pytree::memory::limit();
    pytree::memory::set_limit(0);
    let before = LARGE_BLOCKS.get();
    for _ in 0..10 {
        x = step(x);
    }
    let donated = LARGE_BLOCKS.get() - before;
    for _ in 0..10 {
        x = step(x.clone());
    }
    let kept = LARGE_BLOCKS.get() - before - donated;
    pytree::memory::set_limit(limit);
    assert_eq!((donated, kept), (0, 10));
}

#[test]
fn products_of_half_precision_widen_no_operand() {
    let _alone = ALONE.lock();
    let limit = pytree::memory::limit();
    pytree::memory::set_limit(0);
    for dtype in [DType::BF16, DType::F16] {
        // Each weight has 8 MiB, and would have 16 MiB in f32.
        let weight = Key::new(0).normal(DType::F32, [1024, 4096]).convert(dtype);
        let transposed = weight.swap_axes(0, 1);
        for rows in [1, 4, 64] {
            let x = Tensor::ones(dtype, [rows, 1024]);
            let products = |(x, weight, transposed): (Tensor, Tensor, Tensor)| {
                [
                    x.matmul(&weight),
                    x.tensordot(&transposed, (&[1], &[1])),
                    weight.tensordot(&x, (&[0], &[1])),
                    transposed.tensordot(&x, (&[1], &[1])),
                ]
            };
            let operands = (x, weight.clone(), transposed.clone());
            LARGEST.store(0, Ordering::Relaxed);
            let eager = products(operands.clone());
            let compiled = jit(products)(operands);
            let largest = LARGEST.load(Ordering::Relaxed);
            assert!(largest > 0 && largest <= 2 << 20, "{largest} bytes");
            assert_eq!(eager, compiled);
        }
    }
    pytree::memory::set_limit(limit);
}

/// A round of a loop with a small body takes no memory, and neither does a round of its gradient.
#[test]
fn rounds_of_small_loops_allocate_nothing() {
    const ROUNDS: usize = 5000;
    fn blocks(function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static, w: &Tensor) -> usize {
        let function = jit(move |w: Tensor| function(&w));
        let mut counted = 0;
        for _ in 0..3 {
            let before = BLOCKS.get();
            drop(function(w.clone()));
            counted = BLOCKS.get() - before;
        }
        counted
    }
    // More rounds have more allocations only where they have longer stacks.
    fn check(name: &str, few: usize, many: usize) {
        assert!(
            many < few + ROUNDS / 50,
            "{name}: {few} allocations, then {many}"
        );
    }
    for case in loops::CASES {
        let (name, _, has_gradient, _) = *case;
        let w = loops::parameters(case);
        let [few, many] = [ROUNDS, 2 * ROUNDS].map(|rounds| loops::function(case, rounds));
        check(name, blocks(few, &w), blocks(many, &w));
        if has_gradient {
            let few = blocks(move |w| grad(few)(w), &w);
            check(name, few, blocks(move |w| grad(many)(w), &w));
        }
    }
}
