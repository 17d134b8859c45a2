//! Key paths and collections in the data of serde: the feature `serde`.
//!
//! A key path is its text, as `layers[1].weight`, and so is a collection after its ancestors, as `Cache.Keys`. What is read passes the checks
//! of the same constructors.

use pytree_base::serde_text;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::error::TreeError;
use crate::base::kind::CollectionId;
use crate::base::path::{KeyPath, PathKey};

serde_text!(
    KeyPath,
    "a key path, as `layers[1].weight`",
    |text: &str| { text.parse::<KeyPath>() }
);

impl Serialize for CollectionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names: Vec<Self> = self.with_ancestors().collect();
        names.reverse();
        let names = names
            .iter()
            .map(|it| PathKey::Field(it.name().to_owned().into()));
        serializer.collect_str(&names.collect::<KeyPath>())
    }
}

impl<'de> Deserialize<'de> for CollectionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = KeyPath::deserialize(deserializer)?;
        let mut found: Option<Self> = None;
        for key in path.keys() {
            let below = match (key, found) {
                (PathKey::Field(name), None) => Self::named(name),
                (PathKey::Field(name), Some(parent)) => parent.child(name),
                (key, _) => Err(TreeError::Build {
                    node: "collection",
                    reason: format!("expected names separated by dots, found `{key}`"),
                }),
            };
            found = Some(below.map_err(D::Error::custom)?);
        }
        found.ok_or_else(|| {
            D::Error::custom("expected the name of a collection, found an empty text")
        })
    }
}
