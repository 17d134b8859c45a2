//! Leaves and the small values beside them: sizes, and how they are shown.

use ndarray::{Array1, Array2, array};
use pytree_core::kind::BatchStat;
use pytree_core::{CollectionId, ElementType, Leaf, Shared, Tree, tree};

#[test]
fn dtypes_and_arrays_have_byte_sizes() {
    use ElementType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    for (types, bytes) in [
        (&[Bool, I8, U8][..], 1),
        (&[I16, U16, BF16, F16], 2),
        (&[I32, U32, F32], 4),
        (&[I64, U64, F64], 8),
    ] {
        assert!(types.iter().all(|element| element.bytes() == bytes));
    }
    let bytes = |leaf: &dyn Leaf| leaf.array_info().unwrap().bytes();
    assert_eq!(bytes(&Array2::<f64>::zeros((2, 3))), 48);
    assert_eq!(bytes(&Array2::<i16>::zeros((5, 0))), 0);
    assert_eq!(bytes(&1.0_f32), 4);
}

#[test]
fn arrays_are_shown_without_strides() {
    let tree: Tree = Tree::of(&(array![1.5_f32, 2.0], 3_i32));
    assert_eq!(tree.to_string(), "([1.5, 2.0], 3)");
    let none: Array1<f32> = Array1::zeros(0);
    assert_eq!(Tree::of(&none).to_string(), "[]");
}

#[test]
fn values_are_shown_in_debug_texts() {
    assert_eq!(
        format!("{:?}", CollectionId::of::<BatchStat>()),
        "BatchStat"
    );
    assert_eq!(format!("{:?}", Shared::new(1.5_f32)), "Shared(1.5)");
    let treedef = tree::structure(&(1.0_f32, vec![2.0_f32]));
    assert_eq!(format!("{treedef:?}"), "PyTreeDef((*, [*]))");
}

#[test]
fn box_has_leaves_of_its_content() {
    let boxed = Box::new((1.0_f32, vec![2.0_f32]));
    assert_eq!(tree::leaves::<f32, _>(&boxed), [&1.0, &2.0]);
}

#[test]
fn members_of_tuples_are_distinguished() {
    let members = |tree: Tree| tree.treedef().is_tuple_member();
    assert_eq!(members(tree!(([1], (2,), 3))), [false, true, true]);
    assert_eq!(members(tree!([(1, 2), 3])), [false, false, false]);
    assert_eq!(members(tree!(1)), [true]);
}
