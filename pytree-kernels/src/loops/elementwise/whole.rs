//! Elementwise operations on whole arrays, tile by tile.
//!
//! An operand of another shape is broadcast: its elements are repeated tile by tile. All threads share the tiles. The result
//! overwrites an operand of its dtype and shape that has no other handle.

use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::Arc;

use pytree_base::bug::expect_some;
use smallvec::{SmallVec, smallvec};

use crate::base::array::{Array, Operands};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::{leaf, leaf_of};
use crate::base::pattern::{Pattern, common_shape};
use crate::base::target::Target;
use crate::base::threads;
use crate::loops::elementwise::blocks::{
    Operand, Output, each_by_speed, each_one, each_three, each_two,
};
use crate::loops::elementwise::classes::{Class, Convert, Memory, with_class};
use crate::loops::elementwise::functions::{Kernels, Map, Zip};
use crate::loops::elementwise::operations::{Binary, Comparison, Unary};

/// The number of elements of a tile. Three tiles of 8-byte numbers fit the first-level cache.
const TILE: usize = 1024;

/// The operands of an operation, as text for the panic message of a library bug.
const OPERANDS: &str = "operands whose elements are repeated by a pattern";

/// Applies an operation to each element.
pub fn unary(operation: Unary, operand: Arc<Array>) -> Array {
    if operation == Unary::StopGradient {
        let shape = operand.info.shape.clone();
        return Array::reshaped(operand, shape);
    }
    let (dtype, result) = (operand.dtype(), operand.info.clone());
    with_class!(dtype, C => {
        evaluate::<C, C>(smallvec![operand], &result, cost_of_unary(operation), &|[operand, _], output| {
            unary_loop(operation, dtype, operand, output);
        })
    })
}

/// Applies an operation to each pair of elements of two arrays of the same dtype.
pub fn binary(operation: Binary, left: Arc<Array>, right: Arc<Array>) -> Array {
    let (dtype, operands) = (left.dtype(), smallvec![left, right]);
    let result = broadcast(dtype, &operands);
    with_class!(dtype, C => {
        evaluate::<C, C>(operands, &result, cost_of_binary(operation), &|operands, output| {
            binary_loop(operation, dtype, operands, output);
        })
    })
}

/// Compares each pair of elements of two arrays of the same dtype. The result has the dtype bool.
pub fn compare(comparison: Comparison, left: Arc<Array>, right: Arc<Array>) -> Array {
    let (dtype, operands) = (left.dtype(), smallvec![left, right]);
    let result = broadcast(DType::Bool, &operands);
    with_class!(dtype, C => evaluate::<C, bool>(operands, &result, 1, &|operands, output| {
        compare_loop(comparison, operands, output);
    }))
}

/// Converts an array to a dtype. Floats that are converted to integers saturate, and NaN becomes 0.
pub fn converted(operand: Arc<Array>, target: DType) -> Array {
    let result = AbstractArray::new(target, &operand.info.shape);
    let (dtype, operands) = (operand.dtype(), smallvec![operand]);
    with_class!(dtype, C => with_class!(target, R => {
        evaluate::<C, R>(operands, &result, 1, &|[operand, _], output| {
            conversion_loop(target, operand, output);
        })
    }))
}

/// Returns the elements of `on_true` where `condition` holds, and elsewhere those of `on_false`.
pub fn select(condition: Arc<Array>, on_true: Arc<Array>, on_false: Arc<Array>) -> Array {
    let dtype = on_true.dtype();
    let operands: Operands = smallvec![condition, on_true, on_false];
    let result = broadcast(dtype, &operands);
    let mut memory = None;
    let mut sources = operands.into_iter().zip([false, true, true]);
    let sources: [OperandSource; 3] = std::array::from_fn(|_| {
        let (operand, is_taken) = expect_some(sources.next(), OPERANDS);
        source(operand, &result, is_taken.then_some(&mut memory))
    });
    let mut array = memory.unwrap_or_else(|| Array::reused(&result));
    with_bits!(dtype, T => {
        let memory = Target::new(array.bits_mut::<T>());
        each_part(result.len(), result.len(), &|range| {
            // SAFETY: the ranges of the parts have no common elements.
            #[allow(unsafe_code, reason = "each part uses the elements of its own range")]
            let memory = unsafe { memory.shared() };
            select_part::<T>(&sources, &memory, range);
        });
    });
    array
}

/// Returns a dtype with the shape to which operands are broadcast.
fn broadcast(dtype: DType, operands: &[Arc<Array>]) -> AbstractArray {
    let shapes = operands.iter().map(|operand| &operand.info.shape[..]);
    let shape = expect_some(common_shape(shapes), OPERANDS);
    AbstractArray { dtype, shape }
}

/// A function of the elements of one or two operands, which kernels compute as numbers of type `C`. If there is one operand, both
/// are this one. The loop over the elements is compiled for the instruction sets of the type `R` of the results.
type Function<'a, C, R> = dyn Fn([Operand<'_, C>; 2], Output<'_, R>) + Sync + 'a;

/// An operand, and the memory for the results.
struct One<'a, 'o, C>(Operand<'a, C>, Output<'o, C>);

impl<C: Kernels> Map<C> for One<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn map(self, function: impl Fn(C) -> C) {
        leaf_of! { C =>
            each_one(self.0, self.1, function);
        }
    }

    #[inline(always)]
    fn map_by_speed(
        self,
        is_fast: impl Fn(C) -> bool,
        fast: impl Fn(C) -> C,
        slow: impl Fn(C) -> C,
    ) {
        leaf_of! { C =>
            each_by_speed(self.0, self.1, is_fast, fast, slow);
        }
    }
}

/// Two operands, and the memory for the results.
struct Two<'a, 'o, C>([Operand<'a, C>; 2], Output<'o, C>);

impl<C: Class> Zip<C> for Two<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn zip(self, function: impl Fn(C, C) -> C) {
        let [left, right] = self.0;
        leaf_of! { C =>
            each_two(left, right, self.1, function);
        }
    }
}

/// Estimates the nanoseconds for one element of the result of an operation on one operand.
fn cost_of_unary(operation: Unary) -> usize {
    match operation {
        Unary::Neg | Unary::Abs | Unary::Not | Unary::Sqrt | Unary::IntegerPower(2) => 1,
        _ => 4,
    }
}

/// Estimates the nanoseconds for one element of the result of an operation on two operands.
fn cost_of_binary(operation: Binary) -> usize {
    match operation {
        Binary::Pow | Binary::Atan2 | Binary::LogAddExp | Binary::Rem => 8,
        _ => 1,
    }
}

/// Applies an operation to the elements of one operand. Whole arrays and fused kernels share this code.
#[inline(never)]
pub(crate) fn unary_loop<C: Kernels>(
    operation: Unary,
    dtype: DType,
    operand: Operand<'_, C>,
    output: Output<'_, C>,
) {
    C::unary(operation, dtype, One(operand, output));
}

/// Applies an operation to the elements of two operands.
#[inline(never)]
pub(crate) fn binary_loop<C: Class>(
    operation: Binary,
    dtype: DType,
    operands: [Operand<'_, C>; 2],
    output: Output<'_, C>,
) {
    C::binary(operation, dtype, Two(operands, output));
}

/// Compares the elements of two operands.
#[inline(never)]
pub(crate) fn compare_loop<C: Class>(
    comparison: Comparison,
    operands: [Operand<'_, C>; 2],
    output: Output<'_, bool>,
) {
    let [left, right] = operands;
    // Each comparison has its own loop, so that no loop contains a branch.
    macro_rules! run {
        ($($comparison:ident $operator:tt),*) => {
            match comparison {$(
                Comparison::$comparison => leaf_of! { C =>
                    each_two(left, right, output, |left, right| left $operator right);
                },
            )*}
        };
    }
    run!(Eq ==, Ne !=, Lt <, Le <=, Gt >, Ge >=);
}

/// Chooses the elements of the first operand where the condition holds, and those of the second one elsewhere.
#[inline(never)]
pub(crate) fn select_loop<T: Copy + Default>(
    condition: Operand<'_, bool>,
    operands: [Operand<'_, T>; 2],
    output: Output<'_, T>,
) {
    let [on_true, on_false] = operands;
    // A branch would become a gather, because the compiler moves the loads of both values into the branches.
    leaf! {
        each_three(condition, on_true, on_false, output, select_unpredictable);
    }
}

/// Converts the elements of an operand to a dtype, whose elements kernels compute as numbers of type `R`.
#[inline(never)]
pub(crate) fn conversion_loop<C: Convert<R>, R: Class>(
    dtype: DType,
    operand: Operand<'_, C>,
    output: Output<'_, R>,
) {
    let range = dtype.integer_range().unwrap_or((i64::MIN, i64::MAX));
    leaf_of! { R =>
        each_one(operand, output, |number: C| number.convert(range));
    }
}

/// Where the elements of an operand are.
enum OperandSource {
    Array(Arc<Array>),
    /// Elements that are repeated.
    Repeated(Arc<Array>, Pattern),
    /// The memory of the result.
    Result,
}

type Sources = SmallVec<[OperandSource; 2]>;

/// Returns where an operand is. If it fits a result whose memory is not found yet, and has no other handle, its memory becomes that
/// of the result.
fn source(
    mut operand: Arc<Array>,
    result: &AbstractArray,
    memory: Option<&mut Option<Array>>,
) -> OperandSource {
    let length = result.len();
    let fits = operand.dtype() == result.dtype && operand.info.len() == length;
    let is_free = fits && operand.has_own_memory();
    if let Some(memory) = memory.filter(|memory| memory.is_none() && is_free) {
        match Arc::try_unwrap(operand) {
            Ok(mut array) => {
                array.info.shape.clone_from(&result.shape);
                *memory = Some(array);
                return OperandSource::Result;
            }
            Err(shared) => operand = shared,
        }
    }
    if operand.info.len() == length {
        return OperandSource::Array(operand);
    }
    let pattern = Pattern::of_operand(&operand.info.shape, &result.shape);
    OperandSource::Repeated(operand, expect_some(pattern, OPERANDS))
}

/// Returns where the operands are, and the memory for the result.
fn placed(operands: Operands, result: &AbstractArray) -> (Sources, Array) {
    let mut memory = None;
    let operands = operands.into_iter();
    let sources = operands.map(|operand| source(operand, result, Some(&mut memory)));
    let sources = sources.collect();
    (sources, memory.unwrap_or_else(|| Array::reused(result)))
}

/// Calls `run` with the ranges of `length` elements that threads compute. `nanoseconds` estimates the time of one thread.
fn each_part(length: usize, nanoseconds: usize, run: &(dyn Fn(Range<usize>) + Sync)) {
    if !threads::are_worth(nanoseconds) {
        return run(0..length);
    }
    let part = length.div_ceil(threads::count()).next_multiple_of(TILE);
    let starts = (0..length).step_by(part);
    let parts = starts.map(|start| start..length.min(start + part));
    threads::run_parts(parts.collect(), run);
}

/// Evaluates a function, which takes about `cost` nanoseconds for each element.
fn evaluate<C: Class, R: Class>(
    operands: Operands,
    result: &AbstractArray,
    cost: usize,
    function: &Function<'_, C, R>,
) -> Array {
    let (sources, mut array) = placed(operands, result);
    let memory = Memory::new(&mut array);
    let length = result.len();
    each_part(length, cost * length, &|range| {
        // SAFETY: the ranges of the parts have no common elements.
        #[allow(unsafe_code, reason = "each part uses the elements of its own range")]
        let memory = unsafe { memory.shared() };
        evaluate_part(&sources, memory, range, function);
    });
    array
}

/// Returns elements of an operand if they need not be widened or repeated.
#[inline(always)]
fn direct<'a, C: Class>(
    source: &'a OperandSource,
    memory: &'a Memory<'_>,
    start: usize,
    count: usize,
) -> Option<Operand<'a, C>> {
    match source {
        OperandSource::Array(array) => {
            let elements = C::slice(array.data())?;
            Some(Operand::new(&elements[start..start + count]))
        }
        OperandSource::Result => Some(Operand::of_result(C::own(memory)?, start, count)),
        OperandSource::Repeated(..) => None,
    }
}

/// Returns a tile for each operand that is widened or repeated, and an empty one for each operand that is read directly.
fn tiles<C: Class>(
    sources: &[OperandSource],
    memory: &Memory<'_>,
    start: usize,
    length: usize,
) -> SmallVec<[Vec<C>; 2]> {
    let tile = |source| {
        let is_direct = direct::<C>(source, memory, start, 0).is_some();
        let mut tile = vec![C::default(); if is_direct { 0 } else { length }];
        if let OperandSource::Repeated(array, pattern @ Pattern::Scalar) = source {
            pattern.fill(&mut tile, 0, |at, elements| C::load(array, at, elements));
        }
        tile
    };
    sources.iter().map(tile).collect()
}

/// Fills the tiles with the elements of the operands from the position `at` on.
#[inline(always)]
fn widen<C: Class>(
    tiles: &mut [Vec<C>],
    sources: &[OperandSource],
    memory: &Memory<'_>,
    at: usize,
    count: usize,
) {
    for (tile, source) in tiles.iter_mut().zip(sources) {
        match source {
            _ if tile.is_empty() => (),
            OperandSource::Array(array) => C::load(array, at, &mut tile[..count]),
            OperandSource::Result => C::reload(memory, at, &mut tile[..count]),
            OperandSource::Repeated(_, Pattern::Scalar) => (),
            OperandSource::Repeated(array, pattern) => {
                pattern.fill(&mut tile[..count], at, |at, elements| {
                    C::load(array, at, elements);
                });
            }
        }
    }
}

/// Returns the memory for results.
#[inline(always)]
fn output<'a, T: Copy>(target: &'a Target<'_, T>, start: usize, count: usize) -> Output<'a, T> {
    // SAFETY: a step reads the memory of the result as an `Operand` with the same first element, and has no slice of it.
    #[allow(
        unsafe_code,
        reason = "the result may have the memory of an operand, so there are no slices"
    )]
    unsafe {
        Output::of_result(target, start, count)
    }
}

/// Computes the elements of a range, which one thread does.
fn evaluate_part<C: Class, R: Class>(
    sources: &[OperandSource],
    mut memory: Memory<'_>,
    Range { start, end }: Range<usize>,
    function: &Function<'_, C, R>,
) {
    let longest = TILE.min(end - start);
    let is_direct = R::own(&memory).is_some();
    let are_direct = sources
        .iter()
        .all(|source| direct::<C>(source, &memory, start, 0).is_some());
    let is_whole = is_direct && are_direct;
    let mut tiles = if are_direct {
        SmallVec::new()
    } else {
        tiles::<C>(sources, &memory, start, longest)
    };
    let mut results = vec![R::default(); if is_direct { 0 } else { longest }];
    let step = if is_whole { end - start } else { TILE };
    for at in (start..end).step_by(step.max(1)) {
        let count = step.min(end - at);
        if !is_whole {
            widen::<C>(&mut tiles, sources, &memory, at, count);
        }
        let operand = |position: usize| {
            let own = direct(&sources[position], &memory, at, count);
            own.unwrap_or_else(|| Operand::new(&tiles[position][..count]))
        };
        let operands = [operand(0), operand(sources.len() - 1)];
        let to = match R::own(&memory) {
            Some(target) => output(target, at, count),
            None => Output::new(&mut results[..count]),
        };
        function(operands, to);
        if !is_direct {
            R::store(&results[..count], &mut memory, at);
        }
    }
}

/// Selects the elements of a range. The sources are the condition, the elements where it holds, and the others.
fn select_part<T: Bits>(
    [condition, on_true, on_false]: &[OperandSource; 3],
    memory: &Target<'_, T>,
    range: Range<usize>,
) {
    let (mut conditions, mut chosen, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for start in range.clone().step_by(TILE) {
        let count = TILE.min(range.end - start);
        select_loop(
            bits_of::<bool>(condition, None, &mut conditions, start, count),
            [
                bits_of(on_true, Some(memory), &mut chosen, start, count),
                bits_of(on_false, Some(memory), &mut others, start, count),
            ],
            output(memory, start, count),
        );
    }
}

/// Returns elements of a source. The tile receives those that are repeated.
fn bits_of<'a, T: Bits>(
    source: &'a OperandSource,
    memory: Option<&'a Target<'_, T>>,
    tile: &'a mut Vec<T>,
    start: usize,
    count: usize,
) -> Operand<'a, T> {
    match source {
        OperandSource::Array(array) => Operand::new(&array.bits()[start..start + count]),
        OperandSource::Repeated(array, pattern) => {
            tile.resize(count, T::default());
            let source = array.bits::<T>();
            pattern.fill(tile, start, |at, elements| {
                elements.copy_from_slice(&source[at..at + elements.len()]);
            });
            Operand::new(tile)
        }
        OperandSource::Result => Operand::of_result(expect_some(memory, OPERANDS), start, count),
    }
}
