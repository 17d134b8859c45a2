//! What is accepted as a key path, and the error of a text that is not one.

use std::borrow::Cow;
use std::str::FromStr;

use super::{KeyPath, parse};
use crate::base::error::TreeError;

/// A [`KeyPath`], or the text of a path, as in `tree.get("layers[0]")`.
pub trait AsKeyPath {
    /// Returns the path.
    ///
    /// # Errors
    /// [`TreeError::PathSyntax`] if the text is not a key path.
    fn as_key_path(&self) -> Result<Cow<'_, KeyPath>, TreeError>;
}

impl AsKeyPath for KeyPath {
    fn as_key_path(&self) -> Result<Cow<'_, KeyPath>, TreeError> {
        Ok(Cow::Borrowed(self))
    }
}

impl AsKeyPath for str {
    fn as_key_path(&self) -> Result<Cow<'_, KeyPath>, TreeError> {
        self.parse().map(Cow::Owned)
    }
}

impl AsKeyPath for String {
    fn as_key_path(&self) -> Result<Cow<'_, KeyPath>, TreeError> {
        (**self).as_key_path()
    }
}

impl FromStr for KeyPath {
    type Err = TreeError;

    fn from_str(text: &str) -> Result<Self, TreeError> {
        parse(text).map_err(|(position, expected)| TreeError::PathSyntax {
            text: text.to_owned(),
            position,
            expected,
        })
    }
}
