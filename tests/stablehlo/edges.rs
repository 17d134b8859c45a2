//! Operations on special values: NaN, infinities, -0, the ends of integer types, and empty tensors.

use pytree::nn::softmax;
use pytree::{DType, Reversed, Tensor, grad, ix, vmap};

use crate::stablehlo::{Case, case};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

const INTEGERS: [DType; 7] = [
    DType::I32,
    DType::I64,
    DType::U32,
    DType::I8,
    DType::I16,
    DType::U8,
    DType::U16,
];

/// Numbers at which functions of one float are special.
fn special(dtype: DType) -> Tensor {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let numbers = [
        nan,
        infinity,
        -infinity,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        1.5,
        -1.5,
        2.5,
        -2.5,
        1e-4,
        -1e-4,
        0.3,
        -0.46875,
        0.47,
        3.0,
        -3.9,
        4.1,
        6.5,
        -8.0,
        12.0,
        25.0,
        -30.0,
        88.0,
        -88.0,
        89.5,
        0.999,
        -0.999,
        0.999_999,
        1.000_001,
        1e10,
        -1e12,
        3e9,
        -3e9,
        5e18,
        1e19,
        -1e19,
        1e20,
        2_147_483_647.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        4_294_967_295.0,
        4_294_967_296.0,
    ];
    Tensor::from(numbers.to_vec()).convert(dtype)
}

fn integers(dtype: DType) -> Tensor {
    match dtype {
        DType::I32 => Tensor::from(vec![0, 1, -1, 2, -2, 7, -7, 31, 32, 33, i32::MIN, i32::MAX]),
        DType::I64 => Tensor::from(vec![
            0_i64,
            1,
            -1,
            2,
            -2,
            7,
            -7,
            63,
            64,
            65,
            i64::MIN,
            i64::MAX,
        ]),
        DType::I8 => Tensor::from(vec![0_i8, 1, -1, 2, -2, 7, -7, 8, 16, 9, i8::MIN, i8::MAX]),
        DType::I16 => Tensor::from(vec![
            0_i16,
            1,
            -1,
            2,
            -2,
            7,
            -7,
            15,
            16,
            17,
            i16::MIN,
            i16::MAX,
        ]),
        DType::U8 => Tensor::from(vec![0_u8, 1, 2, 3, 5, 7, 8, 9, 32, 33, 1 << 7, u8::MAX]),
        DType::U16 => Tensor::from(vec![0_u16, 1, 2, 3, 5, 7, 8, 16, 32, 33, 1 << 15, u16::MAX]),
        _ => Tensor::from(vec![0_u32, 1, 2, 3, 5, 7, 8, 31, 32, 33, 1 << 31, u32::MAX]),
    }
}

/// All pairs of the elements of a vector, as two vectors.
fn pairs(x: &Tensor) -> [Tensor; 2] {
    let count = x.len();
    let (rows, columns) = (x.expand_dims(1), x.expand_dims(0));
    [rows, columns].map(|x| x.broadcast_to([count, count]).reshape([count * count]))
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    of_floats(&mut cases);
    of_integers(&mut cases);
    conversions(&mut cases);
    reductions(&mut cases);
    indices(&mut cases);
    empty(&mut cases);
    cases
}

fn of_floats(cases: &mut Vec<Case>) {
    let unary: [(&str, fn(&[Tensor]) -> Vec<Tensor>); 34] = [
        ("neg", |x| vec![-&x[0]]),
        ("abs", |x| vec![x[0].abs()]),
        ("sign", |x| vec![x[0].sign()]),
        ("rounding", |x| {
            vec![
                x[0].floor(),
                x[0].ceil(),
                x[0].round(),
                x[0].round_half_away(),
                x[0].trunc(),
            ]
        }),
        ("exp", |x| vec![x[0].exp()]),
        ("exp2", |x| vec![x[0].exp2()]),
        ("expm1", |x| vec![x[0].expm1()]),
        ("log", |x| vec![x[0].log()]),
        ("log1p", |x| vec![x[0].log1p()]),
        ("sqrt", |x| vec![x[0].sqrt()]),
        ("rsqrt", |x| vec![x[0].rsqrt()]),
        ("cbrt", |x| vec![x[0].cbrt()]),
        ("sin", |x| vec![x[0].clip(-1e3, 1e3).sin()]),
        ("cos", |x| vec![x[0].clip(-1e3, 1e3).cos()]),
        ("tan", |x| vec![x[0].clip(-1e3, 1e3).tan()]),
        ("asin", |x| vec![x[0].asin()]),
        ("acos", |x| vec![x[0].acos()]),
        ("atan", |x| vec![x[0].atan()]),
        ("sinh", |x| vec![x[0].sinh()]),
        ("cosh", |x| vec![x[0].cosh()]),
        ("tanh", |x| vec![x[0].tanh()]),
        ("asinh", |x| vec![x[0].asinh()]),
        ("acosh", |x| vec![x[0].acosh()]),
        ("atanh", |x| vec![x[0].atanh()]),
        ("logistic", |x| vec![x[0].sigmoid()]),
        ("erf", |x| vec![x[0].erf()]),
        ("erfc", |x| vec![x[0].erfc()]),
        ("erf_inv", |x| vec![x[0].erf_inv()]),
        ("small powers", |x| (-4..5).map(|n| x[0].powi(n)).collect()),
        ("large powers", |x| {
            [-100, 31, 100]
                .map(|n| x[0].clip(-1.5, 1.5).powi(n))
                .to_vec()
        }),
        ("tests", |x| {
            vec![
                x[0].isnan(),
                x[0].isinf(),
                x[0].isfinite(),
                x[0].nan_to_num(),
            ]
        }),
        ("derivatives", |x| {
            vec![grad(|x: &Tensor| (x.tanh() * x.erf()).sum())(&x[0])]
        }),
        ("softmax", |x| vec![softmax(&x[0].clip(-50.0, 50.0), 0)]),
        ("stop_gradient", |x| vec![x[0].stop_gradient() * 2.0]),
    ];
    let binary: [(&str, fn(&[Tensor]) -> Vec<Tensor>); 6] = [
        ("arithmetic", |x| {
            vec![&x[0] + &x[1], &x[0] - &x[1], &x[0] * &x[1], &x[0] / &x[1]]
        }),
        ("pow", |x| {
            vec![x[0].clip(-50.0, 50.0).pow(x[1].clip(-4.0, 4.0))]
        }),
        ("atan2", |x| vec![x[0].atan2(&x[1])]),
        ("extrema", |x| {
            vec![x[0].maximum(&x[1]), x[0].minimum(&x[1])]
        }),
        ("logaddexp", |x| vec![x[0].logaddexp(&x[1])]),
        ("comparisons", |x| {
            vec![
                x[0].equal(&x[1]),
                x[0].not_equal(&x[1]),
                x[0].less(&x[1]),
                x[0].less_equal(&x[1]),
                x[0].greater(&x[1]),
                x[0].greater_equal(&x[1]),
            ]
        }),
    ];
    for dtype in FLOATS {
        let x = special(dtype);
        for (name, program) in unary {
            cases.push(case(format!("{name} of {dtype}"), [x.clone()], program));
        }
        for (name, program) in binary {
            cases.push(case(format!("{name} of {dtype}"), pairs(&x), program));
        }
        let small = x.clip(-100.0, 100.0);
        let remainders = |x: &[Tensor]| vec![x[0].rem(&x[1]), x[0].remainder(&x[1])];
        cases.push(case(
            format!("remainders of {dtype}"),
            pairs(&small),
            remainders,
        ));
    }
}

fn of_integers(cases: &mut Vec<Case>) {
    let programs: [(&str, fn(&[Tensor]) -> Vec<Tensor>); 6] = [
        ("quotients", |x| {
            vec![
                &x[0] / &x[1],
                x[0].rem(&x[1]),
                x[0].floor_divide(&x[1]),
                x[0].remainder(&x[1]),
            ]
        }),
        ("sums and products", |x| {
            vec![&x[0] + &x[1], &x[0] - &x[1], &x[0] * &x[1]]
        }),
        ("shifts", |x| {
            vec![
                x[0].shift_left(&x[1]),
                x[0].shift_right(&x[1]),
                x[0].shift_right_arithmetic(&x[1]),
            ]
        }),
        ("bits", |x| {
            vec![
                &x[0] & &x[1],
                &x[0] | &x[1],
                x[0].bit_xor(&x[1]),
                !&x[0],
                x[0].population_count(),
            ]
        }),
        ("signs", |x| {
            vec![-&x[0], x[0].abs(), x[0].sign(), x[0].powi(3), x[0].powi(0)]
        }),
        ("order", |x| {
            vec![
                x[0].maximum(&x[1]),
                x[0].minimum(&x[1]),
                x[0].less(&x[1]),
                x[0].greater_equal(&x[1]),
            ]
        }),
    ];
    for dtype in INTEGERS {
        for (name, program) in programs {
            cases.push(case(
                format!("{name} of {dtype}"),
                pairs(&integers(dtype)),
                program,
            ));
        }
    }
    let truth = [
        Tensor::from([true, true, false, false]),
        Tensor::from([true, false, true, false]),
    ];
    cases.push(case("bools", truth, |x| {
        let xor = x[0].bit_xor(&x[1]);
        let chosen = x[0].select(&x[1], &xor);
        vec![
            &x[0] & &x[1],
            &x[0] | &x[1],
            xor,
            !&x[0],
            chosen,
            x[0].less(&x[1]),
        ]
    }));
}

fn conversions(cases: &mut Vec<Case>) {
    let to_all = |x: &[Tensor]| {
        let dtypes = FLOATS.into_iter().chain(INTEGERS).chain([DType::Bool]);
        dtypes.map(|dtype| x[0].convert(dtype)).collect()
    };
    let floats = FLOATS.map(special).into_iter();
    let sources = floats.chain(INTEGERS.map(integers));
    for x in sources.chain([Tensor::from([true, false])]) {
        cases.push(case(format!("conversions of {}", x.dtype()), [x], to_all));
    }
}

fn reductions(cases: &mut Vec<Case>) {
    let nan = f64::NAN;
    let rows = Tensor::from([
        [1.0, 3.0, 3.0, -0.0],
        [nan, 2.0, nan, 0.0],
        [f64::NEG_INFINITY; 4],
        [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0],
        [-0.0, 0.0, -1.0, 2.0],
    ]);
    let programs: [(&str, fn(&[Tensor]) -> Vec<Tensor>); 6] = [
        ("sums", |x| {
            vec![
                x[0].sum(),
                x[0].sum_axes([0]),
                x[0].sum_axes([1]),
                x[0].mean_axes([1]),
            ]
        }),
        ("products", |x| {
            vec![x[0].prod_axes([1]), x[0].prod_axes([0])]
        }),
        ("extrema of rows", |x| {
            vec![
                x[0].max_axes([0]),
                x[0].min_axes([1]),
                x[0].max(),
                x[0].min(),
            ]
        }),
        ("positions of extrema", |x| {
            vec![
                x[0].argmax(0),
                x[0].argmax(1),
                x[0].argmin(0),
                x[0].argmin(1),
            ]
        }),
        ("order of rows", |x| {
            vec![
                x[0].argsort(0),
                x[0].argsort(1),
                x[0].sort(1),
                x[0].top_k(3).1,
            ]
        }),
        ("running reductions", |x| {
            let mut results = Vec::new();
            for axis in [0, 1] {
                results.extend([
                    x[0].cumsum(axis),
                    x[0].cumprod(axis),
                    x[0].cummax(axis),
                    x[0].cummin(axis),
                ]);
            }
            results.extend([x[0].cumsum(Reversed(1)), x[0].cummax(Reversed(0))]);
            results
        }),
    ];
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let x = if dtype.is_float() {
            rows.convert(dtype)
        } else {
            integers(dtype).reshape([4, 3])
        };
        for (name, program) in programs {
            if name != "sums" || dtype.is_float() {
                cases.push(case(format!("{name} of {dtype}"), [x.clone()], program));
            }
        }
    }
    for dtype in FLOATS {
        let logs = |x: &[Tensor]| {
            vec![
                x[0].cumlogsumexp(0),
                x[0].cumlogsumexp(1),
                x[0].cumlogsumexp(Reversed(1)),
            ]
        };
        cases.push(case(
            format!("cumlogsumexp of {dtype}"),
            [rows.convert(dtype)],
            logs,
        ));
    }
    let flags = Tensor::from([
        [true, false, true],
        [true, true, true],
        [false, false, false],
    ]);
    cases.push(case("reductions of bools", [flags], |x| {
        let x = &x[0];
        vec![
            x.all_axes([1]),
            x.any_axes([1]),
            x.max_axes([0]),
            x.min_axes([0]),
            x.argmax(1),
            x.argmin(0),
            x.argsort(1),
            x.count_nonzero_axes([0]),
        ]
    }));
    let long = Tensor::arange(DType::F32, 1000);
    cases.push(case("long running sum", [long], |x| {
        vec![(&x[0] * 1e-3).cumsum(0), (&x[0] * 1e-3).cumlogsumexp(0)]
    }));
}

fn indices(cases: &mut Vec<Case>) {
    let x = || Tensor::arange(DType::F64, 24).reshape([2, 4, 3]) * 0.5 - 3.0;
    for (name, at) in [
        (
            "i32",
            Tensor::from(vec![0, 3, -1, -4, -5, 4, 100, i32::MIN, i32::MAX]),
        ),
        (
            "i64",
            Tensor::from(vec![0_i64, 3, -1, -4, -5, 4, 100, i64::MIN, i64::MAX]),
        ),
        (
            "u32",
            Tensor::from(vec![0_u32, 3, 4, 100, u32::MAX, 1 << 31, 1, 2, 2]),
        ),
    ] {
        cases.push(case(format!("take at {name}"), [x(), at.clone()], |x| {
            vec![
                x[0].take(&x[1], 1),
                x[0].take(&x[1], 0),
                x[0].take(&x[1].reshape([3, 3]), 2),
            ]
        }));
        cases.push(case(
            format!("gradient of take at {name}"),
            [x(), at.clone()],
            |x| {
                let weigh = |y: &Tensor| (y.take(&x[1], 1).sin() * y.take(&x[1], 1)).sum();
                vec![grad(weigh)(&x[0])]
            },
        ));
        cases.push(case(
            format!("batched take at {name}"),
            [x(), at.reshape([3, 3]).index(ix![..2])],
            |x| {
                let taken =
                    vmap(|(x, at): (Tensor, Tensor)| x.take(&at, 1))((x[0].clone(), x[1].clone()));
                let slopes = vmap(|(x, at): (Tensor, Tensor)| {
                    grad(|x: &Tensor| x.take(&at, 0).square().sum())(&x)
                });
                vec![taken, slopes((x[0].clone(), x[1].clone()))]
            },
        ));
        cases.push(case(format!("updates at {name}"), [x(), at], |x| {
            let values = x[0]
                .index(ix![.., ..1, ..])
                .broadcast_to([2, 9, 3])
                .cumsum(1);
            let at = || x[0].at_indices(&x[1], 1);
            vec![
                at().set(&values),
                at().add(&values),
                at().multiply(&values),
                at().min(&values),
                at().max(&values),
            ]
        }));
    }
    let nan = Tensor::from([1.0_f32, f32::NAN, -0.0, 0.0]);
    cases.push(case(
        "updates by NaN",
        [nan, Tensor::from([0, 1, 2, 3, 0])],
        |x| {
            let values = Tensor::from([f32::NAN, 1.0, 0.0, -0.0, 5.0]);
            let at = || x[0].at_indices(&x[1], 0);
            vec![
                at().add(&values),
                at().multiply(&values),
                at().min(&values),
                at().max(&values),
            ]
        },
    ));
    let integers = Tensor::from([i32::MAX, 2, i32::MIN, 4]);
    cases.push(case(
        "updates of integers",
        [integers, Tensor::from([0, 1, 1, 3, -9])],
        |x| {
            let values = Tensor::from([1, 5, -7, 9, 3]);
            let at = || x[0].at_indices(&x[1], 0);
            vec![
                at().set(&values),
                at().add(&values),
                at().multiply(&values),
                at().min(&values),
                at().max(&values),
            ]
        },
    ));
    cases.push(case(
        "batched updates",
        [x(), Tensor::from([[0, 9], [2, -1]])],
        |x| {
            let update = |(x, at): (Tensor, Tensor)| {
                let values = x.index(ix![..2]);
                x.at_indices(&at, 0)
                    .multiply(&values)
                    .at_indices(&at, 0)
                    .max(&values)
            };
            vec![vmap(update)((x[0].clone(), x[1].clone()))]
        },
    ));
    cases.push(case(
        "dynamic slices",
        [x(), Tensor::from(7), Tensor::from(-2)],
        |x| {
            let start = [x[2].clone(), x[1].clone(), x[2].clone()];
            let part = x[0].dynamic_slice(&start, [1, 2, 2]);
            vec![x[0].dynamic_update_slice(&part, &start), part]
        },
    ));
}

fn empty(cases: &mut Vec<Case>) {
    let none = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
    cases.push(case("functions of nothing", [none(&[0, 3])], |x| {
        let x = &x[0];
        vec![
            x.sin(),
            x.erf(),
            -x,
            x.t(),
            x.reshape([3, 0]),
            x.cumsum(0),
            x.sort(0),
            x.cumlogsumexp(1),
            x.convert(DType::I32),
        ]
    }));
    cases.push(case("reductions of nothing", [none(&[0, 3])], |x| {
        let x = &x[0];
        vec![
            x.sum(),
            x.sum_axes([0]),
            x.sum_axes([1]),
            x.prod(),
            x.max_axes([1]),
            x.equal(x).all(),
            x.less(x).any(),
        ]
    }));
    cases.push(case(
        "products of nothing",
        [none(&[0, 3]), none(&[3, 0]), none(&[0, 2])],
        |x| vec![x[0].matmul(&x[1]), x[1].matmul(&x[0]), x[1].matmul(&x[2])],
    ));
    cases.push(case(
        "parts of nothing",
        [none(&[0, 3]), Tensor::zeros(DType::I32, [0])],
        |x| {
            let full = Tensor::ones(DType::F32, [2, 3]);
            vec![
                x[0].take(&x[1], 0),
                full.take(&x[1], 0),
                full.at_indices(&x[1], 0).add(&x[0]),
                full.at_indices(&x[1], 0).max(&x[0]),
                x[0].pad(1.5, [(1, 1, 0), (0, 0, 0)]),
                Tensor::concatenate(&[x[0].clone(), full.clone()], 0),
                grad(|y: &Tensor| y.take(&x[1], 0).sum())(&full),
            ]
        },
    ));
    cases.push(case(
        "numbers without axes",
        [Tensor::from(1.5_f64), Tensor::from(-2)],
        |x| {
            vec![
                x[0].exp(),
                x[0].sum(),
                x[0].broadcast_to([2, 2]),
                &x[1] / 3,
                x[0].reshape([1, 1]),
            ]
        },
    ));
}
