//! The values of fields with `#[r#static(saved)]`, which checkpoints contain as JSON: the feature `serde`.

/// A type whose values checkpoints can contain: that of a field with `#[r#static(saved)]`.
#[cfg(feature = "serde")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved",
    label = "a checkpoint cannot contain its values",
    note = "write `#[derive(serde::Serialize, serde::Deserialize)]` on the type, or `#[r#static]` on the field"
)]
pub trait SavedStatic: serde::Serialize + serde::de::DeserializeOwned {}
#[cfg(feature = "serde")]
#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> SavedStatic for T {}

/// A type whose values checkpoints can contain: none without the feature `serde`.
#[cfg(not(feature = "serde"))]
#[diagnostic::on_unimplemented(
    message = "`#[r#static(saved)]` needs the feature `serde`",
    label = "checkpoints contain the values of this field",
    note = "add the feature `serde` of `pytree-rs`, or of `pytree-core`, in `Cargo.toml`"
)]
pub trait SavedStatic {}

#[cfg(feature = "serde")]
pub(crate) use operations::SavedOperations;

#[cfg(feature = "serde")]
mod operations {
    use std::any::{Any, type_name};
    use std::sync::Arc;

    use super::SavedStatic;

    /// The conversions between a value and JSON.
    #[derive(Debug)]
    pub(crate) struct SavedOperations {
        pub(crate) to_json: fn(&dyn Any) -> Result<String, String>,
        pub(crate) from_json: fn(&str) -> Result<Arc<dyn Any + Send + Sync>, String>,
        pub(crate) type_name: fn() -> &'static str,
    }

    impl SavedOperations {
        pub(crate) const fn of<T: SavedStatic + Send + Sync + 'static>() -> Self {
            Self {
                to_json: |value| {
                    let json = value.downcast_ref::<T>().map(serde_json::to_string);
                    json.unwrap_or_else(|| Ok(String::new()))
                        .map_err(|error| error.to_string())
                },
                from_json: |json| match serde_json::from_str::<T>(json) {
                    Ok(value) => Ok(Arc::new(value)),
                    Err(error) => Err(error.to_string()),
                },
                type_name: type_name::<T>,
            }
        }
    }
}
