//! `scan`, `fori_loop` and `map`: loops with a known number of iterations.

use std::borrow::Borrow;
use std::panic::Location;

use pytree_base::bug::expect_some;
use pytree_core::boundary::flatten_with_references;
use pytree_core::{TreeDef, graph};
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::text_layout::with_article;
use crate::executor::compile;
use crate::primitives::body::Body;
use crate::primitives::body::rules::bind_all;
use crate::primitives::control::scan::Scan;
use crate::tensor::Tensor;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_own_lines};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::control::inputs::WrittenInputs;
use crate::transformations::control::mismatch::{changed, differences, fix, in_both, moved};
use crate::transformations::control::while_loop::repeat;
use crate::transformations::function::{Ending, inside, or_no_leaves};
use crate::transformations::returned::{Returned, always};

/// The options of [`scan_with`] and [`associative_scan_with`](crate::associative_scan_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    reverse: bool,
    length: Option<usize>,
}

impl ScanOptions {
    /// Returns the default options: a scan of all elements, from the first to the last.
    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates from the last element to the first. Each output has the same position as its input.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self {
            reverse: true,
            ..self
        }
    }

    /// Sets the number of iterations, for a scan whose inputs have no leaves, such as `()`.
    #[must_use]
    pub fn length(self, length: usize) -> Self {
        Self {
            length: Some(length),
            ..self
        }
    }

    pub(crate) fn is_reverse(self) -> bool {
        self.reverse
    }

    pub(crate) fn given_length(self) -> Option<usize> {
        self.length
    }
}

/// Applies a function to each element along axis 0 of `inputs` and passes a carry from one call to the next. Returns
/// the last carry and the stacked outputs.
///
/// The function is traced once, and the gradient of the loop is a scan in the other direction. The function receives
/// the leaves of `inputs` without their first axis. All first axes must have the same length, which may be 0.
///
/// The inputs may contain [references](pytree_core::Ref), such as the states of stacked layers. A value that an iteration
/// writes to a reference of its element is stacked with those of the other iterations, and the stack is written to the
/// reference after the loop.
///
/// The function may return a `Result`; see [`Returned`]. If the function returns an `Err` while it is traced, the call
/// returns this `Err`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, scan};
/// let x = Tensor::from([1.0_f32, 2.0, 3.0]);
/// let (sum, sums) = scan(
///     |sum, x| {
///         let sum = sum + x;
///         (sum.clone(), sum)
///     },
///     Tensor::from(0.0_f32),
///     x,
/// );
/// assert_eq!(sum.item::<f32>(), 6.0);
/// assert_eq!(sums.to_vec::<f32>(), [1.0, 3.0, 6.0]);
/// ```
///
/// # Panics
/// If the function changes structure, shape, dtype or references of the carry, or if leaves of the inputs differ in the
/// length of their first axis, have no axes, or share a reference with the carry.
#[doc(alias = "lax.scan")]
#[track_caller]
pub fn scan<C, X, Y, R, K>(function: impl Fn(C, X) -> R, init: C, inputs: X) -> R::With<(C, Y)>
where
    C: Traceable,
    X: Traceable,
    Y: Traceable,
    R: Returned<K, Value = (C, Y)>,
{
    scan_with(ScanOptions::new(), function, init, inputs)
}

/// Applies a function to each element along axis 0 of `inputs` as [`scan`] does, with options.
///
/// # Examples
/// ```
/// use pytree_transform::{ScanOptions, Tensor, scan_with};
/// let (last, powers) = scan_with(
///     ScanOptions::new().length(4),
///     |x, ()| (&x * 2.0, x),
///     Tensor::from(1.0_f32),
///     (),
/// );
/// assert_eq!(last.item::<f32>(), 16.0);
/// assert_eq!(powers.to_vec::<f32>(), [1.0, 2.0, 4.0, 8.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`scan`], and if the length option differs from the length of the inputs.
#[track_caller]
pub fn scan_with<C, X, Y, R, K>(
    options: ScanOptions,
    function: impl Fn(C, X) -> R,
    init: C,
    inputs: X,
) -> R::With<(C, Y)>
where
    C: Traceable,
    X: Traceable,
    Y: Traceable,
    R: Returned<K, Value = (C, Y)>,
{
    let step = |_: Option<Tensor>, carry, input| function(carry, input).into_value();
    R::with(run(Recorder::Scan, options, None, step, init, inputs))
}

/// Applies a function to each element along axis 0 of `inputs` and to `&mut carry`, which the function may write; see
/// [`scan`]. Returns the stacked outputs. If the function returns an `Err` while it is traced, nothing is written.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, scan_mut};
/// let mut sum = Tensor::from(0.0);
/// let sums = scan_mut(
///     |sum, x: Tensor| {
///         *sum = &*sum + x;
///         sum.clone()
///     },
///     &mut sum,
///     Tensor::from([1.0, 2.0, 3.0]),
/// );
/// assert_eq!(sum.item::<f64>(), 6.0);
/// assert_eq!(sums.to_vec::<f64>(), [1.0, 3.0, 6.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`scan`]. In these cases nothing is written.
#[doc(alias = "nnx.scan")]
#[track_caller]
pub fn scan_mut<C, X, R, K>(
    function: impl Fn(&mut C, X) -> R,
    carry: &mut C,
    inputs: X,
) -> R::With<R::Value>
where
    C: Traceable,
    X: Traceable,
    R: Returned<K>,
{
    scan_mut_with(ScanOptions::new(), function, carry, inputs)
}

/// Applies a function to each element along axis 0 of `inputs` as [`scan_mut`] does, with options.
///
/// # Examples
/// ```
/// use pytree_transform::{ScanOptions, Tensor, scan_mut_with};
/// let mut x = Tensor::from(1.0);
/// scan_mut_with(ScanOptions::new().length(4), |x, ()| *x = &*x * 2.0, &mut x, ());
/// assert_eq!(x.item::<f64>(), 16.0);
/// ```
///
/// # Panics
/// Panics in the same cases as [`scan_with`]. In these cases nothing is written.
#[track_caller]
pub fn scan_mut_with<C, X, R, K>(
    options: ScanOptions,
    function: impl Fn(&mut C, X) -> R,
    carry: &mut C,
    inputs: X,
) -> R::With<R::Value>
where
    C: Traceable,
    X: Traceable,
    R: Returned<K>,
{
    let step = |_: Option<Tensor>, mut carry: C, input| {
        let output = function(&mut carry, input).into_value()?;
        Ok((carry, output))
    };
    let result = run(Recorder::Scan, options, None, step, &*carry, inputs);
    R::with(result.map(|(written, outputs)| {
        *carry = written;
        outputs
    }))
}

/// Runs a scan. Messages refer to the scan by the name of `recorder`. If `first` is a number, the function also
/// receives the index of the iteration, counted from `first`.
///
/// # Errors
/// Returns the error of the function.
#[track_caller]
fn run<C, X, Y, E>(
    recorder: Recorder,
    options: ScanOptions,
    first: Option<i32>,
    function: impl Fn(Option<Tensor>, C, X) -> Result<(C, Y), E>,
    init: impl Borrow<C>,
    inputs: X,
) -> Result<(C, Y), E>
where
    C: Traceable,
    X: Traceable,
    Y: Traceable,
{
    let (carry, carry_treedef, references) = flatten_with_references::<Tensor, C>(init.borrow());
    let (stacked, inputs_treedef, of_inputs) = flatten_with_references::<Tensor, X>(&inputs);
    drop((init, inputs));
    let both = in_both((&carry_treedef, &references), (&inputs_treedef, &of_inputs));
    assert!(
        both.is_empty(),
        "cannot loop: the carry and the inputs of {recorder} contain the same reference: {}; the loop would have two copies of the reference, and a write to one copy would not change the other; use separate references in the carry and in the inputs",
        both.join("; ")
    );
    let length = length_of(recorder.name(), &inputs_treedef, &stacked, options.length);
    let of_carry: Vec<AbstractArray> = carry.iter().map(|leaf| leaf.info().clone()).collect();
    let elements = stacked
        .iter()
        .map(|leaf| AbstractArray::new(leaf.dtype(), &leaf.shape()[1..]));
    let index: Vec<Tensor> = first.into_iter().map(Tensor::from).collect();
    let infos: Vec<AbstractArray> = index
        .iter()
        .map(|index| index.info().clone())
        .chain(of_carry.iter().cloned())
        .chain(elements)
        .collect();
    let (mut jaxpr, captured, recorded) = stage(recorder, &infos, |mut tensors| {
        let elements = tensors.split_off(index.len() + of_carry.len());
        let (carry, given) = inside(&carry_treedef, tensors.split_off(index.len()));
        let index = tensors.pop();
        let mut results: Vec<Tensor> = index.iter().map(|index| index + 1).collect();
        let (elements, of_element) = inside::<X>(&inputs_treedef, elements);
        let result = at_own_lines(|| function(index, carry, elements));
        or_no_leaves(result.map(|(carry, outputs)| {
            let (carry, after, references) = flatten_with_references::<Tensor, C>(&carry);
            let moved = moved(&given, &after, &references);
            let (outputs, outputs_treedef) = graph::flatten::<Tensor, Y>(&outputs);
            let (values, written) = WrittenInputs::of(recorder, &inputs_treedef, of_element);
            results.extend(carry);
            results.extend(outputs);
            results.extend(values);
            (results, (after, moved, outputs_treedef, written))
        }))
    });
    let (after, moved, outputs_treedef, written) = recorded?;
    let found: Vec<AbstractArray> = jaxpr
        .output_infos()
        .skip(index.len())
        .take(after.num_leaves())
        .cloned()
        .collect();
    let mut problems = differences((&carry_treedef, &of_carry), (&after, &found));
    if after == carry_treedef {
        problems.extend(moved);
    }
    assert!(
        problems.is_empty(),
        "cannot loop: the carry that the function of {recorder} returns differs from the carry it received: {}; a carry must keep its structure, shapes and element types: {}",
        problems.join("; "),
        fix(&problems)
    );
    let of_index = index.len();
    let changed = changed(&jaxpr, of_index..of_index + carry.len());
    // The primitive takes the captured tensors as its first operands.
    jaxpr.inputs.rotate_left(infos.len());
    let primitive = Scan {
        body: Body::new(recorder, jaxpr, compile),
        constants: captured.len(),
        carry: index.len() + carry.len(),
        length,
        reverse: options.reverse,
    };
    // The inputs are kept only if they are needed, so that results can overwrite their memory.
    let kept = if written.references.is_empty() {
        Vec::new()
    } else {
        stacked.clone()
    };
    let operands: Vec<Tensor> = captured
        .into_iter()
        .chain(index)
        .chain(carry)
        .chain(stacked)
        .collect();
    let mut results = bind_all(&primitive, &operands);
    let mut outputs = results.split_off(of_index + of_carry.len());
    let values = outputs.split_off(outputs_treedef.num_leaves());
    let ending = Ending::of(recorder.name(), Location::caller());
    let carry = (
        carry_treedef,
        results.split_off(of_index),
        references,
        changed,
    );
    let carry = written.write::<C, X>(ending, values, carry, (inputs_treedef, kept, of_inputs));
    Ok((carry, rebuild(&outputs_treedef, outputs)))
}

/// Returns the common length of the first axes of all leaves.
#[track_caller]
pub(crate) fn length_of(
    operation: &str,
    treedef: &TreeDef,
    leaves: &[Tensor],
    given: Option<usize>,
) -> usize {
    let first = leaves.iter().find_map(|leaf| leaf.shape().first().copied());
    let Some(length) = given.or(first) else {
        assert!(
            leaves.is_empty(),
            "cannot {operation} over {treedef}: its leaves have no axes; stack the elements along axis 0"
        );
        panic!(
            "cannot {operation} over {treedef}: it has no leaves, so the number of iterations is unknown; set it with `ScanOptions::new().length(…)`"
        )
    };
    let paths = treedef.leaf_paths();
    let problems: Vec<String> = leaves
        .iter()
        .zip(&paths)
        .filter(|(leaf, _)| leaf.shape().first() != Some(&length))
        .map(|(leaf, path)| format!("{} is {}", path.or_root(), leaf.info()))
        .collect();
    assert!(
        problems.is_empty(),
        "cannot {operation} over {length} elements: {}; the first axis of every input must have this length",
        problems.join(", ")
    );
    length
}

/// A lower or upper bound of a [`fori_loop`]: a number or a tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Bound {
    /// A Rust number.
    Number(i32),
    /// An integer tensor without axes.
    Tensor(Tensor),
}

pytree_base::conversions! { Bound:
    [] i32, |number| Self::Number(number);
    [] Tensor, |tensor| Self::Tensor(tensor);
    [] &Tensor, |tensor| Self::Tensor(tensor.clone());
}

/// Applies a function to the integers from `lower` up to, but not including, `upper`, and passes a carry from one call
/// to the next.
///
/// The function receives each integer as a scalar i32 tensor. If the bounds are numbers or concrete tensors, the loop
/// is a [`scan`] and has gradients. If a bound is traced, the loop is a [`while_loop`](crate::while_loop). As in
/// [`scan`], the function may return a `Result`.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, fori_loop, grad};
/// let factorial = fori_loop(1, 6, |i, product| product * i, Tensor::from(1));
/// assert_eq!(factorial.item::<i32>(), 120);
/// let cubed = |x: &Tensor| fori_loop(0, 3, |_, power| power * x, Tensor::from(1.0_f64));
/// assert_eq!(grad(cubed)(&Tensor::from(2.0_f64)).item::<f64>(), 12.0);
/// ```
///
/// # Panics
/// If a bound is not an i32 without axes, or if the function changes structure, shape, dtype or references of the
/// carry.
#[doc(alias = "lax.fori_loop")]
#[track_caller]
pub fn fori_loop<C: Traceable, R: Returned<K, Value = C>, K>(
    lower: impl Into<Bound>,
    upper: impl Into<Bound>,
    body: impl Fn(Tensor, C) -> R,
    init: C,
) -> R::With<C> {
    let (lower, upper) = (value_of(lower.into()), value_of(upper.into()));
    if let (Bound::Number(from), Bound::Number(to)) = (&lower, &upper) {
        // As in JAX, the loop has no iterations if the upper bound is below the lower bound.
        let length = usize::try_from(i64::from(*to) - i64::from(*from)).unwrap_or(0);
        let step = |index: Option<Tensor>, carry, (): ()| {
            let index = expect_some(index, "the index of an iteration");
            Ok((body(index, carry).into_value()?, ()))
        };
        let options = ScanOptions::new().length(length);
        let result = run(Recorder::ForiLoop, options, Some(*from), step, init, ());
        return R::with(result.map(|(carry, ())| carry));
    }
    let tensor = |bound| match bound {
        Bound::Number(number) => Tensor::from(number),
        Bound::Tensor(tensor) => tensor,
    };
    let (lower, upper) = (tensor(lower), tensor(upper));
    let result = repeat(
        Recorder::ForiLoop,
        ", after the number,",
        |(index, _): &(Tensor, C)| Ok(index.less(&upper)),
        |(index, carry)| {
            let after = body(index.clone(), carry).into_value()?;
            Ok((index + 1, after))
        },
        (lower, init),
    );
    R::with(always(result).map(|(_, carry)| carry))
}

/// Converts a bound that is a concrete tensor to a number. Transfers the tensor if it is on a device. Returns any other
/// bound unchanged.
#[track_caller]
fn value_of(bound: Bound) -> Bound {
    if let Bound::Tensor(tensor) = &bound {
        assert!(
            tensor.rank() == 0 && tensor.dtype() == DType::I32,
            "cannot use {} as a bound of a loop: the bounds of fori_loop must be i32 scalars; convert with `.convert(DType::I32)`",
            with_article(tensor.info())
        );
        if !tensor.is_traced() {
            return Bound::Number(tensor.item::<i32>());
        }
    }
    bound
}

/// Applies a function to each element along axis 0 of `inputs`, one after the other, and stacks the results.
///
/// A `map` needs less memory than a [`vmap`](crate::vmap), because it processes one element at a time. As in [`scan`],
/// the function may return a `Result`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, map};
/// let squares = map(|x| &x * &x, Tensor::from([1.0_f32, 2.0, 3.0]));
/// assert_eq!(squares.to_vec::<f32>(), [1.0, 4.0, 9.0]);
/// ```
///
/// # Panics
/// If the inputs differ in the length of their first axis, or have no axes.
#[doc(alias = "lax.map")]
#[track_caller]
pub fn map<X, R, K>(function: impl Fn(X) -> R, inputs: X) -> R::With<R::Value>
where
    X: Traceable,
    R: Returned<K>,
{
    let step = |_: Option<Tensor>, (), input| Ok(((), function(input).into_value()?));
    let result = run(Recorder::Map, ScanOptions::new(), None, step, (), inputs);
    R::with(result.map(|((), outputs)| outputs))
}
