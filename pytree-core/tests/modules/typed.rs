//! Derived modules become modules of run time, and back.

use ndarray::array;
use pytree_core::kind::BatchStat;
use pytree_core::{DynamicModule, FieldKind, Module, ModuleType, tree};

use crate::modules::{Linear, linear};

#[test]
fn derived_module_survives_round_trip() {
    let module: DynamicModule = DynamicModule::from_value(&linear()).unwrap();
    assert_eq!(tree::structure(&module), tree::structure(&linear()));
    assert_eq!(module.registry(), Linear::REGISTRY);
    assert_eq!(module.to_tree().to_value::<Linear>().unwrap(), linear());
    let (leaves, treedef) = tree::flatten_any(&linear());
    let again: DynamicModule = tree::unflatten(&treedef, leaves).unwrap();
    assert_eq!(again.to_string(), module.to_string());
}

#[test]
fn dynamic_module_converts_to_derived_module() {
    let mut module: DynamicModule = DynamicModule::new("Linear").unwrap();
    module.register_static("is_training", false).unwrap();
    module.register_param("weight", array![1.0_f32]).unwrap();
    module
        .register_state_in::<BatchStat>("mean", array![2.0_f32])
        .unwrap();
    let expected = Linear {
        weight: array![1.0],
        mean: array![2.0],
        is_training: false,
    };
    assert_eq!(module.to_tree().to_value::<Linear>().unwrap(), expected);
    module.set_kind("mean", FieldKind::Param).unwrap();
    let error = module
        .to_tree()
        .to_value::<Linear>()
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot build `Linear { weight: Param, mean: BatchStat, is_training = … }` at the root: the treedef has `Linear { weight: Param, mean: Param, is_training = … }` there"),
        "{error}"
    );
}

#[test]
fn field_is_added_to_derived_module() {
    let mut module: DynamicModule = DynamicModule::from_value(&linear()).unwrap();
    module.register_param("bias", 0.0_f32).unwrap();
    assert_eq!(
        tree::structure(&module).to_string(),
        "PyTreeDef(Linear { weight: *, mean: *, bias: *, is_training = True })"
    );
    assert!(module.to_tree().to_value::<Linear>().is_err());
    module.unregister("bias").unwrap();
    assert_eq!(module.to_tree().to_value::<Linear>().unwrap(), linear());
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Scaled(Linear, #[param] f64);

#[derive(Module, Clone, Debug, PartialEq)]
enum Layer {
    Plain(Linear),
    Scale {
        #[param]
        factor: f32,
    },
}

#[test]
fn tuple_structs_and_variants_survive_round_trip() {
    let scaled = Scaled(linear(), 2.0);
    let module: DynamicModule = DynamicModule::from_value(&scaled).unwrap();
    assert_eq!(module.value::<f64>("1").unwrap(), 2.0);
    assert_eq!(module.to_tree().to_value::<Scaled>().unwrap(), scaled);
    for layer in [Layer::Plain(linear()), Layer::Scale { factor: 3.0 }] {
        let module: DynamicModule = DynamicModule::from_value(&layer).unwrap();
        assert_eq!(module.to_tree().to_value::<Layer>().unwrap(), layer);
    }
}
