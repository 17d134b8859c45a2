//! Macros for implementations of standard traits that many types have in the same form.

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

/// Implements `Deref` and `DerefMut` for a struct with generics, whose target is one of its fields.
///
/// ```
/// struct Named<T>(String, T);
/// pytree_base::dereferences! { [T] Named<T>, 1: T }
/// let mut named = Named("x".to_owned(), 1);
/// *named += 1;
/// assert_eq!(*named, 2);
/// ```
#[macro_export]
macro_rules! dereferences {
    ([$($generics:tt)*] $type:ty, $field:tt: $target:ty) => {
        impl<$($generics)*> ::std::ops::Deref for $type {
            type Target = $target;
            fn deref(&self) -> &$target {
                &self.$field
            }
        }
        impl<$($generics)*> ::std::ops::DerefMut for $type {
            fn deref_mut(&mut self) -> &mut $target {
                &mut self.$field
            }
        }
    };
}

/// Implements `Debug` for an error by its `Display`.
///
/// ```
/// struct Failed;
/// impl std::fmt::Display for Failed {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("it failed")
///     }
/// }
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

/// Declares an enum, each variant with its name, and the function that returns the name of a variant.
///
/// ```
/// pytree_base::named! {
///     enum Unary {
///         Neg = "neg",
///         IntegerPower(i32) = "integer_pow",
///     }
///     fn name;
/// }
/// assert_eq!(Unary::Neg.name(), "neg");
/// assert_eq!(Unary::IntegerPower(2).name(), "integer_pow");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $enum:ident {
            $($(#[$of_variant:meta])* $variant:ident $(($field:ty))? = $name:literal,)+
        }
        $(#[$of_function:meta])*
        $reach:vis fn $function:ident;
    ) => {
        $(#[$attribute])*
        $visibility enum $enum {
            $($(#[$of_variant])* $variant $(($field))?,)+
        }

        impl $enum {
            $(#[$of_function])*
            $reach const fn $function(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                }
            }
        }
    };
}
