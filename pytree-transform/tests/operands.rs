//! Numbers as operands, compared with weakly typed Python scalars in JAX.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use pytree_transform::{DType, Tensor, grad, ix, jit, linearize, vmap};

#[test]
fn integer_literals_take_the_dtype_of_a_float_tensor() {
    let x = Tensor::from([1.0_f32, -2.0]);
    let expected = |values: [f32; 2]| Tensor::from(values);
    assert_eq!(&x * 2, expected([2.0, -4.0]));
    assert_eq!(2 * &x, expected([2.0, -4.0]));
    assert_eq!(&x + 1, expected([2.0, -1.0]));
    assert_eq!(1 - &x, expected([0.0, 3.0]));
    assert_eq!(&x / 2, expected([0.5, -1.0]));
    assert_eq!(1 / &x, expected([1.0, -0.5]));
    assert_eq!(x.maximum(0), expected([1.0, 0.0]));
    assert_eq!(x.clip(0, 1), expected([1.0, 0.0]));
    assert_eq!(x.pow(2), expected([1.0, 4.0]));
    assert_eq!(x.at(ix![0]).set(3), expected([3.0, -2.0]));
    assert_eq!(x.less(0), Tensor::from([false, true]));
    assert_eq!(&x / x.len(), expected([0.5, -1.0]));
    let compiled = jit(|x: Tensor| (2 * &x + 1) / 2);
    assert_eq!(compiled(x).to_vec::<f32>(), [1.5, -1.5]);
    let half = Tensor::from([0.5_f64]);
    assert_eq!((&half * 2_u32 + 1_i64).dtype(), DType::F64);
}

#[test]
fn integer_tensor_is_not_divided_by_a_float() {
    let count = Tensor::from([3, 4]);
    assert_eq!(&count / 2, Tensor::from([1, 2]));
    assert_eq!(&count * 2_usize, Tensor::from([6, 8]));
    // JAX returns floats: a rounded quotient would be another number.
    let error = count.try_divide(2.0).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot combine the number 2.0 with i32[2]: i32 cannot represent this number; write `2`, or convert the tensor first, for \
         instance with `.convert(DType::F32)`"
    );
    let error = count.try_multiply(0.5).unwrap_err().to_string();
    assert!(
        error.contains("cannot represent this number; convert the tensor"),
        "{error}"
    );
    assert_eq!(count.maximum(0.0), count);
    assert!(count.try_add(usize::MAX).is_err());
    for divide in [
        |x: Tensor| x / 2.0,
        |x: Tensor| &x / 2.0_f32,
        |x: Tensor| 2.0 / x,
        |x: Tensor| 2.0 / &x,
    ] {
        let refused = std::panic::catch_unwind(|| divide(count.clone())).unwrap_err();
        let message = refused.downcast::<String>().unwrap();
        assert!(message.contains("write `2`"), "{message}");
    }
    let mut halved = Tensor::from([3.0_f32]);
    halved /= 2.0;
    assert_eq!(halved, Tensor::from([1.5_f32]));
    assert!(Tensor::from([true]).try_equal(1.0).is_err());
}

#[test]
fn linearized_functions_repeat_numbers() {
    let x = Tensor::from([1.0_f32, 2.0, 4.0]);
    let function = |x: &Tensor| (x * 3.0).maximum(4.0) / 2.0 + 1.0 / x;
    let (_, derivative) = linearize(function, &x);
    let expected = Tensor::from([-1.0_f32, 1.25, 1.4375]);
    assert_eq!(derivative.call(&Tensor::ones_like(&x)), expected);
    assert_eq!(grad(|x: &Tensor| function(x).sum())(&x), expected);
    let of_rows = vmap(|x: Tensor| grad(|x: &Tensor| function(x).sum())(&x));
    let rows = Tensor::stack(&[x.clone(), x], 0);
    assert_eq!(of_rows(rows).index(ix![1]), expected);
}

#[test]
fn numbers_are_selected_as_weak_scalars() {
    let condition = Tensor::from([true, false]);
    let selected = |on: Tensor| (on.dtype(), on.convert(DType::F64).to_vec::<f64>());
    // Two numbers have the dtype of their Rust type, as in `Tensor::from`, and otherwise that of the tensor.
    let ten = vec![10.0, -10.0];
    assert_eq!(
        selected(condition.select(10.0, -10.0)),
        (DType::F64, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10.0_f32, -10.0_f32)),
        (DType::F32, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10, -10)),
        (DType::I32, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10, -10.0_f32)),
        (DType::F32, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10.0_f32, -10)),
        (DType::F32, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10_usize, -10)),
        (DType::I64, ten.clone())
    );
    let x = Tensor::from([10.0_f32, 3.0]);
    assert_eq!(
        selected(condition.select(&x, -10)),
        (DType::F32, ten.clone())
    );
    assert_eq!(
        selected(condition.select(10.0, -x)),
        (DType::F32, vec![10.0, -3.0])
    );
    let whole = Tensor::from([1, 2]);
    assert_eq!(
        selected(condition.select(&whole, 7.0)),
        (DType::I32, vec![1.0, 7.0])
    );
    let error = condition.try_select(&whole, 0.5).unwrap_err().to_string();
    assert!(
        error.contains("cannot combine the number 0.5 with i32[2]"),
        "{error}"
    );
    // A condition without axes, and under transformations.
    assert_eq!(Tensor::from(true).select(1.0, 2.0).item::<f64>(), 1.0);
    let f = |x: &Tensor| x.greater(0.0).select(2.0 * x, 0.0).sum();
    let x = Tensor::from([1.0_f32, -1.0]);
    assert_eq!(jit(grad(f))(x.clone()).to_vec::<f32>(), [2.0, 0.0]);
    let rows = vmap(|x: Tensor| x.greater(0.0).select(10.0, -10.0))(x);
    assert_eq!(rows.to_vec::<f64>(), [10.0, -10.0]);
}

#[test]
fn axes_of_products_are_arrays_vectors_and_slices() {
    let x = Tensor::ones(DType::F32, [2, 3]);
    let expected = x.matmul(&x.t());
    assert_eq!(x.tensordot(&x, ([1], [1])), expected);
    assert_eq!(x.tensordot(&x, (&[1], vec![-1])), expected);
    assert_eq!(x.dot_general(&x, ([1], [1]), ([], [])), expected);
}

#[test]
fn right_shifts_are_those_of_numpy() {
    // `jnp.right_shift` fills with zeros for unsigned integers, and with the sign for signed ones.
    let unsigned = Tensor::from([0x8000_0000_u32, 5]);
    assert_eq!(unsigned.shift_right(1), Tensor::from([0x4000_0000_u32, 2]));
    assert_eq!(
        unsigned.shift_right_arithmetic(1),
        Tensor::from([0xC000_0000_u32, 2])
    );
    let signed = Tensor::from([-8, 5]);
    assert_eq!(signed.shift_right_arithmetic(1), Tensor::from([-4, 2]));
}
