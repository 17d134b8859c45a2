//! The elements of leaves as numbers.

use half::{bf16, f16};
use ndarray::{arr0, array};
use pytree_core::{AnyLeaf, ElementType, Leaf};

#[test]
fn numbers_of_every_type_are_read() {
    assert_eq!(true.values(), Some(vec![1.0]));
    assert_eq!(false.values(), Some(vec![0.0]));
    assert_eq!((-8_i8).values(), Some(vec![-8.0]));
    assert_eq!((-16_i16).values(), Some(vec![-16.0]));
    assert_eq!((-32_i32).values(), Some(vec![-32.0]));
    assert_eq!((-64_i64).values(), Some(vec![-64.0]));
    assert_eq!(8_u8.values(), Some(vec![8.0]));
    assert_eq!(16_u16.values(), Some(vec![16.0]));
    assert_eq!(32_u32.values(), Some(vec![32.0]));
    assert_eq!(u64::MAX.values(), Some(vec![18_446_744_073_709_551_616.0]));
    assert_eq!(0.5_f32.values(), Some(vec![0.5]));
    assert_eq!(0.1_f64.values(), Some(vec![0.1]));
}

#[test]
fn only_arrays_have_values_in_row_order() {
    let array = array![[1_i32, 2], [3, 4]].reversed_axes();
    assert_eq!(array.values(), Some(vec![1.0, 3.0, 2.0, 4.0]));
    assert_eq!(arr0(7_u8).values(), Some(vec![7.0]));
    assert_eq!(ndarray::Array2::<f32>::zeros((3, 0)).values(), Some(vec![]));
    assert_eq!(AnyLeaf::new(array![1.5_f32]).values(), Some(vec![1.5]));
    assert_eq!("text".values(), None);
    assert_eq!(1_usize.values(), None);
    assert_eq!(AnyLeaf::new("text").values(), None);
}

#[test]
fn halves_are_converted_as_by_half() {
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    for bits in 0..=u16::MAX {
        let [b, f] =
            [ElementType::BF16, ElementType::F16].map(|it| it.float_from_bits(bits.into()));
        assert!(same(b, bf16::from_bits(bits).to_f64()), "{bits:x}");
        assert!(same(f, f16::from_bits(bits).to_f64()), "{bits:x}");
        assert_eq!(
            ElementType::F16.bits_of_float(f),
            u64::from(f16::from_f64(f).to_bits())
        );
        assert_eq!(
            ElementType::BF16.bits_of_float(b),
            u64::from(bf16::from_f64(b).to_bits())
        );
        // The middle to the next number, and its neighbours. The crate `half` rounds some of them twice.
        for (dtype, value) in [(ElementType::BF16, b), (ElementType::F16, f)] {
            let (bits, next) = (u64::from(bits), u64::from(bits) + 1);
            let middle = (value + dtype.float_from_bits(next)) / 2.0;
            if middle.is_finite() {
                let [lower, higher] = [middle.abs().next_down(), middle.abs().next_up()];
                assert_eq!(dtype.bits_of_float(lower.copysign(middle)), bits);
                assert_eq!(dtype.bits_of_float(middle), bits + bits % 2);
                assert_eq!(dtype.bits_of_float(higher.copysign(middle)), next);
            }
        }
    }
    for number in [
        1e300,
        -1e-300,
        f64::MIN_POSITIVE,
        5e-324,
        -0.0,
        f64::NEG_INFINITY,
        f64::NAN,
        0.1,
    ] {
        let expected = u64::from(f32::to_bits(number as f32));
        assert_eq!(
            ElementType::F32.bits_of_float(number),
            expected,
            "{number:e}"
        );
        assert!(same(
            ElementType::F32.float_from_bits(expected),
            f64::from(number as f32)
        ));
        assert_eq!(ElementType::F64.bits_of_float(number), number.to_bits());
        assert!(same(
            ElementType::F64.float_from_bits(number.to_bits()),
            number
        ));
    }
}
