//! Wrong static fields: the message names the field, and the value that fits all arrays.

use ndarray::{Array1, Array2, Array3};
use pytree_core::{Module, Pytree, axes, shapes};

#[derive(Module, Clone, Debug)]
struct Attention {
    #[param("in heads*head_dim")]
    query: Array2<f32>,
    #[param("in heads*head_dim")]
    key: Array2<f32>,
    #[param("heads head_dim out")]
    output: Array3<f32>,
    #[r#static]
    heads: usize,
    #[r#static]
    head_dim: usize,
}

fn attention(heads: usize, head_dim: usize) -> Attention {
    Attention {
        query: Array2::zeros((6, heads * head_dim)),
        key: Array2::zeros((6, heads * head_dim)),
        output: Array3::zeros((heads, head_dim, 6)),
        heads,
        head_dim,
    }
}

impl Attention {
    #[shapes(x = "batch in", return = "batch in")]
    fn forward(&self, x: &Array2<f32>) -> Array2<f32> {
        x.clone()
    }
}

const MESSAGE: &str = "heads is 4, expected 8 \
    (from query: f32[6,16] as [in heads*head_dim], key: f32[6,16] as [in heads*head_dim], output: f32[8,2,6] as [heads head_dim out]); \
    set the static `heads` to 8, or make these 3 arrays with heads = 4";

#[test]
fn wrong_static_field_is_named() {
    let wrong = Attention {
        heads: 4,
        ..attention(8, 2)
    };
    let error = wrong.check_shapes().unwrap_err();
    assert_eq!(error.to_string(), format!("Attention: {MESSAGE}"));
    assert_eq!(error.mismatches().len(), 1);
    assert_eq!(error.mismatches()[0].place, "heads");
    let message = std::panic::catch_unwind(|| wrong.forward(&Array2::zeros((5, 6))));
    let message = *message.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, format!("Attention::forward: {MESSAGE}"));
}

#[test]
fn wrong_static_field_has_a_path() {
    let layers = vec![
        attention(8, 2),
        Attention {
            heads: 4,
            ..attention(8, 2)
        },
    ];
    let error = layers.check_shapes().unwrap_err().to_string();
    assert!(
        error.contains("[1].heads is 4, expected 8 (from [1].query: f32[6,16]"),
        "{error}"
    );
}

#[test]
fn stacked_model_has_its_static_field_named() {
    let stacked = Stacked {
        first: Array2::zeros((5, 16)),
        second: Array2::zeros((5, 16)),
        width: 4,
    };
    let error = axes::check_stacked(&stacked, &["member"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Stacked: width is 4, expected 8 \
         (from first: f32[5,16] as [member 2*width], second: f32[5,16] as [member 2*width]); \
         set the static `width` to 8, or make these 2 arrays with width = 4"
    );
}

#[derive(Module, Clone, Debug)]
struct Stacked {
    #[param("2*width")]
    first: Array2<f32>,
    #[param("2*width")]
    second: Array2<f32>,
    #[r#static]
    width: usize,
}

#[derive(Module, Clone, Debug)]
struct Products {
    #[param("heads*head_dim")]
    query: Array1<f32>,
    #[param("heads*head_dim")]
    key: Array1<f32>,
    #[r#static]
    heads: usize,
    #[r#static]
    head_dim: usize,
}

#[test]
fn each_static_field_that_fits_is_named() {
    let products = |query, key| Products {
        query: Array1::zeros(query),
        key: Array1::zeros(key),
        heads: 4,
        head_dim: 2,
    };
    assert_eq!(
        products(16, 16).check_shapes().unwrap_err().to_string(),
        "Products: heads is 4, expected 8 (from query: f32[16] as [heads*head_dim], key: f32[16] as [heads*head_dim]); \
         set the static `heads` to 8 or the static `head_dim` to 4, or make these 2 arrays with heads = 4 and head_dim = 2"
    );
    // No value of one static field fits both arrays.
    let message = products(16, 12).check_shapes().unwrap_err().to_string();
    assert!(!message.contains("set the static"), "{message}");
    assert!(message.contains("2 shapes do not match"), "{message}");
    // The other array fits the current value.
    let message = products(8, 12).check_shapes().unwrap_err().to_string();
    assert!(!message.contains("set the static"), "{message}");
}

#[derive(Module, Clone, Debug)]
struct Divided {
    #[param("features/groups")]
    scale: Array1<f32>,
    #[r#static]
    features: usize,
    #[r#static]
    groups: usize,
}

#[test]
fn ambiguous_value_of_static_field_is_not_suggested() {
    let divided = Divided {
        scale: Array1::zeros(5),
        features: 12,
        groups: 3,
    };
    // 15, 16 and 17 features fit, and 2 groups of 6 features do not.
    assert_eq!(
        divided.check_shapes().unwrap_err().to_string(),
        "Divided: scale is f32[5], expected [features/groups] with features/groups = 4 (features = 12 from the static `features`, groups = 3 from the static `groups`); \
         make scale with features/groups = 4"
    );
}
