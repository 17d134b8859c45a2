//! Macros for implementations of standard traits that consist of one expression.

/// Implements `From` for a type. Each line has the generics in brackets, the source type, and the conversion.
///
/// ```
/// struct Name(String);
/// pytree_base::conversions! { Name:
///     [] &str, |name| Self(name.to_owned());
///     [const N: usize] [char; N], |characters| Self(characters.iter().collect());
/// }
/// assert_eq!(Name::from(['a', 'b']).0, Name::from("ab").0);
/// ```
#[macro_export]
macro_rules! conversions {
    ($target:ty: $([$($generics:tt)*] $source:ty, |$value:pat_param| $result:expr;)+) => {$(
        impl<$($generics)*> ::std::convert::From<$source> for $target {
            #[inline]
            fn from($value: $source) -> Self {
                $result
            }
        }
    )+};
}

/// Implements `Default` for a struct with the given fields.
///
/// ```
/// struct Options { rate: f64 }
/// pytree_base::defaults!(Options { rate: 0.1 });
/// assert_eq!(Options::default().rate, 0.1);
/// ```
#[macro_export]
macro_rules! defaults {
    ($type:ident { $($fields:tt)* }) => {
        impl ::std::default::Default for $type {
            fn default() -> Self {
                Self { $($fields)* }
            }
        }
    };
}

/// Implements a trait of `std::fmt` for a type, whose generics are in brackets.
///
/// ```
/// struct Percent(u8);
/// pytree_base::shown!(Display for [] Percent: |self, f| write!(f, "{} %", self.0));
/// assert_eq!(Percent(5).to_string(), "5 %");
/// ```
#[macro_export]
macro_rules! shown {
    ($trait:ident for [$($generics:tt)*] $type:ty: |$self:ident, $f:ident| $write:expr) => {
        impl<$($generics)*> ::std::fmt::$trait for $type {
            fn fmt(&$self, $f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $write
            }
        }
    };
}

/// Implements `Debug` for an error by its `Display`.
///
/// ```
/// struct Failed;
/// pytree_base::shown!(Display for [] Failed: |self, f| f.write_str("it failed"));
/// pytree_base::debug_as_display!(Failed);
/// assert_eq!(format!("{Failed:?}"), "it failed");
/// ```
#[macro_export]
macro_rules! debug_as_display {
    ($type:ty) => {
        impl ::std::fmt::Debug for $type {
            /// Writes the message, because `unwrap` and a `main` that returns the error print the debug form.
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}
