//! Tests which fix the errors of elementwise operations suggest.

use pytree_kernels::loops::elementwise::{Binary, Unary};

use super::{binary, unary};
use crate::tensor::Tensor;

#[test]
fn errors_suggest_fix_for_dtype() {
    let bools = Tensor::from([true]);
    let (integers, floats) = (Tensor::from([1]), Tensor::from([1.0]));
    let of_pair = |operation, left: &Tensor, right: &Tensor| {
        let error = binary(operation, left, right).unwrap_err();
        error.to_string()
    };
    let of_one = |operation, operand: &Tensor| {
        let error = unary(operation, operand).unwrap_err();
        error.to_string()
    };
    for (error, remedy) in [
        (
            of_pair(Binary::Atan2, &integers, &integers),
            "convert the tensors, for instance with `.convert(DType::F32)`",
        ),
        (
            of_pair(Binary::Add, &bools, &bools),
            "convert the tensors, for instance with `.convert(DType::I32)`",
        ),
        (
            of_pair(Binary::Add, &floats, &integers),
            "convert the other tensor, for instance with `.convert(DType::F64)`",
        ),
        (
            of_pair(Binary::And, &floats, &floats),
            "compare with a number first, which returns bools",
        ),
        (
            of_one(Unary::Neg, &bools),
            "convert the tensor, for instance with `.convert(DType::I32)`",
        ),
        (
            of_one(Unary::IntegerPower(-1), &integers),
            "cannot take a power below 0 of i32[1]: expected a float dtype; convert the tensor, for instance with \
             `.convert(DType::F32)`",
        ),
    ] {
        assert!(error.ends_with(remedy), "{error}");
    }
    let error = floats.try_select(&floats, &floats).unwrap_err().to_string();
    assert!(error.ends_with("for instance `.not_equal(0)`"), "{error}");
}
