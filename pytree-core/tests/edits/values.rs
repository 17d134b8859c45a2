//! The elements of leaves as numbers.

use ndarray::{arr0, array};
use pytree_core::{AnyLeaf, Leaf};

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
