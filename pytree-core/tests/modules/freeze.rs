//! Frozen parameters are states.

use pytree_core::kind::BatchStat;
use pytree_core::{
    CollectionId, DynamicModule, Filter, Freeze, Frozen, LeafKind, Module, Partition, edit,
    partition, tree,
};

use crate::modules::{Linear, linear, model, nested, shown};

fn frozen() -> Option<LeafKind> {
    Some(LeafKind::State(CollectionId::of::<Frozen>()))
}

#[test]
fn freeze_changes_parameters_only() {
    let mut model = nested();
    let before = tree::structure(&model);
    model.freeze();
    let after = tree::structure(&model);
    assert_ne!(before, after);
    let param = Some(LeafKind::Param);
    for (old, new) in before.leaf_kinds().into_iter().zip(after.leaf_kinds()) {
        assert_eq!(new, if old == param { frozen() } else { old });
    }
    assert!(partition::filter(&model, &Filter::param()).is_empty());
    assert_eq!(
        partition::filter(&model, &Filter::state::<Frozen>()).len(),
        6
    );
    assert_eq!(
        partition::filter(&model, &Filter::state::<BatchStat>()).len(),
        6
    );
    model.unfreeze();
    assert_eq!(tree::structure(&model), before);
    assert_eq!(
        model.value::<Vec<Linear>>("layers").unwrap(),
        [linear(), linear()]
    );
    assert_eq!(model.value::<f32>("scale").unwrap(), 2.0);
    assert!(model.get_static::<bool>("is_training").unwrap());
}

#[test]
fn freeze_without_parameters_changes_nothing() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register_state("count", 1).unwrap();
    let before = tree::structure(&module);
    module.freeze();
    assert_eq!(before, tree::structure(&module));
    module.unfreeze();
    assert_eq!(before, tree::structure(&module));
}

#[test]
fn freezing_does_not_change_clones() {
    let model = model();
    let mut other = model.clone();
    other.freeze();
    assert_eq!(partition::filter(&model, &Filter::param()).len(), 3);
    assert!(partition::filter(&other, &Filter::param()).is_empty());
}

#[test]
fn frozen_module_has_only_states() {
    let mut model = Freeze::new(linear());
    assert!(!model.is_frozen());
    assert_eq!(
        shown(&model),
        "PyTreeDef(Freeze::Thawed { model: Linear { weight: *, mean: *, is_training = True } })"
    );
    let thawed = tree::structure(&model);
    assert_eq!(thawed.leaf_kinds(), tree::structure(&linear()).leaf_kinds());
    let before = model.clone();
    model.freeze();
    assert!(model.is_frozen());
    assert_ne!(tree::structure(&model), thawed);
    assert_ne!(model.registry(), before.registry());
    assert_eq!(tree::structure(&model).leaf_kinds(), [frozen(), frozen()]);
    assert_eq!(
        shown(&model),
        "PyTreeDef(Freeze::Frozen { model: Linear { weight: *, mean: *, is_training = True } })"
    );
    model.unfreeze();
    assert_eq!(tree::structure(&model), thawed);
    assert_eq!(model.registry()[0].0, "model");
}

#[test]
fn frozen_flag_survives_flattening() {
    for model in [Freeze::new(linear()), Freeze::frozen(linear())] {
        let (leaves, treedef) = tree::flatten_any(&model);
        let again: Freeze<Linear> = tree::unflatten(&treedef, leaves.clone()).unwrap();
        assert_eq!(again, model);
        let dynamic: DynamicModule = tree::unflatten(&treedef, leaves).unwrap();
        assert_eq!(
            dynamic.to_tree().to_value::<Freeze<Linear>>().unwrap(),
            model
        );
    }
    assert_ne!(Freeze::new(1.0), Freeze::frozen(1.0));
    let (leaves, treedef) = tree::flatten_any(&linear());
    let error = tree::unflatten::<Freeze<Linear>, _>(&treedef, leaves).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot build `Freeze<Linear>` at the root: the treedef has `Linear` there; use the treedef of a value of the same type"
    );
}

#[test]
fn freeze_dereferences_to_inner_module() {
    let mut model = Freeze::from(linear());
    model.weight[0] = 9.0;
    assert_eq!(model.weight[0], 9.0);
    assert!(
        format!("{model:?}").starts_with("Thawed(Linear"),
        "{model:?}"
    );
    model.freeze();
    assert!(
        format!("{model:?}").starts_with("Frozen(Linear"),
        "{model:?}"
    );
    assert_eq!(model.into_inner().weight[0], 9.0);
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Pair {
    #[param]
    weight: f32,
}

#[test]
fn part_of_model_is_frozen() {
    let mut model = vec![
        Freeze::new(Pair { weight: 1.0 }),
        Freeze::new(Pair { weight: 2.0 }),
    ];
    model[0].freeze();
    let params: Partition<_, f32> = partition::filter(&model, &Filter::param());
    assert_eq!(params.leaves(), [2.0]);
    let doubled = tree::map(&model, |leaf: &f32| leaf * 2.0);
    assert_eq!((doubled[0].weight, doubled[1].weight), (2.0, 4.0));
    assert!(doubled[0].is_frozen() && !doubled[1].is_frozen());
    assert_eq!(tree::leaves::<f32, _>(&doubled), [&2.0, &4.0]);
}

#[test]
fn typed_module_is_read_from_frozen_module() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register_module("plain", linear()).unwrap();
    module
        .register_module("thawed", Freeze::new(linear()))
        .unwrap();
    module
        .register_module("frozen", Freeze::frozen(linear()))
        .unwrap();
    let before = tree::structure(&module);
    let is_as_it_was = |module: &DynamicModule| {
        assert_eq!(module.value::<Linear>("plain").unwrap(), linear());
        let thawed: Freeze<Linear> = module.value("thawed").unwrap();
        let frozen: Freeze<Linear> = module.value("frozen").unwrap();
        assert!(!thawed.is_frozen() && frozen.is_frozen());
    };
    module.freeze();
    is_as_it_was(&module);
    assert!(partition::filter(&module, &Filter::param()).is_empty());
    module.unfreeze();
    is_as_it_was(&module);
    assert_eq!(tree::structure(&module), before);
    // The switch of a `Freeze` is its own.
    assert_eq!(partition::filter(&module, &Filter::param()).len(), 2);
}

#[test]
fn apply_finds_freeze_by_type() {
    for module in [Freeze::new(linear()), Freeze::frozen(linear())] {
        let mut met = 0;
        let changed = edit::apply(module.clone(), |module: &mut Freeze<Linear>| {
            module.unfreeze();
            met += 1;
        });
        assert_eq!((met, changed.is_frozen()), (1, false));
        let inner = |module: &Freeze<Linear>| module.clone().into_inner();
        assert_eq!(inner(&changed), inner(&module));
    }
}
