//! Tests the language of shapes: which descriptions are accepted, and the message and the marked characters of each
//! mistake.

use super::{closure_with_shapes, derive, function_with_shapes, mistakes};

/// Asserts that a text is a shape.
fn accepted(text: &str) {
    let expanded = derive(
        "Module",
        &format!("struct M {{ #[param({text:?})] x: Tensor }}"),
    );
    assert_eq!(mistakes(&expanded), [], "{text}");
}

/// Asserts that a text is not a shape: the message begins with `message`, and `marks` is below the characters at fault.
fn refused(text: &str, marks: &str, message: &str) {
    let expanded = derive(
        "Module",
        &format!("struct M {{ #[param({text:?})] x: Tensor }}"),
    );
    let found: Vec<String> = mistakes(&expanded)
        .into_iter()
        .map(|(_, message)| message)
        .collect();
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    let expected = format!("{message}\n\n    {text}\n    {marks}");
    assert_eq!(found[0], expected);
}

#[test]
fn every_form_is_accepted() {
    for text in [
        "",
        "in",
        "in out",
        "  in   out ",
        "28 28",
        "_ in",
        "...",
        "... in",
        "batch ... in",
        "*batch in",
        "in *rest out",
        "batch? in",
        "a b a*b",
        "a b (a+b)*2-a/b",
        "n n+1 n-1 2*n",
        "f32[]",
        "f32[in out]",
        "float[... in]",
        "int[n]",
        "number[n]",
        "bool[n]",
        "T[in out]",
        "Größe länge",
        "n N",
    ] {
        accepted(text);
    }
}

#[test]
fn each_mistake_is_marked() {
    refused(
        "in, out",
        "  ^",
        "axes are separated by spaces: write `in out`",
    );
    refused(
        "... in ...",
        "       ^^^",
        "a shape has `...` or `*name` at most once: otherwise it would not be clear which axes belong to which; write `_` for one axis of any length",
    );
    refused(
        "*a *b",
        "   ^^",
        "a shape has `...` or `*name` at most once: otherwise it would not be clear which axes belong to which; write `_` for one axis of any length",
    );
    refused(".. in", "^^", "any number of axes is written `...`");
    refused(
        "heads * head_dim",
        "      ^",
        "expected a name after `*`, such as `*batch`; write a product without spaces: `heads*head_dim`",
    );
    refused(
        "n n* m",
        "    ^",
        "expected a name or a number, and no spaces in a computed length, found ` `",
    );
    refused(
        "(n+1",
        "    ^",
        "expected `)`, and no spaces in a computed length, found the end of the text",
    );
    refused(
        "2n",
        "^^",
        "a name does not begin with a digit; write a product with `*`: `2*hidden`",
    );
    refused(
        "99999999999999999999",
        "^^^^^^^^^^^^^^^^^^^^",
        "this number is too large for the length of an axis",
    );
    refused(
        "n n+1?",
        "  ^^^^",
        "only a name can have a `?`, which allows the length 1",
    );
    refused(
        "_*2",
        "^",
        "`_` is an axis of any length, so nothing can be computed from it; give it a name",
    );
    refused(
        "f33[in]",
        "^^^",
        "unknown dtype `f33`: expected a dtype such as `f32`, a family (`float`, `int`, `number`), or a name that begins with a capital letter, such as `T`; did you mean `f32`?",
    );
    refused(
        "f32[in",
        "      ^",
        "expected an axis or `]`, found the end of the text",
    );
    refused(
        "f32[in] out",
        "        ^",
        "expected the end of the text after `]`, found `o`",
    );
    refused(
        "[in]",
        "^",
        "expected a dtype before `[`, such as `f32[batch in]`; without a dtype, write no brackets: `batch in`",
    );
    refused(
        "in) out",
        "  ^",
        "expected a space between two axes, found `)`",
    );
    refused(
        "größe, n",
        "     ^",
        "axes are separated by spaces: write `in out`",
    );
}

#[test]
fn a_name_in_a_computed_length_has_a_length() {
    refused(
        "in heads*in",
        "   ^^^^^",
        "`heads` has no length: it occurs only in a computed length, and `heads` cannot be found from the result of a computation; make it an axis of a field, or a static field `#[r#static] heads: usize`",
    );
}

/// Asserts that `#[shapes]` reports exactly one mistake, which begins with a text.
fn refused_shapes(arguments: &str, item: &str, message: &str) {
    let found = mistakes(&function_with_shapes(arguments, item));
    assert_eq!(found.len(), 1, "{arguments}: {found:?}");
    assert!(found[0].1.starts_with(message), "{}", found[0].1);
}

#[test]
fn each_mistake_of_placement_is_explained() {
    let function = "fn f(x: &Tensor, count: usize) -> Tensor { x.clone() }";
    refused_shapes(
        r#"y = "n""#,
        function,
        "there is no argument `y`: expected `x`, `count`, or `return`; did you mean `x`?",
    );
    refused_shapes(
        r#"self = "n""#,
        function,
        "the axes of `self` are those of its fields",
    );
    refused_shapes(
        r#"x = "n", x = "m""#,
        function,
        "`x` is written twice: remove one",
    );
    refused_shapes("x = 3", function, "expected a shape in quotes");
    refused_shapes("x", function, "expected `=` and a shape");
    refused_shapes(
        r#"x = "n", return = "m""#,
        function,
        "`m` has no length: nothing binds it before the result; make it an axis of an argument, or an argument `m: usize`, or write `_`",
    );
    refused_shapes(
        r#"x = "n*2""#,
        function,
        "`n` has no length: it occurs only in a computed length",
    );
    refused_shapes(
        r#"x = "n", return = "T[n]""#,
        function,
        "the dtype `T` is known from no argument",
    );
    refused_shapes(
        r#"return = "n""#,
        "fn f(n: usize) { }",
        "the function returns nothing",
    );
    refused_shapes(
        r#"x = "n""#,
        "async fn f(x: Tensor) { }",
        "`#[shapes]` cannot check async functions",
    );
    refused_shapes(
        r#"x = "n""#,
        "struct S;",
        "`#[shapes]` belongs on a function or method",
    );
    refused_shapes(
        r#"x = "n""#,
        "fn f(x: Tensor);",
        "`#[shapes]` needs a function with a body",
    );
    let found = mistakes(&closure_with_shapes(r#"x = "n", 3"#));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        mistakes(&function_with_shapes(
            r#"x = "count", return = "2*count""#,
            function
        )),
        []
    );
}
