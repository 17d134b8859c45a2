//! The lowering rules of the reductions of windows.

use pytree_base::bug::bug;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::reduce_window::Window;
use pytree_kernels::loops::reduction::Extremum;
use smallvec::smallvec;

use crate::base::error::TensorError;
use crate::tensor::stablehlo::{Array64, Block, Bound, Padding, Value, bound};

/// Returns the comparison that prefers one element to another, and the number that is never preferred.
fn preference(extremum: Extremum) -> (&'static str, Bound) {
    match extremum {
        Extremum::Max => ("GE", Bound::Least),
        Extremum::Min => ("LE", Bound::Greatest),
    }
}

/// Returns whether `left` is preferred to `right`: whether `left` is NaN or is at least as extreme.
fn is_preferred(block: &mut Block<'_>, extremum: Extremum, left: &Value, right: &Value) -> Value {
    let (direction, _) = preference(extremum);
    let is_extreme = block.comparison(direction, left, right);
    let is_not_a_number = block.is_not_a_number(left);
    block.binary("stablehlo.or", &is_extreme, &is_not_a_number)
}

/// Reduces the windows of several values of the same shape together. `combine` takes one element of each value
/// twice: first the left elements, then the right elements. The result of `combine` is a combined element for each
/// value.
fn reduced_by(
    window: &Window,
    block: &mut Block<'_>,
    operands: &[&Value],
    starts: &[Value],
    base_dilation: &[usize],
    result: &AbstractArray,
    combine: impl FnOnce(&mut Block<'_>, &[Value]) -> Vec<Value>,
) -> Result<Value, TensorError> {
    let ones: PerAxis = smallvec![1; result.rank()];
    let attributes = format_args!(
        "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, window_strides = {}",
        Array64(base_dilation),
        Padding(&window.padding),
        Array64(&ones),
        Array64(&window.dimensions),
        Array64(&window.strides),
    );
    let all: Vec<&Value> = operands.iter().copied().chain(starts).collect();
    let elements: Vec<AbstractArray> = starts
        .iter()
        .chain(starts)
        .map(|start| start.info.clone())
        .collect();
    let results = operands
        .iter()
        .map(|operand| AbstractArray::new(operand.dtype(), &result.shape));
    let name = "stablehlo.reduce_window";
    let results = block.operation_with_regions(name, &all, attributes, results, |block| {
        block.region(elements, |block, arguments| Ok(combine(block, arguments)))
    })?;
    match results.into_iter().next() {
        Some(first) => Ok(first),
        None => bug("a result of `stablehlo.reduce_window`"),
    }
}

/// Writes the sums of windows.
pub(super) fn lower_sums(
    window: &Window,
    block: &mut Block<'_>,
    operand: &Value,
    base_dilation: &[usize],
    result: &AbstractArray,
) -> Result<Value, TensorError> {
    let zero = block.number(&AbstractArray::new(operand.dtype(), []), 0.0);
    reduced_by(
        window,
        block,
        &[operand],
        &[zero],
        base_dilation,
        result,
        |block, pair| vec![block.binary("stablehlo.add", &pair[0], &pair[1])],
    )
}

/// Writes the extrema of windows.
pub(super) fn lower_extrema(
    window: &Window,
    extremum: Extremum,
    block: &mut Block<'_>,
    operand: &Value,
    result: &AbstractArray,
) -> Result<Value, TensorError> {
    let name = match extremum {
        Extremum::Max => "stablehlo.maximum",
        Extremum::Min => "stablehlo.minimum",
    };
    let start = lowest(extremum, block, operand);
    let ones: PerAxis = smallvec![1; operand.rank()];
    reduced_by(
        window,
        block,
        &[operand],
        &[start],
        &ones,
        result,
        |block, pair| vec![block.binary(name, &pair[0], &pair[1])],
    )
}

/// Writes the element of `values` at the position of each window's extremum in `operand`.
pub(super) fn lower_gather(
    window: &Window,
    extremum: Extremum,
    block: &mut Block<'_>,
    values: &Value,
    operand: &Value,
    result: &AbstractArray,
) -> Result<Value, TensorError> {
    // The third value is 1 for elements and 0 for padding, so that elements are preferred to padding.
    let element = AbstractArray::new(operand.dtype(), []);
    let inside = block.number_like(operand, 1.0);
    let zero = block.number(&element, 0.0);
    let starts = [zero.clone(), lowest(extremum, block, operand), zero];
    let ones: PerAxis = smallvec![1; operand.rank()];
    reduced_by(
        window,
        block,
        &[values, operand, &inside],
        &starts,
        &ones,
        result,
        |block, pair| {
            let (left, right) = pair.split_at(3);
            let is_preferred = is_preferred(block, extremum, &left[1], &right[1]);
            let is_left_inside = block.comparison_with("GT", &left[2], 0.0);
            let is_right_padding = block.comparison_with("EQ", &right[2], 0.0);
            let is_left = block.binary("stablehlo.and", &is_preferred, &is_left_inside);
            let is_left = block.binary("stablehlo.or", &is_left, &is_right_padding);
            let mut sides = left.iter().zip(right);
            sides
                .by_ref()
                .map(|(left, right)| block.selection(&is_left, left, right))
                .collect()
        },
    )
}

/// Adds the elements of `source` at the positions of the windows' extrema in `operand`. `source` has one element
/// for each window.
pub(super) fn lower_scatter(
    window: &Window,
    extremum: Extremum,
    block: &mut Block<'_>,
    source: &Value,
    operand: &Value,
) -> Result<Value, TensorError> {
    // XLA does not define which element of the padding is selected. So add the padding to the operand, and remove
    // it from the result.
    let none: PerAxis = smallvec![0; operand.rank()];
    let sides = |pick: fn(&(isize, isize)) -> isize| -> PerAxis<isize> {
        window.padding.iter().map(pick).collect()
    };
    let (before, after) = (sides(|pair| pair.0), sides(|pair| pair.1));
    let start = lowest(extremum, block, operand);
    let padded = block.padded(operand, &start, &before, &after, &none);
    let element = AbstractArray::new(operand.dtype(), []);
    let zero = block.number(&element, 0.0);
    let no_padding: PerAxis<(isize, isize)> = smallvec![(0, 0); operand.rank()];
    let attributes = format_args!(
        "padding = {}, window_dimensions = {}, window_strides = {}",
        Padding(&no_padding),
        Array64(&window.dimensions),
        Array64(&window.strides),
    );
    let pair = [element.clone(), element];
    let results = block.operation_with_regions(
        "stablehlo.select_and_scatter",
        &[&padded, source, &zero],
        attributes,
        [padded.info.clone()],
        |block| {
            block.region(pair.clone(), |block, pair| {
                Ok(vec![is_preferred(block, extremum, &pair[0], &pair[1])])
            })?;
            block.region(pair, |block, pair| {
                Ok(vec![block.binary("stablehlo.add", &pair[0], &pair[1])])
            })
        },
    )?;
    let negated = |numbers: &[isize]| -> PerAxis<isize> { numbers.iter().map(|it| -it).collect() };
    Ok(block.padded(
        &results[0],
        &zero,
        &negated(&before),
        &negated(&after),
        &none,
    ))
}

/// Writes the number that is never preferred to another number.
fn lowest(extremum: Extremum, block: &mut Block<'_>, operand: &Value) -> Value {
    let (_, worst) = preference(extremum);
    let literal = bound(operand.dtype(), worst);
    block.splat(&AbstractArray::new(operand.dtype(), []), &literal)
}
