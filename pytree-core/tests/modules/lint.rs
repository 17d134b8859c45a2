//! What the lint finds, and in which words it says so.

use ndarray::{Array2, array};
use pytree_core::{AnyLeaf, DynamicModule, Finding, Module, Pytree, Shared, lint};

use crate::modules::{linear, model};

fn said<T: Pytree>(model: &T) -> Vec<String> {
    lint(model).iter().map(Finding::to_string).collect()
}

#[test]
fn correct_model_has_no_findings() {
    assert!(lint(&linear()).is_empty());
    assert!(
        lint(&vec![1, 2]).is_empty(),
        "no leaf has a kind, and none needs one"
    );
}

#[test]
fn shared_node_is_reported_without_mistake() {
    let node = Shared::new(linear());
    let other = Shared::new(linear());
    let model = (node.clone(), other.clone(), node.clone(), (other, node));
    let findings = lint(&model);
    assert!(findings.iter().all(|finding| !finding.is_mistake()));
    assert_eq!(findings[0].paths().len(), 3);
    assert_eq!(
        said(&model),
        [
            "the paths [0], [2], [3][1] lead to one shared node, which is trained, counted and saved once",
            "the paths [1], [3][0] lead to one shared node, which is trained, counted and saved once",
        ]
    );
    assert!(
        lint(&Shared::new(linear())).is_empty(),
        "one place is none too many"
    );
}

#[test]
fn parameter_without_gradient_is_found() {
    let mut model: DynamicModule = DynamicModule::new("M").unwrap();
    model.register_param("a", 1.0).unwrap();
    model.register_state("b", 1).unwrap();
    model.get_mut("a").unwrap()[0] = AnyLeaf::new(array![1_i32]);
    let findings = lint(&model);
    assert!(findings[0].is_mistake());
    assert_eq!(findings[0].paths()[0].to_string(), "a");
    assert_eq!(
        said(&model),
        [
            "the parameter at a is i32[1]: expected a float array or number, because only floats have gradients; make it a state (`#[state]`)"
        ]
    );
}

#[test]
fn leaf_without_kind_is_found() {
    assert_eq!(
        said(&model()),
        ["table[0]", "table[1]"].map(|path| format!(
            "the leaf at {path} has no kind, so no filter by kind selects it; make it a parameter (`#[param]`) or a state (`#[state]`)"
        ))
    );
}

#[test]
fn values_that_are_not_finite_are_counted() {
    let mut model = linear();
    model.weight = array![f32::NAN, 1.0, f32::INFINITY, f32::NEG_INFINITY];
    model.mean = array![f32::INFINITY];
    assert_eq!(
        said(&model),
        [
            "the leaf at weight is not finite: it has 1 NaN and 2 infinite elements (4 elements in all); initialize it again, or find the training step that produced these values",
            "the leaf at mean is not finite: it has 1 infinite element (1 elements in all); initialize it again, or find the training step that produced these values",
        ]
    );
    assert!(said(&f64::NAN)[0].starts_with(
        "the leaf at the root is not finite: it has 1 NaN element (1 elements in all)"
    ));
}

#[derive(Module, Clone, Debug)]
struct Sizes {
    #[param]
    weight: Array2<f32>,
    #[state]
    buffer: Array2<f32>,
}

#[test]
fn parameter_without_elements_is_found() {
    let model = Sizes {
        weight: Array2::zeros((3, 0)),
        buffer: Array2::zeros((0, 3)),
    };
    assert_eq!(
        said(&model),
        [
            "the parameter at weight is f32[3,0]: it has no elements, so it cannot be trained; check the sizes with which it was created"
        ]
    );
}

/// A leaf whose memory others may hold too.
#[derive(Clone, Debug)]
struct Handle(usize);

impl pytree_core::Leaf for Handle {
    pytree_core::__leaf_methods!();
    fn array_info(&self) -> Option<pytree_core::ArrayInfo<&[usize]>> {
        Some(pytree_core::ArrayInfo {
            element: pytree_core::ElementType::F32,
            shape: &[1],
        })
    }
    fn values(&self) -> Option<Vec<f64>> {
        (self.0 > 0).then(|| vec![1.0])
    }
    fn storage_identity(&self) -> Option<usize> {
        Some(self.0)
    }
}
pytree_core::__leaf_is_pytree!([] Handle);
pytree_core::leaf_field!(param Handle);

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param]
    first: Handle,
    #[state]
    second: Handle,
    #[state]
    third: [Handle; 2],
}

#[test]
fn leaves_with_same_storage_are_found() {
    let tied = |first, second, third| Tied {
        first: Handle(first),
        second: Handle(second),
        third: [Handle(third), Handle(third)],
    };
    assert_eq!(
        said(&tied(1, 1, 2)),
        [
            "the leaves at first, second use the same memory but are not a shared node: the first update makes them different; put the array into a `Shared` and clone the `Shared`, or give each leaf its own array"
        ]
    );
    assert!(said(&tied(1, 2, 3)).is_empty(), "states may hold the same");
    let identity = |leaf: &dyn pytree_core::Leaf| leaf.storage_identity();
    assert_eq!(identity(&Some(Handle(3))), Some(3));
    let dynamic: DynamicModule = DynamicModule::from_value(&tied(1, 2, 1)).unwrap();
    let findings = lint(&dynamic);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].paths().len(), 3);
    assert!(findings[0].is_mistake());
    let shared = Shared::new(tied(1, 2, 3));
    assert!(
        lint(&(shared.clone(), shared))
            .iter()
            .all(|finding| !finding.is_mistake())
    );
}

#[test]
fn unreadable_values_are_reported() {
    let model = Tied {
        first: Handle(1),
        second: Handle(0),
        third: [Handle(2), Handle(0)],
    };
    let findings = lint(&model);
    assert!(!findings[0].is_mistake());
    assert_eq!(findings[0].paths().len(), 2);
    assert_eq!(
        said(&model),
        [
            "the values at second, third[1] cannot be read here, so NaNs cannot be found; call `lint` outside of the transformation"
        ]
    );
}
