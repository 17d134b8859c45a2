//! Tests the suggestions for mistakes in descriptions of shapes and in the arguments of `#[shapes]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::LitStr;

use crate::paths::Entry;
use crate::shape_language::ShapeText;

/// Returns the first line of the message about a text.
fn mistake(text: &str) -> String {
    let literal = LitStr::new(text, Span::call_site());
    let message = ShapeText::parse(&literal).err().unwrap().to_string();
    message.lines().next().unwrap().to_owned()
}

#[test]
fn dtypes_of_other_libraries_are_known() {
    for (text, dtype) in [
        ("float32[n]", "f32"),
        ("F32[n]", "f32"),
        ("Float64[n]", "f64"),
        ("int64[n]", "i64"),
        ("uint8[n]", "u8"),
        ("Float[n]", "float"),
        ("Int[n]", "int"),
    ] {
        let message = mistake(text);
        assert!(
            message.ends_with(&format!("did you mean `{dtype}`?")),
            "{message}"
        );
    }
    let literal = LitStr::new("T[n]", Span::call_site());
    assert!(ShapeText::parse(&literal).is_ok());
}

#[test]
fn notations_of_other_libraries_are_explained() {
    assert_eq!(
        mistake("batch #in"),
        "an axis that may have length 1 has a `?` after its name: write `in?`"
    );
    assert_eq!(
        mistake("[batch in]"),
        "expected a dtype before `[`, such as `f32[batch in]`; without a dtype, write no brackets: `batch in`"
    );
    assert_eq!(
        mistake("batch, in"),
        "axes are separated by spaces: write `in out`"
    );
}

/// Asserts that the expansion reports the message.
fn assert_reports(arguments: TokenStream, item: TokenStream, message: &str) {
    let expansion = crate::shapes::attribute(arguments, item, Entry::Core).to_string();
    assert!(expansion.contains(message), "{expansion}");
}

#[test]
fn misspelt_names_have_a_suggestion() {
    let function = quote!(
        fn f(x: &Tensor) -> Tensor {
            x.clone()
        }
    );
    assert_reports(
        quote!(x = "batch", returns = "batch"),
        function.clone(),
        "did you mean `return`?",
    );
    assert_reports(
        quote!(x = "batch in", return = "batc in"),
        function,
        "did you mean `batch`?",
    );
}

#[test]
fn tuple_of_another_length_is_reported() {
    assert_reports(
        quote!(return = (_, _, _)),
        quote!(
            fn f() -> (Tensor, Tensor) {
                pair()
            }
        ),
        "the result is a tuple of 2 elements, but 3 are described",
    );
}
