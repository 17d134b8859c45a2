//! Tests which code `#[panicking_twin]` generates, and which functions it rejects.

use super::{mistakes, twin};

/// Returns the expansion of a documented function as the formatted text of a file.
fn shown(arguments: &str, item: &str) -> String {
    let expanded = twin(arguments, item);
    assert_eq!(mistakes(&expanded), []);
    prettyplease::unparse(&syn::parse2(expanded).unwrap())
}

#[test]
fn a_function_gets_its_documented_twin() {
    let item = "
        /// Sorts.
        ///
        /// # Panics
        /// If there is no such axis.
        ///
        /// # Examples
        /// ```
        /// # Errors is not a heading here, because this line is code.
        /// ```
        #[doc(alias = \"np.sort\")]
        #[doc(hidden)]
        #[must_use]
        #[inline]
        pub fn try_sort<T: Element>(mut values: Vec<T>, axis: usize) -> Result<Vec<T>, TreeError>
        where
            T: Ord,
        {
            sorted(values, axis)
        }";
    let expected = "\
/// Sorts.
///
/// # Panics
/// If there is no such axis.
/// See [`try_sort`](fn@try_sort) for a fallible version.
///
/// # Examples
/// ```
/// # Errors is not a heading here, because this line is code.
/// ```
#[doc(hidden)]
#[inline]
#[doc(alias = \"np.sort\")]
#[must_use]
#[track_caller]
pub fn sort<T: Element>(values: Vec<T>, axis: usize) -> Vec<T>
where
    T: Ord,
{
    match try_sort(values, axis) {
        ::core::result::Result::Ok(value) => value,
        ::core::result::Result::Err(error) => ::core::panic!(\"{error}\"),
    }
}
/// Returns an error where [`sort`](fn@sort) panics.
///
/// # Errors
/// [`TreeError::Axis`], [`TreeError::Shape`] or [`TreeError::DType`].
#[doc(hidden)]
#[inline]
#[track_caller]
pub fn try_sort<T: Element>(mut values: Vec<T>, axis: usize) -> Result<Vec<T>, TreeError>
where
    T: Ord,
{
    sorted(values, axis)
}
";
    assert_eq!(shown("sort, Axis | Shape | DType", item), expected);
}

#[test]
fn section_of_errors_is_that_of_function() {
    let file = shown(
        "get",
        "/// The value.\n///\n/// # Errors\n/// If it is elsewhere.\nfn try_get(&self) -> Result<u8, E> { self.0 }",
    );
    let [twin, function] = [
        "/// # Panics\n/// Where [`try_get`](Self::try_get) returns an error.\n#[track_caller]\nfn get(&self) -> u8 {",
        "/// # Errors\n/// If it is elsewhere.\n#[track_caller]\nfn try_get(&self) -> Result<u8, E> {",
    ]
    .map(|part| file.find(part));
    assert!(twin.is_some() && twin < function, "{file}");
    assert!(file.contains("match self.try_get() {"), "{file}");
}

#[test]
fn an_error_without_variants_is_named() {
    let file = shown(
        "new",
        "/// # Panics\n/// If 0.\nfn try_new(size: u8) -> Result<Self, SizeError> { made(size) }",
    );
    assert!(file.contains("/// [`SizeError`] where [`new`](Self::new) panics."));
    assert!(file.contains("#[must_use]\n#[track_caller]\nfn new(size: u8) -> Self {"));
    assert!(file.contains("match Self::try_new(size) {"));
}

#[test]
fn composed_function_catches_refused_memory() {
    let item =
        "/// # Panics\n/// If 0.\nfn try_norm(&self) -> Result<Self, TensorError> { self.root() }";
    let file = shown("norm, composed, Axis | Shape", item);
    assert!(file.contains("::core::result::Result::Err(error) => error.raise(),"));
    assert!(file.contains("TensorError::composed(\"norm\", move || { self.root() })"));
    assert!(file.contains("/// [`TensorError::Axis`] or [`TensorError::Shape`]."));
}

#[test]
fn what_cannot_have_a_twin_is_reported() {
    let documented = "/// # Panics\n/// Always.\n";
    for (item, place, message) in [
        (
            "fn try_get() -> Result<u8, E> { body }".to_owned(),
            "try_get",
            "document when the generated function panics: write a section `# Panics` or `# Errors`",
        ),
        (
            format!("{documented}fn try_get() -> Option<u8> {{ body }}"),
            "fn try_get() -> Option<u8>",
            "`#[panicking_twin]` applies only to a function that returns a `Result<T, E>`",
        ),
        (
            format!("{documented}fn try_get((a, b): (u8, u8)) -> Result<u8, E> {{ body }}"),
            "(a, b)",
            "give the argument a name, because the generated function passes it on",
        ),
    ] {
        let found = mistakes(&twin("get", &item));
        assert_eq!(found, [(place.to_owned(), message.to_owned())]);
    }
    assert_eq!(mistakes(&twin("get Axis", "fn try_get() {}")).len(), 1);
}
