//! Tensors of half-precision floats and of narrow integers: constants, rounding, derivatives, errors and displays.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::semicolon_if_nothing_returned,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use pytree_transform::convolution::{Convolution, Padding};
use pytree_transform::pooling::Pooling;
use pytree_transform::{
    DType, Reversed, Tensor, bf16, eval_shape, f16, fori_loop, grad, ix, jit, jvp, make_jaxpr,
    scan, vjp, vmap,
};

const HALVES: [DType; 2] = [DType::BF16, DType::F16];
const INTEGERS: [DType; 4] = [DType::U8, DType::I8, DType::U16, DType::I16];

fn message(panic: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(panic).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn elements_are_read_in_their_type() {
    let x = Tensor::from([bf16::from_f32(1.5), bf16::from_f32(-2.0)]);
    assert_eq!(x.dtype(), DType::BF16);
    assert_eq!(x.to_vec::<bf16>()[1].to_f32(), -2.0);
    assert_eq!(Tensor::from(f16::ONE).item::<f16>(), f16::ONE);
    assert_eq!(
        Tensor::from([[1_u8, 255]]).to_ndarray::<u8>().unwrap()[[0, 1]],
        255
    );
    assert_eq!(Tensor::from(vec![-1_i8]).to_vec::<i8>(), [-1]);
    assert_eq!(
        x.try_to_vec::<f32>().unwrap_err().to_string(),
        "cannot read bf16[2] as f32; read the tensor as `bf16`, or convert it first"
    );
}

#[test]
fn tensors_are_created_in_every_dtype() {
    for dtype in [&HALVES[..], &INTEGERS].concat() {
        assert_eq!(
            Tensor::zeros(dtype, [2]),
            Tensor::from([0.0, 0.0]).convert(dtype)
        );
        assert_eq!(Tensor::full(dtype, [], 3.0), Tensor::from(3).convert(dtype));
        assert_eq!(
            Tensor::arange(dtype, 4),
            Tensor::from([0, 1, 2, 3]).convert(dtype)
        );
        assert_eq!(
            Tensor::eye(dtype, 2).sum().convert(dtype),
            Tensor::from(2).convert(dtype)
        );
        let staged = jit(move |x: Tensor| x + Tensor::ones(dtype, [3]));
        assert_eq!(staged(Tensor::zeros(dtype, [3])), Tensor::ones(dtype, [3]));
    }
}

#[test]
fn sums_and_products_of_narrow_integers_have_32_bits() {
    for dtype in INTEGERS {
        let wide = if [DType::U8, DType::U16].contains(&dtype) {
            DType::U32
        } else {
            DType::I32
        };
        let of = |numbers: &[i32]| Tensor::from(numbers).convert(wide);
        // The results of NumPy, which fit no narrow integer.
        let hundreds = Tensor::full(dtype, [3, 1000], 100);
        let reduced = |x: Tensor| {
            vec![
                x.sum(),
                x.sum_axes([1]),
                x.sum_keep([0, 1]),
                x.sum_where(&x.equal(100)),
                x.prod_axes([0]).max(),
                x.prod_keep([0]).min(),
                x.index(pytree_transform::ix![.., 0]).prod(),
                x.cumsum(1).max(),
                x.cumprod(0).max(),
                x.cumsum(Reversed(1)).max(),
                x.trace(),
            ]
        };
        let expected = [
            of(&[300_000]).squeeze(0),
            of(&[100_000; 3]),
            of(&[300_000]).reshape([1, 1]),
            of(&[300_000]).squeeze(0),
            of(&[1_000_000]).squeeze(0),
            of(&[1_000_000]).squeeze(0),
            of(&[1_000_000]).squeeze(0),
            of(&[100_000]).squeeze(0),
            of(&[1_000_000]).squeeze(0),
            of(&[100_000]).squeeze(0),
            of(&[300]).squeeze(0),
        ];
        assert_eq!(reduced(hundreds.clone()), expected);
        assert_eq!(jit(reduced)(hundreds.clone()), expected);
        let mapped = vmap(|row: Tensor| (row.sum(), row.cumsum(0).max()))(hundreds);
        assert_eq!(mapped, (of(&[100_000; 3]), of(&[100_000; 3])));
    }
    // Other dtypes keep theirs, as in JAX without x64.
    assert_eq!(Tensor::from([i32::MAX, 1]).sum(), Tensor::from(i32::MIN));
    assert_eq!(Tensor::from([1_i64]).sum().dtype(), DType::I64);
}

#[test]
fn full_holds_bools_and_large_integers_exactly() {
    let large = (1_i64 << 53) + 1;
    let integers = move || {
        vec![
            Tensor::full(DType::I64, [2], large),
            Tensor::full(DType::I64, [], i64::MIN),
            Tensor::full(DType::I64, [0], i64::MAX),
            Tensor::full(DType::U32, [1], u32::MAX),
            Tensor::full(DType::I64, [1], u64::from(u32::MAX)),
            Tensor::full(DType::Bool, [2], true),
            Tensor::full(DType::Bool, [1], 7),
            Tensor::full(DType::F32, [1], true),
            Tensor::full(DType::I8, [1], -1.9),
            Tensor::full_like(&Tensor::from([0_i64]), large),
        ]
    };
    let expected = [
        Tensor::from([large; 2]),
        Tensor::from(i64::MIN),
        Tensor::from(Vec::<i64>::new()),
        Tensor::from([u32::MAX]),
        Tensor::from([i64::from(u32::MAX)]),
        Tensor::from([true; 2]),
        Tensor::from([true]),
        Tensor::from([1.0_f32]),
        Tensor::from([-1_i8]),
        Tensor::from([large]),
    ];
    assert_eq!(integers(), expected);
    assert_eq!(jit(move |_: Tensor| integers())(Tensor::from(0)), expected);
    for (dtype, number) in [
        (DType::I8, 128_i64),
        (DType::U8, -1),
        (DType::U32, 1 << 32),
        (DType::I32, 1 << 31),
    ] {
        let error = message(move || drop(Tensor::full(dtype, [2], number)));
        assert!(
            error.contains(&format!(
                "cannot fill {dtype}[2]: {dtype} cannot represent {number}"
            )),
            "{error}"
        );
    }
    assert!(
        message(|| drop(Tensor::full(DType::I64, [], u64::MAX))).contains("18446744073709551615")
    );
}

#[test]
fn integers_have_powers_and_remainders() {
    let x = Tensor::from([2, -3, -1, 0, 1, 7, 2, 5]);
    let y = Tensor::from([10, 3, -3, 0, -9, 1, -1, i32::MAX]);
    // 5^(2³¹ - 1) modulo 2³² is 3435973837, by Python's `pow(5, 2**31 - 1, 2**32)`.
    let power = Tensor::from([1024, -27, -1, 1, 1, 7, 0, -858_993_459]);
    assert_eq!(x.pow(&y), power);
    assert_eq!(
        jit(|(x, y): (Tensor, Tensor)| x.pow(&y))((x.clone(), y.clone())),
        power
    );
    assert_eq!(vmap(|(x, y): (Tensor, Tensor)| x.pow(&y))((x, y)), power);
    assert_eq!(
        Tensor::from([2_i64, 3]).pow(40),
        Tensor::from([1_i64 << 40, 12_157_665_459_056_928_801_u64 as i64])
    );
    assert_eq!(Tensor::from([16_u8, 3]).pow(2), Tensor::from([0_u8, 9]));

    let x = Tensor::from([7, -7, 7, i32::MIN, 5]);
    let y = Tensor::from([3, 3, -3, -1, 0]);
    // The remainder has the sign of the dividend, as in Rust and `lax.rem`.
    let rest = Tensor::from([1, -1, 1, 0, 5]);
    assert_eq!(&x % &y, rest);
    assert_eq!(jit(|(x, y): (Tensor, Tensor)| x % y)((x.clone(), y)), rest);
    assert_eq!(&x % 4, Tensor::from([3, -3, 3, 0, 1]));
    assert_eq!(9 % Tensor::from([4, 5]), Tensor::from([1, 4]));
    assert_eq!(Tensor::from([5.5]) % 2.0, Tensor::from([1.5]));
    assert!(message(move || drop(x % 0.5)).contains("cannot combine the number 0.5"));
    // d(x rem y) = dx - dy · trunc(x / y).
    let slopes = grad(|(x, y): &(Tensor, Tensor)| (x % y).sum())(&(
        Tensor::from([7.5, -7.5]),
        Tensor::from([2.0, 2.0]),
    ));
    assert_eq!(
        slopes,
        (Tensor::from([1.0, 1.0]), Tensor::from([-3.0, 3.0]))
    );
}

#[test]
fn counts_that_pass_i32_are_an_error() {
    const COUNT: usize = (1 << 31) + 1;
    let scalar = Tensor::from(0.0_f32);
    let error = message({
        let scalar = scalar.clone();
        move || {
            let count = |_: &Tensor| Tensor::zeros(DType::Bool, [COUNT]).count_nonzero();
            drop(eval_shape(count, &scalar));
        }
    });
    assert!(
        error.contains("a count of 2147483649 does not fit i32"),
        "{error}"
    );
    let error = message({
        let scalar = scalar.clone();
        move || {
            let search = |x: &Tensor| Tensor::zeros(DType::F32, [COUNT]).searchsorted(x);
            drop(eval_shape(search, &scalar));
        }
    });
    assert!(error.contains("does not fit i32"), "{error}");
    let by_rows = |_: &Tensor| Tensor::zeros(DType::Bool, [COUNT, 2]).count_nonzero_axes([1]);
    assert_eq!(eval_shape(by_rows, &scalar).leaves()[0].shape[..], [COUNT]);
}

#[test]
fn numbers_take_the_dtype_of_the_tensor() {
    let x = Tensor::from([bf16::from_f32(3.0)]);
    // 0.1 is rounded to bf16 first, and the product 0.30029296875 is rounded again.
    assert_eq!((&x * 0.1).to_vec::<bf16>()[0].to_f32(), 0.300_781_25);
    assert_eq!((Tensor::from([250_u8]) + 10).to_vec::<u8>(), [4]);
    let error = message(|| drop(Tensor::from([1_u8]) + 256));
    assert!(
        error.contains("cannot combine the number 256 with u8[1]"),
        "{error}"
    );
    assert!(message(|| drop(Tensor::from([1_u8]) * 0.5)).contains("u8[1]"));
}

#[test]
fn mixed_dtypes_are_an_error() {
    let (half, single) = (
        Tensor::ones(DType::BF16, [2]),
        Tensor::ones(DType::F32, [2]),
    );
    let error = half.try_add(&single).unwrap_err().to_string();
    assert!(error.contains("bf16[2] and f32[2]"), "{error}");
    assert!(
        error.ends_with("convert the other tensor, for instance with `.convert(DType::F32)`"),
        "{error}"
    );
    let error = half
        .try_add(Tensor::ones(DType::F16, [2]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`.convert(DType::BF16)`"), "{error}");
    let error = Tensor::ones(DType::U8, [2])
        .try_add(Tensor::ones(DType::I32, [2]))
        .unwrap_err();
    assert!(error.to_string().contains("u8[2] and i32[2]"), "{error}");
}

#[test]
fn each_equation_rounds_and_sums_accumulate() {
    for (dtype, digits) in [(DType::BF16, 8), (DType::F16, 11)] {
        // 1 + ε/2 is a tie, and rounds to the even 1. In f32 the sum would be exact.
        let half_step = f64::from(-digits).exp2();
        let one = Tensor::ones(dtype, []);
        assert_eq!(&one + half_step + half_step, one);
        // 2ⁿ + 1 is not representable, but a sum accumulates in f32.
        let count = 1_usize << (digits + 2);
        let sum = Tensor::ones(dtype, [count]).sum();
        assert_eq!(sum, Tensor::full(dtype, [], count as f64));
        let product = Tensor::ones(dtype, [count]).matmul(&Tensor::ones(dtype, [count]));
        assert_eq!(product, sum);
        assert_eq!(Tensor::ones(dtype, [count]).mean(), one);
    }
    // The sum is greater than the greatest f16, but the mean is computed in f32.
    assert_eq!(
        Tensor::full(DType::F16, [1000], 1000.0)
            .mean()
            .item::<f16>(),
        f16::from_f32(1000.0)
    );
}

#[test]
fn derivatives_have_the_dtype_of_the_tensor() {
    for dtype in HALVES {
        let x = Tensor::from([0.5, -1.25, 2.0]).convert(dtype);
        let f = |x: &Tensor| (x.tanh() * x.exp()).sum();
        let gradient = grad(f)(&x);
        assert_eq!(gradient.info(), x.info());
        assert_eq!(jit(move |x: Tensor| grad(f)(&x))(x.clone()), gradient);
        let (value, tangent) = jvp(f, &x, &Tensor::ones_like(&x));
        assert_eq!((value.dtype(), tangent.dtype()), (dtype, dtype));
        let each = vmap(|x: Tensor| grad(|x: &Tensor| x.tanh() * x.exp())(&x))(x.clone());
        assert_eq!(each, gradient);
        let wide = grad(f)(&x.convert(DType::F64)).to_vec::<f64>();
        for (found, expected) in gradient
            .convert(DType::F64)
            .to_vec::<f64>()
            .iter()
            .zip(wide)
        {
            assert!(
                (found - expected).abs() < 0.03 * expected.abs(),
                "{found} {expected}"
            );
        }
        // A conversion passes the gradient on in the dtype of its operand.
        let mixed = grad(|x: &Tensor| x.convert(DType::F32).square().sum())(&x);
        assert_eq!(mixed, &x * 2.0);
    }
}

#[test]
fn integers_have_no_gradient() {
    for dtype in INTEGERS {
        let error = message(move || {
            drop(grad(|x: &Tensor| x.convert(DType::F32).sum())(
                &Tensor::ones(dtype, [2]),
            ))
        });
        assert!(error.contains(&format!("{dtype}[2]")), "{error}");
    }
}

#[test]
fn loops_carry_narrow_tensors() {
    for dtype in [&HALVES[..], &INTEGERS].concat() {
        let rows = Tensor::arange(dtype, 6).reshape([3, 2]);
        let (total, sums) = scan(
            // A sum of narrow integers is wider.
            |total: Tensor, row: Tensor| (&total + row.sum().convert(dtype), &total * 2),
            Tensor::zeros(dtype, []),
            rows,
        );
        assert_eq!(total, Tensor::from(15).convert(dtype));
        assert_eq!(sums, Tensor::from([0, 2, 12]).convert(dtype));
        let power = fori_loop(0, 5, |_, x: Tensor| &x + &x, Tensor::ones(dtype, []));
        assert_eq!(power, Tensor::from(32).convert(dtype));
    }
}

#[test]
fn narrow_indices_choose_elements() {
    let x = Tensor::arange(DType::BF16, 300);
    let at = Tensor::from([255_u8, 0, 7]);
    assert_eq!(
        x.take(&at, 0),
        Tensor::from([255.0, 0.0, 7.0]).convert(DType::BF16)
    );
    assert_eq!(x.at_indices(&at, 0).get().to_vec::<bf16>()[2].to_f32(), 7.0);
    let changed = Tensor::zeros(DType::U8, [300])
        .at_indices(&at, 0)
        .add(Tensor::from([1_u8, 2, 3]));
    assert_eq!(changed.sum(), Tensor::from(6_u32));
}

#[test]
fn jaxprs_name_narrow_dtypes() {
    let f = |(x, y): (Tensor, Tensor)| (x.sum() * 0.1, y.sum() + 1, y.convert(DType::F16));
    let jaxpr = make_jaxpr(f)((
        Tensor::ones(DType::BF16, [2, 3]),
        Tensor::ones(DType::U8, [2]),
    ))
    .to_string();
    for part in [
        "a:bf16[2,3] b:u8[2]",
        "c:bf16[] = reduce_sum[axes=(0, 1)] a",
        "bf16[] = mul c 0.100098:bf16[]",
        "e:u32[] = reduce_sum[axes=(0,) dtype=u32] b",
        "f:u32[] = add e 1:u32[]",
        "f16[2] = convert_element_type[new_dtype=f16] b",
    ] {
        assert!(jaxpr.contains(part), "{part} in {jaxpr}");
    }
}

#[test]
fn debug_text_names_the_dtype() {
    let x = Tensor::from([0.1, 1.5]);
    assert_eq!(
        format!("{:?}", x.convert(DType::BF16)),
        "Tensor([0.100098, 1.5], dtype=bf16)"
    );
    assert_eq!(
        format!("{:?}", x.convert(DType::F16)),
        "Tensor([0.1, 1.5], dtype=f16)"
    );
    assert_eq!(format!("{:.2}", x.convert(DType::BF16)), "[0.10 1.50]");
    assert_eq!(format!("{:?}", Tensor::from(7_u8)), "Tensor(7, dtype=u8)");
}

#[test]
fn parts_have_the_bits_of_whole_operands() {
    type Function = fn(&Tensor) -> Tensor;
    let functions: [(&str, Function); 19] = [
        ("cumsum", |x| x.cumsum(0)),
        ("cumprod", |x| x.sign().cumprod(1)),
        ("cummax", |x| x.cummax(Reversed(0))),
        ("cummin", |x| x.cummin(1)),
        ("argsort", |x| x.argsort(0)),
        ("argsort of rows", |x| x.argsort(1)),
        ("argmax", |x| x.argmax(0)),
        ("argmin of rows", |x| x.argmin(1)),
        ("argmax of a row", |x| x.flatten().argmax(0)),
        ("max pooling", |x| Pooling::new([3]).max(&x.expand_dims(2))),
        ("sum pooling", |x| {
            Pooling::new([3])
                .strides([2])
                .sum(&x.reshape([1, 300, 300]))
        }),
        ("tangent of pooling", |x| {
            let x = x.expand_dims(2);
            jvp(|x: &Tensor| Pooling::new([2]).min(x), &x, &x.reverse([0])).1
        }),
        ("gradient of pooling", |x| {
            let pooled = |x: &Tensor| Pooling::new([2]).strides([2]).max(x);
            vjp(pooled, &x.expand_dims(2))
                .1
                .call(&x.index(ix![.., ..150]).expand_dims(2))
        }),
        ("convolution", |x| {
            let kernel = x.index(ix![0, ..6]).reshape([3, 1, 2]);
            Convolution::new([1], Padding::Same).apply(&x.expand_dims(2), &kernel)
        }),
        ("matmul", |x| {
            let signs = x.sign();
            signs
                .index(ix![.., ..200])
                .matmul(&signs.index(ix![..200, ..]))
        }),
        ("scatter_add", |x| {
            let sums = Tensor::zeros_like(x);
            let indices = Tensor::from([3, 1, 3, 299]);
            sums.at_indices(&indices, 0).add(x.index(ix![..4]))
        }),
        ("scatter_add of examples", |x| {
            let updates = x.index(ix![..12]).reshape([4, 3, 300]);
            // The last ones are out of range, and dropped.
            let indices = Tensor::from([[0, 0, 1], [1, 0, 1], [-1, 4, -1], [7, 9, -9]]);
            vmap(|(indices, updates): (Tensor, Tensor)| {
                let sums = Tensor::zeros(updates.dtype(), [5, 300]);
                sums.at_indices(&indices, 0).add(updates)
            })((indices, updates))
        }),
        ("gradient of take", |x| {
            let taken = |x: &Tensor| x.take(&Tensor::from([5, 5, -1, 400, 5]), 0);
            vjp(taken, x).1.call(&x.index(ix![..5]))
        }),
        ("scatter_mul", |x| {
            let of_columns = x.index(ix![.., ..4]);
            x.at_indices(&Tensor::from([3, 1, 3, 299]), 1)
                .multiply(of_columns)
        }),
    ];
    for dtype in [&HALVES[..], &INTEGERS].concat() {
        let numbers = Tensor::arange(DType::I32, 90_000).reshape([300, 300]);
        let x = (&numbers * &numbers).rem(1013).convert(dtype);
        let wide = match dtype {
            DType::BF16 | DType::F16 => DType::F32,
            DType::I8 | DType::I16 => DType::I32,
            _ => DType::U32,
        };
        // Integers have no gradient.
        let accepts = |name: &str| dtype.is_float() || !name.starts_with("gradient");
        for (name, function) in functions.into_iter().filter(|(name, _)| accepts(name)) {
            let (found, expected) = (function(&x), function(&x.convert(wide)));
            let expected = expected.convert(found.dtype());
            assert_eq!(found, expected, "{name} of {dtype}");
        }
    }
}
