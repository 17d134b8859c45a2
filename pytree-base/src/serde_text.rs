//! Types that are texts in the data of serde: the feature `serde`.

use std::fmt::Display;

pub use serde;

use crate::dtype::ElementType;

/// Implements `Serialize` by the displayed text, and `Deserialize` by a function that parses it. The error of the function is the message.
#[macro_export]
#[doc(hidden)]
macro_rules! serde_text {
    ($type:ty, $expected:literal, $parse:expr) => {
        impl $crate::serde_text::serde::Serialize for $type {
            fn serialize<S: $crate::serde_text::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> $crate::serde_text::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::serde_text::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                struct Text;
                impl $crate::serde_text::serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: $crate::serde_text::serde::de::Error>(
                        self,
                        text: &str,
                    ) -> Result<$type, E> {
                        let parse = $parse;
                        parse(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

/// Returns the dtype, among all of a type, whose displayed text this is.
///
/// # Errors
/// A message that lists all dtypes.
pub fn named<T: Copy + Display>(text: &str, all: &[T]) -> Result<T, String> {
    let found = all.iter().find(|dtype| dtype.to_string() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        format!("expected a dtype, one of {names}, found `{text}`")
    })
}

serde_text!(ElementType, "the name of a dtype", |text: &str| named(
    text,
    ElementType::ALL
));
