//! Tests which code `#[derive(Defaults)]` generates, and which items it rejects.

use super::mistakes;
use crate::defaults;

#[test]
fn field_without_value_has_default_of_its_type() {
    let item = "struct Options { #[default(0.9)] decay: f64, #[default([1, 2])] axes: [u8; 2], name: Option<u8> }";
    let expanded = defaults::expand(&syn::parse_str(item).unwrap());
    let expected = "\
impl ::core::default::Default for Options {
    fn default() -> Self {
        Self {
            decay: 0.9,
            axes: [1, 2],
            name: ::core::default::Default::default(),
        }
    }
}
";
    assert_eq!(
        prettyplease::unparse(&syn::parse2(expanded).unwrap()),
        expected
    );
}

#[test]
fn enum_and_absent_value_are_reported() {
    for (item, place, message) in [
        (
            "enum Mode { On }",
            "Mode",
            "`Defaults` is for structs; derive `Default` for an enum",
        ),
        (
            "struct Options { #[default] decay: f64 }",
            "default",
            "expected attribute arguments in parentheses: #[default(...)]",
        ),
    ] {
        let expanded = defaults::expand(&syn::parse_str(item).unwrap());
        assert_eq!(
            mistakes(&expanded),
            [(place.to_owned(), message.to_owned())]
        );
    }
}
