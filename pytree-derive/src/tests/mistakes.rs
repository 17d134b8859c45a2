//! Tests the source text and the message of each reported mistake, and that nothing else is reported.

use super::{derive, implemented, mistakes, object};

/// Asserts that a derive reports exactly the expected mistakes. Each mistake is a source text and its message.
fn refused(name: &str, item: &str, expected: &[(&str, &str)]) {
    let expanded = derive(name, item);
    let found = mistakes(&expanded);
    let found: Vec<_> = found
        .iter()
        .map(|(place, message)| (place.as_str(), message.as_str()))
        .collect();
    assert_eq!(found, expected, "{item}");
    let stub: &[&str] = match name {
        "Module" => &[
            "Pytree",
            "PytreeOf",
            "SelectPart",
            "ModuleField",
            "Module",
            "ModuleType",
            "NamedAxes",
            "BindsAxis",
        ],
        "Pytree" => &[
            "Pytree",
            "PytreeOf",
            "SelectPart",
            "ModuleField",
            "ParamField",
            "StateField",
            "NamedAxes",
            "BindsAxis",
        ],
        "Static" => &["StaticValue"],
        "Leaf" => &["Leaf", "StateField", "HoldsArrays"],
        _ => &["Collection"],
    };
    assert_eq!(
        implemented(&expanded),
        stub,
        "what uses {item} is not reported too"
    );
}

/// Asserts which mistake is reported for a module whose single field has these attributes.
fn field(attributes: &str, place: &str, message: &str) {
    let item = format!("struct Model {{ {attributes} field: Field }}");
    refused("Module", &item, &[(place, message)]);
}

/// Asserts which mistake is reported for a module that has these attributes.
fn item(attributes: &str, place: &str, message: &str) {
    let item = format!("{attributes} struct Model {{ #[param] field: Field }}");
    refused("Module", &item, &[(place, message)]);
}

#[test]
fn only_a_field_of_modules_is_stacked() {
    let name = "expected the name of the leading axis by which the module is stacked: write `stacked = \"expert\"`";
    field("#[module(stacked = 3)]", "3", name);
    field("#[module(stacked = expert)]", "expert", name);
    field("#[module(stacked = \"\")]", "\"\"", name);
    field("#[module(stacked = \"... in\")]", "\"... in\"", name);
    field(
        "#[module(stacked = \"a\", stacked = \"b\")]",
        "stacked",
        "`stacked` is written twice: remove one",
    );
    let belongs = "`stacked` belongs on a field of a module that holds modules: ";
    field(
        "#[param] #[module(stacked = \"expert\")]",
        "\"expert\"",
        &format!(
            "{belongs}name the axis of an array in its own attribute, as in `#[param(\"expert in out\")]`"
        ),
    );
    field(
        "#[module(static, stacked = \"expert\")]",
        "\"expert\"",
        &format!("{belongs}remove it, because a static field has no arrays"),
    );
    item(
        "#[module(stacked = \"expert\")]",
        "stacked",
        "`#[module(stacked)]` belongs on a field, not on the type",
    );
    refused(
        "Pytree",
        "struct Model { #[module(stacked = \"expert\")] field: Field }",
        &[(
            "\"expert\"",
            &format!("{belongs}derive `Module` instead of `Pytree`"),
        )],
    );
}

#[test]
fn a_field_has_one_kind() {
    field(
        "#[param] #[param]",
        "param",
        "`#[param]` is written twice: remove one",
    );
    field(
        "#[state(A)] #[state(A)]",
        "state(A)",
        "`#[state(A)]` is written twice: remove one",
    );
    field(
        "#[r#static] #[module(static)]",
        "module(static)",
        "`#[module(static)]` means the same as `#[r#static]`: remove one",
    );
    field(
        "#[param] #[state]",
        "state",
        "a field has only one kind, but this field has the kinds `#[param]` and `#[state]`: remove one of them",
    );
    field(
        "#[state(a::B)] #[state(a::C)]",
        "state(a::C)",
        "a field has only one kind, but this field has the kinds `#[state(a::B)]` and `#[state(a::C)]`: remove one of them",
    );
    field(
        "#[state] #[state(A)]",
        "state(A)",
        "a field has only one kind, but this field has the kinds `#[state]` and `#[state(A)]`: remove one of them",
    );
}

const FORM: &str = "expected the roles of the axes: write for instance `#[param(\"in out\", roles(input, output))]`, or `roles = function`";

#[test]
fn roles_belong_to_axes_one_to_one() {
    const KNOWN: &str = "the roles are `input`, `output`, `input_head`, `output_head`, `kernel`, `item`, `batch`, `feature`";
    field(
        "#[param(\"in out\", roles(inputs, output))]",
        "inputs",
        &format!("unknown role `inputs`: {KNOWN}; did you mean `input`?"),
    );
    field(
        "#[state(A, \"in out\", roles(input))]",
        "\"in out\"",
        "found 1 role for the 2 axes of `[in out]`: write one role for each axis, and one for `...` or `*name`",
    );
    field(
        "#[param(\"T[*kernel in out]\", roles(kernel, kernel, input, output))]",
        "\"T[*kernel in out]\"",
        "found 4 roles for the 3 axes of `T[*kernel in out]`: write one role for each axis, and one for `...` or `*name`",
    );
    field(
        "#[param(roles(input, output))]",
        "roles(input, output)",
        "roles belong to named axes: write for instance `#[param(\"in out\", roles(input, output))]`",
    );
    field("#[param(\"in out\", roles(input output))]", "output", FORM);
    field("#[param(\"in out\", roles = 3)]", "3", FORM);
    field(
        "#[module(roles(input))]",
        "roles",
        "write `#[module(static)]`, `#[module(recursive)]` or `#[module(stacked = \"axis\")]` on a field; roles belong in `#[param(\"in out\", roles(input, output))]`",
    );
    item(
        "#[module(roles(input))]",
        "roles",
        "roles belong on a field: write `#[param(\"in out\", roles(input, output))]` above it",
    );
}

#[test]
fn a_parameter_names_one_collection() {
    let one = "expected the type of one collection, or named axes in quotes: write for instance `#[param(LoraParam)]` or `#[param(\"in out\")]`";
    field("#[param(a, b)]", "a, b", one);
    field(
        "#[param()]",
        "param()",
        "expected the name of a collection: write `#[param(Collection)]`, or `#[param]` for the collection `Param`",
    );
    field(
        "#[param = 1]",
        "param = 1",
        "expected a collection in parentheses: write `#[param(Collection)]`",
    );
    field(
        "#[param(A)] #[param]",
        "param",
        "a field has only one kind, but this field has the kinds `#[param(A)]` and `#[param]`: remove one of them",
    );
}

#[test]
fn a_collection_has_one_parent() {
    let one = |attributes: &str, place: &str, message: &str| {
        let item = format!("{attributes} struct Average;");
        refused("Collection", &item, &[(place, message)]);
    };
    let takes = "write `#[collection(parent = Param)]`";
    one(
        "#[collection]",
        "collection",
        &format!("expected a parent: {takes}"),
    );
    one(
        "#[collection()]",
        "collection()",
        &format!("expected a parent: {takes}"),
    );
    one(
        "#[collection(parnt = A)]",
        "parnt",
        &format!("unknown argument `parnt`: {takes}; did you mean `parent`?"),
    );
    one(
        "#[collection(parent = A, B)]",
        "B",
        &format!("expected one parent: {takes}"),
    );
    one(
        "#[collection(parent = 1)]",
        "1",
        &format!("expected one parent: {takes}"),
    );
    one(
        "#[collection(parent = A)] #[collection(parent = B)]",
        "B",
        "a collection has one parent: remove this one",
    );
}

#[test]
fn static_takes_no_argument() {
    let fixed = "`#[r#static]` takes no argument: write `#[r#static]`";
    field("#[r#static(a)]", "a", fixed);
    field("#[r#static = 1]", "r#static = 1", fixed);
}

#[test]
fn a_state_names_one_collection() {
    field(
        "#[state = 1]",
        "state = 1",
        "expected a collection in parentheses: write `#[state(Collection)]`",
    );
    field(
        "#[state()]",
        "state()",
        "expected the name of a collection: write `#[state(Collection)]`, or `#[state]` for the collection `State`",
    );
    let one = "expected the type of one collection, or named axes in quotes: write for instance `#[state(BatchStat)]` or `#[state(\"in out\")]`";
    field("#[state(A, B)]", "A, B", one);
}

#[test]
fn the_arguments_of_a_field_are_known() {
    let takes = "write `#[module(static)]`, `#[module(recursive)]` or `#[module(stacked = \"axis\")]` on a field";
    let expected = format!("expected an argument: {takes}");
    field("#[module]", "module", &expected);
    field("#[module()]", "module()", &expected);
    field("#[module = 1]", "module = 1", &expected);
    field(
        "#[module(\"static\")]",
        "\"static\"",
        &format!(
            "{takes}, without quotes; named axes belong in `#[param(\"in out\")]` or `#[state(\"in out\")]`"
        ),
    );
    let unknown = |word: &str, hint: &str| {
        let message = format!("unknown argument `{word}`: {takes}{hint}");
        field(&format!("#[module({word})]"), word, &message);
        field(&format!("#[module({word}(a) + 1)]"), word, &message);
    };
    unknown("frozen", "");
    unknown("statc", "; did you mean `static`?");
    unknown("Static", "; did you mean `static`?");
    unknown("recursiv", "; did you mean `recursive`?");
    unknown("param", "; did you mean the attribute `#[param]`?");
    unknown("state", "; did you mean the attribute `#[state]`?");
    unknown("parm", "; did you mean the attribute `#[param]`?");
    let of_pytree =
        "unknown argument `frozen`: write `#[pytree(static)]` or `#[pytree(recursive)]` on a field";
    field("#[pytree(frozen)]", "frozen", of_pytree);
}

#[test]
fn arguments_of_field_are_written_once() {
    field(
        "#[module(static, static)]",
        "static",
        "`static` is written twice: remove one",
    );
    field(
        "#[module(recursive, recursive)]",
        "recursive",
        "`recursive` is written twice: remove one",
    );
    field("#[module(static recursive)]", "recursive", "expected `,`");
    field(
        "#[module(crate = a)]",
        "crate",
        "`crate` belongs on the type: write `#[module(crate = …)]` above the struct or enum",
    );
    refused(
        "Module",
        "struct Model { #[module(frozen, parm, static, static)] field: Field }",
        &[
            (
                "frozen",
                "unknown argument `frozen`: write `#[module(static)]`, `#[module(recursive)]` or `#[module(stacked = \"axis\")]` on a field",
            ),
            (
                "parm",
                "unknown argument `parm`: write `#[module(static)]`, `#[module(recursive)]` or `#[module(stacked = \"axis\")]` on a field; did you mean the attribute `#[param]`?",
            ),
            ("static", "`static` is written twice: remove one"),
        ],
    );
}

#[test]
fn kinds_belong_on_fields() {
    item(
        "#[param]",
        "param",
        "`#[param]` belongs on a field, not on the type",
    );
    item(
        "#[state(A)]",
        "state(A)",
        "`#[state]` belongs on a field, not on the type",
    );
    let fix = "to make the whole type static, derive `Static` instead of `Module`";
    item(
        "#[r#static]",
        "r#static",
        &format!("`#[r#static]` belongs on a field, not on the type; {fix}"),
    );
    item(
        "#[module(static)]",
        "static",
        &format!("`#[module(static)]` belongs on a field, not on the type; {fix}"),
    );
    item(
        "#[module(recursive)]",
        "recursive",
        "`#[module(recursive)]` belongs on a field, not on the type",
    );
    refused(
        "Pytree",
        "#[pytree(static)] struct Batch(f32);",
        &[(
            "static",
            "`#[pytree(static)]` belongs on a field, not on the type",
        )],
    );
    refused(
        "Module",
        "enum Layer { #[param] #[doc(hidden)] A(#[param] f32), #[state( A )] B, #[module(static)] C }",
        &[
            ("param", "`#[param]` belongs on a field, not on the variant"),
            (
                "state( A )",
                "`#[state(A)]` belongs on a field, not on the variant",
            ),
            (
                "module(static)",
                "`#[module(static)]` belongs on a field, not on the variant",
            ),
        ],
    );
}

#[test]
fn the_crate_is_a_path_given_once() {
    let takes = "write `#[module(crate = path)]` on the struct or enum";
    item(
        "#[module]",
        "module",
        &format!("expected an argument: {takes}"),
    );
    item(
        "#[module(1)]",
        "1",
        &format!("expected an argument: {takes}"),
    );
    item(
        "#[module(frozen)]",
        "frozen",
        &format!("unknown argument `frozen`: {takes}"),
    );
    item(
        "#[module(crat = a::b)]",
        "crat",
        &format!("unknown argument `crat`: {takes}; did you mean `crate`?"),
    );
    item(
        "#[module(crate)]",
        "crate",
        "expected a path: write `crate = path::to::pytree`",
    );
    item(
        "#[module(crate = \"a\")]",
        "\"a\"",
        "expected a path, without quotes: write `crate = path::to::pytree`",
    );
    item(
        "#[module(crate = a, crate = b::c)]",
        "crate",
        "`crate` is written twice: remove `crate = b::c`",
    );
    item(
        "#[module(crate = a)] #[pytree(crate = b)]",
        "crate",
        "`crate` is written twice: remove `crate = b`",
    );
}

#[test]
fn a_plain_container_has_no_kinds() {
    let message = |name: &str| {
        format!(
            "a field of a plain container has no kind: remove `{name}`, or derive `Module` instead of `Pytree`"
        )
    };
    let (param, state) = (message("#[param]"), message("#[state(A)]"));
    refused(
        "Pytree",
        "struct Batch(#[param] f32, #[state(A)] f32, #[r#static] usize);",
        &[("param", &param), ("state(A)", &state)],
    );
}

#[test]
fn values_own_what_they_hold() {
    refused(
        "Module",
        "struct Model<'a, 'b: 'a, T: Copy, const N: usize> where T: 'a { #[param] field: &'a [T; N] }",
        &[
            (
                "'a",
                "a pytree must own its leaves and cannot borrow for the lifetime `'a`: remove `'a` and use an owned type for the field, or a `Shared`",
            ),
            (
                "'b: 'a",
                "a pytree must own its leaves and cannot borrow for the lifetime `'b`: remove `'b` and use an owned type for the field, or a `Shared`",
            ),
        ],
    );
    refused(
        "Pytree",
        "struct Batch(Vec<&f32>, &'static str, fn(&str) -> &str);",
        &[(
            "&f32",
            "a pytree must own its leaves and cannot borrow: use an owned type for the field, or a `Shared`",
        )],
    );
    refused(
        "Static",
        "enum Setting<'a> { Named(&'a str), Other(&str) }",
        &[
            (
                "'a",
                "a static value must own its data and cannot borrow for the lifetime `'a`: remove `'a` and use an owned type for the field",
            ),
            (
                "&str",
                "a static value must own its data and cannot borrow: use an owned type for the field",
            ),
        ],
    );
    refused(
        "Leaf",
        "struct Key<'a, T>(&'a T);",
        &[(
            "'a",
            "a leaf must own its data and cannot borrow for the lifetime `'a`: remove `'a` and use an owned type for the field",
        )],
    );
}

#[test]
fn a_union_is_refused() {
    let end = "because generated code cannot know which of its fields is set: use an enum";
    let pytree = format!("a union cannot be a pytree, {end}");
    let fixed = format!("a union cannot be static, {end}");
    let item = "union Number { integer: i32, float: f32 }";
    refused("Module", item, &[("union", &pytree)]);
    refused("Pytree", item, &[("union", &pytree)]);
    refused("Static", item, &[("union", &fixed)]);
}

#[test]
fn a_collection_is_a_name() {
    let message = "a collection must be a unit struct: write `struct Average;`";
    for item in [
        "struct Average { rate: f32 }",
        "struct Average(f32);",
        "struct Average {}",
        "enum Average {}",
        "struct Average<T>;",
    ] {
        refused("Collection", item, &[("Average", message)]);
    }
}

#[test]
fn other_derives_read_attribute_of_item() {
    let message = "unknown argument `crat`: write `#[pytree(crate = path)]` on the struct or enum; did you mean `crate`?";
    for name in ["Static", "Leaf", "Collection"] {
        refused(
            name,
            "#[pytree(crat = a)] struct Name;",
            &[("crat", message)],
        );
    }
}

#[test]
fn all_mistakes_are_reported_together() {
    refused(
        "Module",
        "#[param] enum Layer<'a> { #[state] A(#[param(1)] f32), B { #[param] #[state] name: &'a str } }",
        &[
            ("param", "`#[param]` belongs on a field, not on the type"),
            ("state", "`#[state]` belongs on a field, not on the variant"),
            (
                "'a",
                "a pytree must own its leaves and cannot borrow for the lifetime `'a`: remove `'a` and use an owned type for the field, or a `Shared`",
            ),
            (
                "1",
                "expected the type of one collection, or named axes in quotes: write for instance `#[param(LoraParam)]` or `#[param(\"in out\")]`",
            ),
            (
                "state",
                "a field has only one kind, but this field has the kinds `#[param]` and `#[state]`: remove one of them",
            ),
        ],
    );
}

#[test]
fn module_object_is_trait_without_parameters() {
    let refused = |arguments: &str, item: &str, place: &str, message: &str| {
        let expanded = object(arguments, item);
        let expected = [(place.to_owned(), message.to_owned())];
        assert_eq!(mistakes(&expanded), expected, "{item}");
        // If only the arguments of the attribute are wrong, the trait is expanded nevertheless.
        let item = item
            .replace(' ', "")
            .replace("Layer{}", "Layer:__LayerObject{}");
        let expanded = super::text(&expanded);
        assert!(expanded.contains(&item), "the item stays: {expanded}");
    };
    refused(
        "",
        "struct Layer;",
        "struct Layer;",
        "`#[module_object]` applies only to a trait: write it above `trait Layer { … }`",
    );
    refused(
        "",
        "trait Layer<T> { }",
        "<T>",
        "a trait with `#[module_object]` cannot have generic parameters, because a treedef must name the type: remove the parameters",
    );
    let takes = "write `#[module_object]` or `#[module_object(crate = path)]`";
    let unknown = |word: &str, hint: &str| format!("unknown argument `{word}`: {takes}{hint}");
    refused(
        "frozen",
        "trait Layer { }",
        "frozen",
        &unknown("frozen", ""),
    );
    refused(
        "static",
        "trait Layer { }",
        "static",
        &unknown("static", ""),
    );
    let hint = "; did you mean `crate`?";
    refused(
        "crat = a",
        "trait Layer { }",
        "crat",
        &unknown("crat", hint),
    );
    refused(
        "1",
        "trait Layer { }",
        "1",
        &format!("expected an argument: {takes}"),
    );
    refused(
        "crate",
        "trait Layer { }",
        "crate",
        "expected a path: write `crate = path::to::pytree`",
    );
}
