//! Collections whose names are known only at run time.

use super::leaf_kind::{CollectionId, NAME_LIMIT};
use crate::base::error::TreeError;

impl CollectionId {
    /// Returns the collection named `name`, which may be known only at run time. The result is equal to every other
    /// collection that has the same name and no parent.
    ///
    /// # Errors
    /// [`TreeError::Build`] if the name is longer than 46 bytes.
    pub fn named(name: &str) -> Result<Self, TreeError> {
        Self::from_name(name, None).ok_or_else(|| TreeError::Build {
            node: "collection",
            reason: format!(
                "expected a name of at most {NAME_LIMIT} bytes, found `{name}` of {} bytes; write a shorter name",
                name.len()
            ),
        })
    }

    /// Returns the collection named `name` whose parent is this collection. The name and the parent may be known only
    /// at run time.
    ///
    /// # Errors
    /// [`TreeError::Build`] if the names of the collection and its ancestors, with one more byte for each ancestor,
    /// take more than 46 bytes.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::CollectionId;
    /// let (cache, other) = (CollectionId::named("Cache")?, CollectionId::named("Other")?);
    /// let keys = cache.child("Keys")?;
    /// assert_eq!(keys.name(), "Keys");
    /// assert_eq!(keys.parent(), Some(cache));
    /// assert!(keys.is_in(&cache) && !keys.is_in(&other));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn child(&self, name: &str) -> Result<Self, TreeError> {
        Self::from_name(name, Some(self)).ok_or_else(|| TreeError::Build {
            node: "collection",
            reason: format!(
                "expected at most {NAME_LIMIT} bytes for the names of a collection and its ancestors, with one more for \
                 each ancestor, found {} for `{name}` below `{self:?}`; write shorter names",
                name.len() + 1 + self.used()
            ),
        })
    }
}
