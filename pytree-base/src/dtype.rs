//! The table of dtypes. The compiler rejects a row without all columns.
//!
//! `docs/how-to/adding-a-dtype.md` lists what else a new dtype touches.

use std::fmt;

/// The kind of numbers that a dtype holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum NumberKind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

/// The facts of a dtype: a row of the table.
struct Facts {
    /// The name in this library.
    name: &'static str,
    bytes: usize,
    kind: NumberKind,
    /// The number of stored bits of the mantissa of a float, and 0 for other kinds.
    mantissa: u32,
    /// The name in StableHLO.
    stablehlo: &'static str,
    /// The code in a safetensors file.
    safetensors: &'static str,
    /// The descriptor in a `.npy` file, without the character of the byte order.
    npy: &'static str,
    /// The `PJRT_Buffer_Type` in `pjrt_c_api.h`.
    pjrt: i32,
    /// The `PrimitiveType` in `xla/xla_data.proto`.
    xla: u64,
}

macro_rules! dtypes {
    ($(
        $(#[$doc:meta])*
        $dtype:ident $name:literal $bytes:literal $kind:ident $mantissa:literal
        $stablehlo:literal $safetensors:literal $npy:literal $pjrt:literal $xla:literal;
    )*) => {
        /// The dtype of an array.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names say it all")]
        pub enum ElementType {
            $($(#[$doc])* $dtype,)*
        }

        impl ElementType {
            /// All dtypes, in the order of the variants.
            pub const ALL: &'static [Self] = &[$(Self::$dtype,)*];
        }

        /// The rows, in the order of the variants of [`ElementType`].
        static TABLE: [Facts; ElementType::ALL.len()] = [$(
            Facts {
                name: $name,
                bytes: $bytes,
                kind: NumberKind::$kind,
                mantissa: $mantissa,
                stablehlo: $stablehlo,
                safetensors: $safetensors,
                npy: $npy,
                pjrt: $pjrt,
                xla: $xla,
            },
        )*];
    };
}

dtypes! {
    //      name   bytes kind  mantissa StableHLO safetensors npy PJRT XLA
    Bool    "bool"  1    Bool      0    "i1"      "BOOL"     "b1"   1   1;
    I8      "i8"    1    Signed    0    "i8"      "I8"       "i1"   2   2;
    I16     "i16"   2    Signed    0    "i16"     "I16"      "i2"   3   3;
    I32     "i32"   4    Signed    0    "i32"     "I32"      "i4"   4   4;
    I64     "i64"   8    Signed    0    "i64"     "I64"      "i8"   5   5;
    U8      "u8"    1    Unsigned  0    "ui8"     "U8"       "u1"   6   6;
    U16     "u16"   2    Unsigned  0    "ui16"    "U16"      "u2"   7   7;
    U32     "u32"   4    Unsigned  0    "ui32"    "U32"      "u4"   8   8;
    U64     "u64"   8    Unsigned  0    "ui64"    "U64"      "u8"   9   9;
    /// The upper half of an [`F32`](Self::F32): 8 bits of exponent and 7 bits of mantissa. NumPy stores it as raw bytes.
    BF16    "bf16"  2    Float     7    "bf16"    "BF16"     "V2"  13  16;
    /// The half precision of IEEE 754: 5 bits of exponent and 10 bits of mantissa.
    F16     "f16"   2    Float    10    "f16"     "F16"      "f2"  10  10;
    F32     "f32"   4    Float    23    "f32"     "F32"      "f4"  11  11;
    F64     "f64"   8    Float    52    "f64"     "F64"      "f8"  12  12;
}

/// Calls a macro with one row for each dtype of tensors: its kind, its name and its Rust type. The path of the macro is in brackets, and
/// what follows the brackets comes before the rows. Whatever is done for each type alike is such a macro.
///
/// # Examples
/// ```
/// use pytree_base::dtype::ElementType;
/// macro_rules! sizes {
///     ($([$kind:ident $dtype:ident $type:ty])*) => {
///         [$((ElementType::$dtype, size_of::<$type>()),)*]
///     };
/// }
/// # mod half { pub type bf16 = u16; pub type f16 = u16; }
/// let sizes = pytree_base::for_each_dtype!([sizes]);
/// assert!(sizes.iter().all(|(dtype, size)| dtype.bytes() == *size));
/// ```
#[macro_export]
macro_rules! for_each_dtype {
    ([$($called:tt)*] $($given:tt)*) => {
        $crate::__each_dtype! { [$($called)*] [] $($given)* }
    };
}

/// Calls a macro as [`for_each_dtype!`] does, with one row for each dtype of leaves. Tensors do not have all of them.
#[macro_export]
macro_rules! for_each_element_type {
    ([$($called:tt)*] $($given:tt)*) => {
        $crate::__each_dtype! { [$($called)*] [[integer U64 u64]] $($given)* }
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! __each_dtype {
    ([$($called:tt)*] [$($others:tt)*] $($given:tt)*) => {
        $($called)*! {
            $($given)*
            [bool Bool bool]
            [integer I8 i8] [integer I16 i16] [integer I32 i32] [integer I64 i64]
            [integer U8 u8] [integer U16 u16] [integer U32 u32] $($others)*
            [half BF16 half::bf16] [half F16 half::f16]
            [float F32 f32] [float F64 f64]
        }
    };
}

/// What is added to the exponent of an `f64` in its bits.
const BIAS: i64 = 1023;

/// Returns a power of two that is a normal `f64`.
#[inline]
const fn power_of_two(power: i64) -> f64 {
    f64::from_bits((power + BIAS).cast_unsigned() << (f64::MANTISSA_DIGITS - 1))
}

impl ElementType {
    #[inline]
    const fn facts(self) -> &'static Facts {
        &TABLE[self as usize]
    }

    /// Returns the first dtype whose row meets a condition.
    fn find(condition: impl Fn(&Facts) -> bool) -> Option<Self> {
        let mut dtypes = Self::ALL.iter().copied();
        dtypes.find(|dtype| condition(dtype.facts()))
    }

    /// Returns the name, for instance `f32`.
    #[inline]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the dtype with this name, for instance `f32`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::find(|facts| facts.name == name)
    }

    /// Returns the size of an element in bytes. A bool has one byte.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.facts().bytes
    }

    /// Returns the kind of numbers that the dtype holds.
    #[inline]
    pub const fn kind(self) -> NumberKind {
        self.facts().kind
    }

    /// Returns whether the dtype is a float type. Only floats have gradients.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), NumberKind::Float)
    }

    /// Returns whether the dtype is an integer type. `bool` is not an integer type.
    #[inline]
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), NumberKind::Signed | NumberKind::Unsigned)
    }

    /// Returns the size of an element in bits. A bool has 8 bits.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an element has at most 8 bytes"
    )]
    pub const fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }

    /// Returns the number of stored bits of the mantissa of a float type, or 0 for other types.
    #[inline]
    pub const fn mantissa_bits(self) -> u32 {
        self.facts().mantissa
    }

    /// Returns the number of bits of the exponent of a float type, or 0 for other types.
    pub const fn exponent_bits(self) -> u32 {
        if self.is_float() {
            self.bits() - 1 - self.mantissa_bits()
        } else {
            0
        }
    }

    /// Returns the number whose bits are the lowest ones of `bits`, for a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_base::dtype::ElementType;
    /// assert_eq!(ElementType::BF16.float_from_bits(0x3fc0), 1.5);
    /// assert_eq!(ElementType::F16.float_from_bits(0x0001), 2.0_f64.powi(-24));
    /// ```
    #[inline]
    pub fn float_from_bits(self, bits: u64) -> f64 {
        let (mantissa_bits, exponent_bits) = (self.mantissa_bits(), self.exponent_bits());
        if self == Self::F64 {
            return f64::from_bits(bits);
        }
        let sign = (bits >> (mantissa_bits + exponent_bits)) << 63;
        let mantissa = bits & ((1 << mantissa_bits) - 1);
        let exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
        let magnitude = if exponent == (1 << exponent_bits) - 1 {
            f64::INFINITY.to_bits() | (mantissa << (Self::F64.mantissa_bits() - mantissa_bits))
        } else {
            let units = mantissa | u64::from(exponent > 0) << mantissa_bits;
            let power = self.least_power() + exponent.max(1).cast_signed() - 1;
            (units as f64 * power_of_two(power - i64::from(mantissa_bits))).to_bits()
        };
        f64::from_bits(sign | magnitude)
    }

    /// Returns the exponent of the least positive normal number of a float type.
    #[inline]
    const fn least_power(self) -> i64 {
        2 - (1 << (self.exponent_bits() - 1))
    }

    /// Returns the bits of the nearest number of a float type. If two numbers are nearest, it is the one whose last bit is 0. A NaN keeps
    /// its sign and the upper bits of its mantissa, and becomes quiet.
    ///
    /// # Examples
    /// ```
    /// use pytree_base::dtype::ElementType;
    /// assert_eq!(ElementType::F16.bits_of_float(65_519.0), 0x7bff);
    /// assert_eq!(ElementType::F16.bits_of_float(65_520.0), 0x7c00); // infinity
    /// ```
    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded quotient, which is not negative, and is less than 2^25 unless the number is infinite"
    )]
    pub fn bits_of_float(self, number: f64) -> u64 {
        let (mantissa_bits, exponent_bits) = (self.mantissa_bits(), self.exponent_bits());
        let bits = number.to_bits();
        if self == Self::F64 {
            return bits;
        }
        let infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
        let magnitude = if number.is_nan() {
            let mantissa = bits >> (Self::F64.mantissa_bits() - mantissa_bits);
            infinity | (1 << (mantissa_bits - 1)) | (mantissa & ((1 << mantissa_bits) - 1))
        } else {
            let exponent = (bits >> Self::F64.mantissa_bits()) & 0x7ff;
            let power = (exponent.cast_signed() - BIAS).max(self.least_power());
            // The number in units of the distance to the next number of the type.
            let units = number.abs() * power_of_two(i64::from(mantissa_bits) - power);
            let units = units.round_ties_even() as u64;
            let lower = (power - self.least_power()).cast_unsigned() << mantissa_bits;
            units.saturating_add(lower).min(infinity)
        };
        magnitude | ((bits >> 63) << (mantissa_bits + exponent_bits))
    }

    /// Returns the least and the greatest number of an integer type, or `None` for other types.
    pub const fn integer_range(self) -> Option<(i64, u64)> {
        let unused = 64 - self.bits();
        match self.kind() {
            NumberKind::Signed => Some((i64::MIN >> unused, u64::MAX >> (unused + 1))),
            NumberKind::Unsigned => Some((0, u64::MAX >> unused)),
            NumberKind::Bool | NumberKind::Float => None,
        }
    }

    /// Returns the bits of positive infinity of a float type, or `None` for other types. For negative infinity, the
    /// highest bit is 1, too.
    pub const fn infinity_bits(self) -> Option<u64> {
        if self.is_float() {
            Some(((1 << self.exponent_bits()) - 1) << self.mantissa_bits())
        } else {
            None
        }
    }

    /// Returns the least positive normal number and the greatest finite number of a float type, or `None` for other
    /// types.
    pub const fn float_range(self) -> Option<(f64, f64)> {
        const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
        if !self.is_float() {
            return None;
        }
        let greatest_exponent = (1 << (self.exponent_bits() - 1)) - 1;
        let least = (BIAS.cast_unsigned() + 1 - greatest_exponent) << MANTISSA;
        let mantissa = ((1 << self.mantissa_bits()) - 1) << (MANTISSA - self.mantissa_bits());
        let greatest = ((BIAS.cast_unsigned() + greatest_exponent) << MANTISSA) | mantissa;
        Some((f64::from_bits(least), f64::from_bits(greatest)))
    }

    /// Returns the name in StableHLO, for instance `ui8`.
    #[inline]
    pub const fn stablehlo(self) -> &'static str {
        self.facts().stablehlo
    }

    /// Returns the code in a safetensors file, for instance `BOOL`.
    pub const fn safetensors(self) -> &'static str {
        self.facts().safetensors
    }

    /// Returns the dtype with this code in a safetensors file.
    pub fn from_safetensors(code: &str) -> Option<Self> {
        Self::find(|facts| facts.safetensors == code)
    }

    /// Returns the descriptor in a `.npy` file without the character of the byte order, for instance `f4`.
    pub const fn npy(self) -> &'static str {
        self.facts().npy
    }

    /// Returns the dtype with this descriptor in a `.npy` file, which has no character of the byte order.
    pub fn from_npy(descriptor: &str) -> Option<Self> {
        Self::find(|facts| facts.npy == descriptor)
    }

    /// Returns the number in PJRT's C interface.
    pub const fn pjrt(self) -> i32 {
        self.facts().pjrt
    }

    /// Returns the dtype with this number in PJRT's C interface.
    pub fn from_pjrt(number: i32) -> Option<Self> {
        Self::find(|facts| facts.pjrt == number)
    }

    /// Returns the dtype with this number in XLA's protocol buffers.
    pub fn from_xla(number: u64) -> Option<Self> {
        Self::find(|facts| facts.xla == number)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back() {
        for &dtype in ElementType::ALL {
            assert_eq!(ElementType::from_name(dtype.name()), Some(dtype));
            assert_eq!(
                ElementType::from_safetensors(dtype.safetensors()),
                Some(dtype)
            );
            assert_eq!(ElementType::from_npy(dtype.npy()), Some(dtype));
            assert_eq!(ElementType::from_pjrt(dtype.pjrt()), Some(dtype));
            assert_eq!(ElementType::from_xla(dtype.facts().xla), Some(dtype));
            let same = |other: &&ElementType| other.stablehlo() == dtype.stablehlo();
            assert_eq!(ElementType::ALL.iter().find(same), Some(&dtype));
        }
        assert_eq!(ElementType::from_name("f8"), None);
        assert_eq!(ElementType::from_pjrt(0), None);
    }

    #[test]
    fn codes_follow_from_kind_and_size() {
        for &dtype in ElementType::ALL {
            let (bytes, bits) = (dtype.bytes(), dtype.bits());
            let (name, stablehlo, npy) = match (dtype.kind(), dtype) {
                (NumberKind::Bool, _) => ("bool".to_owned(), "i1".to_owned(), "b1".to_owned()),
                (NumberKind::Signed, _) => {
                    (format!("i{bits}"), format!("i{bits}"), format!("i{bytes}"))
                }
                (NumberKind::Unsigned, _) => {
                    (format!("u{bits}"), format!("ui{bits}"), format!("u{bytes}"))
                }
                (NumberKind::Float, ElementType::BF16) => {
                    ("bf16".to_owned(), "bf16".to_owned(), "V2".to_owned())
                }
                (NumberKind::Float, _) => {
                    (format!("f{bits}"), format!("f{bits}"), format!("f{bytes}"))
                }
            };
            assert_eq!(
                (dtype.name(), dtype.stablehlo(), dtype.npy()),
                (&*name, &*stablehlo, &*npy)
            );
            assert_eq!(dtype.safetensors(), name.to_uppercase());
            assert_eq!(dtype.safetensors(), format!("{dtype:?}").to_uppercase());
        }
    }

    #[test]
    fn ranges_are_those_of_rust() {
        let integers = |dtype: ElementType| dtype.integer_range().unwrap();
        assert_eq!(integers(ElementType::I8), (-128, 127));
        assert_eq!(
            integers(ElementType::I64),
            (i64::MIN, i64::MAX.cast_unsigned())
        );
        assert_eq!(integers(ElementType::U16), (0, 65_535));
        assert_eq!(integers(ElementType::U64), (0, u64::MAX));
        assert_eq!(ElementType::Bool.integer_range(), None);
        let floats = |dtype: ElementType| dtype.float_range().unwrap();
        assert_eq!(floats(ElementType::F64), (f64::MIN_POSITIVE, f64::MAX));
        assert_eq!(
            floats(ElementType::F32),
            (f32::MIN_POSITIVE.into(), f32::MAX.into())
        );
        assert_eq!(floats(ElementType::F16), ((-14_f64).exp2(), 65_504.0));
        assert_eq!(
            floats(ElementType::BF16),
            (f32::MIN_POSITIVE.into(), f32::from_bits(0x7F7F_0000).into())
        );
        assert_eq!(ElementType::I8.float_range(), None);
        assert_eq!(
            ElementType::F64.infinity_bits(),
            Some(f64::INFINITY.to_bits())
        );
        assert_eq!(
            ElementType::F32.infinity_bits(),
            Some(f32::INFINITY.to_bits().into())
        );
        assert_eq!(ElementType::BF16.infinity_bits(), Some(0x7F80));
        assert_eq!(ElementType::F16.infinity_bits(), Some(0x7C00));
        assert_eq!(ElementType::I8.infinity_bits(), None);
    }
}
