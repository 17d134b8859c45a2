//! `#[derive(Module)]` on structs and enums without parameters.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use indexmap::IndexMap;
use ndarray::{Array1, Array2, ArrayD, array};
use pytree_core::kind::{BatchStat, OptState, State};
use pytree_core::{
    Collection, CollectionId, FieldKind, LeafKind, Module, ModuleType, Partition, Shared, Static,
    Tree, tree,
};

use crate::derive::{rebuilt, shown};

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: Array2<f32>,
    #[param]
    bias: Option<Array1<f32>>,
}

fn linear() -> Linear {
    Linear {
        weight: array![[1.0, 2.0]],
        bias: Some(array![3.0]),
    }
}

#[derive(Static, Clone, Copy, Debug, PartialEq)]
enum Activation {
    Relu,
    Tanh,
}

#[derive(Collection, Debug)]
struct Average;

#[derive(Module, Clone, Debug, PartialEq)]
struct Mlp {
    layers: Vec<Linear>,
    #[param]
    scale: f32,
    #[state(BatchStat)]
    mean: Array1<f32>,
    #[state(Average)]
    average: f64,
    #[state]
    steps: u32,
    #[r#static]
    activation: Activation,
    #[module(static)]
    rate: f64,
}

fn mlp(activation: Activation) -> Mlp {
    Mlp {
        layers: vec![
            linear(),
            Linear {
                bias: None,
                ..linear()
            },
        ],
        scale: 2.0,
        mean: array![0.5],
        average: 0.25,
        steps: 3,
        activation,
        rate: 0.1,
    }
}

fn state<C: Collection>() -> FieldKind {
    FieldKind::State(CollectionId::of::<C>())
}

#[test]
fn struct_is_rebuilt_from_its_leaves() {
    let model = mlp(Activation::Relu);
    assert_eq!(rebuilt(&model), model);
    assert_eq!(
        shown(&model),
        "PyTreeDef(Mlp { layers: [Linear { weight: *, bias: * }, Linear { weight: *, bias: None }], \
         scale: *, mean: *, average: *, steps: *, activation = Relu, rate = 0.1 })"
    );
}

#[test]
fn registry_is_constant_in_declaration_order() {
    const REGISTRY: &[(&str, FieldKind)] = Mlp::REGISTRY;
    assert_eq!(
        REGISTRY,
        [
            ("layers", FieldKind::Module),
            ("scale", FieldKind::Param),
            ("mean", state::<BatchStat>()),
            ("average", state::<Average>()),
            ("steps", state::<State>()),
            ("activation", FieldKind::Static),
            ("rate", FieldKind::Static),
        ]
    );
    assert_eq!(mlp(Activation::Tanh).registry(), REGISTRY);
}

#[test]
fn leaf_has_kind_of_its_field() {
    let kinds = tree::structure(&mlp(Activation::Relu)).leaf_kinds();
    let param = Some(LeafKind::Param);
    assert_eq!(kinds[..4], [param, param, param, param]);
    assert_eq!(
        kinds[4],
        Some(LeafKind::State(CollectionId::of::<BatchStat>()))
    );
}

#[test]
fn static_field_is_part_of_structure() {
    let structure = |activation| tree::structure(&mlp(activation));
    assert_eq!(structure(Activation::Relu), structure(Activation::Relu));
    assert_ne!(structure(Activation::Relu), structure(Activation::Tanh));
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Scaled(Linear, #[param] f64, #[r#static] usize);

#[derive(Module, Clone, Debug, PartialEq)]
struct Identity;

#[derive(Module, Clone, Debug, PartialEq)]
struct Empty {}

#[test]
fn tuple_and_unit_structs_are_modules() {
    let scaled = Scaled(linear(), 2.0, 7);
    assert_eq!(rebuilt(&scaled), scaled);
    assert_eq!(
        shown(&scaled),
        "PyTreeDef(Scaled(Linear { weight: *, bias: * }, *, 2 = 7))"
    );
    assert_eq!(
        Scaled::REGISTRY,
        [
            ("0", FieldKind::Module),
            ("1", FieldKind::Param),
            ("2", FieldKind::Static)
        ]
    );
    assert_eq!(rebuilt(&Identity), Identity);
    assert_eq!(rebuilt(&Empty {}), Empty {});
    assert!(Identity::REGISTRY.is_empty());
}

#[derive(Module, Clone, Debug, PartialEq)]
enum Layer {
    Linear(Linear),
    Scale {
        #[param]
        factor: f32,
        #[r#static]
        name: String,
    },
    Identity,
}

#[test]
fn enum_variant_is_part_of_structure() {
    let layers = [
        Layer::Linear(linear()),
        Layer::Scale {
            factor: 2.0,
            name: "s".to_owned(),
        },
        Layer::Identity,
    ];
    assert_eq!(rebuilt(&layers), layers);
    assert_eq!(
        shown(&layers),
        "PyTreeDef([Layer::Linear(Linear { weight: *, bias: * }), \
         Layer::Scale { factor: *, name = 's' }, Layer::Identity])"
    );
    assert_eq!(*layers[0].registry(), [("0", FieldKind::Module)]);
    assert_eq!(
        *layers[1].registry(),
        [("factor", FieldKind::Param), ("name", FieldKind::Static)]
    );
    assert!(Layer::REGISTRY.is_empty());
}

#[test]
fn enum_rejects_treedef_of_another_type() {
    let (leaves, treedef) = tree::flatten_any(&linear());
    let error = tree::unflatten::<Layer, _>(&treedef, leaves)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Layer"), "{error}");
    assert!(error.contains("Linear"), "{error}");
}

#[derive(Module, Clone, Debug, PartialEq)]
enum Never {}

#[derive(Module, Clone, Debug, PartialEq)]
struct Node {
    #[param]
    weight: f32,
    children: Vec<Node>,
    next: Option<Box<Self>>,
}

#[test]
fn module_may_contain_itself() {
    let leaf = Node {
        weight: 1.0,
        children: vec![],
        next: None,
    };
    let node = Node {
        children: vec![leaf.clone(), leaf.clone()],
        next: Some(Box::new(leaf.clone())),
        ..leaf
    };
    assert_eq!(rebuilt(&node), node);
    assert_eq!(tree::leaves::<f32, _>(&node).len(), 4);
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Trunk {
    #[param]
    weight: f32,
    #[module(recursive)]
    branches: Vec<Branch>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Branch {
    end: Option<Box<Trunk>>,
}

#[test]
fn modules_may_contain_each_other() {
    let leaf = Trunk {
        weight: 1.0,
        branches: vec![],
    };
    let trunk = Trunk {
        weight: 2.0,
        branches: vec![Branch {
            end: Some(Box::new(leaf)),
        }],
    };
    assert_eq!(rebuilt(&trunk), trunk);
    assert_eq!(tree::leaves::<f32, _>(&trunk), [&2.0, &1.0]);
}

type Matrix = Array2<f64>;

#[derive(Module, Clone, Debug)]
struct Containers {
    pair: (Linear, Box<Linear>),
    array: [Linear; 2],
    by_name: HashMap<String, Linear>,
    nothing: (),
    #[param]
    matrix: Matrix,
    #[param]
    sorted: BTreeMap<&'static str, (f32, Vec<f64>)>,
    #[param]
    ordered: IndexMap<String, Option<ArrayD<f32>>>,
    #[param]
    tied: Shared<Array1<f32>>,
    #[state]
    counts: [Option<Array1<i32>>; 2],
    #[state]
    flag: bool,
    #[state(OptState)]
    moments: Partition<Linear>,
    #[state]
    anything: Tree,
    marker: PhantomData<fn() -> Never>,
    #[r#static]
    r#type: u8,
}

fn containers() -> Containers {
    Containers {
        pair: (linear(), Box::new(linear())),
        array: [linear(), linear()],
        by_name: HashMap::from([("b".to_owned(), linear()), ("a".to_owned(), linear())]),
        nothing: (),
        matrix: array![[1.0]],
        sorted: BTreeMap::from([("z", (1.0, vec![2.0])), ("y", (3.0, vec![]))]),
        ordered: IndexMap::from([("z".to_owned(), None), ("y".to_owned(), None)]),
        tied: Shared::new(array![1.0]),
        counts: [None, Some(array![1, 2])],
        flag: true,
        moments: Partition::from_tree(Tree::of(&linear())),
        anything: pytree_core::tree!([1, { "a": 2.5 }]),
        marker: PhantomData,
        r#type: 4,
    }
}

#[test]
fn containers_are_what_they_hold() {
    let value = containers();
    let again = rebuilt(&value);
    assert_eq!(Tree::of(&again).to_string(), Tree::of(&value).to_string());
    assert_eq!(tree::structure(&again), tree::structure(&value));
    let shown = shown(&value);
    assert!(shown.contains("by_name: {'a': Linear"), "{shown}");
    assert!(
        shown.contains("sorted: {'y': (*, []), 'z': (*, [*])}"),
        "{shown}"
    );
    assert!(shown.contains("type = 4"), "{shown}");
    let registry = Containers::REGISTRY;
    assert_eq!(registry[13], ("type", FieldKind::Static));
}

#[test]
fn module_may_be_local_to_function() {
    #[derive(Module, Clone, Debug, PartialEq)]
    struct Local {
        inner: Linear,
    }
    let local = Local { inner: linear() };
    assert_eq!(rebuilt(&local), local);
}
