//! Parts, states, walks and displays of values with references.

use pytree_core::kind::Intermediate;
use pytree_core::refs::{self, deref, reref, try_deref, update_refs, with_mutable};
use pytree_core::{
    Annotated, Dictionary, DynamicModule, Filter, LeafKind, Module, Pytree, Ref, Shared, Tree,
    WeakRef, at, diff, edit, graph, lint, nodes, partition,
};

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Ref<f32>,
    #[param]
    tied: Ref<f32>,
    #[state(Intermediate)]
    sown: Ref<Vec<f32>>,
    #[state]
    plain: f32,
}

fn model() -> Model {
    let weight = Ref::new(1.5);
    Model {
        tied: weight.clone(),
        weight,
        sown: Ref::new(vec![4.0, 5.0]),
        plain: 3.0,
    }
}

#[test]
fn update_writes_only_references_of_the_part() {
    let mut model = model();
    let outside = model.clone();
    let part = partition::filter::<_, f32>(&model, &Filter::param()).map(|weight| weight * 2.0);
    with_mutable(
        |_| true,
        || {
            partition::update(&mut model, &part).unwrap();
        },
    );
    assert!(model.weight.same(&outside.weight) && model.sown.same(&outside.sown));
    assert_eq!(
        (outside.tied.get(), outside.sown.get()),
        (3.0, vec![4.0, 5.0])
    );
    let replaced = partition::replace(&outside, &part.map(|weight| weight + 1.0)).unwrap();
    assert!(
        !replaced.weight.same(&outside.weight),
        "another value has its own"
    );
    assert_eq!((replaced.tied.get(), outside.tied.get()), (4.0, 3.0));
}

#[test]
fn update_refs_writes_only_references() {
    let model = model();
    let all = partition::filter::<_, f32>(&model, &Filter::everything()).map(|leaf| leaf + 10.0);
    let error = update_refs(&model, &all).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot update references: no reference contains plain; pass only leaves that are in references, and change other leaves in the value itself"
    );
    assert_eq!(model.weight.get(), 1.5, "nothing is written");
    let sown = partition::filter::<_, f32>(&model, &Filter::state::<Intermediate>());
    update_refs(&model, &sown.map(|leaf: &f32| leaf * 2.0)).unwrap();
    assert_eq!(
        (model.sown.get(), model.weight.get()),
        (vec![8.0, 10.0], 1.5)
    );
    let longer = Model {
        sown: Ref::new(vec![1.0; 3]),
        ..model.clone()
    };
    assert!(
        refs::of(&model)
            .update_from::<f32>(&longer)
            .unwrap_err()
            .to_string()
            .contains("sown")
    );
    let other = Model {
        sown: Ref::new(vec![1.0, 2.0]),
        plain: 100.0,
        ..graph::map(&model, |leaf: &f32| leaf * 3.0)
    };
    refs::of(&model).update_from::<f32>(&other).unwrap();
    assert_eq!(
        (model.tied.get(), model.sown.get(), model.plain),
        (4.5, vec![1.0, 2.0], 3.0)
    );
}

#[test]
fn with_mutable_allows_only_accepted_kinds() {
    let (weight, mean) = (Ref::param(1), Ref::state::<Intermediate>(2));
    let plain = Ref::new(3);
    with_mutable(
        |kind| kind == Some(LeafKind::Param),
        || {
            weight.set(5);
            let text = mean.try_set(6).unwrap_err().to_string();
            assert!(
                text.starts_with(
                    "cannot write a reference of kind Intermediate: inside of `refs::with_mutable`"
                ),
                "{text}"
            );
            assert!(
                plain
                    .try_set(6)
                    .unwrap_err()
                    .to_string()
                    .contains("that has no kind")
            );
            with_mutable(
                |kind| kind.is_none(),
                || {
                    assert!(weight.try_set(7).is_err() && plain.try_set(7).is_err());
                },
            );
        },
    );
    mean.set(8);
    assert_eq!((weight.get(), mean.get(), plain.get()), (5, 8, 3));
}

#[test]
fn popping_keeps_the_references() {
    let mut model = model();
    let outside = model.clone();
    let popped = partition::pop::<_, f32>(&mut model, &Filter::state::<Intermediate>()).unwrap();
    assert_eq!(popped.leaves(), [4.0, 5.0]);
    assert!(model.sown.same(&outside.sown) && model.weight.same(&outside.tied));
    assert!(outside.sown.get().is_empty());
    let error = partition::pop::<_, f32>(&mut model, &Filter::param()).unwrap_err();
    assert!(error.to_string().contains("weight"), "{error}");
    assert_eq!(model.weight.get(), 1.5);

    let (a, b) = (Ref::new(Some(1.0_f32)), Ref::new(Some(2.0_f32)));
    let mut list = (vec![a.clone(), a.clone(), b.clone()], b.downgrade());
    let popped = partition::pop::<_, f32>(&mut list, &Filter::path("[0][0]")).unwrap();
    assert_eq!(popped.leaves(), [1.0]);
    assert!(list.0.last().unwrap().same(&b) && list.1.upgrade().unwrap().same(&b));
}

#[test]
fn states_are_displayed_through_references() {
    let part = partition::filter::<_, f32>(&model(), &Filter::everything());
    assert_eq!(
        part.state().to_string(),
        "\
State({
  'weight': Param( # 1 (4 B)
    value=1.5
  ),
  'sown': Intermediate( # 2 (8 B)
    value=[4.0, 5.0]
  ),
  'plain': State( # 1 (4 B)
    value=3.0
  )
})"
    );
}

#[test]
fn walks_visit_reference_once() {
    let model = model();
    let met = nodes::iter_graph(&model);
    let met: Vec<String> = met
        .iter()
        .map(|(path, met)| format!("{} {met}", path.or_root()))
        .collect();
    assert_eq!(
        met,
        [
            "weight 1.5",
            "sown[0] 4.0",
            "sown[1] 5.0",
            "sown list",
            "plain 3.0",
            "the root Model"
        ]
    );
    let children = nodes::iter_children(&model);
    let children: Vec<String> = children
        .iter()
        .map(|(key, met)| format!("{key} {met}"))
        .collect();
    assert_eq!(
        children,
        [".weight 1.5", ".tied 1.5", ".sown list", ".plain 3.0"]
    );
    assert_eq!(
        nodes::find_duplicates(&model).to_string(),
        "[[('weight',), ('tied',)]]"
    );
    let references = nodes::of_type::<Ref<f32>>(&model);
    assert_eq!(references.len(), 1);
    let copy = nodes::copy(&model);
    assert!(copy.weight.same(&copy.tied) && !copy.weight.same(&model.weight));
}

#[derive(Pytree, Clone, Debug)]
struct Cyclic {
    value: Ref<f32>,
    inside: Ref<Vec<Cyclic>>,
    back: WeakRef<f32>,
}

fn cyclic() -> Cyclic {
    let cyclic = Cyclic {
        value: Ref::new(1.0),
        inside: Ref::new(Vec::new()),
        back: WeakRef::new(),
    };
    let cyclic = Cyclic {
        back: cyclic.value.downgrade(),
        ..cyclic
    };
    cyclic.inside.set(vec![cyclic.clone()]);
    cyclic
}

#[test]
fn cycle_is_walked_completely() {
    let cyclic = cyclic();
    assert_eq!(nodes::iter_graph(&cyclic).len(), 4);
    assert_eq!(nodes::iter_children(&cyclic).len(), 3);
    assert_eq!(
        nodes::find_duplicates(&cyclic).to_string(),
        "[[('value',), ('inside', 0, 'value'), ('inside', 0, 'back'), ('back',)], [('inside',), ('inside', 0, 'inside')]]"
    );
    assert_eq!(
        Dictionary::flatten(&cyclic).to_string(),
        "\
{obj.__class__: <class 'Cyclic'>,
obj.value: 1.0,
obj.inside.__class__: <class 'list'>,
obj.inside[0].__class__: <class 'Cyclic'>,
obj.inside[0].value: obj.value,
obj.inside[0].inside: obj.inside,
obj.inside[0].back: obj.value,
obj.back: obj.value}"
    );
    let back: Cyclic = Dictionary::flatten(&cyclic).unflatten().unwrap();
    assert!(back.inside.get()[0].inside.same(&back.inside));
    assert!(back.back.upgrade().unwrap().same(&back.value));
    let values = deref::<f32, _>(&cyclic);
    assert_eq!(
        values.to_string(),
        "Cyclic { value: 1.0, inside: [Cyclic { value: alias 0, inside: [...], back: alias 0 }], back: alias 0 }"
    );
    let again: Cyclic = reref(&values).unwrap();
    assert_eq!(graph::structure(&again), graph::structure(&cyclic));
    let part = partition::filter::<_, f32>(&cyclic, &Filter::everything());
    assert!(
        part.state()
            .to_string()
            .starts_with("State({\n  'value': 1.0")
    );
    for cyclic in [cyclic, back, again] {
        cyclic.inside.set(Vec::new());
    }
}

#[test]
fn functions_treat_references_as_transparent() {
    let model = model();
    assert!(
        lint(&model)
            .iter()
            .any(|finding| finding.to_string().contains("weight"))
    );
    let other = graph::map(&model, |leaf: &f32| leaf + 1.0);
    let found = diff(&model, &other);
    assert_eq!(found.leaves().len(), 5, "trees look at each place");
    let plain = at(|model: &Model| &model.plain);
    assert_eq!(plain.path(&model).unwrap().to_string(), "plain");
    assert_eq!(
        format!("{:?}", plain.filter(&model).unwrap()),
        "(nothing | path(plain))"
    );
    let edited = edit::replace_at(&model, "plain", 9.0_f32).unwrap();
    assert_eq!((edited.plain, edited.tied.get()), (9.0, 1.5));
    let annotated = (
        Annotated::new(Shared::new(1.0_f32)),
        Ref::new(Annotated::new(2.0_f32)),
    );
    let (leaves, treedef) = graph::flatten::<f32, _>(&annotated);
    let back: (Annotated<Shared<f32>>, Ref<Annotated<f32>>) =
        graph::unflatten(&treedef, leaves).unwrap();
    assert_eq!((**back.0, *back.1.get()), (1.0, 2.0));
}

#[test]
fn reference_contents_are_copied_into_dynamic_trees() {
    let list = Ref::new(vec![1, 2]);
    let pair = (list.clone(), list.clone());
    let tree = Tree::of(&pair);
    assert_eq!(tree.to_string(), "([1, 2], [1, 2])");
    let mut module: DynamicModule = DynamicModule::new("Pair").unwrap();
    module.register_state("pair", pair).unwrap();
    list.set(vec![3]);
    assert_eq!(tree.to_string(), "([1, 2], [1, 2])");
    assert_eq!(module.to_string(), "Pair { pair: ([1, 2], [1, 2]) }");
}

#[test]
fn dereferenced_value_is_not_dereferenced_again() {
    let cell = Ref::new(1.0_f32);
    let model = (cell.clone(), vec![cell, Ref::new(2.0)]);
    let values = try_deref::<f32, _>(&model).unwrap();
    let error = try_deref::<f32, _>(&values).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot dereference a value that is already dereferenced: it contains a plain value instead of a reference at 2 places:\n  [0]\n  [1][1]; pass the value with its references, or first rebuild the references with `refs::reref`"
    );
    let part = partition::filter::<_, f32>(&model, &Filter::everything());
    assert!(try_deref::<f32, _>(&(1.0_f32, part)).is_err());
    // A shared node is no reference, also inside of a dynamic tree.
    let shared = Shared::new(1.0_f32);
    let (leaves, treedef) = graph::flatten::<f32, _>(&(shared.clone(), shared));
    let tree = Tree::new(treedef, leaves).unwrap();
    assert!(try_deref::<f32, _>(&(tree, Ref::new(3.0_f32))).is_ok());
}
