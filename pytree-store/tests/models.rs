//! Models whose leaves are ndarrays and numbers.

use std::collections::BTreeMap;

use half::{bf16, f16};
use ndarray::{Array, Array1, Array2, Array3, ArrayD, Ix0, array};
use pytree_core::{Leaf, Module, Ref, Shared};
use pytree_store::checkpoint::{
    self, Bytes, CheckpointError, CheckpointFolder, Goal, LoadOptions, SaveOptions, WeightNames,
};

use crate::Scratch;

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param("in out")]
    weight: Array2<f32>,
    #[param("out")]
    bias: Array1<f32>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    layers: Vec<Linear>,
    #[state]
    steps: i64,
    #[r#static]
    name: String,
}

fn linear(weight: f32) -> Linear {
    Linear {
        weight: Array2::from_shape_fn((2, 3), |(i, j)| weight + (3 * i + j) as f32),
        bias: Array1::from(vec![0.5, -weight, f32::MIN_POSITIVE]),
    }
}

fn net(weight: f32) -> Net {
    Net {
        layers: vec![linear(weight), linear(-weight)],
        steps: weight as i64,
        name: "net".to_owned(),
    }
}

#[test]
fn model_of_arrays_survives_round_trip() {
    let scratch = Scratch::new("round");
    checkpoint::save(&scratch.0, &net(7.0)).unwrap();
    assert_eq!(checkpoint::load(&scratch.0, &net(0.0)).unwrap(), net(7.0));
    let entries = checkpoint::inspect(&scratch.0).unwrap();
    assert_eq!(entries[1].name, "layers[0].weight");
    assert_eq!(entries[1].kind.as_deref(), Some("Param"));
    assert_eq!(entries[1].axes.as_deref().unwrap(), ["in", "out"]);
    assert_eq!((&*entries[4].dtype, &*entries[4].shape), ("i64", &[][..]));
}

#[test]
fn every_dtype_survives_round_trip() {
    macro_rules! check {
        ($($element:ty: $value:expr),*) => {$(
            let zero: $element = Default::default();
            let value: $element = $value;
            let state = (value, Array::from_elem(Ix0(), value), array![[zero, value]], array![value].into_dyn());
            let template = (zero, Array::from_elem(Ix0(), zero), array![[zero, zero]], array![zero].into_dyn());
            let bytes = checkpoint::to_bytes(&state).unwrap();
            assert_eq!(checkpoint::load(Bytes(&bytes), &template).unwrap(), state);
            let arrays = checkpoint::arrays(Bytes(&bytes)).unwrap();
            assert_eq!(arrays["[2]"].downcast_ref::<ArrayD<$element>>(), Some(&state.2.into_dyn()));
        )*};
    }
    check!(bool: true, i8: -2, i16: -3, i32: -4, i64: i64::MIN, u8: 5, u16: 6, u32: 7, u64: u64::MAX);
    check!(bf16: bf16::from_f32(1.5), f16: f16::from_f32(2.5), f32: 3.5, f64: f64::MIN_POSITIVE);
}

#[test]
fn arrays_in_any_memory_order_are_saved() {
    let array = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as u16);
    let permuted = array.clone().permuted_axes([2, 0, 1]);
    assert!(permuted.as_slice().is_none());
    let bytes = checkpoint::to_bytes(&permuted).unwrap();
    let loaded = checkpoint::load(Bytes(&bytes), &Array3::<u16>::zeros((4, 2, 3))).unwrap();
    assert_eq!(loaded, permuted);
    // The template may be in another order, too.
    let loaded = checkpoint::load(Bytes(&bytes), &permuted).unwrap();
    assert_eq!(loaded, permuted);
}

#[test]
fn shared_leaf_is_stored_once() {
    let tied = |value| {
        let weight = Shared::new(array![value, 2.0_f32]);
        (weight.clone(), weight)
    };
    let bytes = checkpoint::to_bytes(&tied(1.0)).unwrap();
    assert_eq!(checkpoint::inspect(Bytes(&bytes)).unwrap().len(), 1);
    let loaded = checkpoint::load(Bytes(&bytes), &tied(0.0)).unwrap();
    assert!(loaded.0.same(&loaded.1));
    assert_eq!(*loaded.0, array![1.0, 2.0]);
}

#[test]
fn references_are_saved_and_new_when_loaded() {
    let counter = Ref::new(array![1_i32, 2]);
    let bytes = checkpoint::to_bytes(&counter).unwrap();
    counter.set(array![0, 0]);
    let loaded = checkpoint::load(Bytes(&bytes), &counter).unwrap();
    assert_eq!((loaded.get(), counter.get()), (array![1, 2], array![0, 0]));
}

#[test]
fn all_mismatches_are_reported_at_once() {
    let saved = BTreeMap::from([("a", array![1.0_f32, 2.0]), ("b", array![1.0, 2.0])]);
    let template = BTreeMap::from([("a", array![0.0_f32]), ("c", array![0.0])]);
    let bytes = checkpoint::to_bytes(&saved).unwrap();
    let text = checkpoint::load(Bytes(&bytes), &template)
        .unwrap_err()
        .to_string();
    for line in [
        "\n  ['a'] is f32[2] in the file, expected f32[1]",
        "\n  ['c']: expected f32[1], but the file has no leaf with this name",
        "\n  ['b']: found f32[2], but the template has no leaf with this name",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn missing_leaves_keep_values_of_template() {
    let saved = BTreeMap::from([("a", array![1.0_f32])]);
    let template = BTreeMap::from([("a", array![0.0_f32]), ("b", array![7.0])]);
    let bytes = checkpoint::to_bytes(&saved).unwrap();
    let options = LoadOptions::new().allow_missing();
    let (loaded, report) = checkpoint::load_with(Bytes(&bytes), &template, &options).unwrap();
    assert_eq!(
        loaded,
        BTreeMap::from([("a", array![1.0]), ("b", array![7.0])])
    );
    assert_eq!((report.applied.len(), report.missing.len()), (1, 1));
}

#[test]
fn leaf_that_is_no_array_is_named() {
    let model = ("label".to_owned(), 1.0_f32);
    let text = checkpoint::to_bytes(&model).unwrap_err().to_string();
    assert!(
        text.starts_with("cannot save or load [0]: expected an array or a number, found a leaf of type `alloc::string::String`"),
        "{text}"
    );
    let bytes = checkpoint::to_bytes(&(2.0_f32, 1.0_f32)).unwrap();
    let error = checkpoint::load(Bytes(&bytes), &model).unwrap_err();
    assert!(matches!(error, CheckpointError::NotAnArray { .. }));
}

/// The bytes of version 2 with this state: they never change.
#[test]
fn bytes_of_format_are_pinned() {
    #[derive(Module, Clone, Debug)]
    struct Small {
        #[param("n")]
        weight: Array1<f32>,
        #[state]
        count: i64,
    }
    let small = Small {
        weight: array![1.0, -2.0],
        count: 3,
    };
    let bytes = checkpoint::to_bytes(&small).unwrap();
    let header = concat!(
        r#"{"__metadata__":{"pytree.axes":"weight\u0009n\u000a","pytree.checksum":"CHECKSUM","pytree.kinds":"weight\u0009Param\u000acount\u0009State\u000a","#,
        r#""pytree.version":"2"},"count":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"weight":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}"#
    );
    let checksum = "pytree.checksum\":\"";
    let text = String::from_utf8_lossy(&bytes[8..bytes.len() - 16]).into_owned();
    let at = text.find(checksum).unwrap() + checksum.len();
    assert_eq!(
        text.trim_end(),
        header.replace("CHECKSUM", &text[at..at + 32])
    );
    let numbers = [
        &3_i64.to_le_bytes()[..],
        &1.0_f32.to_le_bytes(),
        &(-2.0_f32).to_le_bytes(),
    ];
    assert_eq!(bytes[bytes.len() - 16..], numbers.concat());
}

#[test]
fn folder_keeps_last_and_best() {
    let directory = std::env::temp_dir().join(format!("pytree-store-run-{}", std::process::id()));
    let folder = CheckpointFolder::new(&directory, Goal::Minimize).unwrap();
    for (step, loss) in [(1, 0.1), (2, 0.5), (3, 0.4), (4, 0.3)] {
        folder.save(step, &net(step as f32), loss).unwrap();
    }
    let steps: Vec<usize> = folder
        .list()
        .unwrap()
        .iter()
        .map(|saved| saved.step)
        .collect();
    assert_eq!(steps, [1, 2, 3, 4]);
    let best = folder.best().unwrap().unwrap();
    assert_eq!(checkpoint::load(best.path, &net(0.0)).unwrap(), net(1.0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn dotted_names_are_those_of_other_libraries() {
    let names = WeightNames::dotted().rename("encoder.{i}", "layers[{i}]");
    let options = SaveOptions::new().names(names.clone());
    let bytes = checkpoint::to_bytes_with(&net(1.0), &options).unwrap();
    let entries = checkpoint::headers(Bytes(&bytes)).unwrap();
    assert_eq!(entries[1].name, "encoder.0.weight");
    let options = LoadOptions::new().names(names);
    let (loaded, _) = checkpoint::load_with(Bytes(&bytes), &net(0.0), &options).unwrap();
    assert_eq!(loaded, net(1.0));
}

/// An array of another library, whose errors are its own.
#[derive(Leaf, Clone, Debug)]
struct Failing;

impl pytree_core::ArrayLeaf for Failing {
    fn info(&self) -> pytree_core::ArrayInfo<&[usize]> {
        pytree_core::ArrayInfo {
            element: pytree_core::ElementType::U8,
            shape: &[1],
        }
    }
    fn bytes(&self) -> Result<std::borrow::Cow<'_, [u8]>, pytree_core::LeafError> {
        Err(std::fmt::Error.into())
    }
    fn refilled(
        &self,
        read: &mut pytree_core::leaf::ReadRegion<'_>,
    ) -> Result<Box<dyn Leaf>, pytree_core::LeafError> {
        read(&[0..1], &mut [0])?;
        Err(std::fmt::Error.into())
    }
}

#[test]
fn errors_of_arrays_keep_their_source() {
    let error = checkpoint::to_bytes(&vec![Failing]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.is::<std::fmt::Error>(), "{source}");
    let bytes = checkpoint::to_bytes(&vec![array![1_u8]]).unwrap();
    let error = checkpoint::load(Bytes(&bytes), &vec![Failing]).unwrap_err();
    assert!(matches!(error, CheckpointError::Place { .. }), "{error}");
    // The error of the file comes through the library of the array.
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let error = checkpoint::load(Bytes(&damaged), &vec![array![0_u8]]).unwrap_err();
    assert!(matches!(error, CheckpointError::Checksum { .. }), "{error}");
}
