//! Errors for places that do not exist, are static, or are `None`.

use pytree_core::{DynamicModule, Filter, Freeze, Module, Static, Tree, edit, partition, tree};

#[derive(Static, Clone, Debug, PartialEq)]
enum Activation {
    Relu,
    Tanh,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: f32,
    #[r#static]
    activation: Activation,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Body {
    layers: Vec<Linear>,
    head: Option<Linear>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Model {
    body: Freeze<Body>,
}

fn linear(weight: f32) -> Linear {
    Linear {
        weight,
        activation: Activation::Relu,
    }
}

fn model() -> Model {
    Model {
        body: Freeze::new(Body {
            layers: vec![linear(1.0), linear(2.0)],
            head: None,
        }),
    }
}

#[test]
fn static_field_is_distinguished_from_missing_path() {
    let body = model().body.into_inner();
    let text = "layers[1].activation is a static field, which is part of the structure and not a leaf; assign the field in the model, or set it with `edit::set_static`";
    let error = edit::replace_at(&body, "layers[1].activation", 1.0_f32).unwrap_err();
    assert_eq!(error.to_string(), text);
    let filter = Filter::path("layers[1].activation");
    let error = filter.check(&tree::structure(&body)).unwrap_err();
    assert_eq!(error.to_string(), text);
    let filter = Filter::path("layers[2].activation");
    let error = filter.check(&tree::structure(&body)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no leaf at layers[2].activation"),
        "{error}"
    );
    assert_eq!(linear(1.0).activation, Activation::Relu);
    assert_ne!(linear(1.0).activation, Activation::Tanh);
}

#[test]
fn suggestion_is_a_whole_path() {
    let error = edit::replace_at(&model(), "body.layer[0].weigth", 1.0_f32).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no node or leaf at body.layer[0].weigth; did you mean `body.model.layers[0].weight`?"
    );
}

#[test]
fn none_is_replaced_by_content() {
    let body = model().body.into_inner();
    let with_head = edit::replace_at(&body, "head", linear(3.0)).unwrap();
    assert_eq!(with_head.head, Some(linear(3.0)));
    let whole = edit::replace_at(&body, "head", Some(linear(4.0))).unwrap();
    assert_eq!(whole.head, Some(linear(4.0)));
    let error = edit::replace_at(&body, "head", 3.0_f32)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot put a `f32` at head"), "{error}");
}

#[test]
#[should_panic(
    expected = "cannot change nodes of type `Activation`: the model has no node or leaf of that type, and its leaves have the types `f32`; to set a static field, use `edit::set_static`"
)]
fn apply_without_match_panics() {
    let _ = edit::apply(model(), |activation: &mut Activation| {
        *activation = Activation::Tanh;
    });
}

#[test]
#[should_panic(
    expected = "cannot change nodes of type `i32`: the model has no node or leaf of that type"
)]
fn apply_with_path_without_match_panics() {
    let _ = edit::apply_with_path(model(), |_, leaf: &mut i32| *leaf = 1);
}

#[test]
fn error_names_the_operation() {
    let treedef = tree!([1, 2]).treedef().clone();
    let error = Tree::new(treedef.clone(), vec![1]).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "cannot make a tree: expected 2 leaves, found 1 (the first missing leaf is [1])"
        ),
        "{error}"
    );
    let error = treedef.fold([1], |_, _| 1).unwrap_err().to_string();
    assert!(error.starts_with("cannot fold: expected 2"), "{error}");
    let error = tree::unflatten::<Vec<i32>, _>(&treedef, vec![1]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot unflatten: expected 2"),
        "{error}"
    );
    let error = tree::map2_any((1.0,), &(1,), |_, right| {
        pytree_core::AnyLeaf::from_boxed(right.clone_boxed())
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot map two trees together: at [0]"),
        "{error}"
    );
    let mut module = DynamicModule::new("M").unwrap();
    module.register_state("count", 1).unwrap();
    let error = module.value::<f64>("count").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "cannot read a field: at the root: expected a leaf of type f64, found i32"
        ),
        "{error}"
    );
    let error = module
        .set_kind("count", pytree_core::FieldKind::Param)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("give it floats, or make the field a state"),
        "{error}"
    );
}

#[test]
fn part_is_indexed_by_text_or_path() {
    let model = model();
    let part = partition::filter::<_, f32>(&model, &Filter::param());
    let selected = pytree_core::at(|m: &Model| &m.body.layers[1].weight);
    assert_eq!(part.get(&selected.path(&model).unwrap()).unwrap(), &2.0);
    assert_eq!(part.get("body.model.layers[1].weight").unwrap(), &2.0);
}
