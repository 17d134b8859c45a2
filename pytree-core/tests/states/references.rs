//! States, walks and dictionaries of models with references and weak edges.

use pytree_core::kind::{BatchStat, Intermediate};
use pytree_core::{
    Dictionary, Filter, Module, Partition, Pytree, Ref, Shared, WeakShared, graph, nodes, partition,
};

#[derive(Module, Clone, Debug)]
struct Net {
    #[param]
    weight: Ref<f32>,
    #[state(Intermediate)]
    sown: Ref<Option<f32>>,
    #[state(Intermediate)]
    last: Option<Ref<f32>>,
    #[param]
    tied: Ref<f32>,
}

fn net() -> Net {
    let weight = Ref::new(1.0);
    Net {
        tied: weight.clone(),
        weight,
        sown: Ref::new(Some(2.0)),
        last: Some(Ref::new(3.0)),
    }
}

#[test]
fn update_is_seen_through_every_handle() {
    let mut model = net();
    let outside = model.weight.clone();
    let part = partition::filter::<Net, f32>(&model, &Filter::param()).map(|leaf| leaf * 10.0);
    partition::update(&mut model, &part).unwrap();
    assert_eq!((outside.get(), model.tied.get()), (10.0, 10.0));
    assert!(model.weight.same(&outside) && model.tied.same(&outside));
}

#[test]
fn contents_of_references_are_popped_in_place() {
    let mut model = net();
    let (weight, sown) = (model.weight.clone(), model.sown.clone());
    let popped = partition::pop(&mut model, &Filter::state::<Intermediate>()).unwrap();
    assert_eq!(popped.leaves(), [2.0, 3.0]);
    assert_eq!(sown.get(), None);
    assert!(model.last.is_none());
    assert!(model.weight.same(&weight) && model.tied.same(&weight) && model.sown.same(&sown));

    let held = partition::pop(&mut model, &Filter::path("weight")).unwrap_err();
    assert!(
        held.to_string().contains("model requires: weight;"),
        "{held}"
    );
    assert_eq!(weight.get(), 1.0);
}

#[test]
fn reference_with_own_kind_is_variable() {
    let mut cells = vec![Ref::param(1.0_f32), Ref::state::<BatchStat>(2.0)];
    let all = partition::filter::<_, f32>(&cells, &Filter::everything());
    assert_eq!(
        all.state().to_string(),
        "\
State({
  0: Param( # 1 (4 B)
    value=1.0
  ),
  1: BatchStat( # 1 (4 B)
    value=2.0
  )
})"
    );
    let alone = partition::filter::<_, f32>(&cells[0], &Filter::everything());
    assert_eq!(
        alone.state().to_string(),
        "State(Param( # 1 (4 B)\n  value=1.0\n))"
    );
    let popped = partition::pop(&mut cells, &Filter::param()).unwrap();
    assert_eq!(popped.leaves(), [1.0]);
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].get(), 2.0);
}

#[test]
fn single_reference_is_split_merged_and_updated() {
    let mut variable = Ref::param(1.0_f32);
    let outside = variable.clone();
    let filters = [
        Filter::state::<BatchStat>(),
        Filter::param(),
        Filter::everything(),
    ];
    let parts = partition::split::<_, f32, 3>(&variable, filters).unwrap();
    let [stats, params, rest] = &parts;
    assert!(stats.is_empty() && rest.is_empty());
    assert_eq!(params.leaves(), [1.0]);
    partition::update(&mut variable, &params.map(|leaf| leaf + 1.0)).unwrap();
    assert!(variable.same(&outside));
    assert_eq!(outside.get(), 2.0);
    let merged = partition::merge(parts).unwrap();
    assert!(!merged.same(&outside));
    assert_eq!(
        (merged.get(), merged.kind()),
        (1.0, Some(pytree_core::LeafKind::Param))
    );
}

#[test]
fn equal_references_are_not_shared() {
    let pair = || vec![Ref::param(1.0_f32), Ref::param(1.0)];
    assert!(nodes::find_duplicates(&pair()).is_empty());
    let [all] = partition::split::<_, f32, 1>(&pair(), [Filter::everything()]).unwrap();
    assert_eq!(all.len(), 2);
    let merged = partition::merge([all]).unwrap();
    assert!(!merged[0].same(&merged[1]));
    assert_ne!(
        graph::structure(&merged),
        graph::structure(&vec![merged[0].clone(), merged[0].clone()])
    );
}

#[derive(Pytree, Clone, Debug)]
struct Node {
    value: f32,
    next: Option<Shared<Node>>,
    back: WeakShared<Node>,
}

/// Two nodes, of which the second leads back to the first.
fn ring() -> Shared<Node> {
    Shared::new_cyclic(|first| Node {
        value: 1.0,
        next: Some(Shared::new(Node {
            value: 2.0,
            next: None,
            back: first.clone(),
        })),
        back: WeakShared::new(),
    })
}

#[test]
fn cycles_survive_dictionary_round_trip() {
    let flat = Dictionary::flatten(&ring());
    assert_eq!(
        flat.to_string(),
        "\
{obj.__class__: <class 'Node'>,
obj.value: 1.0,
obj.next.__class__: <class 'Node'>,
obj.next.value: 2.0,
obj.next.next: None,
obj.next.back: obj,
obj.back: None}"
    );
    let value = |path: &str| flat.get(path).unwrap().downcast_ref::<f32>().copied();
    assert_eq!(value("next.back.next.back.value"), Some(1.0));
    assert_eq!(value("next.back.next.value"), Some(2.0));
    let back: Shared<Node> = flat.unflatten().unwrap();
    let next = back.next.as_ref().unwrap();
    assert!(next.back.upgrade().unwrap().same(&back));
    assert_eq!(
        Dictionary::flatten(&back).content_hash(),
        flat.content_hash()
    );
}

#[test]
fn cycles_are_walked_once() {
    let ring = ring();
    let met = nodes::iter_graph(&ring);
    let met: Vec<String> = met
        .iter()
        .map(|(path, met)| format!("{path}: {met}"))
        .collect();
    assert_eq!(
        met,
        [
            "value: 1.0",
            "next.value: 2.0",
            "next.next: None",
            "next: Node",
            ": Node"
        ]
    );
    assert_eq!(
        nodes::find_duplicates(&ring).to_string(),
        "[[(), ('next', 'back')]]"
    );
    let children = nodes::iter_children(&**ring.next.as_ref().unwrap());
    let children: Vec<String> = children
        .iter()
        .map(|(key, met)| format!("{key} {met}"))
        .collect();
    assert_eq!(children, [".value 2.0", ".next None"]);
    let copy = nodes::copy(&ring);
    assert!(!copy.same(&ring));
    assert!(
        copy.next
            .as_ref()
            .unwrap()
            .back
            .upgrade()
            .unwrap()
            .same(&copy)
    );
    let net = net();
    assert_eq!(
        nodes::find_duplicates(&net).to_string(),
        "[[('weight',), ('tied',)]]"
    );
    assert_eq!(nodes::iter_children(&net).len(), 4);
}

#[derive(Module, Clone, Debug)]
struct Edges {
    #[state]
    early: Early,
    #[state(Intermediate)]
    targets: Vec<Shared<f32>>,
}

#[derive(Pytree, Clone, Debug)]
struct Early(WeakShared<f32>, WeakShared<f32>);

#[test]
fn weak_edge_to_popped_node_loses_target() {
    let (first, second) = (Shared::new(1.0), Shared::new(2.0));
    let edges = || Edges {
        early: Early(second.downgrade(), first.downgrade()),
        targets: vec![first.clone(), second.clone(), first.clone()],
    };
    let mut model = edges();
    let popped: Partition<Edges, f32> =
        partition::pop(&mut model, &Filter::path("targets[0]")).unwrap();
    assert_eq!(popped.leaves(), [1.0]);
    assert!(model.early.1.upgrade().is_none());
    assert!(model.early.0.upgrade().unwrap().same(&model.targets[0]));
    assert_eq!(model.targets.len(), 1);
    let mut model = edges();
    partition::pop(&mut model, &Filter::everything()).unwrap();
    assert!(model.early.0.upgrade().is_none() && model.targets.is_empty());
    assert_eq!(graph::structure(&model).num_leaves(), 0);
}
