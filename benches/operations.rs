//! Every operation on a million numbers, each with its gradient: `cargo bench --bench operations [-- sin sum.rows key f32]`.
//! `--forward` leaves out the gradients. `--features linalg` adds factorizations of a matrix with 80 to 1,000 rows, `cholesky.80`, and
//! of 1,000 matrices with four.
//!
//! The arguments choose operations and dtypes. An operation along an axis of a matrix is measured along rows and along columns. The
//! cotangent of a gradient is the result. Prints one JSON object a line: the least time of a call of a jitted function in microseconds,
//! and the mean of its result. With `--turns`, the program waits for a line of input after each case. `jax_operations.py` starts it so,
//! and measures the case in JAX meanwhile.

#![allow(
    clippy::needless_borrows_for_generic_args,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::vec_init_then_push,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;
#[allow(dead_code, reason = "the labels are for other benchmarks")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::time::Instant;

use pytree::nn;
use pytree::prelude::*;

const SIDE: usize = 1000;
const COUNT: usize = SIDE * SIDE;
/// The number of narrow rows, which have eight numbers each.
const NARROW: usize = COUNT / 8;

const BOTH: &[DType] = &[DType::F32, DType::F64];
const FLOATS: &[DType] = &[DType::F32, DType::F64, DType::BF16];
const NUMBERS: &[DType] = &[DType::F32, DType::F64, DType::BF16, DType::I32];
const INTEGERS: &[DType] = &[DType::I32];
const BOOLS: &[DType] = &[DType::Bool];

/// The least and the greatest element of an operand, and its dtype, which is the dtype of the case if it is empty.
type Operand = (f32, f32, &'static str);

type Function = Box<dyn Fn(&[Tensor]) -> Tensor + Send + Sync>;

struct Case {
    name: String,
    dtypes: &'static [DType],
    operands: Vec<Operand>,
    apply: Function,
}

macro_rules! operand {
    (($low:expr, $high:expr)) => {
        ($low, $high, "")
    };
    (($low:expr, $high:expr, $dtype:literal)) => {
        ($low, $high, $dtype)
    };
}

/// The cases of some dtypes: methods of a tensor, methods of two tensors, functions of tensors, and functions of tensors along an
/// axis, each with its operands. A function along an axis is measured along rows and along columns.
macro_rules! cases {
    ($($kind:ident $dtypes:ident { $($rows:tt)* })*) => {{
        let mut cases = Vec::<Case>::default();
        $(cases!(@$kind cases, $dtypes, $($rows)*);)*
        cases
    }};
    (@methods $cases:ident, $dtypes:ident, $($name:ident $of:tt;)*) => {
        $(cases!(@push $cases, stringify!($name).into(), $dtypes, [$of], |x: &[Tensor]| x[0].$name());)*
    };
    (@pairs $cases:ident, $dtypes:ident, $($name:ident $left:tt, $right:tt;)*) => {
        $(cases!(@push $cases, stringify!($name).into(), $dtypes, [$left $right], |x: &[Tensor]| x[0].$name(&x[1]));)*
    };
    (@functions $cases:ident, $dtypes:ident, $($name:ident $($of:tt),+ => |$x:ident| $apply:expr;)*) => {
        $(cases!(@push $cases, stringify!($name).into(), $dtypes, [$($of)+], |$x: &[Tensor]| $apply);)*
    };
    (@axes $cases:ident, $dtypes:ident, $($name:ident $($of:tt),+ => |$x:ident, $axis:ident| $apply:expr;)*) => {
        $(for ($axis, along) in [(1_isize, "rows"), (0, "columns")] {
            let name = format!("{}.{along}", stringify!($name));
            cases!(@push $cases, name, $dtypes, [$($of)+], move |$x: &[Tensor]| $apply);
        })*
    };
    (@push $cases:ident, $name:expr, $dtypes:ident, [$($of:tt)+], $apply:expr) => {
        $cases.push(Case {
            name: $name,
            dtypes: $dtypes,
            operands: vec![$(operand!($of)),+],
            apply: Box::new($apply),
        })
    };
}

fn cases() -> Vec<Case> {
    cases! {
        methods NUMBERS {
            abs (-4., 4.);
            sign (-4., 4.);
            square (-4., 4.);
        }
        methods FLOATS {
            floor (-4., 4.);
            ceil (-4., 4.);
            round (-4., 4.);
            trunc (-4., 4.);
            reciprocal (0.5, 4.);
            exp (-4., 4.);
            exp2 (-4., 4.);
            expm1 (-4., 4.);
            log (0.1, 4.);
            log2 (0.1, 4.);
            log10 (0.1, 4.);
            log1p (-0.5, 4.);
            sqrt (0.1, 4.);
            rsqrt (0.1, 4.);
            cbrt (0.1, 4.);
            sin (-4., 4.);
            cos (-4., 4.);
            tan (-1.5, 1.5);
            asin (-0.99, 0.99);
            acos (-0.99, 0.99);
            atan (-4., 4.);
            sinh (-4., 4.);
            cosh (-4., 4.);
            tanh (-4., 4.);
            asinh (-4., 4.);
            acosh (1.1, 4.);
            atanh (-0.99, 0.99);
            sigmoid (-4., 4.);
            erf (-4., 4.);
            erfc (-4., 4.);
            erf_inv (-0.99, 0.99);
            isnan (-4., 4.);
            isfinite (-4., 4.);
        }
        pairs NUMBERS {
            add (-4., 4.), (-4., 4.);
            subtract (-4., 4.), (-4., 4.);
            multiply (-4., 4.), (-4., 4.);
            maximum (-4., 4.), (-4., 4.);
            minimum (-4., 4.), (-4., 4.);
            less (-4., 4.), (-4., 4.);
            equal (-4., 4.), (-4., 4.);
        }
        pairs FLOATS {
            divide (-4., 4.), (0.5, 4.);
            remainder (-4., 4.), (0.5, 4.);
            floor_divide (-4., 4.), (0.5, 4.);
            pow (0.1, 4.), (-4., 4.);
            atan2 (-4., 4.), (-4., 4.);
            hypot (-4., 4.), (-4., 4.);
            logaddexp (-4., 4.), (-4., 4.);
        }
        pairs INTEGERS {
            remainder (-100., 100.), (1., 100.);
            floor_divide (-100., 100.), (1., 100.);
            rem (-100., 100.), (1., 100.);
            bit_xor (-100., 100.), (-100., 100.);
            shift_left (0., 100.), (0., 8.);
            shift_right (0., 1e6), (0., 8.);
        }
        pairs BOOLS {
            bit_xor (0., 2.), (0., 2.);
        }
        functions NUMBERS {
            clamp (-4., 4.) => |x| x[0].clamp(-1, 1);
            select (-4., 4.), (-4., 4.) => |x| x[0].greater(0).select(&x[0], &x[1]);
            relu (-4., 4.) => |x| x[0].relu();
            to_f32 (-100., 100.) => |x| x[0].convert(DType::F32);
            to_f64 (-100., 100.) => |x| x[0].convert(DType::F64);
            to_bf16 (-100., 100.) => |x| x[0].convert(DType::BF16);
            to_i32 (-100., 100.) => |x| x[0].convert(DType::I32);
            to_i64 (-100., 100.) => |x| x[0].convert(DType::I64);
            to_u8 (0., 100.) => |x| x[0].convert(DType::U8);
            to_bool (-4., 4.) => |x| x[0].convert(DType::Bool);
            converted_sum (0., 100., "i32"), (-4., 4.) => |x| x[0].convert(x[1].dtype()) * &x[1] + 1;
            masked_sum (0., 2., "bool"), (-4., 4.) => |x| x[0].convert(x[1].dtype()) * &x[1] + 1;
            transpose (-4., 4.) => |x| x[0].t();
            sum (-4., 4.) => |x| x[0].sum();
            max (-4., 4.) => |x| x[0].max();
            segment_sum (-4., 4.), (0., 1000., "i32") => |x| x[0].segment_sum(&row(&x[1]), SIDE);
            segment_sum_numbers (-4., 4.), (0., 1e6, "i32") => |x| x[0].flatten().segment_sum(&x[1].flatten(), COUNT);
            take_numbers (-4., 4.), (0., 1e6, "i32") => |x| x[0].flatten().take(&x[1].flatten(), 0);
            scatter_set (-4., 4.), (-4., 4.), (0., 1e6, "i32") => |x| x[0].flatten().at_indices(&x[2].flatten(), 0).set(&x[1].flatten());
            scatter_set_rows (-4., 4.), (-4., 4.), (0., 1e5, "i32") => |x| narrow(&x[0]).at_indices(&numbers(&x[2]), 0).set(narrow(&x[1]));
            scatter_add_rows (-4., 4.), (-4., 4.), (0., 1e5, "i32") => |x| narrow(&x[0]).at_indices(&numbers(&x[2]), 0).add(narrow(&x[1]));
            segment_sum_rows (-4., 4.), (0., 1e5, "i32") => |x| narrow(&x[0]).segment_sum(&numbers(&x[1]), NARROW);
            take_rows (-4., 4.), (0., 1e5, "i32") => |x| narrow(&x[0]).take(&numbers(&x[1]), 0);
            scatter_add (-4., 4.), (-4., 4.), (0., 1e6, "i32") => |x| x[0].flatten().at_indices(&x[2].flatten(), 0).add(&x[1].flatten());
            update_slice (-4., 4.), (-4., 4.) => |x| x[0].at(ix![100..900, 100..900]).set(x[1].index(ix![100..900, 100..900]));
            top_k (-4., 4.) => |x| x[0].top_k(10).0;
            top_k_of_all (-4., 4.) => |x| x[0].flatten().top_k(100).0;
            outer (-4., 4.) => |x| x[0].index(ix![0]).outer(&x[0].index(ix![1]));
        }
        functions FLOATS {
            powf (0.1, 4.) => |x| x[0].pow(2.5);
            power3 (-4., 4.) => |x| x[0].powi(3);
            power7 (-4., 4.) => |x| x[0].powi(7);
            relu6 (-4., 8.) => |x| nn::relu6(&x[0]);
            leaky_relu (-4., 4.) => |x| nn::leaky_relu(&x[0], 0.01);
            elu (-4., 4.) => |x| nn::elu(&x[0], 1.0);
            selu (-4., 4.) => |x| nn::selu(&x[0]);
            celu (-4., 4.) => |x| nn::celu(&x[0], 1.0);
            gelu (-4., 4.) => |x| nn::gelu(&x[0]);
            gelu_exact (-4., 4.) => |x| nn::gelu_exact(&x[0]);
            silu (-4., 4.) => |x| nn::silu(&x[0]);
            softplus (-4., 4.) => |x| nn::softplus(&x[0]);
            log_sigmoid (-4., 4.) => |x| nn::log_sigmoid(&x[0]);
            hard_sigmoid (-4., 4.) => |x| nn::hard_sigmoid(&x[0]);
            hard_silu (-4., 4.) => |x| nn::hard_silu(&x[0]);
            hard_tanh (-4., 4.) => |x| nn::hard_tanh(&x[0]);
            soft_sign (-4., 4.) => |x| nn::soft_sign(&x[0]);
            mish (-4., 4.) => |x| nn::mish(&x[0]);
            squareplus (-4., 4.) => |x| nn::squareplus(&x[0], 4.0);
            lgamma (0.1, 8.) => |x| nn::lgamma(&x[0]);
            digamma (0.1, 8.) => |x| nn::digamma(&x[0]);
            sinc (-4., 4.) => |x| nn::sinc(&x[0]);
        }
        functions INTEGERS {
            population_count (-100., 100.) => |x| x[0].population_count();
            polynomial (-100., 100.) => |x| (&x[0] * 3 + 1) * &x[0] - 7;
            hash (-100., 100.) => |x| (x[0].bit_xor(&x[0].shift_right(15)) * 73_244_475).bit_xor(12_345);
            one_hot (0., 1000.) => |x| x[0].index(ix![0]).one_hot(SIDE, DType::F32);
        }
        axes NUMBERS {
            sum (-4., 4.) => |x, axis| x[0].sum_axes(axis);
            prod (0.9, 1.1) => |x, axis| x[0].prod_axes(axis);
            max (-4., 4.) => |x, axis| x[0].max_axes(axis);
            min (-4., 4.) => |x, axis| x[0].min_axes(axis);
            argmax (-4., 4.) => |x, axis| x[0].argmax(axis);
            any (-4., 4.) => |x, axis| x[0].any_axes(axis);
            all (-4., 4.) => |x, axis| x[0].all_axes(axis);
            count_nonzero (-4., 4.) => |x, axis| x[0].count_nonzero_axes(axis);
            cumsum (-4., 4.) => |x, axis| x[0].cumsum(axis);
            cumprod (0.9, 1.1) => |x, axis| x[0].cumprod(axis);
            cummax (-4., 4.) => |x, axis| x[0].cummax(axis);
            sort (-1000., 1000.) => |x, axis| x[0].sort(axis);
            argsort (-1000., 1000.) => |x, axis| x[0].argsort(axis);
            take (-4., 4.), (0., 1000., "i32") => |x, axis| x[0].take(&row(&x[1]), axis);
            take_along_axis (-4., 4.), (0., 1000., "i32") => |x, axis| x[0].take_along_axis(&x[1], axis);
            reverse (-4., 4.) => |x, axis| x[0].reverse(axis);
            roll (-4., 4.) => |x, axis| x[0].roll(3, axis);
            repeat (-4., 4.) => |x, axis| x[0].repeat(2, axis);
            concatenate (-4., 4.), (-4., 4.) => |x, axis| Tensor::concatenate(&x[..2], axis);
            stack (-4., 4.), (-4., 4.) => |x, axis| Tensor::stack(&x[..2], axis);
            pad (-4., 4.) => |x, axis| x[0].pad(0, if axis == 1 { [(0, 0), (3, 5)] } else { [(3, 5), (0, 0)] });
            slice (-4., 4.) => |x, axis| if axis == 1 { x[0].index(ix![.., 3..900]) } else { x[0].index(ix![3..900]) };
            broadcast_add (-4., 4.) => |x, axis| &x[0] + x[0].index(ix![0]).expand_dims(1 - axis);
        }
        axes FLOATS {
            mean (-4., 4.) => |x, axis| x[0].mean_axes(axis);
            variance (-4., 4.) => |x, axis| x[0].variance_axes(axis);
            norm (-4., 4.) => |x, axis| x[0].norm_axes(axis);
            logsumexp (-4., 4.) => |x, axis| nn::logsumexp(&x[0], axis);
            softmax (-4., 4.) => |x, axis| softmax(&x[0], axis);
            log_softmax (-4., 4.) => |x, axis| nn::log_softmax(&x[0], axis);
            standardize (-4., 4.) => |x, axis| nn::standardize(&x[0], axis, 1e-5);
            cumlogsumexp (-4., 4.) => |x, axis| x[0].cumlogsumexp(axis);
        }
        axes BOOLS {
            any (0., 2.) => |x, axis| x[0].any_axes(axis);
            all (0., 2.) => |x, axis| x[0].all_axes(axis);
            count_nonzero (0., 2.) => |x, axis| x[0].count_nonzero_axes(axis);
        }
    }
}

/// Factorizations and solutions of one matrix with so many rows, or of a thousand matrices with four.
#[cfg(feature = "linalg")]
fn factorizations() -> Vec<Case> {
    use pytree::linalg::*;
    let mut cases = Vec::<Case>::default();
    for rows in [4, 80, 150, 300, SIDE] {
        let part = move |x: &Tensor| match rows {
            4 => x.flatten().index(ix![..16 * SIDE]).reshape([SIDE, 4, 4]),
            _ => x.index(ix![..rows, ..rows]),
        };
        let regular = move |x: &Tensor| part(x) + Tensor::eye(x.dtype(), rows) * rows as f64;
        let vector = move |x: &Tensor| part(x).index(ix![pytree::indexing::Index::Ellipsis, ..1]);
        let mut add = |name: &str, apply: Function| {
            cases.push(Case {
                name: format!("{name}.{rows}"),
                dtypes: BOTH,
                operands: vec![(-1., 1., ""); 2],
                apply,
            });
        };
        let lower = Triangular::lower;
        add("cholesky", Box::new(move |x| cholesky(&regular(&x[0]))));
        add(
            "cho_solve",
            Box::new(move |x| cho_solve(&regular(&x[0]), &part(&x[1]))),
        );
        add(
            "cho_solve_vector",
            Box::new(move |x| cho_solve(&regular(&x[0]), &vector(&x[1]))),
        );
        add(
            "triangular_solve",
            Box::new(move |x| triangular_solve(&regular(&x[0]), &part(&x[1]), lower())),
        );
        add(
            "solve",
            Box::new(move |x| solve(&regular(&x[0]), &part(&x[1]))),
        );
        add(
            "solve_vector",
            Box::new(move |x| solve(&regular(&x[0]), &vector(&x[1]))),
        );
        add("slogdet", Box::new(move |x| slogdet(&regular(&x[0])).1));
        add(
            "qr",
            Box::new(move |x| {
                let (q, r) = qr(&part(&x[0]));
                q + r
            }),
        );
        add(
            "eigh",
            Box::new(move |x| {
                let (w, v) = eigh(&part(&x[0]));
                v.square() + w.expand_dims(-2)
            }),
        );
        add(
            "svd",
            Box::new(move |x| {
                let (u, s, v) = svd(&part(&x[0]));
                u.square() + v.square() + s.expand_dims(-2)
            }),
        );
    }
    cases
}

#[cfg(not(feature = "linalg"))]
fn factorizations() -> Vec<Case> {
    Vec::new()
}

/// The numbers of a matrix as narrow rows.
fn narrow(matrix: &Tensor) -> Tensor {
    matrix.reshape([NARROW, 8])
}

/// A number for each narrow row.
fn numbers(matrix: &Tensor) -> Tensor {
    matrix.flatten().index(ix![..NARROW])
}

/// The first row of a matrix.
fn row(matrix: &Tensor) -> Tensor {
    matrix.index(ix![0])
}

type Draw = fn(&Key, DType) -> Tensor;

/// Random numbers, which have no gradient.
fn draws() -> Vec<(&'static str, &'static [DType], Draw)> {
    const SINGLE: &[DType] = &[DType::F32];
    vec![
        ("key.bits", SINGLE, |key, _| key.bits([COUNT])),
        ("key.uniform", FLOATS, |key, dtype| {
            key.uniform(dtype, [COUNT])
        }),
        ("key.normal", FLOATS, |key, dtype| {
            key.normal(dtype, [COUNT])
        }),
        ("key.truncated_normal", BOTH, |key, dtype| {
            key.truncated_normal(dtype, [COUNT], -2.0, 2.0)
        }),
        ("key.gumbel", BOTH, |key, dtype| key.gumbel(dtype, [COUNT])),
        ("key.exponential", BOTH, |key, dtype| {
            key.exponential(dtype, [COUNT])
        }),
        ("key.laplace", BOTH, |key, dtype| {
            key.laplace(dtype, [COUNT])
        }),
        ("key.logistic", BOTH, |key, dtype| {
            key.logistic(dtype, [COUNT])
        }),
        ("key.rademacher", BOTH, |key, dtype| {
            key.rademacher(dtype, [COUNT])
        }),
        ("key.bernoulli", SINGLE, |key, _| {
            key.bernoulli(0.5, [COUNT])
        }),
        ("key.randint", SINGLE, |key, _| {
            key.randint([COUNT], 0, 1000)
        }),
        ("key.permutation", SINGLE, |key, _| key.permutation(COUNT)),
        ("key.categorical", SINGLE, |key, dtype| {
            key.categorical(&Tensor::zeros(dtype, [SIDE]), [SIDE])
        }),
        ("key.gamma", BOTH, |key, dtype| {
            key.gamma(&Tensor::full(dtype, [], 2.0), [COUNT])
        }),
        ("key.beta", BOTH, |key, dtype| {
            let two = Tensor::full(dtype, [], 2.0);
            key.beta(&two, &two, [COUNT])
        }),
        ("key.poisson", SINGLE, |key, dtype| {
            key.poisson(&Tensor::full(dtype, [], 4.0), [COUNT])
        }),
    ]
}

/// Prints the least time of a call in microseconds, and the mean of its results, and waits if `jax_operations.py` measures in turn.
fn measure(
    [name, dtype, operation]: [&str; 3],
    operands: &[Operand],
    mut call: impl FnMut() -> Vec<Tensor>,
) {
    let mean = |result: &Tensor| result.convert(DType::F64).mean().item::<f64>();
    let mean: f64 = call().iter().map(mean).sum();
    let mut least = f64::INFINITY;
    // Other work on the machine only adds to a time. Long calls are repeated less.
    let (count, begin) = (support::samples(30), Instant::now());
    for sample in 0..count {
        let start = Instant::now();
        call();
        least = least.min(start.elapsed().as_secs_f64() * 1e6);
        if sample >= 2 && begin.elapsed().as_secs_f64() > 0.5 {
            break;
        }
    }
    let operands: Vec<String> = operands
        .iter()
        .map(|(low, high, dtype)| format!("[{low}, {high}, \"{dtype}\"]"))
        .collect();
    println!(
        "{{\"name\":\"{name}\",\"dtype\":\"{dtype}\",\"op\":\"{operation}\",\"operands\":[{}],\"us\":{least},\"mean\":{mean}}}",
        operands.join(", ")
    );
    if std::env::args().any(|argument| argument == "--turns") {
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

fn run(case: &'static Case, dtype: DType) {
    let operand = |(stream, &(low, high, own)): (u64, &Operand)| {
        let unit = Tensor::new([SIDE, SIDE], workload::uniform(stream, COUNT, 1.0));
        let own = match own {
            "" => dtype,
            "bool" => DType::Bool,
            _ => DType::I32,
        };
        let number = (unit + 1.0) * f64::from((high - low) / 2.0) + f64::from(low);
        // A conversion to bool tells 0 from other numbers.
        let number = if own == DType::Bool {
            number.floor()
        } else {
            number
        };
        number.convert(own)
    };
    let x: Vec<Tensor> = (10..).zip(&case.operands).map(operand).collect();
    let dtype_name = dtype.to_string();
    let title = |operation| [case.name.as_str(), dtype_name.as_str(), operation];
    let forward = jit(move |x: Vec<Tensor>| (case.apply)(&x));
    measure(title("forward"), &case.operands, || {
        vec![forward(x.clone())]
    });
    let cotangent = forward(x.clone());
    let is_forward = std::env::args().any(|argument| argument == "--forward");
    if is_forward || !dtype.is_float() || cotangent.dtype() != dtype {
        return;
    }
    // The gradient for the floats, whose places the others keep.
    let gradient = jit(move |(x, cotangent): (Vec<Tensor>, Tensor)| {
        let floats: Vec<Tensor> = x.iter().filter(|x| x.dtype().is_float()).cloned().collect();
        let loss = |floats: &Vec<Tensor>| {
            let mut floats = floats.iter();
            let place = |x: &Tensor| match x.dtype().is_float() {
                true => floats.next().unwrap().clone(),
                false => x.clone(),
            };
            let x: Vec<Tensor> = x.iter().map(place).collect();
            ((case.apply)(&x) * &cotangent).sum()
        };
        grad(loss)(&floats)
    });
    measure(title("gradient"), &case.operands, || {
        let gradient = gradient((x.clone(), cotangent.clone()));
        gradient.leaves().to_vec()
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let dtypes = ["f32", "f64", "bf16", "i32", "bool"];
    let (chosen, names): (Vec<String>, Vec<String>) = arguments
        .into_iter()
        .partition(|argument| dtypes.contains(&argument.as_str()));
    let has =
        |names: &[String], name: &str| names.is_empty() || names.iter().any(|other| other == name);
    // `sum` also names `sum.rows`.
    let is_named = |name: &str| {
        has(&names, name)
            || name
                .split_once('.')
                .is_some_and(|(first, _)| has(&names, first))
    };
    let is_chosen = |dtype: &DType| has(&chosen, &dtype.to_string());
    let mut cases = cases();
    cases.extend(factorizations());
    let cases: &'static [Case] = cases.leak();
    for case in cases.iter().filter(|case| is_named(&case.name)) {
        for &dtype in case.dtypes.iter().filter(|dtype| is_chosen(dtype)) {
            run(case, dtype);
        }
    }
    for (name, dtypes, draw) in draws().into_iter().filter(|draw| is_named(draw.0)) {
        for &dtype in dtypes.iter().filter(|dtype| is_chosen(dtype)) {
            let (key, jitted) = (Key::new(1), jit(move |key: Key| draw(&key, dtype)));
            let title = dtype.to_string();
            measure([name, &title, "eager"], &[], || vec![draw(&key, dtype)]);
            measure([name, &title, "jitted"], &[], || vec![jitted(key.clone())]);
        }
    }
}
