//! The elements of an array, and code that is compiled for their types.
use pytree_base::for_each_dtype;

/// Converts a number to an `f64`. Large integers are rounded.
macro_rules! to_f64 {
    (bool $element:expr) => {
        f64::from(u8::from($element))
    };
    (half $element:expr) => {
        $element.to_f64()
    };
    ($kind:ident $element:expr) => {
        $element as f64
    };
}

macro_rules! data {
    ($([$kind:ident $dtype:ident $type:ty])*) => {
        /// The elements of an array.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the names are those of the dtypes")]
        pub enum Data {
            $($dtype(Vec<$type>),)*
        }

        impl Data {
            /// Returns the elements converted to `f64`. Large integers are rounded.
            #[allow(clippy::cast_lossless, trivial_numeric_casts, reason = "the types include `f64`")]
            pub fn to_f64(&self) -> Vec<f64> {
                match self {
                    $(Self::$dtype(elements) => elements.iter().map(|&element| to_f64!($kind element)).collect(),)*
                }
            }
        }
    };
}
for_each_dtype!([data]);
