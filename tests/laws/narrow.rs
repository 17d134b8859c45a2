//! Laws of integers of 8 and 16 bits: the ring laws modulo 2ⁿ, and the same bits compiled as not.

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::{DType, Tensor, jit, vmap};

use crate::laws::cases;

/// One operation of a chain on two tensors of integers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Maximum,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightArithmetic,
    Not,
    Negate,
    Select,
    Running,
    Reverse,
}

fn operations() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop::sample::select(vec![
        Add,
        Subtract,
        Multiply,
        Divide,
        Remainder,
        Maximum,
        Xor,
        ShiftLeft,
        ShiftRight,
        ShiftRightArithmetic,
        Not,
        Negate,
        Select,
        Running,
        Reverse,
    ])
}

impl Operation {
    fn apply(self, x: &Tensor, y: &Tensor) -> Tensor {
        match self {
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Multiply => x * y,
            Self::Divide => x / y,
            Self::Remainder => x.rem(y),
            Self::Maximum => x.maximum(y),
            Self::Xor => x.bit_xor(y),
            Self::ShiftLeft => x.shift_left(y),
            Self::ShiftRight => x.shift_right(y),
            Self::ShiftRightArithmetic => x.shift_right_arithmetic(y),
            Self::Not => !x,
            Self::Negate => -x,
            Self::Select => x.less(y).select(x, y + 1),
            // A sum is of a wider dtype.
            Self::Running => x.cumsum(-1).convert(x.dtype()),
            Self::Reverse => x.reverse([-1]),
        }
    }
}

fn run(chain: &[Operation], x: &Tensor, y: &Tensor) -> Tensor {
    chain
        .iter()
        .fold(x.clone(), |value, operation| operation.apply(&value, y))
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![DType::U8, DType::I8, DType::U16, DType::I16])
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn jit_and_vmap_keep_every_bit(
        chain in vec(operations(), 1..8),
        dtype in dtypes(),
        numbers in vec(any::<i32>(), 24),
    ) {
        let numbers = Tensor::from(numbers).reshape([2, 3, 4]).convert(dtype);
        let (x, y) = (numbers.index(pytree::ix![0]), numbers.index(pytree::ix![1]));
        let expected = run(&chain, &x, &y);
        prop_assert_eq!(expected.dtype(), dtype);
        let steps = chain.clone();
        let compiled = jit(move |(x, y): (Tensor, Tensor)| run(&steps, &x, &y));
        prop_assert_eq!(&compiled((x.clone(), y.clone())), &expected);
        let batched = vmap(|(x, y): (Tensor, Tensor)| run(&chain, &x, &y));
        prop_assert_eq!(&batched((x, y)), &expected);
    }

    #[test]
    fn arithmetic_is_that_of_the_ring(dtype in dtypes(), numbers in vec(any::<i32>(), 12)) {
        let wide = Tensor::from(numbers).reshape([3, 4]);
        let [x, y, z] = [0, 1, 2].map(|row| wide.index(pytree::ix![row]));
        let narrow = |tensor: &Tensor| tensor.convert(dtype);
        // Conversion keeps the lower bits, so it commutes with sums and products.
        let expected = narrow(&(&x * &y - &z));
        prop_assert_eq!(narrow(&x) * narrow(&y) - narrow(&z), expected);
        prop_assert_eq!(narrow(&narrow(&x).sum()), narrow(&x.sum()));
        prop_assert_eq!(narrow(&x).matmul(&narrow(&y)), narrow(&x.matmul(&y)));
    }
}
