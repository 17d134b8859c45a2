//! "Understanding PAX": what a pytree is, how a module is one, and the registry from names to kinds.

use std::fmt;

use pytree::ModuleType;
use pytree::core::shape::{Field, NodeShape};
use pytree::core::{DynamicModule, FieldKind, LeafKind, StaticRef, Unflattener, Visitor};
use pytree::prelude::*;
use pytree::{AnyLeaf, PytreeOf, TreeError};

use crate::seeds::printed::{Printed, listed};

#[test]
fn containers_flatten_to_leaves_and_a_treedef() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let a = 123;
    let b = vec![1, 2, 3];
    let d = (1, 2, 3);
    let c = tree!({"1": 1, "2": 2, "3": 3});
    let e = tree!([(1, 2), "123", {"1": 1, "2": [4, 5]}]);
    for treedef in [
        tree::structure(&a),
        tree::structure(&b),
        tree::structure(&d),
        c.treedef().clone(),
    ] {
        out.say(treedef);
    }

    let (leaves, treedef) = tree::flatten_any(&e);
    out.say(listed(&leaves));
    out.say(&treedef);
    let back: Tree = tree::unflatten::<Tree, AnyLeaf>(&treedef, leaves)?;
    out.say(back);

    out.expect(
        "
        PyTreeDef(*)
        PyTreeDef([*, *, *])
        PyTreeDef((*, *, *))
        PyTreeDef({'1': *, '2': *, '3': *})
        [1, 2, '123', 1, 4, 5]
        PyTreeDef([(*, *), *, {'1': *, '2': [*, *]}])
        [(1, 2), '123', {'1': 1, '2': [4, 5]}]
        ",
    );
    Ok(())
}

/// The first module of the document: its list is a child, its flag is part of the treedef.
#[derive(Clone, Debug)]
struct ListModule {
    mylist: Vec<i32>,
    is_training: bool,
}

impl ListModule {
    const SHAPE: &'static NodeShape =
        &NodeShape::of_struct::<Self>("ListModule", &[Field::plain("mylist")], &["is_training"]);
}

/// What `tree_flatten` and `tree_unflatten` are in PAX, and the registration of the class.
impl Pytree for ListModule {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 1);
        visitor.aux(StaticRef::new(&self.is_training));
        self.mylist.visit(visitor);
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 1)?;
        let is_training = source.aux()?;
        Ok(Self {
            is_training,
            mylist: Vec::unflatten(source)?,
        })
    }
}
impl PytreeOf<i32> for ListModule {}

impl fmt::Display for ListModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ListModule :: mylist={:?}  is_training={}",
            self.mylist, self.is_training
        )
    }
}

/// What the derive makes of the same two fields.
#[derive(Pytree, Clone, Debug)]
struct DerivedListModule {
    mylist: Vec<i32>,
    #[r#static]
    is_training: bool,
}

#[test]
fn a_module_is_a_pytree() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let module = ListModule {
        mylist: vec![1, 2, 3],
        is_training: true,
    };
    let (leaves, treedef) = tree::flatten(&module);
    out.say(format_args!("{leaves:?} {treedef}"));
    out.say(tree::unflatten::<ListModule, i32>(&treedef, leaves)?);

    let derived = DerivedListModule {
        mylist: vec![1, 2, 3],
        is_training: true,
    };
    let (leaves, treedef) = tree::flatten(&derived);
    out.say(format_args!("{leaves:?} {treedef}"));
    let other = DerivedListModule {
        is_training: false,
        ..derived
    };
    out.say(tree::structure(&other) == treedef);

    out.expect(
        "
        [1, 2, 3] PyTreeDef(ListModule { mylist: [*, *, *], is_training = True })
        ListModule :: mylist=[1, 2, 3]  is_training=true
        [1, 2, 3] PyTreeDef(DerivedListModule { mylist: [*, *, *], is_training = True })
        false
        ",
    );
    Ok(())
}

/// The counter whose `count` is registered as part of the tree.
#[derive(Module, Clone, Debug)]
struct PlainCounter {
    #[state]
    count: i32,
}

impl PlainCounter {
    fn step(&mut self) {
        self.count += 1;
    }
}

impl fmt::Display for PlainCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter :: count={}", self.count)
    }
}

#[test]
fn field_with_attribute_is_part_of_tree() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut counter = PlainCounter { count: 0 };
    counter.step();
    out.say(&counter);
    let (leaves, treedef) = tree::flatten::<i32, _>(&counter);
    out.say(format_args!("({leaves:?}, {treedef})"));
    out.say(tree::unflatten::<PlainCounter, i32>(&treedef, leaves)?);
    out.expect(
        "
        Counter :: count=1
        ([1], PyTreeDef(PlainCounter { count: * }))
        Counter :: count=1
        ",
    );
    Ok(())
}

/// The counter with a state and a parameter.
#[derive(Module, Clone, Debug)]
struct Counter {
    #[state]
    count: i32,
    #[param]
    bias: f64,
}

impl Counter {
    fn step(&mut self) {
        self.count += 1;
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter :: count={}  bias={:?}", self.count, self.bias)
    }
}

/// The registry is a constant of the type: nothing can write to it.
const NAME_TO_KIND: &[(&str, FieldKind)] = Counter::REGISTRY;

fn shown(registry: &[(&str, FieldKind)]) -> String {
    let entries: Vec<String> = registry
        .iter()
        .map(|(name, kind)| format!("'{name}': {kind}"))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

#[test]
fn registry_maps_names_to_kinds_in_order() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut counter = Counter {
        count: 0,
        bias: 0.0,
    };
    counter.step();
    out.say(&counter);
    let (leaves, treedef) = tree::flatten_any(&counter);
    out.say(format_args!("({}, {treedef})", listed(&leaves)));
    out.say(shown(NAME_TO_KIND));
    out.say(tree::unflatten::<Counter, AnyLeaf>(&treedef, leaves)?);
    out.expect(
        "
        Counter :: count=1  bias=0.0
        ([1, 0.0], PyTreeDef(Counter { count: *, bias: * }))
        {'count': State, 'bias': Param}
        Counter :: count=1  bias=0.0
        ",
    );
    assert_eq!(
        counter.registry(),
        NAME_TO_KIND,
        "a value has the registry of its type"
    );
    Ok(())
}

/// No field that holds modules has an attribute.
#[derive(Module, Clone, Debug)]
struct Counters {
    first: Counter,
    others: Vec<Counter>,
    #[r#static]
    unit: String,
}

#[test]
fn sub_modules_are_detected_without_attribute() {
    let mut out = Printed::default();
    let counter = |count| Counter { count, bias: 0.5 };
    let counters = Counters {
        first: counter(1),
        others: vec![counter(2), counter(3)],
        unit: "steps".to_owned(),
    };
    out.say(shown(Counters::REGISTRY));
    let treedef = tree::structure(&counters);
    for (path, kind) in treedef.leaf_paths().iter().zip(treedef.leaf_kinds()) {
        let kind = kind.expect("every leaf of a module has a kind");
        out.say(format_args!("{path}: {kind}"));
        assert_eq!(kind == LeafKind::Param, path.to_string().ends_with("bias"));
    }
    out.say(treedef);
    out.expect(
        "
        {'first': Module, 'others': Module, 'unit': Static}
        first.count: State
        first.bias: Param
        others[0].count: State
        others[0].bias: Param
        others[1].count: State
        others[1].bias: Param
        PyTreeDef(Counters { first: Counter { count: *, bias: * }, others: [Counter { count: *, bias: * }, Counter { count: *, bias: * }], unit = 'steps' })
        ",
    );
}

/// One step of a counter that was registered at run time.
fn step(counter: &mut DynamicModule) -> Result<(), TreeError> {
    counter.set("count", counter.value::<i32>("count")? + 1)
}

/// The document's own printing of a counter: its fields that are trees, one after the other.
fn line(counter: &DynamicModule) -> Result<String, TreeError> {
    let trees = counter
        .fields()
        .filter(|(_, kind)| *kind != Some(FieldKind::Static));
    let shown = trees.map(|(name, _)| Ok(format!("{name}={}", counter.get(name)?)));
    let shown = shown.collect::<Result<Vec<String>, TreeError>>()?;
    Ok(format!("{} :: {}", counter.name(), shown.join("  ")))
}

/// The module with its list, registered instead of written down.
#[test]
fn list_and_flag_are_registered_dynamically() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut module: DynamicModule = DynamicModule::new("ListModule")?;
    module.register_subtree("mylist", vec![1, 2, 3])?;
    module.register_static("is_training", true)?;
    let (leaves, treedef) = tree::flatten_any(&module);
    out.say(format_args!("{} {treedef}", listed(&leaves)));
    let new_module: DynamicModule = tree::unflatten(&treedef, leaves.clone())?;
    out.say(format_args!(
        "{}  is_training={}",
        line(&new_module)?,
        new_module.get_static::<bool>("is_training")?
    ));
    out.say(tree::unflatten::<ListModule, AnyLeaf>(&treedef, leaves)?);
    out.expect(
        "
        [1, 2, 3] PyTreeDef(ListModule { mylist: [*, *, *], is_training = True })
        ListModule :: mylist=[1, 2, 3]  is_training=true
        ListModule :: mylist=[1, 2, 3]  is_training=true
        ",
    );
    Ok(())
}

#[test]
fn a_subtree_is_registered_at_run_time() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut counter: DynamicModule = DynamicModule::new("Counter")?;
    counter.register_subtree("count", 0)?;
    counter.register_static("is_training", true)?;
    step(&mut counter)?;
    out.say(line(&counter)?);
    let (leaves, treedef) = tree::flatten_any(&counter);
    out.say(format_args!("({}, {treedef})", listed(&leaves)));
    out.say(line(&tree::unflatten(&treedef, leaves)?)?);
    out.expect(
        "
        Counter :: count=1
        ([1], PyTreeDef(Counter { count: *, is_training = True }))
        Counter :: count=1
        ",
    );
    Ok(())
}

/// The counter of a state and a parameter, as the document registers it.
fn registered_counter() -> Result<DynamicModule, TreeError> {
    let mut counter = DynamicModule::new("Counter")?;
    counter.register_static("is_training", true)?;
    counter.register_state("count", 0)?;
    counter.register_param("bias", 0.0)?;
    Ok(counter)
}

#[test]
fn state_and_parameter_are_registered_dynamically() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut counter = registered_counter()?;
    step(&mut counter)?;
    out.say(line(&counter)?);
    let (leaves, treedef) = tree::flatten_any(&counter);
    out.say(format_args!("({}, {treedef})", listed(&leaves)));
    out.say(shown(&counter.registry()));
    out.say(line(&tree::unflatten(&treedef, leaves)?)?);
    out.expect(
        "
        Counter :: count=1  bias=0.0
        ([1, 0.0], PyTreeDef(Counter { count: *, bias: *, is_training = True }))
        {'count': State, 'bias': Param, 'is_training': Static}
        Counter :: count=1  bias=0.0
        ",
    );
    Ok(())
}

/// A change of a registry makes a new one: what shared the old one keeps it.
#[test]
fn registries_are_read_only_and_replaced() -> Result<(), TreeError> {
    let counter = registered_counter()?;
    let mut other = counter.clone();
    assert_eq!(counter.registry(), other.registry());
    other.register_param("scale", 1.0)?;
    let mut out = Printed::default();
    out.say(shown(&counter.registry()));
    out.say(shown(&other.registry()));
    out.expect(
        "
        {'count': State, 'bias': Param, 'is_training': Static}
        {'count': State, 'bias': Param, 'scale': Param, 'is_training': Static}
        ",
    );
    Ok(())
}

#[test]
fn sub_modules_are_registered_dynamically() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut counters: DynamicModule = DynamicModule::new("Counters")?;
    counters.register_module("first", registered_counter()?)?;
    counters.register("others", vec![registered_counter()?, registered_counter()?])?;
    counters.register(
        "derived",
        Counter {
            count: 7,
            bias: 0.5,
        },
    )?;
    out.say(shown(&counters.registry()));
    let treedef = tree::structure(&counters);
    for (path, kind) in treedef.leaf_paths().iter().zip(treedef.leaf_kinds()) {
        let kind = kind.expect("every leaf of a module has a kind");
        out.say(format_args!("{path}: {kind}"));
    }
    let refused = counters
        .register("loose", 0.0)
        .expect_err("a number is not a module");
    out.say(refused);
    out.expect(
        "
        {'first': Module, 'others': Module, 'derived': Module}
        first.count: State
        first.bias: Param
        others[0].count: State
        others[0].bias: Param
        others[1].count: State
        others[1].bias: Param
        derived.count: State
        derived.bias: Param
        cannot register a module of the module `Counters`: at loose: expected a leaf with a kind, found a leaf without a kind; register the value as a parameter, a state or a subtree
        ",
    );
    Ok(())
}

/// A module of run time is differentiated like any other; what is frozen has no gradient.
#[test]
fn gradients_are_taken_of_registered_parameters() -> Result<(), TreeError> {
    let mut line: DynamicModule<Tensor> = DynamicModule::typed("Line")?;
    line.register_param("slope", Tensor::from(2.0_f32))?;
    line.register_state("offset", Tensor::from(1.0_f32))?;
    let slope = |line: &DynamicModule<Tensor>| line.value::<Tensor>("slope").expect("it is there");
    let loss = |line: &DynamicModule<Tensor>| slope(line) * slope(line);
    assert_eq!(grad(loss)(&line)["slope"], Tensor::from(4.0_f32));
    assert!(grad(loss)(&line).get("offset").is_err());
    line.freeze();
    assert!(grad(loss)(&line).is_empty());
    Ok(())
}

/// Two parameters that are one tensor and not shared are found.
#[test]
fn the_lint_finds_tensors_that_are_one() -> Result<(), TreeError> {
    let weight = Tensor::from([1.0_f32, f32::NAN]);
    let mut tied: DynamicModule<Tensor> = DynamicModule::typed("Tied")?;
    tied.register_param("encoder", weight.clone())?;
    tied.register_param("decoder", weight)?;
    tied.register_param("other", Tensor::from([1.0_f32, 2.0]))?;
    let findings = pytree::lint(&tied);
    assert_eq!(findings.len(), 3, "{findings:?}");
    let text = findings[2].to_string();
    assert!(
        text.starts_with("the leaves at encoder, decoder use the same memory"),
        "{text}"
    );
    assert!(
        findings[0]
            .to_string()
            .contains("1 NaN element (2 elements in all)"),
        "{findings:?}"
    );
    Ok(())
}
