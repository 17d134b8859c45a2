//! Calls every function on tensors with arguments that it refuses. The message must name the called function, not an
//! operation that the function is composed of.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree_transform::{
    DType, Reversed, Tensor, einsum, grad, hessian, jacfwd, jacrev, jit, value_and_grad, vmap,
};

fn bools() -> Tensor {
    Tensor::from([true, false])
}

fn integers() -> Tensor {
    Tensor::from([1, 2])
}

fn two() -> Tensor {
    Tensor::from([1.0, 2.0])
}

fn three() -> Tensor {
    Tensor::from([1.0, 2.0, 3.0])
}

fn empty() -> Tensor {
    Tensor::zeros(DType::F64, [0])
}

/// A function, a call that it refuses, and the function's description in the message.
struct Call {
    name: &'static str,
    call: Box<dyn Fn()>,
    named: String,
}

/// Builds calls whose messages name the function by its identifier.
macro_rules! by_name {
    ($($receiver:ident().$name:ident($($argument:expr),*);)*) => {
        vec![$(Call {
            name: stringify!($name),
            call: Box::new(|| drop($receiver().$name($($argument),*))),
            named: format!("cannot {} ", stringify!($name)),
        }),*]
    };
}

/// Builds calls whose messages describe the function in words.
macro_rules! in_words {
    ($($receiver:ident().$name:ident($($argument:expr),*) => $named:literal;)*) => {
        vec![$(Call {
            name: stringify!($name),
            call: Box::new(|| drop($receiver().$name($($argument),*))),
            named: format!("cannot {} ", $named),
        }),*]
    };
}

/// Builds calls of constructors that are refused for their size.
macro_rules! creations {
    ($($name:ident($($argument:expr),*);)*) => {
        vec![$(Call {
            name: stringify!($name),
            call: Box::new(|| drop(Tensor::$name($($argument),*))),
            named: format!("by `{}`", stringify!($name)),
        }),*]
    };
}

fn elementwise() -> Vec<Call> {
    by_name! {
        bools().abs(); bools().sign(); integers().floor(); integers().ceil(); integers().round();
        integers().round_half_away(); integers().exp(); integers().exp2(); integers().expm1(); integers().log();
        integers().log1p(); integers().sqrt(); integers().rsqrt(); integers().cbrt(); integers().sin();
        integers().cos(); integers().tan(); integers().asin(); integers().acos(); integers().atan();
        integers().sinh(); integers().cosh(); integers().tanh(); integers().asinh(); integers().acosh();
        integers().atanh(); integers().sigmoid(); integers().erf(); integers().erfc(); integers().erf_inv();
        bools().powi(2); bools().square(); integers().reciprocal(); integers().trunc(); bools().trunc();
        integers().log2(); integers().log10(); integers().deg2rad(); integers().rad2deg(); bools().relu();
        two().population_count();
        two().add(three()); two().subtract(three()); two().multiply(three()); two().divide(three());
        two().rem(three()); two().pow(three()); bools().pow(bools()); two().atan2(three());
        two().logaddexp(three()); two().maximum(three()); two().minimum(three()); two().equal(three());
        two().not_equal(three()); two().less(three()); two().less_equal(three()); two().greater(three());
        two().greater_equal(three()); two().bit_xor(three()); two().bit_xor(two()); two().shift_left(two());
        two().shift_right(two()); two().shift_right_arithmetic(two()); two().floor_divide(three());
        bools().floor_divide(bools()); two().remainder(three()); bools().remainder(bools()); two().hypot(three());
        bools().hypot(bools()); two().heaviside(three()); two().clip(three(), two()); bools().clip(bools(), bools());
        two().clamp(three(), two()); bools().clamp(bools(), bools());
        two().select(two(), two()); bools().select(two(), three());
    }
}

fn along_axes() -> Vec<Call> {
    let mut calls = by_name! {
        bools().sum(); two().sum_axes([1]); two().sum_keep([1]); two().argmax(1); two().argmin(1);
        two().argmax_keep(1); two().argmin_keep(1); integers().logsumexp(); two().logsumexp_axes([1]);
        two().logsumexp_keep([1]);
        two().all_axes([1]); two().all_keep([1]); two().any_axes([1]); two().any_keep([1]);
        two().cumsum(1); two().cumsum(Reversed(1)); bools().cumsum(0); two().cumprod(1); two().cumprod(Reversed(1));
        two().cummax(1); two().cummax(Reversed(1)); two().cummin(1); two().cummin(Reversed(1)); two().cumlogsumexp(1);
        integers().cumlogsumexp(0); two().cumlogsumexp(Reversed(1));
        two().sort(1); two().argsort(1); two().top_k(3); two().searchsorted(&bools());
        two().reverse([1]); two().pad(0.0, [(1, 1, 0); 2]); two().roll(1, 1); two().repeat(2, 1);
        two().split(3, 0); two().array_split(0, 0); two().split_at([1, 0], 0);
        two().reshape([3]); two().transpose([1]); two().squeeze(0);
    };
    // All forms of a reduction have its name.
    for (name, reduction) in [
        ("sum_axes", "sum"),
        ("sum_keep", "sum"),
        ("all_axes", "all"),
        ("all_keep", "all"),
        ("any_axes", "any"),
        ("any_keep", "any"),
        ("argmax_keep", "argmax"),
        ("argmin_keep", "argmin"),
        ("logsumexp_axes", "logsumexp"),
        ("logsumexp_keep", "logsumexp"),
    ] {
        let call = calls.iter_mut().find(|call| call.name == name).unwrap();
        call.named = format!("cannot {reduction} ");
    }
    calls.extend(in_words! {
        integers().mean() => "take the mean of"; two().mean_axes([1]) => "take the mean of";
        two().mean_keep([1]) => "take the mean of"; empty().max() => "take the maximum of";
        two().max_axes([1]) => "take the maximum of"; two().max_keep([1]) => "take the maximum of";
        empty().min() => "take the minimum of"; two().min_axes([1]) => "take the minimum of";
        two().min_keep([1]) => "take the minimum of"; bools().prod() => "multiply the elements of";
        two().prod_axes([1]) => "multiply the elements of"; two().prod_keep([1]) => "multiply the elements of";
        integers().variance() => "take the variance of"; two().variance_keep([1]) => "take the variance of";
        integers().standard_deviation() => "take the standard deviation of";
        two().standard_deviation_keep([1]) => "take the standard deviation of";
        integers().median() => "take the median of"; two().median_axes([1]) => "take the median of";
        two().median_keep([1]) => "take the median of"; two().count_nonzero_keep([1]) => "count";
        integers().variance_axes([0]) => "take the variance of"; integers().variance_with([0], 1) => "take the variance of";
        integers().standard_deviation_axes([0]) => "take the standard deviation of";
        integers().standard_deviation_with([0], 1) => "take the standard deviation of";
        two().count_nonzero_axes([1]) => "count"; integers().norm() => "take the norm of";
        two().norm_axes([1]) => "take the norm of"; two().norm_keep([1]) => "take the norm of";
        two().take_along_axis(&integers(), 1) => "take along an axis of"; two().move_axis(0, 1) => "move an axis of";
        two().expand_dims(3) => "add an axis to"; two().expand_dims([0, 0]) => "add axes to"; two().broadcast_to([3]) => "broadcast";
        two().swap_axes(0, 1) => "swap axes of"; two().tril(0) => "take the lower triangle of";
        two().triu(0) => "take the upper triangle of"; two().diagonal(0, 0, 1) => "take the diagonal of";
        two().trace() => "take the trace of"; two().index([pytree_transform::indexing::Index::At(2)]) => "index";
        two().take(&two(), 0) => "take from";
    });
    calls
}

fn products() -> Vec<Call> {
    by_name! {
        two().matmul(&three()); two().dot_general(&three(), (&[0], &[0]), (&[], &[]));
        two().tensordot(&three(), (&[0], &[0])); two().outer(&integers()); two().inner(&three());
        two().dot(&three()); two().vdot(&three()); two().kron(&integers()); bools().outer(&bools()); bools().inner(&bools());
        two().one_hot(2, DType::F32); two().dynamic_slice(&[], [1]); two().dynamic_update_slice(&two(), &[]);
    }
}

fn of_several() -> Vec<Call> {
    let call = |name, named: &str, call: fn() -> Tensor| Call {
        name,
        call: Box::new(move || drop(call())),
        named: named.to_owned(),
    };
    let mut calls = vec![
        call("stack", "cannot stack ", || {
            Tensor::stack(&[two(), three()], 0)
        }),
        call("stack", "cannot stack ", || {
            Tensor::stack(&[two(), integers()], 0)
        }),
        call("concatenate", "cannot concatenate ", || {
            Tensor::concatenate(&[two(), integers()], 0)
        }),
        call("meshgrid", "cannot meshgrid ", || {
            Tensor::meshgrid(&[Tensor::from(1.0)]).remove(0)
        }),
        call("diag", "cannot diag ", || Tensor::from(1.0).diag(0)),
        call("tile", "by `tile`", || two().tile([1 << 62])),
        call("diag", "by `diag`", || two().diag(1 << 60)),
        call("einsum", "cannot einsum ", || {
            einsum("i,i->i", &[&bools(), &bools()])
        }),
        call("iota", "cannot iota ", || Tensor::iota(DType::F32, [2], 1)),
        call("arange", "cannot arange ", || {
            Tensor::arange(DType::Bool, 2)
        }),
        call("linspace", "cannot linspace ", || {
            Tensor::linspace(DType::I32, 0.0, 1.0, 2)
        }),
    ];
    const LONG: usize = 1 << 62;
    calls.extend(creations! {
        full(DType::F32, [LONG], 1.0); zeros(DType::F32, [LONG]); ones(DType::F32, [LONG]); arange(DType::F32, LONG);
        iota(DType::F32, [LONG], 0); eye(DType::F32, LONG); linspace(DType::F32, 0.0, 1.0, LONG);
    });
    calls
}

#[test]
fn messages_name_the_called_function() {
    let calls: Vec<Call> = [elementwise(), along_axes(), products(), of_several()]
        .into_iter()
        .flatten()
        .collect();
    let mut problems = Vec::new();
    for Call { name, call, named } in &calls {
        let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
            problems.push(format!("{name} refused nothing"));
            continue;
        };
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_default();
        if !message.contains(named.as_str()) {
            problems.push(format!("{name}: {message}"));
        }
    }
    assert!(
        problems.is_empty(),
        "{} are misnamed:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Returns the message of a panic.
fn message(call: impl FnOnce()) -> String {
    let problem = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    *problem.downcast::<String>().unwrap()
}

/// A value that is called like a function does not know its caller, so the location of the panic is in the library.
#[test]
fn mistake_in_transformed_call_names_line_of_user() {
    macro_rules! check {
        ($call:expr) => {
            let (text, place) = (message(|| drop($call)), format!("messages.rs:{}:", line!()));
            assert!(text.contains(&place), "{place} is not in: {text}");
        };
    }
    check!(grad(|x: &Tensor| x * 2.0)(&two()));
    check!(value_and_grad(|x: &Tensor| x.sum())(&integers()));
    check!(hessian(|x: &Tensor| x * 2.0)(&two()));
    check!(jacrev(|x: &Tensor| x.greater(0.0))(&two()));
    check!(jacfwd(|x: &Tensor| x.greater(0.0))(&two()));
    check!(vmap(|(x, y): (Tensor, Tensor)| x + y)((two(), three())));
    check!(vmap(|x: Tensor| x)(Tensor::from(1.0)));
}

#[test]
fn branch_on_traced_tensor_names_select_and_cond() {
    let absolute = |x: Tensor| if x.less(0.0).item::<bool>() { -x } else { x };
    assert_eq!(absolute(Tensor::from(-2.0)).item::<f64>(), 2.0);
    let slope = grad(move |x: &Tensor| absolute(x.clone()))(&Tensor::from(-2.0));
    assert_eq!(slope.item::<f64>(), -1.0);

    for text in [
        message(|| drop(jit(absolute)(Tensor::from(-2.0)))),
        message(|| drop(vmap(absolute)(two()))),
    ] {
        assert!(
            text.contains(
                "use `select` to choose between values, `cond` to choose between computations"
            ),
            "{text}"
        );
    }
}
