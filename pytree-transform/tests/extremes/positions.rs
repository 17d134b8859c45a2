//! Positions, steps and axes that are far out of range.

use pytree_transform::indexing::Step;
use pytree_transform::{DType, Reversed, Tensor, ix, vmap};

use crate::extremes::harness::{Panic, Shape, check, elements, rows};

const HUGE: usize = usize::MAX;

fn four() -> Tensor {
    Tensor::from([0.0_f32, 1.0, 2.0, 3.0])
}

/// Returns the matrix with rows 1 2 3 and 4 5 6.
fn matrix() -> Tensor {
    Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

fn none() -> Tensor {
    Tensor::zeros(DType::F32, [0])
}

#[test]
fn slices_clip_bounds_and_steps() {
    check(&rows! {
        four().index(ix![Step(.., isize::MAX)]) => elements([0.0]);
        four().index(ix![Step(.., isize::MIN)]) => elements([3.0]);
        four().index(ix![Step(.., isize::MIN + 1)]) => elements([3.0]);
        four().index(ix![Step(1.., isize::MAX)]) => elements([1.0]);
        four().index(ix![Step(..2, isize::MIN)]) => elements([1.0]);
        four().index(ix![Step(.., 1 << 62)]) => elements([0.0]);
        four().index(ix![Step(.., -3)]) => elements([3.0, 0.0]);
        four().index(ix![Step(.., 0)]) => Panic("cannot index f32[4]: the step on axis 0 is 0");
        matrix().index(ix![Step(.., isize::MAX), Step(.., isize::MIN)]) => elements([3.0]);
        matrix().index(ix![Step(.., 1 << 62)]) => elements([1.0, 2.0, 3.0]);
        matrix().index(ix![Step(1.., 1 << 62), Step(.., -2)]) => elements([6.0, 4.0]);
        four().index(ix![isize::MIN..isize::MAX]) => elements([0.0, 1.0, 2.0, 3.0]);
        four().index(ix![isize::MIN..=isize::MAX]) => elements([0.0, 1.0, 2.0, 3.0]);
        four().index(ix![isize::MAX..isize::MIN]) => elements([]);
        four().index(ix![0_usize..HUGE]) => elements([0.0, 1.0, 2.0, 3.0]);
        four().index(ix![HUGE..]) => elements([]);
        four().index(ix![..=HUGE]) => elements([0.0, 1.0, 2.0, 3.0]);
        four().index(ix![..isize::MIN]) => elements([]);
        four().index(ix![..=-1]) => elements([0.0, 1.0, 2.0, 3.0]);
        four().index(ix![isize::MAX]) => Panic("cannot index f32[4]: position 9223372036854775807");
        four().index(ix![isize::MIN]) => Panic("cannot index f32[4]: position -9223372036854775808");
        four().index(ix![HUGE]) => Panic("cannot index f32[4]");
        none().index(ix![Step(.., isize::MIN)]) => elements([]);
        none().index(ix![0]) => Panic("use a range, because the axis has no elements");
        Tensor::from(1.0).index(ix![0]) => Panic("there are 1 indices for 0 axes");
        four().at(ix![Step(.., isize::MIN)]).set(9.0) => elements([0.0, 1.0, 2.0, 9.0]);
        four().at(ix![Step(.., isize::MAX)]).add(9.0) => elements([9.0, 1.0, 2.0, 3.0]);
        matrix().at(ix![Step(.., isize::MAX), Step(.., isize::MIN)]).multiply(2.0) => elements([1.0, 2.0, 6.0, 4.0, 5.0, 6.0]);
        four().at(ix![isize::MAX]).set(9.0) => Panic("cannot index f32[4]");
        four().roll(isize::MAX, 0) => elements([1.0, 2.0, 3.0, 0.0]);
        four().roll(isize::MIN, 0) => elements([0.0, 1.0, 2.0, 3.0]);
        none().roll(isize::MIN, 0) => elements([]);
        four().split_at([HUGE], 0).remove(0) => elements([0.0, 1.0, 2.0, 3.0]);
        four().split_at([HUGE], 0).remove(1) => elements([]);
        four().split_at([HUGE, 1], 0).remove(0) => Panic("cannot split_at f32[4]");
        four().split(0, 0).remove(0) => Panic("cannot split f32[4]");
        four().array_split(0, 0).remove(0) => Panic("cannot array_split f32[4]");
        four().array_split(6, 0).remove(5) => elements([]);
    });
}

#[test]
fn indices_in_tensors_clip_or_wrap() {
    let i64s = |elements: [i64; 3]| Tensor::from(elements);
    let scalar = |position: i64| vec![Tensor::from(position)];
    check(&rows! {
        four().take(&i64s([i64::MIN, i64::MAX, 1]), 0) => elements([0.0, 3.0, 1.0]);
        four().take(&Tensor::from([u32::MAX, 1 << 31]), 0) => elements([3.0, 3.0]);
        four().take(&Tensor::from([i32::MIN, i32::MAX]), 0) => elements([0.0, 3.0]);
        none().take(&Tensor::from([0]), 0) => Panic("cannot take from f32[0]");
        none().take(&Tensor::zeros(DType::I32, [0]), 0) => elements([]);
        four().take(&Tensor::from([0]), isize::MIN) => Panic("axis -9223372036854775808 is out of range");
        four().take_along_axis(&i64s([i64::MIN, i64::MAX, 1]), 0) => elements([0.0, 3.0, 1.0]);
        four().at_indices(&i64s([i64::MIN, i64::MAX, -1]), 0).set(9.0) => elements([0.0, 1.0, 2.0, 9.0]);
        four().at_indices(&Tensor::from([u32::MAX]), 0).add(9.0) => elements([0.0, 1.0, 2.0, 3.0]);
        four().at_indices(&Tensor::from([i32::MIN, i32::MAX]), 0).max(9.0) => elements([0.0, 1.0, 2.0, 3.0]);
        four().at_indices(&Tensor::from([0]), isize::MAX).set(1.0) => Panic("axis 9223372036854775807 is out of range");
        four().dynamic_slice(&scalar(i64::MIN), [2]) => elements([0.0, 1.0]);
        four().dynamic_slice(&scalar(i64::MAX), [2]) => elements([2.0, 3.0]);
        four().dynamic_slice(&scalar(0), [HUGE]) => Panic("cannot dynamic_slice f32[4]: axis 0 has length 4, which is less than the size 18446744073709551615 of the slice");
        four().dynamic_slice(&scalar(i64::MAX), [0]) => elements([]);
        four().dynamic_slice(&[], [1]) => Panic("cannot dynamic_slice f32[4]: 0 starts and 1 sizes");
        four().dynamic_update_slice(&Tensor::from([8.0_f32, 9.0]), &scalar(i64::MAX)) => elements([0.0, 1.0, 8.0, 9.0]);
        four().dynamic_update_slice(&Tensor::from([8.0_f32, 9.0]), &scalar(i64::MIN)) => elements([8.0, 9.0, 2.0, 3.0]);
        four().dynamic_update_slice(&none(), &scalar(i64::MIN)) => elements([0.0, 1.0, 2.0, 3.0]);
        Tensor::from([i64::MIN, i64::MAX]).one_hot(2, DType::F32) => elements([0.0, 0.0, 0.0, 0.0]);
        Tensor::from([u32::MAX]).one_hot(1, DType::Bool) => elements([0.0]);
        four().top_k(0).0 => elements([]);
        four().top_k(HUGE).0 => Panic("cannot top_k f32[4]");
        Tensor::from(1.0).top_k(1).0 => Panic("cannot top_k f64[]");
        four().searchsorted(&Tensor::from([f32::NAN, f32::INFINITY, f32::NEG_INFINITY])) => elements([0.0, 4.0, 0.0]);
        Tensor::from([f64::NAN, 1.0, -0.0, f64::NEG_INFINITY]).sort(0) => elements([f64::NEG_INFINITY, 0.0, 1.0, f64::NAN]);
        Tensor::from([i64::MAX, i64::MIN]).argsort(0) => elements([1.0, 0.0]);
        none().sort(0) => elements([]);
        none().argmax(0) => Panic("argmax");
        Tensor::from([1.0, f64::NAN]).argmax(0) => elements([1.0]);
    });
}

#[test]
fn extreme_diagonal_offsets_are_accepted() {
    check(&rows! {
        matrix().tril(isize::MAX) => elements([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        matrix().tril(isize::MIN) => elements([0.0; 6]);
        matrix().triu(isize::MAX) => elements([0.0; 6]);
        matrix().triu(isize::MIN) => elements([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        matrix().tril(-1) => elements([0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
        matrix().triu(2) => elements([0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
        matrix().diagonal(isize::MAX, 0, 1) => elements([]);
        matrix().diagonal(isize::MIN, 0, 1) => elements([]);
        matrix().diagonal(2, 0, 1) => elements([3.0]);
        matrix().diagonal(0, isize::MIN, 1) => Panic("cannot take the diagonal of f32[2,3]: axis -9223372036854775808");
        Tensor::zeros(DType::F32, [0, 3]).diagonal(isize::MIN, 0, 1) => elements([]);
        none().diag(0) => Shape(vec![0, 0]);
        none().diag(-2) => elements([0.0; 4]);
        four().trace() => Panic("cannot take the trace of f32[4]");
    });
}

#[test]
fn axis_out_of_range_is_named() {
    let (x, y) = (matrix, matrix);
    check(&rows! {
        x().sum_axes([isize::MIN]) => Panic("cannot sum f32[2,3]: axis -9223372036854775808 is out of range");
        x().sum_axes([isize::MAX]) => Panic("axis 9223372036854775807 is out of range");
        x().mean_axes([isize::MAX]) => Panic("cannot take the mean of f32[2,3]");
        x().max_keep([isize::MIN]) => Panic("cannot take the maximum of f32[2,3]");
        x().min_axes([2]) => Panic("cannot take the minimum of f32[2,3]: axis 2");
        x().prod_axes([0, 0]) => Panic("axis 0 is given twice");
        x().all_axes([isize::MIN]) => Panic("cannot all f32[2,3]");
        x().count_nonzero_axes([isize::MIN]) => Panic("cannot count f32[2,3]");
        x().variance_with([isize::MIN], HUGE) => Panic("cannot take the variance of f32[2,3]");
        x().variance_with([0], HUGE) => elements([f64::NAN; 3]);
        x().standard_deviation_axes([isize::MAX]) => Panic("cannot take the standard deviation of f32[2,3]");
        x().norm_axes([isize::MIN]) => Panic("cannot take the norm of f32[2,3]");
        x().argmin(isize::MIN) => Panic("cannot argmin f32[2,3]");
        x().cumsum(isize::MIN) => Panic("cannot cumsum f32[2,3]");
        x().cumlogsumexp(Reversed(isize::MAX)) => Panic("cannot cumlogsumexp f32[2,3]");
        x().sort(isize::MIN) => Panic("cannot sort f32[2,3]");
        x().argsort(isize::MAX) => Panic("cannot argsort f32[2,3]");
        x().reverse([isize::MIN]) => Panic("cannot reverse f32[2,3]");
        x().roll(1, isize::MIN) => Panic("cannot roll f32[2,3]");
        x().repeat(1, isize::MIN) => Panic("cannot repeat f32[2,3]");
        x().split(1, isize::MIN).remove(0) => Panic("cannot split f32[2,3]");
        x().swap_axes(isize::MIN, 0) => Panic("cannot swap axes of f32[2,3]");
        x().move_axis(0, isize::MAX) => Panic("cannot move an axis of f32[2,3]");
        x().expand_dims(isize::MAX) => Panic("axis 9223372036854775807 is out of range for a new axis");
        x().expand_dims(isize::MIN) => Panic("axis -9223372036854775808 is out of range for a new axis");
        x().squeeze(isize::MIN) => Panic("cannot squeeze f32[2,3]");
        x().transpose([isize::MAX, 0]) => Panic("cannot transpose f32[2,3]");
        x().transpose([0, 0]) => Panic("cannot transpose f32[2,3]");
        Tensor::stack(&[x(), y()], isize::MIN) => Panic("cannot stack f32[2,3]");
        Tensor::concatenate(&[x(), y()], isize::MAX) => Panic("cannot concatenate f32[2,3]");
        Tensor::stack(&[] as &[Tensor], 0) => Panic("the list of tensors is empty");
        Tensor::concatenate(&[] as &[Tensor], isize::MIN) => Panic("concatenate");
        x().dot_general(&y(), (&[isize::MAX], &[isize::MAX]), (&[], &[])) => Panic("cannot dot_general f32[2,3]");
        x().dot_general(&y(), (&[isize::MIN], &[1]), (&[], &[])) => Panic("cannot dot_general f32[2,3]");
        x().dot_general(&y(), (&[1], &[1]), (&[isize::MAX], &[0])) => Panic("cannot dot_general f32[2,3]");
        x().tensordot(&y(), (&[isize::MIN], &[1])) => Panic("cannot tensordot f32[2,3]");
        vmap(|x: Tensor| x).in_axes(i32::MIN)(x()) => Panic("vmap");
        vmap(|x: Tensor| x).in_axes(i32::MAX)(x()) => Panic("vmap");
        vmap(|x: Tensor| x).out_axes(i32::MIN)(x()) => Panic("vmap");
        vmap(|x: Tensor| x).out_axes(i32::MAX)(x()) => Panic("vmap");
    });
}
