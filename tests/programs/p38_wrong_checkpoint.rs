//! A checkpoint of a model of another width. Loading this checkpoint reports the mismatch. A model that contains an
//! array of the other width also reports the mismatch.

use std::path::PathBuf;

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Net {
    #[param("in hidden")]
    first: Tensor,
    #[param("hidden")]
    bias: Tensor,
    #[param("hidden out")]
    last: Tensor,
}

impl Net {
    fn new(hidden: usize) -> Self {
        let mut rngs = Rngs::new(0);
        Self {
            first: rngs.normal(DType::F32, [2, hidden]),
            bias: Tensor::zeros(DType::F32, [hidden]),
            last: rngs.normal(DType::F32, [hidden, 1]),
        }
    }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!(
        "pytree-p38-{name}-{}.safetensors",
        std::process::id()
    ))
}

#[test]
fn checkpoint_of_the_same_width_is_loaded() {
    let path = file("same");
    checkpoint::save(&path, &Net::new(8)).unwrap();
    let net = checkpoint::load(&path, &Net::new(8)).unwrap();
    net.check_shapes().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// The lines of the report, one for each array of the wrong width. A line shows the shape in the file, and the axis
/// that differs.
const REPORTED: [&str; 3] = [
    "first is f32[2,16] in the file, expected [in hidden] = f32[2,8]: hidden is 16 in the file and 8 in the model",
    "bias is f32[16] in the file, expected [hidden] = f32[8]: hidden is 16 in the file and 8 in the model",
    "last is f32[16,1] in the file, expected [hidden out] = f32[8,1]: hidden is 16 in the file and 8 in the model",
];

#[test]
fn checkpoint_of_another_width_is_reported() {
    let path = file("other");
    checkpoint::save(&path, &Net::new(16)).unwrap();
    let report = checkpoint::load(&path, &Net::new(8))
        .unwrap_err()
        .to_string();
    for part in REPORTED {
        assert!(report.contains(part), "{part} in {report}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn array_of_another_model_names_the_axis() {
    let mixed = Net {
        last: Net::new(16).last,
        ..Net::new(8)
    };
    assert_eq!(
        mixed.check_shapes().unwrap_err().to_string(),
        "Net: last is f32[16,1], expected [hidden out] with hidden = 8 (from first: f32[2,8] as [in hidden]); \
         make last and first with the same `hidden`"
    );
}
