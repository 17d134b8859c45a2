//! Collections with parents in dynamic modules, references, bytes and frozen modules.

use pytree_core::kind::{BatchStat, Collection, CollectionId, Param};
use pytree_core::{
    DynamicModule, FieldKind, Filter, Frozen, LeafKind, Module, ModuleType, Ref, Tree, TreeDef,
    graph, partition, tree,
};

#[derive(pytree_core::Collection)]
#[collection(parent = Param)]
struct Adapter;

#[derive(pytree_core::Collection)]
#[collection(parent = Adapter)]
struct Scale;

#[derive(pytree_core::Collection)]
#[collection(parent = BatchStat)]
struct Average;

#[derive(Module, Clone, Debug, PartialEq)]
struct Layer {
    #[param]
    weight: f32,
    #[param(Adapter)]
    down: f32,
    #[param(Scale)]
    scale: f32,
    #[state(Average)]
    average: f32,
}

const LAYER: Layer = Layer {
    weight: 1.0,
    down: 2.0,
    scale: 3.0,
    average: 4.0,
};

#[test]
fn registry_has_collections_of_parameters() {
    let id = CollectionId::of::<Scale>();
    assert_eq!(Layer::REGISTRY[2], ("scale", FieldKind::ParamIn(id)));
    assert_eq!(id.name(), "Scale");
    assert_eq!(id.parent(), Some(CollectionId::of::<Adapter>()));
    assert_eq!(CollectionId::of::<Adapter>().parent(), None);
    assert_eq!(CollectionId::of::<Param>().name(), "Param");
    assert_eq!(
        CollectionId::of::<Average>().parent(),
        Some(CollectionId::of::<BatchStat>())
    );
    let kinds: Vec<String> = tree::structure(&LAYER)
        .leaf_kinds()
        .iter()
        .map(|kind| kind.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(kinds, ["Param", "Adapter", "Scale", "Average"]);
}

#[test]
fn collections_are_equal_by_names_of_all_ancestors() {
    let stat = CollectionId::named("BatchStat").unwrap();
    assert_eq!(
        stat.child("Average").unwrap(),
        CollectionId::of::<Average>()
    );
    assert_ne!(
        CollectionId::named("Average").unwrap(),
        CollectionId::of::<Average>()
    );
    let other = CollectionId::named("Batch").unwrap();
    assert_ne!(
        other.child("Average").unwrap(),
        CollectionId::of::<Average>()
    );
    assert!(CollectionId::of::<Average>().is_in(&stat));
    assert!(!stat.is_in(&CollectionId::of::<Average>()));
    assert!(
        !stat
            .child("Stat")
            .unwrap()
            .is_in(&CollectionId::named("Stat").unwrap())
    );
}

#[test]
fn names_fill_their_room_exactly() {
    let long = |length| "n".repeat(length);
    let parent = CollectionId::named(&long(22)).unwrap();
    let child = parent.child(&long(23)).unwrap();
    assert_eq!(child.name(), long(23));
    assert_eq!(child.parent(), Some(parent));
    assert_eq!(child.parent().unwrap().parent(), None);
    assert_eq!(
        parent.child(&long(24)).unwrap_err().to_string(),
        format!(
            "cannot build a collection: expected at most 46 bytes for the names of a collection and its ancestors, with one \
             more for each ancestor, found 47 for `{}` below `{}`; write shorter names",
            long(24),
            long(22)
        )
    );
    assert!(child.child("").is_err());
    // Names may be empty, also those of ancestors.
    let mut id = CollectionId::named("").unwrap();
    let mut count = 1;
    while let Ok(next) = id.child("") {
        assert_eq!(next.parent(), Some(id));
        (id, count) = (next, count + 1);
    }
    assert_eq!(count, 47);
}

#[test]
fn bytes_keep_parents() {
    let treedef = tree::structure(&LAYER);
    let bytes = treedef.to_bytes();
    let read = TreeDef::from_bytes(&bytes).unwrap();
    assert_eq!(read, treedef);
    assert_eq!(read.leaf_kinds(), treedef.leaf_kinds());
    assert_eq!(read.content_hash(), treedef.content_hash());
    assert_eq!(read.to_bytes(), bytes);
    let kinds = read.leaf_kinds();
    let is_in = |filter: LeafKind| -> Vec<bool> {
        let kinds = kinds.iter().map(|kind| kind.as_ref().unwrap());
        kinds.map(|kind| kind.is_in(&filter)).collect()
    };
    assert_eq!(is_in(LeafKind::Param), [true, true, true, false]);
    assert_eq!(is_in(LeafKind::of::<Adapter>()), [false, true, true, false]);
    assert_eq!(
        is_in(LeafKind::of::<BatchStat>()),
        [false, false, false, true]
    );
    assert_eq!(
        tree::unflatten::<Layer, _>(&read, vec![1.0_f32, 2.0, 3.0, 4.0]).unwrap(),
        LAYER
    );
}

#[test]
fn dynamic_module_registers_collections() {
    let mut module = DynamicModule::<f32>::typed("Layer").unwrap();
    module.register_param("weight", 1.0_f32).unwrap();
    module
        .register_param_in::<Adapter>("down", 2.0_f32)
        .unwrap();
    module.register_param_in::<Scale>("scale", 3.0_f32).unwrap();
    module
        .register_state_in::<Average>("average", 4.0_f32)
        .unwrap();
    assert_eq!(tree::structure(&module), tree::structure(&LAYER));
    let error = module
        .register_param_in::<Adapter>("name", Tree::of(&[1_i32]))
        .unwrap_err();
    assert!(
        error.to_string().contains("register a parameter of"),
        "{error}"
    );
}

#[test]
fn frozen_module_keeps_collections() {
    let mut module = DynamicModule::<f32>::typed("Layer").unwrap();
    module.register_param("weight", 1.0_f32).unwrap();
    module
        .register_param_in::<Adapter>("down", 2.0_f32)
        .unwrap();
    module.register_param_in::<Scale>("scale", 3.0_f32).unwrap();
    module.register_module("inner", LAYER).unwrap();
    let before = tree::structure(&module);
    let kinds = |module: &DynamicModule<f32>, filter: &Filter| {
        partition::filter::<_, f32>(module, filter).len()
    };
    assert_eq!(kinds(&module, &Filter::param()), 6);
    module.freeze();
    assert_eq!(kinds(&module, &Filter::param()), 0);
    assert_eq!(kinds(&module, &Filter::state::<Frozen>()), 6);
    let names: Vec<String> = tree::structure(&module)
        .leaf_kinds()
        .iter()
        .map(|kind| kind.unwrap().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "Frozen", "Adapter", "Scale", "Frozen", "Adapter", "Scale", "Average"
        ]
    );
    module.unfreeze();
    assert_eq!(tree::structure(&module), before);
    assert_eq!(kinds(&module, &Filter::collection::<Adapter>()), 4);
}

#[test]
fn frozen_collection_of_long_name_stays_frozen() {
    #[derive(pytree_core::Collection)]
    #[collection(parent = Param)]
    struct ACollectionOfParametersWithThirtyNineBy;
    let mut module = DynamicModule::<f32>::typed("Layer").unwrap();
    module
        .register_param_in::<ACollectionOfParametersWithThirtyNineBy>("weight", 1.0_f32)
        .unwrap();
    let before = tree::structure(&module);
    module.freeze();
    assert_eq!(
        partition::filter::<_, f32>(&module, &Filter::state::<Frozen>()).len(),
        1
    );
    module.unfreeze();
    assert_eq!(tree::structure(&module), before);
}

#[test]
fn reference_is_in_collection_of_parameters() {
    let refs = (
        Ref::in_collection::<Scale>(1.0_f32),
        Ref::in_collection::<Param>(2.0_f32),
    );
    assert_eq!(refs.0.kind(), Some(LeafKind::of::<Scale>()));
    let treedef = graph::structure(&refs);
    assert_eq!(
        treedef.leaf_kinds(),
        [Some(LeafKind::of::<Scale>()), Some(LeafKind::Param)]
    );
    assert_eq!(TreeDef::from_bytes(&treedef.to_bytes()).unwrap(), treedef);
    assert_eq!(
        graph::structure(&(Ref::param(1.0_f32), Ref::param(2.0_f32))).leaf_kinds()[0],
        Some(LeafKind::Param)
    );
    assert!(<Scale as Collection>::KIND.is_param());
}
