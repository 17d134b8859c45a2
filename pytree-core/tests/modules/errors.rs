//! What can't be registered, and in which words it is refused.

use ndarray::array;
use pytree_core::{DynamicModule, FieldKind, TreeError, tree};

use crate::modules::{linear, model};

fn said<T>(outcome: Result<T, TreeError>) -> String {
    outcome.err().expect("a refusal").to_string()
}

fn head(doing: &str, rest: &str) -> String {
    format!("cannot {doing} of the module `Model`: {rest}")
}

const PARAM: &str = "register a parameter";
const STATE: &str = "register a state";
const SUBTREE: &str = "register a subtree";
const MODULE: &str = "register a module";
const STATIC: &str = "register a static field";
const READ: &str = "read a field";
const CHANGE: &str = "change a field";
const READ_STATIC: &str = "read a static field";
const CHANGE_STATIC: &str = "change a static field";
const KIND: &str = "change the kind of a field";

#[test]
fn name_is_registered_once() {
    for (name, kind) in [
        ("scale", "Param"),
        ("table", "Subtree"),
        ("is_training", "Static"),
    ] {
        let text = format!(
            "`{name}` is already registered as {kind}; change its value with `set`, or its kind with `set_kind`"
        );
        let mut model = model();
        assert_eq!(said(model.register_param(name, 1.0)), head(PARAM, &text));
        assert_eq!(said(model.register_state(name, 1.0)), head(STATE, &text));
        assert_eq!(
            said(model.register_subtree(name, 1.0)),
            head(SUBTREE, &text)
        );
        assert_eq!(
            said(model.register_module(name, linear())),
            head(MODULE, &text)
        );
        assert_eq!(said(model.register_static(name, 1)), head(STATIC, &text));
        assert_eq!(model.to_string(), self::model().to_string());
    }
}

#[test]
fn missing_name_gets_suggestion() {
    let mut model = model();
    let text = String::from("there is no field `scael`; did you mean `scale`?");
    assert_eq!(said(model.get("scael")), head(READ, &text));
    assert_eq!(said(model.get_mut("scael")), head(READ, &text));
    assert_eq!(said(model.set("scael", 1.0)), head(CHANGE, &text));
    assert_eq!(
        said(model.get_static::<bool>("scael")),
        head(READ_STATIC, &text)
    );
    assert_eq!(
        said(model.set_static("scael", 1)),
        head(CHANGE_STATIC, &text)
    );
    assert_eq!(
        said(model.set_kind("scael", FieldKind::Param)),
        head(KIND, &text)
    );
    assert_eq!(
        said(model.unregister("scael")),
        format!("cannot take a field out of the module `Model`: {text}")
    );
    let empty: DynamicModule = DynamicModule::new("Empty").unwrap();
    assert_eq!(
        said(empty.get("a")),
        "cannot read a field of the module `Empty`: there is no field `a`; register it first"
    );
}

#[test]
fn parameter_reports_all_leaves_without_gradient() {
    let mut model = model();
    let value = (1.0_f32, vec![1_i32, 2], array![[true]], "text");
    let text = said(model.register_param("scale", value));
    assert_eq!(
        text,
        head(PARAM, "5 places:
  `scale` is already registered as Param; change its value with `set`, or its kind with `set_kind`
  at scale[1][0]: expected a float array or number, because only floats have gradients, found i32[]; give it floats, or make the field a state
  at scale[1][1]: expected a float array or number, because only floats have gradients, found i32[]; give it floats, or make the field a state
  at scale[2]: expected a float array or number, because only floats have gradients, found bool[1,1]; give it floats, or make the field a state
  at scale[3]: expected a float array or number, because only floats have gradients, found &str; give it floats, or make the field a state"
        )
    );
    let one = head(
        CHANGE,
        "at scale: expected a float array or number, because only floats have gradients, found i32[]; give it floats, or make the field a state",
    );
    assert_eq!(said(model.set("scale", 1_i32)), one);
    let steps = head(
        KIND,
        "at steps: expected a float array or number, because only floats have gradients, found i32[]; give it floats, or make the field a state",
    );
    assert_eq!(said(model.set_kind("steps", FieldKind::Param)), steps);
}

#[test]
fn registered_module_needs_kind_for_each_leaf() {
    let mut model = model();
    let text = head(
        MODULE,
        "at x[1]: expected a leaf with a kind, found a leaf without a kind; register the value as a parameter, a state or a subtree",
    );
    assert_eq!(said(model.register_module("x", (linear(), 1.0))), text);
    assert_eq!(said(model.register("x", (linear(), 1.0))), text);
    let table = said(model.set_kind("table", FieldKind::Module));
    assert!(
        table.contains("at table[0]: expected a leaf with a kind"),
        "{table}"
    );
    assert!(table.contains("at table[1]: "), "{table}");
}

#[test]
fn module_is_registered_as_module() {
    let text = |kind: &str, field: &str| {
        format!(
            "at x.{field}: expected a leaf without a kind, found a leaf of kind {kind}; register the value as a module"
        )
    };
    let both = format!(
        "2 places:\n  {}\n  {}",
        text("Param", "weight"),
        text("BatchStat", "mean")
    );
    let mut model = model();
    assert_eq!(
        said(model.register_param("x", linear())),
        head(PARAM, &both)
    );
    assert_eq!(
        said(model.register_state("x", linear())),
        head(STATE, &both)
    );
    assert_eq!(
        said(model.register_subtree("x", linear())),
        head(SUBTREE, &both)
    );
}

#[test]
fn leaves_must_have_type_of_module() {
    let mut module: DynamicModule<f32> = DynamicModule::typed("Model").unwrap();
    assert_eq!(
        said(module.register_state("x", (1.0_f32, 2.0_f64, 'c'))),
        head(
            STATE,
            "2 places:\n  at x[1]: expected a leaf of type f32, found f64\n  at x[2]: expected a leaf of type f32, found char"
        )
    );
    let error = DynamicModule::<f64>::from_value(&linear());
    let text = said(error);
    assert!(
        text.starts_with("cannot build the module `Linear`: 2 places:"),
        "{text}"
    );
    assert!(
        text.contains("at weight: expected a leaf of type f64, found"),
        "{text}"
    );
}

#[test]
fn static_fields_are_not_trees() {
    let mut model = model();
    let is_static = String::from(
        "`is_training` is a static field, not a tree; use `get_static` and `set_static`, or register the name again as a tree",
    );
    assert_eq!(said(model.get("is_training")), head(READ, &is_static));
    assert_eq!(said(model.get_mut("is_training")), head(READ, &is_static));
    assert_eq!(
        said(model.set("is_training", 1.0)),
        head(CHANGE, &is_static)
    );
    assert_eq!(
        said(model.set_kind("is_training", FieldKind::Param)),
        head(KIND, &is_static)
    );
    let is_tree = String::from(
        "`scale` is a tree, not a static field; use `get` and `set`, or register the name again as a static field",
    );
    assert_eq!(
        said(model.get_static::<f32>("scale")),
        head(READ_STATIC, &is_tree)
    );
    assert_eq!(
        said(model.set_static("scale", 1)),
        head(CHANGE_STATIC, &is_tree)
    );
    assert_eq!(
        said(model.set_kind("scale", FieldKind::Static)),
        head(KIND, &is_tree)
    );
    assert_eq!(
        said(model.get_static::<u8>("is_training")),
        head(
            READ_STATIC,
            "the static field `is_training` is True, not a value of type `u8`; use the type with which the field was registered"
        )
    );
}

#[test]
fn only_a_struct_becomes_a_module() {
    for (tree, found) in [(tree!([1, 2]), "a list of 2"), (tree!(1), "a leaf")] {
        assert_eq!(
            said(DynamicModule::from_tree(tree)),
            format!(
                "cannot build the module `{found}`: expected a struct at the root, found {found}; only structs have fields with names"
            )
        );
    }
    let (leaves, treedef) = tree::flatten_any(&vec![1]);
    let error = tree::unflatten::<DynamicModule, _>(&treedef, leaves);
    assert_eq!(
        said(error),
        "cannot build `DynamicModule` at the root: the treedef has a list there; use the treedef of a value of the same type"
    );
}

#[test]
fn name_must_be_identifier() {
    let mut module: DynamicModule = DynamicModule::new("Model").unwrap();
    for name in ["a.b", "", "[0]", "0", "a b", "a-b", "'a'"] {
        let text = format!(
            "the name `{name}` is not an identifier such as `layer_1`, so a path cannot contain it; use a map for arbitrary names"
        );
        assert_eq!(said(module.register_param(name, 1.0)), head(PARAM, &text));
        assert_eq!(said(module.register_static(name, 1)), head(STATIC, &text));
        let made = DynamicModule::new(name);
        assert_eq!(
            said(made),
            format!("cannot create the module `{name}`: {text}")
        );
    }
    for name in ["a", "_", "_a1", "größe", "层"] {
        module.register_param(name, 1.0).unwrap();
    }
    let paths = tree::structure(&module).leaf_paths();
    for path in paths {
        assert_eq!(
            path.to_string().parse::<pytree_core::KeyPath>().unwrap(),
            path
        );
    }
}
