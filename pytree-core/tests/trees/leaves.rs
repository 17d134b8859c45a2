//! Leaves and the small values beside them: sizes, and how they are shown.

use ndarray::{Array1, Array2, array};
use pytree_core::kind::BatchStat;
use pytree_core::leaf::ReadRegion;
use pytree_core::{CollectionId, ElementType, Leaf, LeafError, Ref, Shared, Tree, graph, tree};

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

#[test]
fn elements_of_arrays_are_bytes_in_and_out() {
    let square = Array2::from_shape_fn((2, 3), |(i, j)| (10 * i + j) as i16);
    let transposed = square.clone().reversed_axes();
    let leaf: &dyn Leaf = &transposed;
    let array = leaf.as_array().unwrap();
    assert_eq!(array.info().to_string(), "i16[3,2]");
    let expected: Vec<u8> = [0_i16, 10, 1, 11, 2, 12]
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect();
    assert_eq!(*array.bytes().unwrap(), expected);
    let mut calls = 0;
    let read: &mut ReadRegion<'_> = &mut |region, bytes| {
        calls += 1;
        assert_eq!(region, [0..3, 0..2]);
        bytes.copy_from_slice(&expected);
        Ok(())
    };
    let refilled = array.refilled(read).unwrap();
    assert_eq!(
        (calls, refilled.downcast_ref::<Array2<i16>>()),
        (1, Some(&transposed))
    );

    let flag: &dyn Leaf = &false;
    let flag = flag.as_array().unwrap();
    let refilled = flag.refilled(&mut |_, bytes| {
        bytes[0] = 7;
        Ok(())
    });
    assert_eq!(refilled.unwrap().downcast_ref::<bool>(), Some(&true));
    let failed = flag.refilled(&mut |_, _| Err(LeafError::from(std::fmt::Error)));
    assert!(failed.unwrap_err().is::<std::fmt::Error>());

    let text: &dyn Leaf = &"text";
    assert!(text.as_array().is_none() && text.array_info().is_none());
}

#[test]
fn leaves_behind_references_are_lent() {
    let shared = Shared::new(1.0_f32);
    let model = (Ref::new(array![2.0_f32]), shared.clone(), shared);
    let found = graph::try_with_any_leaves(&model, |leaves, treedef| {
        assert_eq!(*treedef, graph::structure(&model));
        leaves
            .iter()
            .map(|leaf| leaf.array_info().unwrap().to_string())
            .collect::<Vec<_>>()
    });
    assert_eq!(found.unwrap(), ["f32[1]", "f32[]"]);
}
