//! `cond` and `switch` apply one of several functions. A predicate or an index selects the function.

use std::panic::Location;

use pytree_core::TreeDef;
use pytree_core::boundary::{BranchLeaf, Outcome, flatten_with_references};
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::text_layout::with_article;
use crate::executor::compile;
use crate::primitives::body::Body;
use crate::primitives::body::rules::bind_all;
use crate::primitives::control::cond::Cond;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::{stage, with_all_captured};
use crate::tensor::trace::Recorder;
use crate::tensor::traceable::Traceable;
use crate::transformations::control::mismatch::{differences, fix};
use crate::transformations::function::{Ending, call_inside_with_all, rebuild_result};
use crate::transformations::returned::Returned;

/// Applies `on_true` or `on_false` to an operand, depending on a predicate.
///
/// Both functions are traced, and must return the same structure, shapes and dtypes. Only one of them runs. Under
/// `vmap` with a predicate for each example, both functions run for all examples, and `select` chooses the results.
///
/// The functions may share nodes differently. Two paths of the result hold one [`Shared`](pytree_core::Shared) node if they do
/// in both functions, and a shared node of the operand stays the same node if both functions return it.
///
/// If the predicate is concrete, Rust's `if` does the same without tracing. Use `cond` in `jit`, `vmap` and the bodies
/// of loops.
///
/// The functions may return a `Result`; see [`Returned`]. If a function returns an `Err` while it is traced, the call
/// returns this `Err`, even if the predicate chooses the other function.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, cond, jit};
/// let absolute = jit(|x: Tensor| cond(&x.less(0.0), |x| -x, |x| x, x.clone()));
/// assert_eq!(absolute(Tensor::from(-2.0_f32)).item::<f32>(), 2.0);
/// ```
///
/// # Panics
/// If the predicate is not a bool without axes, or the results differ in structure, shapes or dtypes.
#[doc(alias("lax.cond", "torch.cond"))]
#[track_caller]
pub fn cond<A, R, K>(
    predicate: &Tensor,
    on_true: impl Fn(A) -> R,
    on_false: impl Fn(A) -> R,
    operand: A,
) -> R::With<R::Value>
where
    A: Traceable,
    R: Returned<K>,
{
    let branches: [&dyn Fn(A) -> R; 2] = [&on_false, &on_true];
    let branches = branches.map(|branch| |operand| branch(operand).into_value());
    R::with(choose_by_predicate(predicate, branches, &operand))
}

/// Applies `on_true` or `on_false`, which may write the argument, depending on a predicate; see [`cond`].
///
/// Only the branch that runs writes the argument. If the branches also read other tensors, capture these tensors in the
/// closures, or pass a tuple. If a branch returns an `Err` while it is traced, nothing is written.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, cond_mut, jit_mut};
/// let count_positive = jit_mut(|(count, x): (&mut Tensor, Tensor)| {
///     cond_mut(&x.greater(0.0), |count| *count = &*count + 1, |_| (), count);
/// });
/// let mut count = Tensor::from(0);
/// count_positive((&mut count, Tensor::from(2.0)));
/// count_positive((&mut count, Tensor::from(-2.0)));
/// assert_eq!(count.item::<i32>(), 1);
/// ```
///
/// # Panics
/// If the predicate is not a bool without axes, or if the results or the written values differ in structure,
/// shapes or dtypes. In these cases nothing is written.
#[doc(alias = "nnx.cond")]
#[track_caller]
pub fn cond_mut<M, R, K>(
    predicate: &Tensor,
    on_true: impl Fn(&mut M) -> R,
    on_false: impl Fn(&mut M) -> R,
    operand: &mut M,
) -> R::With<R::Value>
where
    M: Traceable,
    R: Returned<K>,
{
    let branches: [&dyn Fn(&mut M) -> R; 2] = [&on_false, &on_true];
    let branches = branches.map(|branch| {
        |mut operand: M| {
            let result = branch(&mut operand).into_value()?;
            Ok((operand, result))
        }
    });
    let chosen = choose_by_predicate(predicate, branches, &*operand);
    R::with(chosen.map(|(written, result)| {
        *operand = written;
        result
    }))
}

/// Applies the second branch if the predicate is true, otherwise the first branch.
#[track_caller]
fn choose_by_predicate<A: Traceable, R: Traceable, E>(
    predicate: &Tensor,
    branches: [impl Fn(A) -> Result<R, E>; 2],
    operand: &A,
) -> Result<R, E> {
    assert!(
        predicate.rank() == 0 && predicate.dtype() == DType::Bool,
        "cannot choose a branch by {}: the predicate of cond must be a bool without axes; compare the tensor, for instance with `.greater(0.0)`, reduce it with `.all()` or `.any()`, or use `select` to choose element by element",
        with_article(predicate.info())
    );
    choose(
        Recorder::Cond,
        &["the branch for false", "the branch for true"],
        &predicate.convert(DType::I32),
        &branches,
        operand,
    )
}

/// Applies one of several functions to an operand. An index selects the function. An index below 0 selects the first
/// function, and an index that is too large selects the last.
///
/// All functions are traced, and must return the same structure, shapes and dtypes. Only one of them runs. Under `vmap`
/// with an index for each example, all functions run for all examples, and `select` chooses the results.
///
/// Write the operand's type in the first closure. The compiler infers this type in the other closures. As in [`cond`],
/// the functions may return a `Result`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, switch, vmap};
/// let f = |(index, x): (Tensor, Tensor)| {
///     switch(&index, &[&|x: Tensor| x.sin(), &|x| x.cos(), &|x| x * 2.0], x)
/// };
/// assert_eq!(f((Tensor::from(2), Tensor::from(1.5_f32))).item::<f32>(), 3.0);
/// let both = vmap(f).in_axes((0, None));
/// let values = both((Tensor::from([1, 7]), Tensor::from(0.0_f32)));
/// assert_eq!(values.to_vec::<f32>(), [1.0, 0.0]);
/// ```
///
/// # Panics
/// If the index is not an integer without axes, `branches` is empty, or the results of the branches differ in
/// structure, shapes or dtypes.
#[doc(alias = "lax.switch")]
#[track_caller]
pub fn switch<A, R, K>(
    index: &Tensor,
    branches: &[&dyn Fn(A) -> R],
    operand: A,
) -> R::With<R::Value>
where
    A: Traceable,
    R: Returned<K>,
{
    let integer = matches!(index.dtype(), DType::I32 | DType::I64 | DType::U32);
    assert!(
        index.rank() == 0 && integer,
        "cannot choose a branch by {}: the index of switch must be an integer without axes; take one element of the tensor, or convert the tensor with `.convert(DType::I32)`",
        with_article(index.info())
    );
    assert!(
        !branches.is_empty(),
        "cannot choose from an empty list of branches; pass at least one branch to `switch`"
    );
    let names: Vec<String> = (0..branches.len())
        .map(|position| format!("branch {position}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Clip the index before its conversion, so that an index that does not fit into i32 does not wrap around.
    let last = (branches.len() - 1) as f64;
    let index = index.clip(0.0, last).convert(DType::I32);
    let branches = branches.iter();
    let branches: Vec<_> = branches
        .map(|branch| |operand| branch(operand).into_value())
        .collect();
    R::with(choose(
        Recorder::Switch,
        &names,
        &index,
        &branches,
        &operand,
    ))
}

/// Records the branches, checks that their results have the same structure, shapes and dtypes, and binds the primitive.
#[track_caller]
fn choose<A: Traceable, R: Traceable, E>(
    recorder: Recorder,
    names: &[&str],
    index: &Tensor,
    branches: &[impl Fn(A) -> Result<R, E>],
    operand: &A,
) -> Result<R, E> {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, A>(operand);
    let infos: Vec<AbstractArray> = leaves.iter().map(|leaf| leaf.info().clone()).collect();
    let mut recorded = Vec::with_capacity(branches.len());
    // The equation returns only the references that at least one branch writes. The other references stay unchanged.
    let mut written = Vec::new();
    for branch in branches {
        let (jaxpr, captured, outcome) = stage(recorder, &infos, |tensors| {
            call_inside_with_all(&treedef, tensors, branch)
        });
        let (outcome, of_branch) = outcome?;
        written.extend(of_branch);
        recorded.push((jaxpr, captured, outcome));
    }
    let mut recorded: Vec<(Jaxpr, Vec<Tensor>, Outcome)> = recorded
        .into_iter()
        .map(|(mut jaxpr, captured, outcome)| {
            let (outcome, kept) = outcome.only(&written);
            let outputs = &jaxpr.outputs;
            jaxpr.outputs = kept.into_iter().map(|position| outputs[position]).collect();
            (jaxpr, captured, outcome)
        })
        .collect();
    agree(&treedef, &mut recorded);
    let results: Vec<Vec<AbstractArray>> = recorded
        .iter()
        .map(|(jaxpr, ..)| jaxpr.output_infos().cloned().collect())
        .collect();
    let mut problems = Vec::new();
    let expected = (&recorded[0].2, results[0].as_slice());
    for ((name, (_, _, outcome)), infos) in names.iter().zip(&recorded).zip(&results).skip(1) {
        let found = differing(&treedef, expected, (outcome, infos));
        let first = names[0];
        problems.extend(
            found
                .iter()
                .map(|found| format!("{name} differs from {first}: {found}")),
        );
    }
    assert!(
        problems.is_empty(),
        "cannot choose by {recorder}: {}; all branches must return the same structure, shapes and element types: {}",
        problems.join("; "),
        fix(&problems)
    );
    let outcome = recorded[0].2.clone();
    let recorded = recorded
        .into_iter()
        .map(|(jaxpr, captured, _)| (jaxpr, captured));
    let (branches, captured) = with_all_captured(leaves.len(), recorded.collect());
    let branches = branches
        .into_iter()
        .map(|jaxpr| Body::new(recorder, jaxpr, compile));
    let branches = branches.collect();
    let mut operands = vec![index.clone()];
    operands.extend(leaves);
    operands.extend(captured);
    let results = bind_all(&Cond::new(branches), &operands);
    let ending = Ending::of(recorder.name(), Location::caller());
    Ok(rebuild_result(ending, &outcome, results, &references))
}

/// Gives all branches the same structure if they differ only in the nodes that they share; see [`Outcome::agreed`].
fn agree(argument: &TreeDef, recorded: &mut [(Jaxpr, Vec<Tensor>, Outcome)]) {
    let outcomes: Vec<&Outcome> = recorded.iter().map(|(.., outcome)| outcome).collect();
    if outcomes.windows(2).all(|pair| pair[0] == pair[1]) {
        return;
    }
    let Some((agreed, leaves)) = Outcome::agreed(argument, &outcomes) else {
        return;
    };
    for ((jaxpr, _, outcome), leaves) in recorded.iter_mut().zip(leaves) {
        let output = |leaf| match leaf {
            BranchLeaf::Outcome(position) => jaxpr.outputs[position],
            BranchLeaf::Argument(position) => jaxpr.inputs[position],
        };
        jaxpr.outputs = leaves.into_iter().map(output).collect();
        *outcome = agreed.clone();
    }
}

/// Compares the outcomes of two branches: the results, and the final values of the argument's references. Returns the
/// differences, or `None` if there are no differences.
fn differing(
    argument: &TreeDef,
    expected: (&Outcome, &[AbstractArray]),
    found: (&Outcome, &[AbstractArray]),
) -> Vec<String> {
    fn split<'a>(
        outcome: &Outcome,
        leaves: &'a [AbstractArray],
    ) -> (&'a [AbstractArray], &'a [AbstractArray]) {
        leaves.split_at(outcome.result().num_leaves())
    }
    let (of_expected, mut left) = split(expected.0, expected.1);
    let (of_found, mut right) = split(found.0, found.1);
    let results = (expected.0.result(), found.0.result());
    let mut problems = differences((results.0, of_expected), (results.1, of_found));
    let places = argument.references();
    for ((position, before), (_, after)) in expected.0.written().zip(found.0.written()) {
        let (of_before, of_after);
        (of_before, left) = left.split_at(before.num_leaves());
        (of_after, right) = right.split_at(after.num_leaves());
        let path = places[position].path.or_root();
        let found = differences((&before, of_before), (&after, of_after)).into_iter();
        problems.extend(
            found.map(|found| format!("in the reference at {path} of the argument: {found}")),
        );
    }
    problems
}
