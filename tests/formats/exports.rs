//! Exported programs of all versions.

use std::collections::BTreeMap;

use pytree::PytreeOf;
use pytree::export::{self, NamedArray};
use pytree::prelude::*;

use crate::formats::fixture;

/// The version that the library writes.
const CURRENT: u32 = 1;

fn texts(arrays: &[NamedArray]) -> Vec<String> {
    arrays.iter().map(ToString::to_string).collect()
}

/// The inputs and outputs are what every version's file of that name holds.
fn in_all_versions<A, R>(
    name: &str,
    function: fn(A) -> R,
    argument: &A,
    inputs: &[&str],
    outputs: &[&str],
) where
    A: PytreeOf<Tensor> + Clone + Send + Sync + 'static,
    R: PytreeOf<Tensor> + Clone + Send + Sync + 'static,
{
    for version in 1..=CURRENT {
        let file = format!("export-v{version}-{name}.mlir");
        let path = fixture(&file, version == CURRENT, |path| {
            export::save(path, &jit(function).stablehlo(argument)).unwrap();
        });
        let written = std::fs::read_to_string(&path).unwrap();
        let mut lines = written.splitn(3, '\n');
        assert_eq!(
            lines.next(),
            Some(&*format!("// pytree-export {version}")),
            "{file}"
        );
        let exported = export::load(&path).unwrap();
        assert_eq!(exported.version(), "1.9.0", "{file}");
        assert_eq!(texts(exported.inputs()), inputs, "{file}");
        assert_eq!(texts(exported.outputs()), outputs, "{file}");
        assert_eq!(Some(exported.text()), lines.nth(1), "{file}");
        assert!(exported.text().contains("@main"), "{file}");
    }
}

#[test]
fn program_with_every_dtype_loads() {
    let dtypes = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
    ];
    let argument: Vec<Tensor> = dtypes
        .into_iter()
        .map(|dtype| Tensor::zeros(dtype, [2]))
        .collect();
    in_all_versions(
        "dtypes",
        |tensors: Vec<Tensor>| -> Vec<Tensor> {
            tensors
                .iter()
                .map(|tensor| tensor.reshape([1, 2]))
                .collect()
        },
        &argument,
        &[
            "[0]: bool[2]",
            "[1]: i8[2]",
            "[2]: i16[2]",
            "[3]: i32[2]",
            "[4]: i64[2]",
            "[5]: u8[2]",
            "[6]: u16[2]",
            "[7]: u32[2]",
            "[8]: bf16[2]",
            "[9]: f16[2]",
            "[10]: f32[2]",
            "[11]: f64[2]",
        ],
        &[
            "[0]: bool[1,2]",
            "[1]: i8[1,2]",
            "[2]: i16[1,2]",
            "[3]: i32[1,2]",
            "[4]: i64[1,2]",
            "[5]: u8[1,2]",
            "[6]: u16[1,2]",
            "[7]: u32[1,2]",
            "[8]: bf16[1,2]",
            "[9]: f16[1,2]",
            "[10]: f32[1,2]",
            "[11]: f64[1,2]",
        ],
    );
}

/// A type of this file's own: those of the library may get other fields, and the format is the same.
#[derive(Clone, Debug, Module)]
struct Layer {
    #[param("in out")]
    weight: Tensor,
    #[state(BatchStat)]
    mean: Option<Tensor>,
}

#[test]
fn program_with_names_and_constants_loads() {
    let layer = Layer {
        weight: Tensor::zeros(DType::F32, [2, 3]),
        mean: None,
    };
    let named = [
        ("é \"quoted\"".to_owned(), Tensor::from(0.5)),
        ("empty".to_owned(), Tensor::zeros(DType::F32, [0, 3])),
    ];
    in_all_versions(
        "names",
        |(layer, named): (Layer, BTreeMap<String, Tensor>)| {
            let constant = Tensor::from([[1.5_f32, f32::INFINITY], [-0.0, 1e-45]]);
            (constant.matmul(&layer.weight), named)
        },
        &(layer, named.into()),
        &[
            "[0].weight: f32[2,3]",
            "[1]['empty']: f32[0,3]",
            "[1]['é \"quoted\"']: f64[]",
        ],
        &[
            "[0]: f32[2,3]",
            "[1]['empty']: f32[0,3]",
            "[1]['é \"quoted\"']: f64[]",
        ],
    );
}
