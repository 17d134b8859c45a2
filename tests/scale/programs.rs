//! Functions with a given number of equations.

use std::sync::Arc;

use pytree::control::{cond, scan};
use pytree::prelude::*;

/// A function of a vector, whose result is one.
pub type Program = Arc<dyn Fn(&Tensor) -> Tensor + Send + Sync>;

/// Its argument.
pub fn vector() -> Tensor {
    Tensor::from([0.25_f32, 0.5])
}

/// Each operation works on the result of the one before.
pub fn chain(size: usize) -> Program {
    Arc::new(move |x| (0..size).fold(x.clone(), |x, _| x.sin()))
}

/// As a chain, with a number of its own in each operation.
pub fn numbers(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 2;
        each.fold(x.clone(), |y, number| y * 0.5 + number as f64)
    })
}

/// All operations work on the argument, and the sum of all is the result.
pub fn fan(size: usize) -> Program {
    Arc::new(move |x| {
        let sines: Vec<Tensor> = (0..size / 3).map(|n| (x * n as f64).sin()).collect();
        sines.iter().fold(x.clone(), |sum, sine| sum + sine)
    })
}

/// Each operation works with a captured tensor of its own.
pub fn captured(size: usize) -> Program {
    let captured: Vec<Tensor> = (0..size)
        .map(|number| Tensor::from([number as f32, 1.0]))
        .collect();
    Arc::new(move |x| captured.iter().fold(x.clone(), |x, constant| x + constant))
}

/// Each result in other shapes, which no pass can simplify.
pub fn shapes(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 3;
        each.fold(x.clone(), |y, _| y.sin().broadcast_to([1, 2]).reshape([2]))
    })
}

/// A chain of the same vector in ever other shapes, of which only the last is used, and must be in memory.
pub fn unused_shapes(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 2;
        let last = each.fold(x.sin(), |now, _| now.broadcast_to([1, 2]).reshape([2]));
        last.cos() + last.matmul(&last.broadcast_to([2, 2]))
    })
}

/// A chain of the same vector in other shapes, whose end is read in each of many passes.
pub fn used_shapes(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 4;
        let last = each.fold(x.sin(), |now, _| now.broadcast_to([1, 2]).reshape([2]));
        let each = 0..size / 8;
        each.fold(x.clone(), |y, _| {
            let product = (y + &last).reshape([1, 2]).matmul(&x.reshape([2, 1]));
            product.reshape([1]) * &last
        })
    })
}

/// Reductions and products end passes.
pub fn mixed(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 5;
        each.fold(x.clone(), |y, _| {
            let mean = y.mean();
            let product = y.reshape([1, 2]).matmul(&x.reshape([2, 1])).reshape([1]);
            (y - mean) * product
        })
    })
}

/// Operations on integers, which are in no pass.
pub fn integers(size: usize) -> Program {
    Arc::new(move |x| {
        let each = 0..size / 2;
        let sum = each.fold(x.convert(DType::I32), |y, number| y * 3 + number as i32);
        x * sum.convert(DType::F32)
    })
}

/// Calls of compiled functions, every tenth of which is another one.
pub fn calls(size: usize) -> Program {
    let functions: Vec<_> = (0..size / 100)
        .map(|n| jit(move |x: Tensor| (x * n as f64).sin().cos()))
        .collect();
    Arc::new(move |x| {
        let each = functions.iter().cycle().take(size / 10);
        each.fold(x.clone(), |x, function| function(x))
    })
}

/// One operation of many operands.
pub fn operands(size: usize) -> Program {
    Arc::new(move |x| {
        let parts: Vec<Tensor> = (0..size / 2).map(|n| x * n as f64).collect();
        Tensor::concatenate(&parts, 0)
            .reshape([size / 2, 2])
            .sum_axes([0])
    })
}

/// A branch that captures many tensors.
pub fn branches(size: usize) -> Program {
    Arc::new(move |x| {
        let parts: Vec<Tensor> = (0..size / 3).map(|n| x * n as f64).collect();
        let sum = |x: Tensor| parts.iter().fold(x, |sum, part| sum + part);
        let difference = |x: Tensor| parts.iter().rev().fold(x, |sum, part| sum - part);
        cond(&x.sum().less(0.0), sum, difference, x.clone())
    })
}

/// A loop whose body is long, and captures many tensors.
pub fn body(size: usize) -> Program {
    Arc::new(move |x| {
        let parts: Vec<Tensor> = (0..size / 3).map(|n| x * n as f64).collect();
        let step = |carry: Tensor, x: Tensor| {
            let next = parts.iter().fold(carry, |sum, part| sum + part * &x);
            (next.clone(), next.sum())
        };
        scan(step, x.clone(), x.clone()).0
    })
}

/// What is computed for nothing, and again.
pub fn needless(size: usize) -> Program {
    Arc::new(move |x| {
        let (mut sum, mut again) = (x.clone(), x.clone());
        for _ in 0..size / 5 {
            let _unused = sum.cos();
            sum = (&sum * 1.0).sin() + 0.5;
            again = again.sin() + 0.5;
        }
        sum + again
    })
}

/// A name, and the program of a size.
pub type Named = (&'static str, fn(usize) -> Program);

pub const ALL: [Named; 14] = [
    ("chain", chain),
    ("numbers", numbers),
    ("fan", fan),
    ("captured", captured),
    ("shapes", shapes),
    ("unused shapes", unused_shapes),
    ("used shapes", used_shapes),
    ("mixed", mixed),
    ("integers", integers),
    ("calls", calls),
    ("operands", operands),
    ("branches", branches),
    ("body", body),
    ("needless", needless),
];
