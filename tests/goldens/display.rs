//! Tensors display as arrays of NumPy do.

use crate::goldens::files::{read, tensor};

#[test]
fn tensors_display_as_numpy_arrays() {
    let file = read("display.json");
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 60);
    for case in cases {
        let tensor = tensor(&case["array"]);
        assert_eq!(
            tensor.to_string(),
            case["str"].as_str().unwrap(),
            "{}",
            tensor.info()
        );
    }
}
