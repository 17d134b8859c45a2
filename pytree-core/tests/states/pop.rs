use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use pytree_core::kind::{BatchStat, Intermediate};
use pytree_core::{
    Annotated, Filter, Module, Partition, Ref, Shared, Tree, TreeError, WeakRef, graph, partition,
    tree,
};

use crate::states::{Mlp, mlp};

fn intermediate() -> Filter {
    Filter::state::<Intermediate>()
}

#[test]
fn sown_values_are_popped() {
    let mut model = mlp();
    let popped = partition::pop(&mut model, &intermediate()).unwrap();
    let mut expected = mlp();
    expected
        .blocks
        .iter_mut()
        .for_each(|block| block.sown = None);
    assert_eq!(model, expected);
    assert_eq!(popped.leaves(), [100.0, 7.0, 200.0, 7.0]);
    assert_eq!(
        popped.state().to_string(),
        "\
State({
  'blocks': {
    0: {
      'sown': Intermediate( # 2 (8 B)
        value=[100.0, 7.0]
      )
    },
    1: {
      'sown': Intermediate( # 2 (8 B)
        value=[200.0, 7.0]
      )
    }
  }
})"
    );
    let again = partition::pop(&mut model, &intermediate()).unwrap();
    assert!(again.is_empty());
    assert_eq!(model, expected);
}

#[test]
fn popped_part_can_be_split() {
    let mut model = mlp();
    let bias = Filter::path_contains("bias");
    let popped = partition::pop(&mut model, &(intermediate() | bias.clone())).unwrap();
    let [biases, sown] = popped.split([bias, intermediate()]).unwrap();
    assert_eq!((biases.len(), sown.len()), (1, 4));
    assert_eq!(model.blocks[1].linear.bias, None);
}

#[test]
fn popped_plain_fields_are_reported() {
    let mut model = mlp();
    let filter = Filter::state::<BatchStat>() | intermediate();
    let error = partition::pop(&mut model, &filter).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot pop leaves that the type of the model requires: 2 places:"),
        "{text}"
    );
    assert!(
        text.contains("blocks[0].mean") && text.contains("blocks[1].mean"),
        "{text}"
    );
    assert!(text.contains("put each of them into an `Option`"), "{text}");
    assert_eq!(model, mlp());
    let misspelt = partition::pop(&mut model, &Filter::path("blocks[0].meen")).unwrap_err();
    assert!(matches!(misspelt, TreeError::NoLeaf { .. }), "{misspelt}");
}

#[derive(Module, Clone, Debug, PartialEq, Default)]
struct Kept {
    #[state(Intermediate)]
    list: Vec<f32>,
    #[state(Intermediate)]
    named: BTreeMap<String, f32>,
    #[state(Intermediate)]
    by_number: HashMap<i32, Vec<f32>>,
    #[state(Intermediate)]
    ordered: IndexMap<String, f32>,
    #[state(Intermediate)]
    options: Vec<Option<f32>>,
    #[state(Intermediate)]
    said: Option<Annotated<f32>>,
}

fn kept() -> Kept {
    Kept {
        list: vec![1.0, 2.0, 3.0],
        named: [("a".to_owned(), 4.0), ("b".to_owned(), 5.0)].into(),
        by_number: [(1, vec![6.0]), (2, vec![7.0, 8.0])].into(),
        ordered: [
            ("z".to_owned(), 9.0),
            ("y".to_owned(), 10.0),
            ("x".to_owned(), 11.0),
        ]
        .into(),
        options: vec![Some(12.0), None, Some(13.0)],
        said: Some(Annotated::new(14.0).with("axis", "x")),
    }
}

#[test]
fn items_entries_and_options_are_emptied() {
    let mut all = kept();
    let popped = partition::pop(&mut all, &intermediate()).unwrap();
    assert_eq!(popped.len(), 14);
    let expected = Kept {
        options: vec![None, None, None],
        ..Kept::default()
    };
    assert_eq!(all, expected);
}

#[test]
fn unselected_items_keep_their_order() {
    let mut some = kept();
    let paths = [
        "list[1]",
        "named['a']",
        "by_number[2][0]",
        "ordered['y']",
        "options[2]",
        "said",
    ];
    let filter = paths
        .map(Filter::path)
        .into_iter()
        .reduce(|all, path| all | path)
        .unwrap();
    let popped = partition::pop(&mut some, &filter).unwrap();
    assert_eq!(popped.leaves(), [2.0, 4.0, 7.0, 10.0, 13.0, 14.0]);
    let expected = kept();
    assert_eq!(some.list, [1.0, 3.0]);
    assert_eq!(some.named, [("b".to_owned(), 5.0)].into());
    assert_eq!(some.by_number[&1], expected.by_number[&1]);
    assert_eq!(some.by_number[&2], [8.0]);
    assert_eq!(some.ordered.keys().collect::<Vec<_>>(), ["z", "x"]);
    assert_eq!(some.options, [Some(12.0), None, None]);
    assert_eq!(some.said, None);
}

#[test]
fn popping_keeps_insertion_order_in_dynamic_trees() {
    let mut tree: Tree<i32> = tree!({"c": 1, "a": 2, "b": 3}).cast().unwrap();
    partition::pop(&mut tree, &Filter::path("['a']")).unwrap();
    assert_eq!(tree.to_string(), "{'b': 3, 'c': 1}");
    let ordered: IndexMap<String, i32> = tree.to_value().unwrap();
    assert_eq!(ordered.keys().collect::<Vec<_>>(), ["c", "b"]);
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Fixed {
    #[state(Intermediate)]
    array: [f32; 2],
    #[state(Intermediate)]
    lists: [Vec<f32>; 2],
    #[state(Intermediate)]
    more: Vec<[f32; 1]>,
    #[state(Intermediate)]
    pair: (f32, Option<f32>),
}

#[test]
fn arrays_and_tuples_keep_their_length() {
    let fixed = Fixed {
        array: [1.0, 2.0],
        lists: [vec![3.0], vec![4.0, 5.0]],
        more: vec![[6.0], [7.0]],
        pair: (8.0, Some(9.0)),
    };
    let mut model = fixed.clone();
    let error = partition::pop(&mut model, &intermediate()).unwrap_err();
    let TreeError::Held { paths } = error else {
        panic!("{error}")
    };
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["array[0]", "array[1]", "pair[0]"]);
    assert_eq!(model, fixed);
    let filter = Filter::path("lists") | Filter::path("more[0]") | Filter::path("pair[1]");
    partition::pop(&mut model, &filter).unwrap();
    assert_eq!(model.lists, [Vec::<f32>::new(), vec![]]);
    assert_eq!(model.more, [[7.0]]);
    assert_eq!(model.pair, (8.0, None));
}

#[derive(Module, Clone, Debug)]
struct Nodes {
    #[state(Intermediate)]
    first: Option<Shared<f32>>,
    #[state(Intermediate)]
    inside: Shared<Vec<f32>>,
    #[state(Intermediate)]
    inside_too: Shared<Vec<f32>>,
    #[state(Intermediate)]
    list: Vec<Shared<f32>>,
}

fn nodes() -> Nodes {
    let (first, other) = (Shared::new(1.0), Shared::new(2.0));
    let inside = Shared::new(vec![3.0, 4.0]);
    Nodes {
        first: Some(first.clone()),
        inside: inside.clone(),
        inside_too: inside,
        list: vec![other.clone(), first, other],
    }
}

#[test]
fn shared_node_is_popped_at_all_paths() {
    let mut model = nodes();
    let popped = partition::pop(&mut model, &Filter::path("first")).unwrap();
    assert_eq!(popped.leaves(), [1.0]);
    assert!(model.first.is_none());
    assert_eq!(model.list.len(), 2);
    assert!(model.list[0].same(&model.list[1]));
    assert!(model.inside.same(&model.inside_too));

    // What is left shared is renumbered.
    let popped = partition::pop(&mut model, &Filter::path("inside[0]")).unwrap();
    assert_eq!(popped.leaves(), [3.0]);
    assert_eq!(*model.inside_too, [4.0]);
    assert!(model.inside.same(&model.inside_too));

    let mut model = nodes();
    assert_eq!(
        partition::pop(&mut model, &intermediate()).unwrap().len(),
        4
    );
    assert!(model.first.is_none() && model.inside.is_empty() && model.list.is_empty());
    assert!(model.inside.same(&model.inside_too));
}

#[test]
fn later_place_in_plain_field_is_reported() {
    #[derive(Module, Clone, Debug)]
    struct Held {
        #[state(Intermediate)]
        list: Vec<Shared<f32>>,
        #[state(Intermediate)]
        always: Shared<f32>,
    }
    let always = Shared::new(1.0);
    let mut held = Held {
        list: vec![always.clone()],
        always,
    };
    let error = partition::pop(&mut held, &intermediate()).unwrap_err();
    assert!(
        error.to_string().contains("model requires: always;"),
        "{error}"
    );
    assert!(held.list[0].same(&held.always));
}

#[test]
fn leaves_without_kind_are_popped_singly() {
    let mut plain = vec![(1.0_f32, vec![2.0_f32, 3.0])];
    let error = partition::pop(&mut plain, &Filter::everything()).unwrap_err();
    assert!(
        error.to_string().contains("model requires: [0][0];"),
        "{error}"
    );
    let popped: Partition<_, f32> = partition::pop(&mut plain, &Filter::path("[0][1]")).unwrap();
    assert_eq!(popped.len(), 2);
    assert_eq!(plain, [(1.0, vec![])]);
    // A module is not taken out with its parameters.
    let mut model: Vec<Mlp> = vec![mlp()];
    assert!(partition::pop(&mut model, &Filter::everything()).is_err());
    assert_eq!(model.len(), 1);
}

#[derive(Module)]
struct WithTree {
    #[param]
    weak: WeakRef<f32>,
    #[state]
    tree: Tree<f32>,
    #[param]
    cell: Ref<f32>,
    #[state(Intermediate)]
    sown: Option<f32>,
}

#[test]
fn references_survive_beside_dynamic_tree() {
    let shared = Shared::new(1.0);
    let (leaves, treedef) = graph::flatten::<f32, _>(&(shared.clone(), shared));
    let cell = Ref::new(2.0);
    let mut model = WithTree {
        weak: cell.downgrade(),
        tree: Tree::new(treedef, leaves).unwrap(),
        cell: cell.clone(),
        sown: Some(3.0),
    };
    partition::pop(&mut model, &intermediate()).unwrap();
    assert_eq!(model.sown, None);
    assert_eq!(model.tree.leaves(), [1.0]);
    assert!(model.cell.same(&cell));
    assert!(model.weak.upgrade().unwrap().same(&cell));
}
