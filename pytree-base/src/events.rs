//! Spans for [`tracing`](https://docs.rs/tracing): the feature `tracing`. Without it, [`span!`](crate::span) is no code.

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// Begins a span that ends with the enclosing block: its level, its name, and its fields in the notation of `tracing`. Without the feature
/// `tracing`, the fields are not even evaluated.
///
/// # Examples
/// ```
/// fn save(path: &std::path::Path) {
///     pytree_base::span!(INFO, "save", path = %path.display());
/// }
/// # save("model.safetensors".as_ref());
/// ```
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! span {
    ($level:ident, $($name_and_fields:tt)*) => {
        let __span = $crate::events::tracing::span!(
            $crate::events::tracing::Level::$level,
            $($name_and_fields)*
        )
        .entered();
    };
}

/// Begins a span with the feature `tracing`, and is no code without it.
#[cfg(not(feature = "tracing"))]
#[macro_export]
macro_rules! span {
    ($($ignored:tt)*) => {};
}
