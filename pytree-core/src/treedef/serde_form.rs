//! Treedefs in the data of serde: the feature `serde`.
//!
//! A treedef is the bytes of [`TreeDef::to_bytes`], as hexadecimal digits if the format is a text.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::structure::TreeDef;

impl Serialize for TreeDef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.to_bytes();
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&bytes);
        }
        let digits =
            |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
        serializer.serialize_str(&bytes.iter().flat_map(digits).flatten().collect::<String>())
    }
}

impl<'de> Deserialize<'de> for TreeDef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = TreeDef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a treedef as bytes or hexadecimal digits")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<TreeDef, E> {
                TreeDef::from_bytes(bytes).map_err(E::custom)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TreeDef, E> {
                let byte = |digits: &[u8]| match std::str::from_utf8(digits) {
                    Ok(digits) if !digits.starts_with('+') => u8::from_str_radix(digits, 16).ok(),
                    _ => None,
                };
                let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
                let bytes = bytes.filter(|_| text.len().is_multiple_of(2));
                let wrong = || E::custom("expected a treedef as pairs of hexadecimal digits");
                self.visit_bytes(&bytes.ok_or_else(wrong)?)
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Bytes)
        } else {
            deserializer.deserialize_bytes(Bytes)
        }
    }
}
