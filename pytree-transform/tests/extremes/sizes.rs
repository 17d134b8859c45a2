//! Sizes that overflow, that exceed the address space, or that the system does not allocate.

use pytree_transform::convolution::{Convolution, Padding};
use pytree_transform::pooling::Pooling;
use pytree_transform::{DType, ScanOptions, Tensor, eval_shape, jit, ravel, scan_with, vmap};

use crate::extremes::harness::{Panic, Shape, check, elements, rows};

const HUGE: usize = usize::MAX;
const TOP: usize = 1 << 63;
/// 32 TiB of f32. The size can be computed and addressed, but no system allocates it.
const REFUSED: usize = 1 << 43;

fn three() -> Tensor {
    Tensor::from([1.0_f32, 2.0, 3.0])
}

fn none() -> Tensor {
    Tensor::zeros(DType::F32, [0])
}

#[test]
fn creations_too_large_are_refused() {
    check(&rows! {
        Tensor::zeros(DType::F32, [REFUSED]) => Panic("`zeros`: 35184372088832 bytes of memory");
        Tensor::zeros(DType::F32, [1 << 46]) => Panic("`zeros`: 281474976710656 bytes of memory");
        Tensor::zeros(DType::F32, [1 << 62]) => Panic("`zeros`: 18446744073709551616 bytes of memory");
        Tensor::zeros(DType::F32, [TOP]) => Panic("`zeros`: 36893488147419103232 bytes of memory");
        Tensor::zeros(DType::Bool, [TOP]) => Panic("`zeros`: 9223372036854775808 bytes of memory");
        Tensor::zeros(DType::F32, [HUGE]) => Panic("cannot make f32[18446744073709551615] by `zeros`");
        Tensor::zeros(DType::F32, [HUGE, HUGE, HUGE]) => Panic("`zeros`: more than 2^128 bytes of memory");
        Tensor::zeros(DType::F32, [1 << 32, 1 << 32]) => Panic("by `zeros`");
        Tensor::zeros(DType::F32, [0, HUGE]) => Panic("by `zeros`");
        Tensor::zeros(DType::F32, [HUGE, 2, 0]) => Panic("by `zeros`");
        Tensor::zeros(DType::F32, [0, TOP, 2]) => Panic("by `zeros`");
        Tensor::zeros(DType::F32, [0, 1 << 50]) => Shape(vec![0, 1 << 50]);
        Tensor::ones(DType::I64, [REFUSED]) => Panic("`ones`: 70368744177664 bytes of memory");
        Tensor::full(DType::Bool, [REFUSED], 1.0) => Panic("`full`: 8796093022208 bytes of memory");
        Tensor::arange(DType::F32, REFUSED) => Panic("`arange`: 35184372088832 bytes of memory");
        Tensor::arange(DType::I32, HUGE) => Panic("by `arange`");
        Tensor::arange(DType::I32, (1 << 31) + 1) => Panic("cannot arange i32[2147483649]: i32 cannot represent the position 2147483648");
        Tensor::arange(DType::U32, (1 << 32) + 1) => Panic("cannot arange u32[4294967297]: u32 cannot represent the position 4294967296");
        Tensor::arange(DType::F64, 0) => elements([]);
        Tensor::iota(DType::F32, [3], isize::MAX) => Panic("cannot iota f32[3]: axis 9223372036854775807 is out of range");
        Tensor::iota(DType::F32, [3], isize::MIN) => Panic("cannot iota f32[3]: axis -9223372036854775808 is out of range");
        Tensor::iota(DType::F32, [2, TOP], 0) => Panic("by `iota`");
        Tensor::eye(DType::F32, 1 << 32) => Panic("by `eye`");
        Tensor::eye(DType::F32, 1 << 21) => Panic("by `eye`");
        Tensor::eye(DType::F32, HUGE) => Panic("by `eye`");
        Tensor::eye(DType::F32, 0) => Shape(vec![0, 0]);
        Tensor::linspace(DType::F32, 0.0, 1.0, HUGE) => Panic("by `linspace`");
        Tensor::linspace(DType::F32, 0.0, 1.0, REFUSED) => Panic("by `linspace`");
        Tensor::linspace(DType::F32, 5.0, 1.0, 0) => elements([]);
        Tensor::linspace(DType::F32, 5.0, 1.0, 1) => elements([5.0]);
        Tensor::new([TOP, 2], Vec::<f32>::new()) => Panic("expected 18446744073709551616 elements, found 0");
        Tensor::new([0, TOP, 2], Vec::<f32>::new()) => Panic("by `Tensor::new`");
        Tensor::new([HUGE, HUGE, HUGE], vec![1.0]) => Panic("expected more than 2^128 elements, found 1");
    });
}

#[test]
fn results_too_large_are_refused() {
    check(&rows! {
        three().broadcast_to([REFUSED, 3]) => Panic("by `broadcast_in_dim`");
        three().broadcast_to([HUGE, 3]) => Panic("by `broadcast_in_dim`");
        three().broadcast_to([0, 3]) => Shape(vec![0, 3]);
        three().reshape([HUGE, 3]) => Panic("cannot reshape f32[3]");
        three().reshape([3, TOP, 0]) => Panic("cannot reshape f32[3]");
        none().reshape([0, 1_usize << 40]) => Shape(vec![0, 1 << 40]);
        none().reshape([0, HUGE]) => Panic("by `reshape`");
        three().tile([HUGE]) => Panic("by `tile`");
        three().tile([REFUSED]) => Panic("`tile`: 105553116266496 bytes of memory");
        three().tile([1 << 40, 1 << 40]) => Panic("by `tile`");
        three().tile([0]) => elements([]);
        none().tile([HUGE]) => Panic("by `tile`");
        three().repeat(HUGE, 0) => Panic("by `repeat`");
        three().repeat(TOP, 0) => Panic("by `repeat`");
        three().repeat(REFUSED, 0) => Panic("by `repeat`");
        three().repeat(0, 0) => elements([]);
        three().pad(0.0, [(isize::MAX, 0, 0)]) => Panic("pad");
        three().pad(0.0, [(isize::MAX, isize::MAX, 0)]) => Panic("cannot pad");
        three().pad(0.0, [(1 << 45, 0, 0)]) => Panic("by `pad`");
        three().pad(0.0, [(0, 0, HUGE)]) => Panic("cannot pad");
        three().pad(0.0, [(0, 0, 1 << 62)]) => Panic("pad");
        three().pad(0.0, [(isize::MIN, isize::MAX, 0)]) => Panic("cannot pad");
        three().pad(9.0, [(-isize::MAX, isize::MAX, 0)]) => elements([9.0, 9.0, 9.0]);
        three().pad(9.0, [(isize::MAX, -isize::MAX, 0)]) => elements([9.0, 9.0, 9.0]);
        three().pad(0.0, [(isize::MIN, 0, 0)]) => Panic("cannot pad");
        three().pad(0.0, [(0, isize::MIN, HUGE)]) => Panic("cannot pad");
        Tensor::from([7.0]).pad(0.0, [(1, 1, HUGE)]) => elements([0.0, 7.0, 0.0]);
        Tensor::zeros(DType::F32, [2, 1]).pad(1.0, [(0, 0, 0), (0, 0, TOP)]) => elements([0.0, 0.0]);
        three().pad(9.0, [(0, -(1 << 61), 1 << 60)]) => elements([1.0, 9.0, 9.0]);
        three().pad(9.0, [(0, 1 - (1 << 61), 1 << 60)]) => elements([1.0, 9.0, 9.0, 9.0]);
        three().pad(9.0, [(0, -(1 << 61), (1 << 60) - 1)]) => elements([1.0]);
        three().outer(&Tensor::zeros(DType::F32, [1 << 10])).broadcast_to([1 << 40, 3, 1 << 10]) => Panic("by `broadcast_in_dim`");
        Tensor::concatenate(&vec![Tensor::zeros(DType::F32, [0, 1 << 60]); 17], 1) => Panic("by `concatenate`");
        Tensor::stack(&vec![Tensor::zeros(DType::F32, [0, 1 << 60]); 17], 1) => Panic("by `stack`");
        Tensor::zeros(DType::Bool, [0, 1 << 40]).kron(&Tensor::zeros(DType::Bool, [0, 1 << 40])) => Panic("kron");
        Tensor::zeros(DType::F32, [0, 1 << 40]).kron(&Tensor::zeros(DType::F32, [0, 1 << 40])) => Panic("by `kron`");
        Tensor::from([0]).one_hot(HUGE, DType::F32) => Panic("`one_hot`");
        Tensor::from([0]).one_hot(REFUSED, DType::F32) => Panic("one_hot");
        Tensor::from([0]).one_hot(0, DType::F32) => Shape(vec![1, 0]);
        Tensor::from([0_i64]).one_hot(1 << 40, DType::F32) => Panic("by `one_hot`");
        three().diag(isize::MAX) => Panic("by `diag`");
        three().diag(isize::MIN) => Panic("by `diag`");
        three().diag(1 << 40) => Panic("by `diag`");
        none().diag(isize::MIN) => Panic("by `diag`");
        three().array_split(HUGE, 0).remove(0) => Panic("cannot array_split f32[3]: 442721857769029238760 bytes of memory");
        three().array_split(1 << 43, 0).remove(0) => Panic("bytes of memory for 8796093022208 parts are not available");
        none().split(TOP, 0).remove(0) => Panic("cannot split f32[0]: 221360928884514619392 bytes of memory");
        three().split(HUGE, 0).remove(0) => Panic("cannot split");
    });
}

#[test]
fn positions_beyond_i32_are_refused() {
    // Only shapes are computed. A broadcast tensor of that many bools would take 3 GB.
    fn of_many(function: impl Fn(Tensor) -> Tensor) -> Tensor {
        let many = |x: &Tensor| function(x.broadcast_to([3_000_000_000]));
        eval_shape(many, &Tensor::from(true));
        Tensor::from(0)
    }
    check(&rows! {
        of_many(|x| x.argmax(0)) => Panic("the position 2999999999 of axis 0 does not fit i32");
        of_many(|x| x.argmin(-1)) => Panic("the position 2999999999 of axis 0 does not fit i32");
        of_many(|x| x.argsort(0)) => Panic("cannot sort bool[3000000000]: the position 2999999999");
        of_many(|x| x.reshape([2, 1_500_000_000]).argsort(1)) => elements([0.0]);
    });
}

#[test]
fn transformations_refuse_lengths_too_large() {
    check(&rows! {
        jit(|x: Tensor| x + Tensor::zeros(DType::F32, [TOP]).sum())(three()) => Panic("by `zeros`");
        jit(|x: Tensor| x.broadcast_to([HUGE, 3]).sum())(three()) => Panic("by `broadcast_in_dim`");
        jit(|x: Tensor| x.tile([HUGE]))(three()) => Panic("by `tile`");
        { eval_shape(|x: &Tensor| x.broadcast_to([1 << 46, 3]), &three()); three() } => Panic("by `broadcast_in_dim`");
        vmap(|_: Tensor| Tensor::zeros(DType::F32, [1 << 45]) + 1.0)(three()) => Panic("by `zeros`");
        vmap(|x: Tensor| x + Tensor::zeros(DType::F32, [TOP]))(three()) => Panic("by `zeros`");
        scan_with(ScanOptions::new().length(HUGE), |c: Tensor, (): ()| (c.clone(), c), three(), ()).1 => Panic("scan");
        scan_with(ScanOptions::new().length(REFUSED), |c: Tensor, (): ()| (c.clone(), c), three(), ()).1 => Panic("scan");
        scan_with(ScanOptions::new().length(0), |c: Tensor, (): ()| (c.clone(), c), three(), ()).1 => Shape(vec![0, 3]);
        scan_with(ScanOptions::new().length(HUGE), |c: Tensor, x: Tensor| (c, x), three(), three()).1 => Panic("cannot scan over 18446744073709551615 elements");
        ravel(&three()).0 => elements([1.0, 2.0, 3.0]);
    });
}

#[test]
fn windows_too_large_are_refused() {
    let x = || Tensor::ones(DType::F32, [1, 3, 1]);
    let kernel = || Tensor::ones(DType::F32, [2, 1, 1]);
    check(&rows! {
        Pooling::new([HUGE]).sum(&x()) => Shape(vec![1, 0, 1]);
        Pooling::new([TOP]).max(&x()) => Shape(vec![1, 0, 1]);
        Pooling::new([1 << 40]).min(&x()) => Shape(vec![1, 0, 1]);
        Pooling::new([HUGE]).padding(Padding::Same).average(&x()) => Panic("average windows of");
        Pooling::new([1]).padding(Padding::Explicit(vec![(isize::MAX, isize::MAX)])).sum(&x()) => Panic("sum windows of");
        Pooling::new([1]).padding(Padding::Explicit(vec![(isize::MIN, 0)])).sum(&x()) => Panic("sum windows of");
        Convolution::new([1], Padding::Valid).input_dilation([HUGE]).apply(&x(), &kernel()) => Panic("convolve");
        Convolution::new([1], Padding::Valid).input_dilation([1 << 45]).apply(&x(), &kernel()) => Panic("by `convolve`");
        Convolution::new([1], Padding::Same).kernel_dilation([HUGE]).apply(&x(), &kernel()) => Panic("convolve");
        Convolution::new([1], Padding::Same).kernel_dilation([TOP]).apply(&x(), &kernel()) => Panic("convolve");
        Convolution::new([1], Padding::Explicit(vec![(isize::MAX, 0)])).apply(&x(), &kernel()) => Panic("convolve");
        Convolution::new([HUGE], Padding::Valid).apply_transposed(&x(), &kernel()) => Panic("convolve transposed");
        Convolution::new([TOP], Padding::Same).apply_transposed(&x(), &kernel()) => Panic("convolve transposed");
        Convolution::new([1], Padding::Same).kernel_dilation([HUGE]).apply_transposed(&x(), &kernel()) => Panic("convolve transposed");
        Convolution::new([1], Padding::Valid).kernel_dilation([TOP]).apply_transposed(&x(), &kernel()) => Panic("convolve transposed");
    });
}

#[test]
#[should_panic(expected = "35184372088832 bytes of memory are not available")]
fn compiled_creation_too_large_is_refused() {
    // The size can be computed, so tracing succeeds. The allocation fails when the function runs.
    let _ = jit(|x: Tensor| (Tensor::zeros(DType::F32, [REFUSED]), x))(three());
}
