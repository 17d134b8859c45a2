//! Programs with control flow, recorded functions, custom rules, random numbers and long constants.

use pytree::control::{ScanOptions, cond, fori_loop, scan, scan_with, switch, while_loop};
use pytree::convolution::{Convolution, Padding};
use pytree::nn::softmax_cross_entropy;
use pytree::optim::{Optimizer, adam};
use pytree::pooling::Pooling;
use pytree::random::Key;
use pytree::{
    DType, Module, Tensor, custom_jvp, custom_vjp, grad, hessian, jit, jvp, remat, value_and_grad,
    vmap,
};

use crate::stablehlo::{Case, case};

fn vector(count: usize) -> Tensor {
    Tensor::arange(DType::F64, count) * 0.25 - 0.5
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    branches(&mut cases);
    loops(&mut cases);
    functions(&mut cases);
    training(&mut cases);
    randomness(&mut cases);
    constants(&mut cases);
    layouts(&mut cases);
    cases
}

fn branches(cases: &mut Vec<Case>) {
    for index in [-7, 0, 1, 2, 3, 99] {
        cases.push(case(
            format!("switch at {index}"),
            [Tensor::from(index), vector(3)],
            |x| {
                let chosen = |y: &Tensor| {
                    switch(
                        &x[0],
                        &[&|y: Tensor| y.sin(), &|y| y.square(), &|y| y.exp()],
                        y.clone(),
                    )
                };
                vec![chosen(&x[1]), grad(|y: &Tensor| chosen(y).sum())(&x[1])]
            },
        ));
    }
    let indices = Tensor::from([-7, 0, 1, 2, 3, 99]);
    cases.push(case("batched switch", [indices, vector(6)], |x| {
        let chosen = |(index, y): (Tensor, Tensor)| {
            switch(
                &index,
                &[&|y: Tensor| y.sin(), &|y| y.square(), &|y| y.exp()],
                y,
            )
        };
        vec![vmap(chosen)((x[0].clone(), x[1].clone()))]
    }));
    for flag in [true, false] {
        cases.push(case(
            format!("nested branches, {flag}"),
            [Tensor::from(flag), vector(4)],
            |x| {
                let inner = |y: Tensor| {
                    cond(
                        &y.sum().greater(0.0),
                        |y: Tensor| y.log1p(),
                        |y| y.cosh(),
                        y,
                    )
                };
                let outer = cond(
                    &x[0],
                    inner,
                    |y| fori_loop(0, 3, |_, y: Tensor| y.sin() * 2.0, y),
                    x[1].clone(),
                );
                vec![outer]
            },
        ));
    }
}

fn loops(cases: &mut Vec<Case>) {
    cases.push(case(
        "scan and its derivatives",
        [vector(3), vector(12).reshape([4, 3])],
        |x| {
            let run = |carry: &Tensor, rows: &Tensor| {
                scan(
                    |carry: Tensor, x: Tensor| {
                        let carry = (&carry * &x).sin() + carry;
                        (carry.clone(), carry * x.exp())
                    },
                    carry.clone(),
                    rows.clone(),
                )
            };
            let loss = |carry: &Tensor| run(carry, &x[1]).1.sum();
            let (last, outputs) = run(&x[0], &x[1]);
            vec![
                last,
                outputs,
                grad(loss)(&x[0]),
                hessian(loss)(&x[0]),
                jvp(loss, &x[0], &x[0]).1,
            ]
        },
    ));
    cases.push(case(
        "scan backwards",
        [vector(3), vector(12).reshape([4, 3])],
        |x| {
            let options = ScanOptions::new().reverse();
            let (last, outputs) = scan_with(
                options,
                |c: Tensor, x: Tensor| (&c * 0.5 + &x, c * x),
                x[0].clone(),
                x[1].clone(),
            );
            vec![last, outputs]
        },
    ));
    cases.push(case(
        "scan of nothing",
        [vector(3), Tensor::zeros(DType::F64, [0, 3])],
        |x| {
            let (last, outputs) = scan(
                |c: Tensor, x: Tensor| (&c * 0.5 + &x, c * x),
                x[0].clone(),
                x[1].clone(),
            );
            vec![last, outputs]
        },
    ));
    cases.push(case(
        "scan of numbers and bools",
        [Tensor::from(1), Tensor::from([true, false, true])],
        |x| {
            let (count, flags) = scan(
                |count: Tensor, flag: Tensor| {
                    (&count + flag.convert(DType::I32), (count.greater(1), flag))
                },
                x[0].clone(),
                x[1].clone(),
            );
            vec![count, flags.0, flags.1]
        },
    ));
    cases.push(case(
        "nested scans",
        [vector(2), vector(12).reshape([2, 3, 2])],
        |x| {
            let rows = |c: Tensor, rows: Tensor| {
                scan(
                    |c: Tensor, row: Tensor| ((&c * &row).tanh() + row, c),
                    c,
                    rows,
                )
            };
            vec![
                scan(rows, x[0].clone(), x[1].clone()).1,
                grad(|c: &Tensor| scan(rows, c.clone(), x[1].clone()).0.sum())(&x[0]),
            ]
        },
    ));
    cases.push(case("while", [vector(3), Tensor::from(5.0)], |x| {
        let grown = while_loop(
            |y: &Tensor| y.abs().sum().less(&x[1]),
            |y| y * 1.5 + &x[0],
            x[0].clone(),
        );
        let each =
            vmap(|y: Tensor| while_loop(|y: &Tensor| y.abs().less(&x[1]), |y| y * 1.5 + 0.1, y));
        let slope = jvp(
            |y: &Tensor| {
                while_loop(
                    |y: &Tensor| y.abs().sum().less(20.0),
                    |y| y * 1.5,
                    y.clone(),
                )
            },
            &x[0],
            &x[0],
        );
        vec![grown, each(x[0].clone()), slope.0, slope.1]
    }));
    cases.push(case(
        "while in scan in branch",
        [Tensor::from(true), vector(3)],
        |x| {
            let halved =
                |y: Tensor| while_loop(|y: &Tensor| y.abs().sum().greater(0.5), |y| y * 0.5, y);
            let run = |y: Tensor| scan(|c: Tensor, x: Tensor| (halved(&c + x), c), y.clone(), y).0;
            vec![cond(
                &x[0],
                |y: Tensor| {
                    fori_loop(
                        0,
                        2,
                        |i, y: Tensor| run_of(&run, y) + i.convert(DType::F64),
                        y,
                    )
                },
                |y| y,
                x[1].clone(),
            )]
        },
    ));
    cases.push(case(
        "loop with a bound that is traced",
        [Tensor::from(3), vector(3)],
        |x| {
            vec![fori_loop(
                0,
                &x[0],
                |i, y: Tensor| y.sin() + i.convert(DType::F64),
                x[1].clone(),
            )]
        },
    ));
}

fn run_of(run: &(impl Fn(Tensor) -> Tensor + Send + Sync), y: Tensor) -> Tensor {
    let rows = Tensor::stack(&[y.clone(), y], 0);
    vmap(|y: Tensor| run(y.reshape([3])).reshape([3]).sum())(rows).sum()
        * Tensor::ones(DType::F64, [3])
}

fn functions(cases: &mut Vec<Case>) {
    cases.push(case("nested calls", [vector(4)], |x| {
        let inner = jit(|x: Tensor| x.sin() * 2.0);
        let outer = {
            let inner = inner.clone();
            jit(move |x: Tensor| inner(x.clone()) + inner(x.exp()))
        };
        let loss = |x: &Tensor| (outer(x.clone()) * inner(x.clone())).sum();
        let mapped = vmap(|x: Tensor| outer(x));
        vec![
            outer(x[0].clone()),
            grad(loss)(&x[0]),
            hessian(loss)(&x[0]),
            mapped(x[0].clone()),
        ]
    }));
    cases.push(case("remat", [vector(4)], |x| {
        let loss = |x: &Tensor| remat(|y: &Tensor| y.sin().exp() * y)(x).sum();
        vec![
            remat(|y: &Tensor| y.sin().exp() * y)(&x[0]),
            grad(loss)(&x[0]),
            hessian(loss)(&x[0]),
        ]
    }));
    cases.push(case("custom rules", [vector(4)], |x| {
        let crooked =
            |x: &Tensor| custom_jvp(|x: &Tensor| x.sin(), |x, t| (x.sin(), x * t * 7.0))(x);
        let clipped = |x: &Tensor| {
            custom_vjp(
                |x: &Tensor| x.square(),
                |x| (x.square(), x.clone()),
                |x, cotangent| (x * cotangent).clip(-0.2, 0.2),
            )(x)
        };
        vec![
            crooked(&x[0]),
            clipped(&x[0]),
            grad(|x: &Tensor| crooked(x).square().sum())(&x[0]),
            grad(|x: &Tensor| (clipped(x) * x).sum())(&x[0]),
            vmap(grad(|x: &Tensor| clipped(x)))(x[0].clone()),
        ]
    }));
}

/// A step of training in f64: Adam divides a small gradient by its own size, which shows each rounding of an f32.
fn training(cases: &mut Vec<Case>) {
    for dtype in [DType::F64, DType::BF16, DType::F16] {
        let numbers = |shape: [usize; 2]| vector(shape[0] * shape[1]).reshape(shape).convert(dtype);
        cases.push(case(
            format!("training steps in {dtype}"),
            [
                numbers([4, 3]),
                Tensor::from([0, 1, 1, 0]),
                numbers([3, 5]),
                numbers([5, 2]),
            ],
            train,
        ));
    }
}

fn train(x: &[Tensor]) -> Vec<Tensor> {
    let mut weights = (x[2].sin(), x[3].cos());
    let mut optimizer = Optimizer::new(&Net::of(&weights), adam(1e-2));
    let mut losses = Vec::new();
    for _ in 0..2 {
        let mut net = Net::of(&weights);
        let (loss, slopes) = value_and_grad(|net: &Net| {
            let logits = x[0].matmul(&net.first).tanh().matmul(&net.second);
            softmax_cross_entropy(&logits, &x[1]).mean()
        })(&net);
        optimizer.update(&mut net, &slopes);
        weights = (net.first, net.second);
        losses.push(loss);
    }
    [losses, vec![weights.0, weights.1]].concat()
}

#[derive(Module, Clone, Debug)]
struct Net {
    #[param]
    first: Tensor,
    #[param]
    second: Tensor,
}

impl Net {
    fn of((first, second): &(Tensor, Tensor)) -> Self {
        let (first, second) = (first.clone(), second.clone());
        Self { first, second }
    }
}

fn randomness(cases: &mut Vec<Case>) {
    cases.push(case(
        "random bits",
        [Tensor::from([0_u32, 1, u32::MAX, 7])],
        |x| {
            let words: Vec<Tensor> = (0..4).map(|turn| x[0].roll(turn, 0)).collect();
            let (first, second) =
                pytree::extend::threefry2x32(&words[0], &words[1], &words[2], &words[3]);
            vec![first, second]
        },
    ));
    cases.push(case("random numbers", [Tensor::from(3.0_f32)], |x| {
        let key = Key::new(42);
        let [first, second] = [0, 1].map(|number| key.fold_in(number));
        vec![
            first.uniform(DType::F32, [3, 5]) * &x[0],
            second.normal(DType::F32, [1000]) * &x[0],
            first.normal(DType::F64, [1000]),
            second.bernoulli(0.3, [20]),
            first.permutation(30),
        ]
    }));
}

fn constants(cases: &mut Vec<Case>) {
    cases.push(case("constants of all lengths", [Tensor::from(2.0)], |x| {
        let long = Tensor::from((0..2000).map(|n| f64::from(n) / 7.0).collect::<Vec<_>>());
        let medium = Tensor::from((0..100).map(|n| n * 7_777_777).collect::<Vec<i32>>());
        let flags = Tensor::from((0..40).map(|n| n % 3 == 0).collect::<Vec<_>>()).reshape([4, 10]);
        let short = Tensor::from([[f32::NAN, -0.0, 1e-40], [0.1, f32::INFINITY, 3e38]]);
        let inner = {
            let long = long.clone();
            jit(move |y: Tensor| (&long * y).sum())
        };
        let looped = scan_with(
            ScanOptions::new().length(3),
            |c: Tensor, ()| (c + inner(Tensor::from(0.5)), ()),
            x[0].clone(),
            (),
        )
        .0;
        vec![
            long * &x[0],
            medium,
            flags,
            short,
            inner(x[0].clone()),
            looped,
            Tensor::full(DType::I64, [3000], 7.0),
        ]
    }));
}

fn layouts(cases: &mut Vec<Case>) {
    cases.push(case(
        "windows",
        [
            vector(60).reshape([1, 10, 6, 1]),
            vector(12).reshape([2, 3, 1, 2]),
        ],
        |x| {
            let convolved = |x: &[Tensor]| {
                Convolution::new([2, 1], Padding::Same)
                    .kernel_dilation([3, 1])
                    .apply(&x[0], &x[1])
            };
            let slope = grad(|(x, kernel): &(Tensor, Tensor)| {
                convolved(&[x.clone(), kernel.clone()]).sin().sum()
            })(&(x[0].clone(), x[1].clone()));
            let pooled = Pooling::new([2, 3]).strides([2, 1]);
            let pooled_slope =
                grad(|x: &Tensor| pooled.max(x).sin().sum() + pooled.average(x).square().sum());
            vec![
                convolved(x),
                slope.0,
                slope.1,
                pooled.max(&x[0]),
                pooled_slope(&x[0]),
            ]
        },
    ));
    cases.push(case(
        "paddings",
        [vector(4), vector(20).reshape([4, 5])],
        |x| {
            vec![
                x[0].pad(7.0, [(1, 2, 1)]),
                x[0].pad(7.0, [(-1, 0, 1)]),
                x[0].pad(7.0, [(-3, 2, 0)]),
                x[0].pad(7.0, [(2, -4, 0)]),
                x[1].pad(0.5, [(-1, 2, 1), (1, -1, 2)]),
                grad(|x: &Tensor| x.pad(0.5, [(-1, 2, 1), (1, -1, 2)]).square().sum())(&x[1]),
            ]
        },
    ));
    for dtype in [DType::BF16, DType::F16, DType::I8, DType::U16] {
        let operands = [vector(24).reshape([2, 3, 4]), vector(40).reshape([4, 5, 2])];
        let operands = operands.map(|x| (x * 8.0).convert(dtype));
        cases.push(case(format!("products of {dtype}"), operands, |x| {
            vec![
                x[0].dot_general(&x[1], (&[2], &[0]), (&[0], &[2])),
                x[0].tensordot(&x[1], (&[2], &[0])),
            ]
        }));
    }
    cases.push(case(
        "products",
        [vector(24).reshape([2, 3, 4]), vector(40).reshape([4, 5, 2])],
        |x| {
            let product = x[0].dot_general(&x[1], (&[2], &[0]), (&[0], &[2]));
            let whole =
                (x[0].convert(DType::I32) * 10).tensordot(&x[1].convert(DType::I32), (&[2], &[0]));
            vec![
                product,
                whole,
                x[0].convert(DType::F32).dot_general(
                    &x[1].convert(DType::F32),
                    (&[2], &[0]),
                    (&[], &[]),
                ),
            ]
        },
    ));
}
