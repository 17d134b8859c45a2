//! A module laid out flat, comparisons of modules, and what empty fields are.

use ndarray::Array1;
use pytree_core::kind::BatchStat;
use pytree_core::{
    CollectionId, DynamicModule, FieldKind, Filter, Freeze, LeafKind, Module, TreeDef, TreeError,
    diff, lint, partition, tree,
};

use crate::modules::{Linear, linear, model, nested};

const STATISTIC: FieldKind = FieldKind::State(CollectionId::of::<BatchStat>());

/// The leaves of a module by their kinds, and its structure: fewer nodes to visit at each step.
#[derive(Module, Clone, Debug, PartialEq)]
struct Flat {
    #[param]
    params: Vec<Array1<f32>>,
    #[state(BatchStat)]
    stats: Vec<Array1<f32>>,
    #[r#static]
    treedef: TreeDef,
}

fn flat(module: &Vec<Linear>) -> Flat {
    let (leaves, treedef) = tree::flatten::<Array1<f32>, _>(module);
    let (params, stats) = leaves
        .into_iter()
        .zip(treedef.leaf_kinds())
        .partition::<Vec<_>, _>(|(_, kind)| *kind == Some(LeafKind::Param));
    let values = |of: Vec<(Array1<f32>, _)>| of.into_iter().map(|(leaf, _)| leaf).collect();
    Flat {
        params: values(params),
        stats: values(stats),
        treedef,
    }
}

fn unflat(flat: &Flat) -> Result<Vec<Linear>, TreeError> {
    let (mut params, mut stats) = (flat.params.iter(), flat.stats.iter());
    let leaves = flat
        .treedef
        .leaf_kinds()
        .into_iter()
        .map(|kind| match kind {
            Some(LeafKind::Param) => params.next(),
            _ => stats.next(),
        });
    tree::unflatten(&flat.treedef, leaves.flatten().cloned().collect())
}

#[test]
fn flattened_module_is_module() {
    let module = vec![linear(), linear()];
    let before = flat(&module);
    assert_eq!(unflat(&before).unwrap(), module);
    assert_eq!(tree::structure(&before).num_leaves(), 4);
    let params = partition::filter(&before, &Filter::param());
    assert_eq!(params.leaves(), [linear().weight, linear().weight]);
    let doubled = params.map(|leaf: &Array1<f32>| leaf * 2.0);
    let after = partition::replace(&before, &doubled).unwrap();
    assert_eq!(tree::structure(&after), tree::structure(&before));
    let after = unflat(&after).unwrap();
    assert_eq!(after[1].weight, linear().weight * 2.0);
    assert_eq!(after[1].mean, linear().mean);
    // The structure of the whole tells one from another of the same leaves.
    let mut quiet = module.clone();
    quiet[0].is_training = false;
    assert_ne!(tree::structure(&flat(&quiet)), tree::structure(&before));
    // It is frozen as any other.
    let frozen = Freeze::frozen(before);
    assert!(partition::filter::<_, Array1<f32>>(&frozen, &Filter::param()).is_empty());
}

#[test]
fn fields_without_leaves_are_in_all_parts() {
    let mut module: DynamicModule = DynamicModule::new("M").unwrap();
    module.register_state("list", Vec::<f32>::new()).unwrap();
    module.register_param("none", None::<f32>).unwrap();
    module.register_param("weight", 1.0_f32).unwrap();
    let params = partition::filter(&module, &Filter::param());
    assert_eq!(
        params.tree().to_string(),
        "M { list: [], none: None, weight: 1.0 }"
    );
    let states = partition::filter(&module, &Filter::any_state());
    assert_eq!(
        states.tree().to_string(),
        "M { list: [], none: None, weight: - }"
    );
    assert!(states.is_empty());
    assert_eq!(params.tree().treedef(), &tree::structure(&module));
}

#[test]
fn dynamic_modules_compare_structure_and_leaves() {
    let (mut left, right) = (nested(), nested());
    assert!(diff(&left, &right).is_empty());
    assert_eq!(tree::structure(&left), tree::structure(&right));
    assert_eq!(
        tree::structure(&left).content_hash(),
        tree::structure(&right).content_hash()
    );
    left.eval();
    assert_ne!(tree::structure(&left), tree::structure(&right));
    left.train();
    assert_eq!(tree::structure(&left), tree::structure(&right));
    left.freeze();
    assert_ne!(tree::structure(&left), tree::structure(&right));
    left.unfreeze();
    assert_eq!(tree::structure(&left), tree::structure(&right));
    left.set("steps", 4_i32).unwrap();
    assert_eq!(diff(&left, &right).leaves()[0].path.to_string(), "steps");
}

#[test]
fn freezing_twice_is_freezing_once() {
    let (mut once, mut twice) = (nested(), nested());
    once.freeze();
    twice.freeze();
    twice.freeze();
    assert_eq!(tree::structure(&once), tree::structure(&twice));
    twice.unfreeze();
    assert_eq!(twice.registry(), nested().registry());
    let mut layer = Freeze::frozen(linear());
    layer.freeze();
    assert_eq!(layer, Freeze::frozen(linear()));
}

#[test]
fn set_kind_keeps_value_and_position() {
    let mut model = model();
    let names = |model: &DynamicModule| -> Vec<String> {
        model.fields().map(|(name, _)| name.to_owned()).collect()
    };
    let before = names(&model);
    model.set_kind("scale", STATISTIC).unwrap();
    model.set_kind("mean", FieldKind::Param).unwrap();
    assert_eq!(names(&model), before);
    assert_eq!(model.value::<f32>("scale").unwrap(), 2.0);
    let kind = |model: &DynamicModule, asked: &str| {
        let registry = model.registry();
        let found = registry.iter().find(|(name, _)| *name == asked);
        found.map(|(_, kind)| *kind)
    };
    assert_eq!(kind(&model, "scale"), Some(STATISTIC));
    assert_eq!(kind(&model, "mean"), Some(FieldKind::Param));
    let clone = model.clone();
    model.set_kind("mean", STATISTIC).unwrap();
    assert_eq!(kind(&clone, "mean"), Some(FieldKind::Param));
}

#[test]
fn registered_list_of_modules_grows() {
    let mut model = model();
    let mut layers: Vec<Linear> = model.value("layers").unwrap();
    layers.push(linear());
    model.set("layers", layers).unwrap();
    assert_eq!(model.value::<Vec<Linear>>("layers").unwrap().len(), 3);
    let found = lint(&model);
    assert!(
        found
            .iter()
            .all(|finding| !finding.is_mistake()
                || finding.paths()[0].to_string().starts_with("table")),
        "{found:?}"
    );
}
