//! Times the loops over elements, on one thread: products with one row, elementwise functions, fused kernels, reductions, windows and
//! creation. Prints the microseconds of each loop and a sum of the bits of its result.
//!
//! ```text
//! PYTREE_NUM_THREADS=1 cargo bench -p pytree-kernels --bench loops [-- PART OF A NAME]
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::{Bits, with_bits};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::pattern::Pattern;
use pytree_kernels::fused::{Kernel, KernelBuilder, Level, OperandPlace};
use pytree_kernels::loops::cumulative::{self, Run};
use pytree_kernels::loops::dot::DotGeneral;
use pytree_kernels::loops::elementwise::{
    Binary, Comparison, Elementwise, Unary, binary, compare, converted, select, unary,
};
use pytree_kernels::loops::gather::{Blocks, Outside, gather};
use pytree_kernels::loops::reduce_window::{Window, extrema, sums};
use pytree_kernels::loops::reduction::{Extremum, Reduction, argument, reduce, sum};
use pytree_kernels::loops::{create, threefry};
use smallvec::smallvec;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

/// The number of elements of an array that fits the caches.
const COUNT: usize = 100_000;

/// Returns an array of numbers between -2 and 2, or of small integers.
fn numbers(dtype: DType, shape: &[usize]) -> Arc<Array> {
    let number = |n: usize| ((n * 7919 + n / 13) % 1009) as f32 / 252.25 - 2.0;
    let count = shape.iter().product();
    let numbers = Array::new(shape, (0..count).map(number).collect::<Vec<f32>>());
    let scaled = if dtype.is_float() {
        Arc::new(numbers)
    } else {
        Arc::new(binary(
            Binary::Mul,
            Arc::new(numbers),
            Arc::new(create::full(DType::F32, &[], 50.0)),
        ))
    };
    Arc::new(converted(scaled, dtype))
}

/// Returns a number that depends on the bits of all elements and their order.
fn bits(array: &Array) -> u64 {
    with_bits!(array.dtype(), T => {
        array.bits::<T>().iter().fold(0, |sum: u64, &bits| {
            (sum.rotate_left(5) ^ bits.to_u64()).wrapping_mul(0x517c_c1b7_2722_0a95)
        })
    })
}

/// Prints the time of a loop.
fn time(name: &str, mut run: impl FnMut() -> Array) {
    let chosen = std::env::args().skip(1).find(|it| !it.starts_with('-'));
    if chosen.is_some_and(|chosen| !name.contains(&chosen)) {
        return;
    }
    let sum = bits(&run());
    let once = Instant::now();
    black_box(run());
    let runs = (Duration::from_millis(2).as_nanos() / once.elapsed().as_nanos().max(1)).max(1);
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            (0..runs).for_each(|_| drop(black_box(run())));
            start.elapsed().as_secs_f64() * 1e6 / runs as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    println!("{name:<32}{:>12.2}  {sum:016x}", times[0]);
}

fn dot(left: usize, right: usize) -> DotGeneral {
    DotGeneral {
        contract: (smallvec![left], smallvec![right]),
        batch: (smallvec![], smallvec![]),
    }
}

fn products() {
    for dtype in FLOATS {
        for rows in [1, 3] {
            let left = numbers(dtype, &[rows, 768]);
            for (name, shape, axis) in [("across", [768, 2304], 0), ("along", [2304, 768], 1)] {
                let right = numbers(dtype, &shape);
                time(&format!("dot {rows} {name} {dtype}"), || {
                    dot(1, axis).evaluate(Arc::clone(&left), Arc::clone(&right))
                });
            }
        }
    }
    let left = numbers(DType::F32, &[1, 768]);
    let few = numbers(DType::F32, &[3, 768]);
    for (name, shape, axis) in [("across", [768, 2304], 0), ("along", [2304, 768], 1)] {
        let integers = numbers(DType::I8, &shape);
        for (of, of_scales) in [("lines", [1, 2304]), ("terms", [768, 1])] {
            let mut of_scales = of_scales;
            if axis == 1 {
                of_scales.reverse();
            }
            let scales = numbers(DType::F32, &of_scales);
            for left in [&left, &few] {
                let rows = left.shape()[0];
                time(&format!("dot {rows} {name} int8 by {of}"), || {
                    dot(1, axis).evaluate_quantized(
                        Arc::clone(left),
                        Arc::clone(&integers),
                        &scales,
                    )
                });
            }
        }
    }
    // Weights that no cache holds.
    let (left, few) = (
        numbers(DType::F32, &[1, 768]),
        numbers(DType::F32, &[3, 768]),
    );
    for (name, shape, axis) in [("across", [768, 30_000], 0), ("along", [30_000, 768], 1)] {
        for dtype in [DType::F32, DType::BF16, DType::I8] {
            let right = numbers(dtype, &shape);
            let scales = numbers(
                DType::F32,
                if axis == 0 {
                    &[1, 30_000]
                } else {
                    &[30_000, 1]
                },
            );
            for left in [&left, &few] {
                let rows = left.shape()[0];
                time(&format!("dot {rows} {name} {dtype} long"), || {
                    let left = Arc::clone(left);
                    if dtype == DType::I8 {
                        return dot(1, axis).evaluate_quantized(left, Arc::clone(&right), &scales);
                    }
                    let left = Arc::new(converted(left, dtype));
                    dot(1, axis).evaluate(left, Arc::clone(&right))
                });
            }
        }
    }
    let square = numbers(DType::BF16, &[300, 300]);
    time("dot 300 bf16", || {
        dot(1, 0).evaluate(Arc::clone(&square), Arc::clone(&square))
    });
}

fn elementwise() {
    for dtype in FLOATS
        .into_iter()
        .chain([DType::I32, DType::I64, DType::U8])
    {
        let (left, right) = (numbers(dtype, &[COUNT]), numbers(dtype, &[COUNT]));
        let functions = [
            Unary::Neg,
            Unary::Exp,
            Unary::Log,
            Unary::Tanh,
            Unary::Logistic,
            Unary::Erf,
            Unary::Sin,
            Unary::Sqrt,
            Unary::IntegerPower(3),
        ];
        for function in functions {
            if dtype.is_float() || function == Unary::Neg {
                let name = Elementwise::Unary(function).name();
                time(&format!("{name} {dtype}"), || {
                    unary(function, Arc::clone(&left))
                });
            }
        }
        for function in [Binary::Add, Binary::Mul, Binary::Div, Binary::Max] {
            let name = Elementwise::Binary(function).name();
            time(&format!("{name} {dtype}"), || {
                binary(function, Arc::clone(&left), Arc::clone(&right))
            });
        }
        let holds = Arc::new(compare(
            Comparison::Lt,
            Arc::clone(&left),
            Arc::clone(&right),
        ));
        time(&format!("lt {dtype}"), || {
            compare(Comparison::Lt, Arc::clone(&left), Arc::clone(&right))
        });
        time(&format!("select {dtype}"), || {
            select(Arc::clone(&holds), Arc::clone(&left), Arc::clone(&right))
        });
        for to in [DType::F32, DType::BF16, DType::I32, DType::I64] {
            time(&format!("convert {dtype} {to}"), || {
                converted(Arc::clone(&left), to)
            });
        }
    }
}

/// Returns a kernel of rows of 256 elements: a softmax-like chain, choices, and totals.
fn fused(dtype: DType) -> Kernel {
    let float = if dtype == DType::F64 {
        dtype
    } else {
        DType::F32
    };
    let (rows, row) = (400, 256);
    let mut kernel = KernelBuilder::new(float, rows * row, row);
    let info = AbstractArray::new(dtype, [rows, row]);
    let (left, right) = (kernel.input(info.clone()), kernel.input(info.clone()));
    let load = |kernel: &mut KernelBuilder, input| {
        OperandPlace::Register(kernel.load(input, Pattern::Same, Level::Element))
    };
    let (left, right) = (load(&mut kernel, left), load(&mut kernel, right));
    let apply = |kernel: &mut KernelBuilder, operation, operands: &[OperandPlace]| {
        let operands = operands.iter().copied().collect();
        OperandPlace::Register(kernel.elementwise(operation, Level::Element, operands, [dtype; 2]))
    };
    let greatest = kernel.fold_rows(Fold::Max, left, dtype);
    let greatest = OperandPlace::Register(kernel.spread(greatest, Level::Element, dtype));
    let less = apply(
        &mut kernel,
        Elementwise::Binary(Binary::Sub),
        &[left, greatest],
    );
    let exponential = apply(&mut kernel, Elementwise::Unary(Unary::Exp), &[less]);
    let total = kernel.fold_rows(Fold::Sum, exponential, dtype);
    let total = OperandPlace::Register(kernel.spread(total, Level::Element, dtype));
    let share = apply(
        &mut kernel,
        Elementwise::Binary(Binary::Div),
        &[exponential, total],
    );
    let weighted = apply(
        &mut kernel,
        Elementwise::Binary(Binary::Mul),
        &[share, right],
    );
    let shifted = apply(
        &mut kernel,
        Elementwise::Binary(Binary::Sub),
        &[right, weighted],
    );
    let is_less = OperandPlace::Register(kernel.elementwise(
        Elementwise::Compare(Comparison::Lt),
        Level::Element,
        smallvec![left, shifted],
        [dtype, DType::Bool],
    ));
    let chosen = apply(
        &mut kernel,
        Elementwise::Select,
        &[is_less, weighted, shifted],
    );
    let OperandPlace::Register(result) = chosen else {
        unreachable!("a register")
    };
    kernel.fold_columns(Fold::Sum, row, AbstractArray::new(dtype, [row]), chosen);
    kernel.fold_columns(Fold::Max, 1, AbstractArray::new(dtype, []), chosen);
    kernel.store(result, Level::Element, info);
    kernel.finish()
}

fn kernels() {
    for dtype in FLOATS {
        let kernel = fused(dtype);
        let operands = [numbers(dtype, &[400, 256]), numbers(dtype, &[400, 256])];
        for result in 0..3 {
            time(&format!("fused {dtype} {result}"), || {
                kernel
                    .run(operands.iter().cloned().collect())
                    .remove(result)
            });
        }
    }
}

fn reductions() {
    for dtype in FLOATS
        .into_iter()
        .chain([DType::I32, DType::I64, DType::U8])
    {
        for (name, shape, axis) in [
            ("row", [1, COUNT], 1),
            ("rows", [400, 250], 1),
            ("short rows", [COUNT / 5, 5], 1),
            ("columns", [250, 400], 0),
        ] {
            let operand = numbers(dtype, &shape);
            time(&format!("sum {name} {dtype}"), || {
                sum(&operand, dtype, &[axis])
            });
            time(&format!("max {name} {dtype}"), || {
                reduce(Reduction::Max, &operand, dtype, &[axis])
            });
            time(&format!("argmax {name} {dtype}"), || {
                argument(Extremum::Max, &operand, axis)
            });
        }
        let operand = numbers(dtype, &[COUNT]);
        time(&format!("any rows {dtype}"), || {
            let zeros = Array::zeros(&AbstractArray::new(dtype, [64, 1024]));
            reduce(Reduction::Or, &zeros, DType::Bool, &[1])
        });
        time(&format!("prod row {dtype}"), || {
            reduce(Reduction::Prod, &operand, dtype, &[0])
        });
        if matches!(dtype, DType::F32 | DType::F64) {
            let run = Run {
                axis: 0,
                reverse: false,
            };
            time(&format!("cumsum {dtype}"), || {
                cumulative::sum(run, Arc::clone(&operand))
            });
        }
    }
}

fn windows() {
    let window = Window {
        dimensions: smallvec![1, 3, 3, 1],
        strides: smallvec![1, 1, 1, 1],
        padding: smallvec![(0, 0); 4],
    };
    for dtype in [DType::F32, DType::F64, DType::I32] {
        let image = numbers(dtype, &[4, 28, 28, 32]);
        time(&format!("window sum {dtype}"), || {
            sums(&window, &[1; 4], &image)
        });
        time(&format!("window max {dtype}"), || {
            extrema(Extremum::Max, &window, &image)
        });
    }
    let indices = numbers(DType::I32, &[20_000]);
    let table = numbers(DType::F32, &[1000, 4]);
    let blocks = Blocks {
        batch: 1,
        before: 1,
        after: 4,
        length: 1000,
    };
    time("gather f32", || {
        gather(
            &table,
            &indices,
            Outside::Clamp,
            &blocks,
            [20_000, 4].into_iter().collect(),
        )
    });
    let words = numbers(DType::U32, &[COUNT]);
    time("threefry", || {
        let [first, _] = threefry::evaluate(&words, &words, Arc::clone(&words), Arc::clone(&words));
        first
    });
    for dtype in [DType::F32, DType::BF16, DType::I64] {
        time(&format!("full {dtype}"), || {
            create::full(dtype, &[COUNT], 1.5)
        });
        time(&format!("iota {dtype}"), || {
            create::iota(dtype, &[COUNT], 0)
        });
    }
}

fn main() {
    products();
    elementwise();
    kernels();
    reductions();
    windows();
}
