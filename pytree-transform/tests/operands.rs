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
