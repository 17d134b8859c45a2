//! Registering, reading, changing and taking out.

use ndarray::array;
use pytree_core::kind::{BatchStat, State};
use pytree_core::{
    AnyLeaf, Collection, CollectionId, DynamicModule, FieldKind, Filter, LeafKind, Module, Tree,
    partition, tree,
};

use crate::modules::{Linear, linear, model, nested, shown};

fn state<C: Collection>() -> FieldKind {
    FieldKind::State(CollectionId::of::<C>())
}

#[test]
fn fields_keep_registration_order_with_statics_last() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register_static("name", "x".to_owned()).unwrap();
    module.register_param("z", 1.0).unwrap();
    module.register_state("a", 2).unwrap();
    module.register_static("b", 4).unwrap();
    assert_eq!(
        shown(&module),
        "PyTreeDef(M { z: *, a: *, name = 'x', b = 4 })"
    );
    assert_eq!(
        *module.registry(),
        [
            ("z", FieldKind::Param),
            ("a", state::<State>()),
            ("name", FieldKind::Static),
            ("b", FieldKind::Static)
        ]
    );
    assert_eq!(module.name(), "M");
}

#[test]
fn field_keeps_registered_kind() {
    let model = model();
    let fields: Vec<_> = model.fields().collect();
    assert_eq!(
        fields,
        [
            ("scale", Some(FieldKind::Param)),
            ("steps", Some(state::<State>())),
            ("mean", Some(state::<BatchStat>())),
            ("layers", Some(FieldKind::Module)),
            ("table", None),
            ("is_training", Some(FieldKind::Static)),
        ]
    );
    assert_eq!(model.registry().len(), 5, "a subtree is not in it");
    let (param, mean) = (
        Some(LeafKind::Param),
        Some(LeafKind::State(CollectionId::of::<BatchStat>())),
    );
    let steps = Some(LeafKind::State(CollectionId::of::<State>()));
    assert_eq!(
        tree::structure(&model).leaf_kinds(),
        [param, steps, mean, param, mean, param, mean, None, None]
    );
}

#[test]
fn clones_share_registry_until_changed() {
    let model = model();
    let mut other = model.clone();
    assert_eq!(model.registry(), other.registry());
    other.set("scale", 5.0_f32).unwrap();
    assert_eq!(
        model.registry(),
        other.registry(),
        "a value is no change of the registry"
    );
    other.set_kind("scale", state::<BatchStat>()).unwrap();
    assert_ne!(model.registry(), other.registry());
    assert_eq!(model.registry()[0], ("scale", FieldKind::Param));
    assert_eq!(other.registry()[0], ("scale", state::<BatchStat>()));
    assert_eq!(model.value::<f32>("scale").unwrap(), 2.0);
    assert_eq!(other.value::<f32>("scale").unwrap(), 5.0);
}

#[test]
fn values_are_read_and_changed_by_name() {
    let mut model = model();
    model
        .set("steps", model.value::<i32>("steps").unwrap() + 1)
        .unwrap();
    assert_eq!(model.value::<i32>("steps").unwrap(), 4);
    assert_eq!(model.get("layers").unwrap().leaves().len(), 4);
    model.set("layers", vec![linear()]).unwrap();
    assert_eq!(model.value::<Vec<Linear>>("layers").unwrap(), [linear()]);
    model.get_mut("scale").unwrap()[0] = AnyLeaf::new(7.0_f32);
    assert_eq!(model.value::<f32>("scale").unwrap(), 7.0);
    assert!(model.get_static::<bool>("is_training").unwrap());
    model.set_static("is_training", "no").unwrap();
    assert_eq!(model.get_static::<String>("is_training").unwrap(), "no");
}

#[test]
fn unregister_returns_the_value() {
    let mut model = model();
    let taken = model.unregister("steps").unwrap().unwrap();
    assert_eq!(taken.to_value::<i32>().unwrap(), 3);
    assert!(model.unregister("is_training").unwrap().is_none());
    let names: Vec<_> = model.fields().map(|(name, _)| name).collect();
    assert_eq!(names, ["scale", "mean", "layers", "table"]);
    assert_eq!(model.value::<f32>("scale").unwrap(), 2.0);
    assert_eq!(model.get("mean").unwrap().leaves().len(), 1);
    model.register_param("steps", 1.0).unwrap();
    assert_eq!(
        model.fields().last(),
        Some(("steps", Some(FieldKind::Param)))
    );
}

#[test]
fn equal_fields_give_equal_structures() {
    let mut left: DynamicModule = DynamicModule::new("M").unwrap();
    left.register_param("a", 1.0).unwrap();
    let mut right: DynamicModule = DynamicModule::new("M").unwrap();
    right.register_param("b", 1.0).unwrap();
    right.register_state("a", 2.0).unwrap();
    right.unregister("b").unwrap();
    assert_ne!(
        tree::structure(&left),
        tree::structure(&right),
        "kinds differ"
    );
    right.set_kind("a", FieldKind::Param).unwrap();
    assert_eq!(tree::structure(&left), tree::structure(&right));
    right.register_static("c", 1).unwrap();
    assert_ne!(tree::structure(&left), tree::structure(&right));
}

#[test]
fn dynamic_module_is_rebuilt_from_leaves() {
    let model = model();
    let (leaves, treedef) = tree::flatten_any(&model);
    let again: DynamicModule = tree::unflatten(&treedef, leaves).unwrap();
    assert_eq!(again.to_string(), model.to_string());
    assert_eq!(tree::structure(&again), treedef);
    assert_eq!(Module::registry(&again), model.registry());
    assert!(again.get_static::<bool>("is_training").unwrap());
    let mut small: DynamicModule = DynamicModule::new("Small").unwrap();
    small.register_state("a", "x").unwrap();
    assert_eq!(
        format!("{small} {small:?}"),
        "Small { a: 'x' } Small { a: \"x\" }"
    );
}

#[test]
fn parts_are_split_and_merged_by_kind() {
    let model = model();
    let [params, states, rest] = partition::split(
        &model,
        [Filter::param(), Filter::any_state(), Filter::everything()],
    )
    .unwrap();
    assert_eq!((params.len(), states.len(), rest.len()), (3, 4, 2));
    assert!(params.get("scale").is_ok() && params.get("steps").is_err());
    let merged: DynamicModule = partition::merge([rest, params, states]).unwrap();
    assert_eq!(merged.to_string(), model.to_string());
    let mut part = partition::filter(&model, &Filter::state::<State>());
    part.leaves_mut()[0] = AnyLeaf::new(9_i32);
    let changed = partition::replace(&model, &part).unwrap();
    assert_eq!(changed.value::<i32>("steps").unwrap(), 9);
    assert_eq!(changed.value::<f32>("scale").unwrap(), 2.0);
}

#[test]
fn leaves_of_one_type_are_mapped() {
    let mut module: DynamicModule<f32> = DynamicModule::typed("M").unwrap();
    module.register_param("a", vec![1.0_f32, 2.0]).unwrap();
    module.register_state("b", 3.0_f32).unwrap();
    module.register_static("c", 1).unwrap();
    let doubled = tree::map(&module, |leaf: &f32| leaf * 2.0);
    assert_eq!(tree::leaves::<f32, _>(&doubled), [&2.0, &4.0, &6.0]);
    assert_eq!(doubled.registry(), module.registry());
    assert_ne!(doubled, module);
    assert_eq!(tree::map(&module, |leaf: &f32| *leaf), module);
    let mut other = module.clone();
    other.set_static("c", 2).unwrap();
    assert_ne!(other, module, "static values are compared");
}

#[test]
fn dynamic_module_is_field_of_derived_module() {
    #[derive(Module, Clone, Debug)]
    struct Outer {
        inner: DynamicModule,
        #[state]
        count: u32,
    }
    let outer = Outer {
        inner: model(),
        count: 1,
    };
    let kinds = tree::structure(&outer).leaf_kinds();
    assert_eq!(kinds[0], Some(LeafKind::Param));
    let (leaves, treedef) = tree::flatten_any(&outer);
    let again: Outer = tree::unflatten(&treedef, leaves).unwrap();
    assert_eq!(again.inner.to_string(), outer.inner.to_string());
    assert_eq!(again.count, 1);
}

#[test]
fn training_is_switched_in_all_modules_below() {
    let mut model = nested();
    assert_eq!(model.eval(), 6, "the two, and two layers in each");
    assert!(!model.get_static::<bool>("is_training").unwrap());
    let inner: DynamicModule = model.value("inner").unwrap();
    assert!(!inner.get_static::<bool>("is_training").unwrap());
    let layers: Vec<Linear> = model.value("layers").unwrap();
    assert!(layers.iter().all(|layer| !layer.is_training));
    assert_eq!(model.value::<f32>("scale").unwrap(), 2.0);
    assert_eq!(model.train(), 6);
    assert_eq!(
        tree::structure(&model)
            .to_string()
            .matches("is_training = True")
            .count(),
        6
    );
    model.set_static("is_training", "always").unwrap();
    assert_eq!(model.eval(), 5, "a static value of another type is left");
    assert_eq!(model.get_static::<String>("is_training").unwrap(), "always");
    assert_eq!(model.set_static_everywhere("is_trainin", false), 0);
}

#[test]
fn map_static_switches_training() {
    let model = model();
    let (leaves, treedef) = tree::flatten_any(&model);
    let quiet = treedef.map_static(|_: &bool| false);
    let quiet: DynamicModule = tree::unflatten(&quiet, leaves).unwrap();
    assert!(!quiet.get_static::<bool>("is_training").unwrap());
}

#[test]
fn module_without_leaves_is_registered() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register("nothing", Vec::<Linear>::new()).unwrap();
    module
        .register("empty", DynamicModule::<AnyLeaf>::new("Empty").unwrap())
        .unwrap();
    assert_eq!(shown(&module), "PyTreeDef(M { nothing: [], empty: Empty })");
    let _: Tree = module.to_tree();
    let array = array![1.0_f64];
    module.register_param("array", array.clone()).unwrap();
    assert_eq!(
        module.value::<ndarray::Array1<f64>>("array").unwrap(),
        array
    );
}

#[test]
fn module_of_parameters_is_frozen() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register_param("weight", 1.0).unwrap();
    module.register_param("bias", 2.0).unwrap();
    module.freeze();
    assert!(partition::filter(&module, &Filter::param()).is_empty());
    assert_eq!(partition::filter(&module, &Filter::any_state()).len(), 2);
    module.unfreeze();
    assert_eq!(partition::filter(&module, &Filter::param()).len(), 2);
}

#[test]
fn second_static_field_is_set_everywhere() {
    let mut inner: DynamicModule = DynamicModule::new("Inner").unwrap();
    inner.register_static("rate", 0.5).unwrap();
    inner.register_static("is_training", true).unwrap();
    inner.register_static("size", 3_i32).unwrap();
    let mut outer = inner.clone();
    outer.register_module("inner", inner).unwrap();
    assert_eq!(outer.eval(), 2);
    assert_eq!(outer.set_static_everywhere("size", 4_i32), 2);
    let text = "is_training = False, size = 4 }";
    assert_eq!(shown(&outer).matches(text).count(), 2, "{}", shown(&outer));
    assert_eq!(shown(&outer).matches("rate = 0.5").count(), 2);
}

#[test]
fn many_fields_are_found_by_name() {
    let mut module = DynamicModule::new("Wide").unwrap();
    for number in 0..40 {
        let name = format!("field_{number}");
        if number % 4 == 0 {
            module.register_static(&name, number).unwrap();
        } else {
            module.register_param(&name, number as f32).unwrap();
        }
    }
    for taken in ["field_3", "field_4"] {
        assert!(module.register_param(taken, 1.0_f32).is_err(), "{taken}");
        assert!(module.register_static(taken, 1).is_err(), "{taken}");
    }
    module.unregister("field_3").unwrap();
    module.unregister("field_4").unwrap();
    assert!(module.get("field_3").is_err() && module.get_static::<i32>("field_4").is_err());
    assert_eq!(module.value::<f32>("field_39").unwrap(), 39.0);
    assert_eq!(module.get_static::<i32>("field_36").unwrap(), 36);
    module.register_static("field_3", 3).unwrap();
    assert_eq!(module.get_static::<i32>("field_3").unwrap(), 3);
    assert_eq!(module, module.clone());
}

#[test]
fn a_value_with_a_parent_pointer_is_registered() {
    use pytree_core::{Shared, WeakShared};
    #[derive(pytree_core::Pytree)]
    struct Node {
        value: f32,
        parent: WeakShared<Node>,
        child: Vec<Shared<Node>>,
    }
    let node = Shared::new_cyclic(|root: &WeakShared<Node>| Node {
        value: 1.0,
        parent: WeakShared::new(),
        child: vec![Shared::new(Node {
            value: 2.0,
            parent: root.clone(),
            child: Vec::new(),
        })],
    });
    let mut module: DynamicModule = DynamicModule::new("Graph").unwrap();
    module.register_state("node", node).unwrap();
    let copy: Shared<Node> = module.value("node").unwrap();
    assert_eq!((copy.value, copy.child[0].value), (1.0, 2.0));
    assert!(copy.child[0].parent.upgrade().unwrap().same(&copy));
}
