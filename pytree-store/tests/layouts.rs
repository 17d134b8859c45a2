//! Layouts of other libraries: transposed, joined and summed arrays, compared with those of ndarray.

use std::collections::BTreeMap;

use half::bf16;
use ndarray::{Array2, Array4, ArrayD, Axis, array, concatenate};
use pytree_core::Leaf as _;
use pytree_store::checkpoint::{self, Bytes, LoadOptions, SaveOptions, WeightLayout, WeightNames};

fn counted(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(i, j)| (10 * i + j) as f32)
}

fn file_of(
    state: &impl pytree_core::Pytree,
    names: &WeightNames,
) -> (Vec<u8>, BTreeMap<String, pytree_core::AnyLeaf>) {
    let options = SaveOptions::new().names(names.clone());
    let bytes = checkpoint::to_bytes_with(state, &options).unwrap();
    let arrays = checkpoint::arrays(Bytes(&bytes)).unwrap();
    (bytes, arrays)
}

#[test]
fn transposed_kernels_are_those_of_ndarray() {
    // Longer than a cache line in each axis.
    let kernel = Array4::from_shape_fn((3, 2, 19, 37), |(a, b, c, d)| {
        (a * 10_000 + b * 5_000 + c * 100 + d) as f64
    });
    let names = WeightNames::dotted().layout("['w']", WeightLayout::OutputsFirst);
    let state = BTreeMap::from([("w", kernel.clone())]);
    let (bytes, arrays) = file_of(&state, &names);
    let expected = kernel.clone().permuted_axes([3, 2, 0, 1]).into_dyn();
    assert_eq!(arrays["w"].downcast_ref::<ArrayD<f64>>(), Some(&expected));
    let template = BTreeMap::from([("w", Array4::zeros((3, 2, 19, 37)))]);
    let options = LoadOptions::new().names(names);
    let (loaded, report) = checkpoint::load_with(Bytes(&bytes), &template, &options).unwrap();
    assert_eq!(
        (&loaded, &*report.transposed),
        (&state, &["['w']".to_owned()][..])
    );
}

#[test]
fn parts_are_joined_along_outputs() {
    for layout in [WeightLayout::OutputsFirst, WeightLayout::OutputsLast] {
        let names = WeightNames::dotted()
            .split("qkv", ["['q']", "['k']", "['v']"])
            .layout("['q']", layout)
            .layout("['k']", layout)
            .layout("['v']", layout);
        let parts = [counted(4, 2), counted(4, 3) + 100.0, counted(4, 1) + 200.0];
        let of = |parts: &[Array2<f32>; 3]| {
            let named = ["q", "k", "v"].into_iter().zip(parts.iter().cloned());
            named.collect::<BTreeMap<_, _>>()
        };
        let (bytes, arrays) = file_of(&of(&parts), &names);
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        let whole = concatenate(Axis(1), &views).unwrap();
        let whole = match layout {
            WeightLayout::OutputsFirst => whole.reversed_axes(),
            WeightLayout::OutputsLast => whole,
        };
        let found = arrays["qkv"].downcast_ref::<ArrayD<f32>>();
        assert_eq!(found, Some(&whole.into_dyn()));
        let zeros = of(&parts.clone().map(|part| part * 0.0));
        let options = LoadOptions::new().names(names.clone());
        let (loaded, _) = checkpoint::load_with(Bytes(&bytes), &zeros, &options).unwrap();
        assert_eq!(loaded, of(&parts));

        let mut other = of(&parts);
        other.insert("k", counted(3, 3));
        let options = SaveOptions::new().names(names);
        let text = checkpoint::to_bytes_with(&other, &options)
            .unwrap_err()
            .to_string();
        assert!(text.contains("cannot be joined"), "{text}");
    }
}

#[test]
fn terms_are_added_as_their_dtype_rounds() {
    let file = BTreeMap::from([
        ("a", array![1.0, 256.0, 0.1].mapv(bf16::from_f64)),
        ("b", array![2.0, 1.0, 0.2].mapv(bf16::from_f64)),
    ]);
    let plain = SaveOptions::new().names(WeightNames::dotted());
    let bytes = checkpoint::to_bytes_with(&file, &plain).unwrap();
    let template = BTreeMap::from([("x", array![0.0, 0.0, 0.0].mapv(bf16::from_f64))]);
    let names = WeightNames::dotted().sum(["a", "b"], "['x']");
    let options = LoadOptions::new().names(names.clone());
    let (loaded, _) = checkpoint::load_with(Bytes(&bytes), &template, &options).unwrap();
    let sum = &file["a"] + &file["b"];
    assert_eq!(loaded["x"], sum);

    // A saved file has the sum in the first term, and zeros in the other.
    let (_, arrays) = file_of(&loaded, &names);
    assert_eq!(
        arrays["a"].downcast_ref::<ArrayD<bf16>>(),
        Some(&sum.into_dyn())
    );
    assert_eq!(arrays["b"].values(), Some(vec![0.0; 3]));

    let file = BTreeMap::from([("a", array![250_u8, 1]), ("b", array![10_u8, 2])]);
    let bytes = checkpoint::to_bytes_with(&file, &plain).unwrap();
    let template = BTreeMap::from([("x", array![0_u8, 0])]);
    let (loaded, _) = checkpoint::load_with(Bytes(&bytes), &template, &options).unwrap();
    assert_eq!(loaded["x"], array![4_u8, 3]);
}

#[test]
fn floats_are_converted_and_rounded_once() {
    let saved = array![1.0_f64, 1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-40), -3.5];
    let bytes = checkpoint::to_bytes(&saved).unwrap();
    let template = array![0.0, 0.0, 0.0].mapv(bf16::from_f64);
    let options = LoadOptions::new().convert_floats();
    let (loaded, report) = checkpoint::load_with(Bytes(&bytes), &template, &options).unwrap();
    // The second number is just above the middle of two neighbours.
    let expected = [1.0, 1.0 + 2.0_f64.powi(-7), -3.5].map(bf16::from_f64);
    assert_eq!(loaded.to_vec(), expected);
    assert_eq!(report.converted[0].from, "f64");
}
