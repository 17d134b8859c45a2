//! The most memory that an operation allocates at a time: its result and half an operand of a megabyte, eager and compiled, for each
//! dtype that it accepts.
//!
//! The table has a case for each primitive whose name is in the sources. A case that may need more has the reason beside it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use pytree::control::{cond, scan, while_loop};
use pytree::convolution::{Convolution, Padding};
use pytree::pooling::Pooling;
use pytree::prelude::*;
use pytree::{Reversed, extend, make_jaxpr, vjp};

use crate::counting::peak;

/// The bytes of an operand.
const OPERAND: usize = 1 << 20;

/// The operands that an operation may need beside its result, for tiles and the parts of threads.
const SLACK: f64 = 0.5;

/// The length of the last axis of the operands, which have two.
const ROW: usize = 512;

type Function = Arc<dyn Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync>;

/// A function of two operands, which have the axes `[_, ..rest]`.
struct Case {
    name: String,
    rest: &'static [usize],
    /// How many operands of a dtype the function may need beside its results.
    beside: fn(DType) -> usize,
    function: Function,
}

impl Case {
    fn beside(self, beside: fn(DType) -> usize) -> Self {
        Self { beside, ..self }
    }

    fn operand(&self, dtype: DType) -> Tensor {
        let rows = OPERAND / dtype.bytes() / self.rest.iter().product::<usize>();
        Tensor::ones(dtype, [&[rows], self.rest].concat())
    }

    /// Returns the function as a jaxpr, or `None` if it does not accept the dtype.
    fn jaxpr(&self, dtype: DType) -> Option<String> {
        let function = self.function.clone();
        let trace = || {
            make_jaxpr(move |(x, y): (Tensor, Tensor)| function(&x, &y))((
                self.operand(dtype),
                self.operand(dtype),
            ))
        };
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let jaxpr = catch_unwind(AssertUnwindSafe(trace));
        std::panic::set_hook(hook);
        jaxpr.ok().map(|jaxpr| jaxpr.to_string())
    }

    /// Adds a line to `exceeding` if the function needs more than its results.
    fn check(&self, dtype: DType, exceeding: &mut Vec<String>) {
        let (x, y) = (self.operand(dtype), self.operand(dtype));
        let function = self.function.clone();
        let compiled = jit(move |(x, y): (Tensor, Tensor)| function(&x, &y));
        let arguments = || (x.clone(), y.clone());
        compiled(arguments());
        let mut add = |how: &str, (results, most): (Vec<Tensor>, usize)| {
            let bytes: usize = results
                .iter()
                .map(|result| result.len() * result.dtype().bytes())
                .sum();
            let name = &self.name;
            let ratio = most.saturating_sub(bytes) as f64 / OPERAND as f64;
            if ratio > (self.beside)(dtype) as f64 + SLACK {
                exceeding.push(format!(
                    "{name} of {dtype}, {how}: {ratio:.2} operands beside the results"
                ));
            }
        };
        add("eager", peak(|| (self.function)(&x, &y)));
        add("compiled", peak(|| compiled(arguments())));
    }
}

fn case(name: &str, function: fn(&Tensor, &Tensor) -> Tensor) -> Case {
    results(name, move |x, y| vec![function(x, y)])
}

fn results(
    name: &str,
    function: impl Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync + 'static,
) -> Case {
    let function = Arc::new(function);
    let name = name.to_owned();
    Case {
        name,
        rest: &[ROW],
        beside: |_| 0,
        function,
    }
}

/// Operations on each element.
#[rustfmt::skip]
fn elementwise() -> Vec<Case> {
    vec![
        case("neg", |x, _| -x),
        case("abs", |x, _| x.abs()),
        case("sign", |x, _| x.sign()),
        case("exp", |x, _| x.exp()),
        case("exp2", |x, _| x.exp2()),
        case("expm1", |x, _| x.expm1()),
        case("log", |x, _| x.log()),
        case("log1p", |x, _| x.log1p()),
        case("sqrt", |x, _| x.sqrt()),
        case("rsqrt", |x, _| x.rsqrt()),
        case("cbrt", |x, _| x.cbrt()),
        case("sin", |x, _| x.sin()),
        case("cos", |x, _| x.cos()),
        case("tan", |x, _| x.tan()),
        case("asin", |x, _| x.asin()),
        case("acos", |x, _| x.acos()),
        case("atan", |x, _| x.atan()),
        case("sinh", |x, _| x.sinh()),
        case("cosh", |x, _| x.cosh()),
        case("tanh", |x, _| x.tanh()),
        case("asinh", |x, _| x.asinh()),
        case("acosh", |x, _| x.acosh()),
        case("atanh", |x, _| x.atanh()),
        case("sigmoid", |x, _| x.sigmoid()),
        case("erf", |x, _| x.erf()),
        case("erfc", |x, _| x.erfc()),
        case("erf_inv", |x, _| x.erf_inv()),
        case("floor", |x, _| x.floor()),
        case("ceil", |x, _| x.ceil()),
        case("round", |x, _| x.round()),
        case("powi", |x, _| x.powi(3)),
        case("not", |x, _| !x),
        case("population_count", |x, _| x.population_count()),
        case("stop_gradient", |x, _| x.stop_gradient()),
        case("add", |x, y| x + y),
        case("sub", |x, y| x - y),
        case("mul", |x, y| x * y),
        case("div", |x, y| x / y),
        case("rem", |x, y| x.rem(y)),
        case("pow", |x, y| x.pow(y)),
        case("atan2", |x, y| x.atan2(y)),
        case("logaddexp", |x, y| x.logaddexp(y)),
        case("maximum", |x, y| x.maximum(y)),
        case("minimum", |x, y| x.minimum(y)),
        case("and", |x, y| x & y),
        case("or", |x, y| x | y),
        case("xor", |x, y| x.bit_xor(y)),
        case("shift_left", |x, _| x.shift_left(1)),
        case("shift_right", |x, _| x.shift_right(1)),
        case("shift_right_arithmetic", |x, _| x.shift_right_arithmetic(1)),
        case("equal", |x, y| x.equal(y)),
        case("not_equal", |x, y| x.not_equal(y)),
        case("less", |x, y| x.less(y)),
        case("less_equal", |x, y| x.less_equal(y)),
        case("greater", |x, y| x.greater(y)),
        case("greater_equal", |x, y| x.greater_equal(y)),
        case("select", |x, y| x.select(x, y)),
        case("a number plus", |x, _| x + 2),
        case("a number minus", |x, _| 2 - x),
        case("a number times", |x, _| x * 2),
        case("a number divided", |x, _| 2.0 / x),
        case("a number divides", |x, _| x / 2),
        case("a number is the maximum", |x, _| x.maximum(0)),
        case("a number clamps", |x, _| x.clamp(0, 1)),
        case("a number compared", |x, _| x.equal(0)),
        case("a float times", |x, _| x * 0.5),
    ]
}

/// Narrow numbers are compared with 0, and the results take half the memory of the numbers or as much. Bools are counted as they are.
fn truth_values(dtype: DType) -> usize {
    usize::from(dtype != DType::Bool && dtype.bytes() <= 2)
}

/// Operations along axes.
#[rustfmt::skip]
fn along_axes() -> Vec<Case> {
    vec![
        case("sum", |x, _| x.sum()),
        case("sum of the first axis", |x, _| x.sum_axes([0])),
        case("sum of the last axis", |x, _| x.sum_axes([1])),
        case("max", |x, _| x.max()),
        case("max of the first axis", |x, _| x.max_axes([0])),
        case("max of the last axis", |x, _| x.max_axes([1])),
        case("min", |x, _| x.min()),
        case("min of the last axis", |x, _| x.min_axes([1])),
        case("prod", |x, _| x.prod()),
        case("prod of the last axis", |x, _| x.prod_axes([1])),
        case("all", |x, _| x.all()),
        case("any of the first axis", |x, _| x.any_axes([0])),
        case("any of the last axis", |x, _| x.any_axes([1])),
        case("argmax of the first axis", |x, _| x.argmax(0)),
        case("argmax of the last axis", |x, _| x.argmax(1)),
        case("argmax of a vector", |x, _| x.reshape([-1]).argmax(0)),
        case("argmin of two columns", |x, _| x.reshape([-1, 2]).argmin(0)),
        case("count_nonzero", |x, _| x.count_nonzero()).beside(truth_values),
        case("count_nonzero of the last axis", |x, _| x.count_nonzero_axes(1)).beside(truth_values),
        case("argmin of the last axis", |x, _| x.argmin(1)),
        case("cumsum of the first axis", |x, _| x.cumsum(0)),
        case("cumsum of the last axis", |x, _| x.cumsum(1)),
        case("cumprod", |x, _| x.cumprod(1)),
        case("cummax", |x, _| x.cummax(Reversed(1))),
        case("cummin", |x, _| x.cummin(1)),
        case("cumlogsumexp", |x, _| x.cumlogsumexp(1)),
        case("sort of the first axis", |x, _| x.sort(0)),
        case("sort of the last axis", |x, _| x.sort(1)),
        case("argsort", |x, _| x.argsort(1)),
        case("matmul", |x, _| x.matmul(&Tensor::ones(x.dtype(), [ROW, 8]))),
        case("matmul with a vector", |x, _| x.matmul(&Tensor::ones(x.dtype(), [ROW]))),
        case("matmul from a vector", |x, _| Tensor::ones(x.dtype(), [x.shape()[0]]).matmul(x)),
    ]
}

/// Operations on windows of examples with one channel.
#[rustfmt::skip]
fn windows() -> Vec<Case> {
    let cases = vec![
        case("max pooling", |x, _| Pooling::new([2]).max(x)),
        case("min pooling", |x, _| Pooling::new([2]).min(x)),
        case("sum pooling", |x, _| Pooling::new([2]).sum(x)),
        case("convolution", |x, _| {
            let kernel = Tensor::ones(x.dtype(), [3, 1, 1]);
            Convolution::new([1], Padding::Same).apply(x, &kernel)
        })
        // Some kernels pack the windows, or pad the input.
        .beside(|_| 1),
        results("select_and_gather_add", |x, y| {
            let (value, tangent) = jvp(|x: &Tensor| Pooling::new([2]).max(x), x, y);
            vec![value, tangent]
        }),
        results("select_and_scatter_add", |x, y| {
            let (value, pullback) = vjp(|x: &Tensor| Pooling::new([2]).strides([2]).max(x), x);
            let gradient = pullback.call(&y.index(ix![.., ..256, ..]));
            vec![value, gradient]
        })
        // The slice that is the cotangent.
        .beside(|_| 1),
    ];
    cases.into_iter().map(|case| Case { rest: &[ROW, 1], ..case }).collect()
}

/// Operations that move elements, or create them.
#[rustfmt::skip]
fn moved() -> Vec<Case> {
    vec![
        case("reshape", |x, _| x.reshape([-1])),
        case("transpose", |x, _| x.t()),
        case("broadcast", |x, _| x.index(ix![0]).broadcast_to(x.shape())),
        case("reverse", |x, _| x.reverse([1])),
        case("shard", |x, _| pytree::device::shard(x, (None, "model"))),
        case("slice", |x, _| x.index(ix![1.., ..])),
        case("pad", |x, _| x.pad(1, [(1, 1, 0), (0, 0, 0)])),
        case("concatenate", |x, y| Tensor::concatenate(&[x.clone(), y.clone()], 0)),
        case("take", |x, _| x.take(&Tensor::arange(DType::I32, 1000), 0)),
        case("take along an axis", |x, _| x.take_along_axis(&Tensor::zeros(DType::I32, [x.shape()[0], 1]), 1)),
        case("take along the first axis", |x, _| x.take_along_axis(&Tensor::zeros(DType::I32, [1, ROW]), 0)),
        case("scatter_add", |x, _| x.at_indices(&Tensor::arange(DType::I32, 10), 0).add(x.index(ix![..10]))),
        case("scatter_mul", |x, _| x.at_indices(&Tensor::arange(DType::I32, 10), 0).multiply(x.index(ix![..10]))),
        case("scatter_min", |x, _| x.at_indices(&Tensor::arange(DType::I32, 10), 0).min(x.index(ix![..10]))),
        case("scatter_max", |x, _| x.at_indices(&Tensor::arange(DType::I32, 10), 0).max(x.index(ix![..10]))),
        case("scatter_set", |x, _| x.at_indices(&Tensor::arange(DType::I32, 10), 0).set(x.index(ix![..10]))),
        case("set", |x, y| x.at(ix![1..3]).set(y.index(ix![..2]))),
        case("dynamic_update_slice", |x, y| x.dynamic_update_slice(&y.index(ix![..2]), &[Tensor::from(1), Tensor::from(0)])),
        case("one_hot", |x, _| x.index(ix![..8]).one_hot(50, DType::U8)),
        case("a row plus", |x, _| x + x.index(ix![0])),
        case("a column plus", |x, _| x + x.index(ix![.., ..1])),
        case("dynamic_slice", |x, _| x.dynamic_slice(&[Tensor::from(1), Tensor::from(0)], [1000, ROW])),
        case("full", |x, _| Tensor::full(x.dtype(), x.shape(), 3)),
        case("zeros", |x, _| Tensor::zeros(x.dtype(), x.shape())),
        case("iota", |x, _| Tensor::iota(x.dtype(), x.shape(), 0)),
        results("threefry2x32", |x, y| {
            let (first, second) = extend::threefry2x32(x, y, x, y);
            vec![first, second]
        }),
    ]
}

/// Loops and branches.
#[rustfmt::skip]
fn control_flow() -> Vec<Case> {
    vec![
        case("cond", |x, y| cond(&x.index(ix![0, 0]).equal(1), |(x, _): (Tensor, Tensor)| -x, |(_, y)| -y, (x.clone(), y.clone()))),
        // The state before a step, and the one after it.
        case("while", |x, _| while_loop(|x: &Tensor| x.index(ix![0, 0]).less(3), |x| x + 1, x.clone())).beside(|_| 1),
        case("scan", |x, _| scan(|carry: Tensor, row: Tensor| (carry, -row), Tensor::from(0.0), x.clone()).1),
    ]
}

/// Conversions to each dtype.
fn conversions() -> Vec<Case> {
    let case = |&dtype: &DType| {
        results(&format!("convert to {dtype}"), move |x, _| {
            vec![x.convert(dtype)]
        })
    };
    DType::ALL.iter().map(case).collect()
}

/// Gradients of operations with numbers, which the tape holds as numbers.
#[rustfmt::skip]
fn gradients() -> Vec<Case> {
    vec![
        gradient("gradient of a number plus", |x| x + 2),
        gradient("gradient of a number minus", |x| 2 - x),
        gradient("gradient of a number times", |x| x * 0.5),
        gradient("gradient of a number divides", |x| x / 2),
        // The residual.
        gradient("gradient of a number divided", |x| 2.0 / x).beside(|_| 1),
        gradient("gradient of powi", |x| x.powi(3)).beside(|_| 1),
        gradient("gradient of sigmoid", |x| x.sigmoid()).beside(|_| 1),
        // The share of the operand in the gradient, and the comparisons that determine it.
        gradient("gradient of a number is the maximum", |x| x.maximum(0)).beside(|_| 2),
        gradient("gradient of relu", |x| x.relu()).beside(|_| 2),
        // The limited elements, three selections, the shares of a maximum and a minimum, and the comparisons.
        gradient("gradient of a number clamps", |x| x.clamp(0, 1)).beside(|_| 8),
    ]
}

fn gradient(name: &str, function: fn(&Tensor) -> Tensor) -> Case {
    results(name, move |x, y| {
        let (value, pullback) = vjp(move |x: &Tensor| function(x), x);
        vec![pullback.call(y), value]
    })
}

/// Adds the names that the primitives of a folder return.
fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Collectives are evaluated between processes only. `vmap` replaces them by other primitives.
        if path.to_str().unwrap().contains("collectives") {
            continue;
        }
        if path.is_dir() {
            add_names(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        let methods = [
            "fn name(&self) -> &'static str {",
            "fn operation_name(self) -> &'static str {",
        ];
        for method in methods
            .iter()
            .flat_map(|method| source.split(method).skip(1))
        {
            let body = method.split("\n    }\n").next().unwrap();
            names.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
}

/// Returns the names of all primitives.
fn names_in_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in [
        "pytree-transform/src/primitives",
        "pytree-kernels/src/loops/elementwise",
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        add_names(&root.join(folder), &mut names);
    }
    names
}

pub(crate) fn need_little_more_than_their_results() {
    let groups = [
        elementwise(),
        along_axes(),
        windows(),
        moved(),
        control_flow(),
        conversions(),
        gradients(),
    ];
    let mut missing = names_in_the_sources();
    assert!(missing.len() >= 80, "{missing:?}");
    let mut exceeding = Vec::new();
    for case in groups.iter().flatten() {
        let accepted = DType::ALL.iter().filter(|&&dtype| {
            let Some(jaxpr) = case.jaxpr(dtype) else {
                return false;
            };
            let holds = |name: &str, end| jaxpr.contains(&format!("= {name}{end}"));
            missing.retain(|name| !holds(name, " ") && !holds(name, "["));
            case.check(dtype, &mut exceeding);
            true
        });
        assert!(
            accepted.count() > 0,
            "no dtype is accepted by {}",
            case.name
        );
    }
    assert!(missing.is_empty(), "no case has {missing:?}");
    assert!(exceeding.is_empty(), "{}", exceeding.join("\n"));
}
