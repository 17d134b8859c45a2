//! Merges and edits, whose results are compared with the named axes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ndarray::{Array1, Array2, Array3};
use pytree_core::{
    Filter, Module, Pytree, Ref, Tree, TreeError, at, axes, edit, field::ParamField, partition,
    refs,
};

#[derive(Module, Clone, Debug)]
struct Linear<W: ParamField = Array2<f32>> {
    #[param("in out")]
    weight: W,
}

type Layers = Vec<Linear>;

#[derive(Module, Clone, Debug)]
struct Scaled {
    #[param("features")]
    scale: Array1<f32>,
    #[param("features")]
    offset: Array1<f32>,
    #[r#static]
    features: usize,
}

fn scaled(features: usize) -> Scaled {
    Scaled {
        scale: Array1::zeros(features),
        offset: Array1::zeros(features),
        features,
    }
}

/// Returns the message, which must be about shapes.
fn message<T>(outcome: Result<T, TreeError>) -> String {
    match outcome.err().unwrap() {
        TreeError::Shapes(error) => error.to_string(),
        other => panic!("expected an error of shapes, found {other}"),
    }
}

const OFFSET: &str = "Scaled: offset is f32[3], expected [features] with features = 2 (from the static `features`); make offset with features = 2";

#[test]
fn a_merge_is_compared() {
    let parts = |model: &Scaled| {
        let filters = [Filter::path("scale"), Filter::everything()];
        partition::split::<_, Array1<f32>, 2>(model, filters).unwrap()
    };
    let [scale, _] = parts(&scaled(2));
    let [_, offset] = parts(&Scaled {
        offset: Array1::zeros(3),
        ..scaled(2)
    });
    let outcome = partition::merge([scale.clone(), offset]);
    assert_eq!(message(outcome), OFFSET);
    assert!(partition::merge([scale, parts(&scaled(2))[1].clone()]).is_ok());
}

#[test]
fn a_replacing_part_is_compared() {
    let mut model = scaled(2);
    let part = |length| {
        let part = partition::filter::<_, Array1<f32>>(&model, &Filter::path("offset"));
        part.map(|_| Array1::zeros(length))
    };
    let (longer, right) = (part(3), part(2));
    assert_eq!(message(partition::replace(&model, &longer)), OFFSET);
    assert_eq!(message(partition::update(&mut model, &longer)), OFFSET);
    assert_eq!(model.offset.len(), 2, "nothing was written");
    model.offset = Array1::zeros(5);
    assert!(
        partition::replace(&model, &longer).is_ok(),
        "a wrong model can be repaired"
    );
    partition::update(&mut model, &right).unwrap();
    assert_eq!(model.offset.len(), 2);
}

#[derive(Module)]
struct Behind {
    #[param("n")]
    own: Array1<f32>,
    #[param("n")]
    value: Ref<Array1<f32>>,
}

#[test]
fn a_reference_is_not_written_with_a_wrong_shape() {
    let behind = Behind {
        own: Array1::zeros(2),
        value: Ref::new(Array1::zeros(2)),
    };
    let part = partition::filter::<_, Array1<f32>>(&behind, &Filter::path("value"));
    let longer = part.map(|_: &Array1<f32>| Array1::zeros(3));
    assert!(
        message(refs::update_refs(&behind, &longer))
            .contains("value is f32[3], expected [n] with n = 2")
    );
    assert_eq!(behind.value.get().len(), 2);
    assert_eq!(behind.own.len(), 2);
}

#[test]
fn edits_are_compared() {
    let model = scaled(2);
    let select = at(|model: &Scaled| &model.offset);
    assert_eq!(message(select.replace(&model, Array1::zeros(3))), OFFSET);
    assert_eq!(
        message(edit::replace_at(&model, "offset", Array1::<f32>::zeros(3))),
        OFFSET
    );
    let everything = Filter::path("features");
    assert!(message(edit::set_static(&model, &everything, 3_usize)).contains("features = 3"));
    let applied = catch_unwind(AssertUnwindSafe(|| {
        edit::apply(model.clone(), |model: &mut Scaled| {
            model.offset = Array1::zeros(3);
        })
    }));
    let payload = applied.err().unwrap();
    let text = payload.downcast_ref::<String>().unwrap();
    assert_eq!(*text, format!("{OFFSET}"));
    let any = catch_unwind(AssertUnwindSafe(|| {
        edit::apply_any(model.clone(), |path, value| {
            if path.to_string() == "offset" {
                *value.downcast_mut::<Array1<f32>>().unwrap() = Array1::zeros(3);
            }
        })
    }));
    assert!(any.is_err());
}

#[test]
fn a_wrong_model_is_repaired_step_by_step() {
    let wrong = Scaled {
        features: 3,
        ..scaled(2)
    };
    let step = edit::replace_at(&wrong, "offset", Array1::<f32>::zeros(3)).unwrap();
    let right = edit::replace_at(&step, "scale", Array1::<f32>::zeros(3)).unwrap();
    assert!(right.check_shapes().is_ok());
    let static_first = edit::set_static(&wrong, &Filter::path("features"), 2_usize).unwrap();
    assert!(static_first.check_shapes().is_ok());
    let all = edit::apply(wrong, |array: &mut Array1<f32>| *array = Array1::zeros(4));
    assert_eq!(all.scale.len(), 4);
}

#[test]
fn stacked_and_other_modules_are_merged() {
    type Model = (Linear<Array3<f32>>, Linear<Array2<f32>>);
    let model: Model = (
        Linear {
            weight: Array3::zeros((5, 2, 3)),
        },
        Linear {
            weight: Array2::zeros((3, 4)),
        },
    );
    assert!(axes::check_any_stack(&model).is_ok());
    assert!(axes::check_stacked(&model, &["layer"]).is_err());
    let uneven: Layers = vec![Linear {
        weight: Array2::zeros((2, 3)),
    }];
    let whole = partition::filter::<_, Array2<f32>>(&uneven, &Filter::everything());
    assert!(partition::merge([whole]).is_ok());
}

#[test]
fn a_tree_with_other_leaves_is_not_compared() {
    let norms: Tree<Array1<f32>> = Tree::of(&scaled(3)).map(|_| Array1::zeros(1));
    let state = (scaled(2), norms);
    assert!(axes::check_any_stack(&state).is_ok());
    let whole = partition::filter::<_, Array1<f32>>(&state, &Filter::everything());
    assert!(partition::merge([whole]).is_ok());
}
