//! The types in which kernels compute, and how the elements of each dtype become numbers of such a type and back.
//!
//! Half-precision floats are computed as f32, u32 as i64, and narrower integers as i32. Narrower elements are widened tile by tile,
//! never as a whole array, and no loop is compiled for them.

use pytree_base::bug::bug;

use crate::base::array::Array;
use crate::base::data::Data;
use crate::base::dtype::DType;
use crate::base::narrow::Half;
use crate::base::target::Target;
use crate::loops::elementwise::blocks::{Operand, Output, each_one};
use crate::loops::elementwise::functions::Kernels;

/// The memory of a result, which the parts of an operation or of a fused kernel share.
pub(crate) enum Memory<'a> {
    Bool(Target<'a, bool>),
    F32(Target<'a, f32>),
    F64(Target<'a, f64>),
    I64(Target<'a, i64>),
    /// The bits of half-precision floats.
    Half(Half, Target<'a, u16>),
    /// Integers, whose upper bits are lost.
    I8(Target<'a, i8>),
    I16(Target<'a, i16>),
    I32(Target<'a, i32>),
    U8(Target<'a, u8>),
    U16(Target<'a, u16>),
    U32(Target<'a, u32>),
}

/// Runs an expression with `$target` as the memory of a result, whatever its type.
macro_rules! each_memory {
    ($memory:expr, $target:ident => $same:expr) => {
        match $memory {
            Memory::Bool($target) => Memory::Bool($same),
            Memory::F32($target) => Memory::F32($same),
            Memory::F64($target) => Memory::F64($same),
            Memory::I64($target) => Memory::I64($same),
            Memory::Half(half, $target) => Memory::Half(*half, $same),
            Memory::I8($target) => Memory::I8($same),
            Memory::I16($target) => Memory::I16($same),
            Memory::I32($target) => Memory::I32($same),
            Memory::U8($target) => Memory::U8($same),
            Memory::U16($target) => Memory::U16($same),
            Memory::U32($target) => Memory::U32($same),
        }
    };
}

impl<'a> Memory<'a> {
    pub(crate) fn new(array: &'a mut Array) -> Self {
        if let Some(half) = Half::of(array.dtype()) {
            return Self::Half(half, Target::new(array.bits_mut()));
        }
        match array.data_mut() {
            Data::Bool(elements) => Self::Bool(Target::new(elements)),
            Data::F32(elements) => Self::F32(Target::new(elements)),
            Data::F64(elements) => Self::F64(Target::new(elements)),
            Data::I64(elements) => Self::I64(Target::new(elements)),
            Data::I8(elements) => Self::I8(Target::new(elements)),
            Data::I16(elements) => Self::I16(Target::new(elements)),
            Data::I32(elements) => Self::I32(Target::new(elements)),
            Data::U8(elements) => Self::U8(Target::new(elements)),
            Data::U16(elements) => Self::U16(Target::new(elements)),
            Data::U32(elements) => Self::U32(Target::new(elements)),
            Data::BF16(_) | Data::F16(_) => bug("the bits of half-precision floats"),
        }
    }

    /// Returns the memory of elements at an address.
    ///
    /// # Safety
    /// As [`Target::at`].
    #[allow(unsafe_code, reason = "the caller promises that the elements exist")]
    pub(crate) unsafe fn at(dtype: DType, first: *mut u8, elements: usize) -> Self {
        macro_rules! at {
            ($($dtype:ident)*) => {
                match (dtype, Half::of(dtype)) {
                    // SAFETY: the caller promises it.
                    $((DType::$dtype, _) => Self::$dtype(unsafe { Target::at(first.cast(), elements) }),)*
                    // SAFETY: the caller promises it.
                    (_, Some(half)) => Self::Half(half, unsafe { Target::at(first.cast(), elements) }),
                    _ => other_class(),
                }
            };
        }
        at!(Bool F32 F64 I64 I8 I16 I32 U8 U16 U32)
    }

    /// Returns the same memory for another part of the operation.
    ///
    /// # Safety
    /// The parts use different elements.
    #[allow(unsafe_code, reason = "the caller promises that the elements differ")]
    pub(crate) unsafe fn shared(&self) -> Self {
        // SAFETY: the caller promises it.
        unsafe { each_memory!(self, target => target.shared()) }
    }
}

/// A type in which kernels compute.
pub(crate) trait Class: Kernels {
    /// Whether functions of short values are compiled for blocks of 16 numbers of this type. Short values of other types are computed
    /// as the tiles of long ones are.
    const HAS_SHORT_BLOCKS: bool = false;

    /// Returns the memory of a result whose elements have this type.
    fn own<'m, 'a>(memory: &'m Memory<'a>) -> Option<&'m Target<'a, Self>>;

    /// Widens elements of an array, from the position `start` on.
    fn load(array: &Array, start: usize, tile: &mut [Self]);

    /// Widens elements of a result, from the position `start` on.
    fn reload(memory: &Memory<'_>, start: usize, tile: &mut [Self]);

    /// Rounds or wraps numbers, and writes them to a result, from the position `start` on.
    fn store(tile: &[Self], memory: &mut Memory<'_>, start: usize);

    /// Removes the bits that a dtype of narrower integers does not have.
    fn wrap(_: DType, _: Operand<'_, Self>, _: Output<'_, Self>) {}
}

/// The dtype of the memory is not one of the class, which the caller excludes.
#[cold]
fn other_class() -> ! {
    bug("elements whose numbers the kernel computes")
}

#[inline(always)]
fn widen<T: Copy + Into<I>, I>(elements: &[T], tile: &mut [I]) {
    for (number, &element) in tile.iter_mut().zip(elements) {
        *number = element.into();
    }
}

impl Class for f32 {
    const HAS_SHORT_BLOCKS: bool = true;

    #[inline(always)]
    fn own<'m, 'a>(memory: &'m Memory<'a>) -> Option<&'m Target<'a, Self>> {
        match memory {
            Memory::F32(target) => Some(target),
            _ => None,
        }
    }

    #[inline(always)]
    fn load(array: &Array, start: usize, tile: &mut [Self]) {
        let end = start + tile.len();
        match (Half::of(array.dtype()), array.data()) {
            (Some(half), _) => half.widen(&array.bits()[start..end], tile),
            (None, Data::F32(elements)) => tile.copy_from_slice(&elements[start..end]),
            _ => other_class(),
        }
    }

    #[inline(always)]
    fn reload(memory: &Memory<'_>, start: usize, tile: &mut [Self]) {
        match memory {
            Memory::F32(target) => tile.copy_from_slice(target.slice(start, tile.len())),
            Memory::Half(half, target) => half.widen(target.slice(start, tile.len()), tile),
            _ => other_class(),
        }
    }

    #[inline(always)]
    fn store(tile: &[Self], memory: &mut Memory<'_>, start: usize) {
        match memory {
            Memory::F32(target) => target.slice_mut(start, tile.len()).copy_from_slice(tile),
            Memory::Half(half, target) => half.narrow(tile, target.slice_mut(start, tile.len())),
            _ => other_class(),
        }
    }
}

/// Implements [`Class`] for a type that no other dtype is widened to.
macro_rules! single_classes {
    ($($class:ty => $variant:ident;)*) => {$(
        impl Class for $class {
            #[inline(always)]
            fn own<'m, 'a>(memory: &'m Memory<'a>) -> Option<&'m Target<'a, Self>> {
                match memory {
                    Memory::$variant(target) => Some(target),
                    _ => None,
                }
            }

            #[inline(always)]
            fn load(array: &Array, start: usize, tile: &mut [Self]) {
                match array.data() {
                    Data::$variant(elements) => {
                        tile.copy_from_slice(&elements[start..start + tile.len()]);
                    }
                    _ => other_class(),
                }
            }

            #[inline(always)]
            fn reload(memory: &Memory<'_>, start: usize, tile: &mut [Self]) {
                match memory {
                    Memory::$variant(target) => {
                        tile.copy_from_slice(target.slice(start, tile.len()));
                    }
                    _ => other_class(),
                }
            }

            #[inline(always)]
            fn store(tile: &[Self], memory: &mut Memory<'_>, start: usize) {
                match memory {
                    Memory::$variant(target) => {
                        target.slice_mut(start, tile.len()).copy_from_slice(tile);
                    }
                    _ => other_class(),
                }
            }
        }
    )*};
}
single_classes! {
    f64 => F64;
    bool => Bool;
}

macro_rules! integer_class {
    ($class:ident($own:ident): $($variant:ident($integer:ty)),*) => {
        impl Class for $class {
            const HAS_SHORT_BLOCKS: bool = size_of::<Self>() == size_of::<i32>();

            #[inline(always)]
            fn own<'m, 'a>(memory: &'m Memory<'a>) -> Option<&'m Target<'a, Self>> {
                match memory {
                    Memory::$own(target) => Some(target),
                    _ => None,
                }
            }

            #[inline(never)]
            fn load(array: &Array, start: usize, tile: &mut [Self]) {
                let end = start + tile.len();
                match array.data() {
                    $(Data::$variant(elements) => widen(&elements[start..end], tile),)*
                    _ => other_class(),
                }
            }

            #[inline(never)]
            fn reload(memory: &Memory<'_>, start: usize, tile: &mut [Self]) {
                match memory {
                    $(Memory::$variant(target) => widen(target.slice(start, tile.len()), tile),)*
                    _ => other_class(),
                }
            }

            #[inline(never)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                trivial_numeric_casts,
                reason = "the upper bits are lost"
            )]
            fn store(tile: &[Self], memory: &mut Memory<'_>, start: usize) {
                match memory {
                    $(Memory::$variant(target) => {
                        let elements = target.slice_mut(start, tile.len());
                        for (element, &number) in elements.iter_mut().zip(tile) {
                            *element = number as $integer;
                        }
                    })*
                    _ => other_class(),
                }
            }

            #[inline(never)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                trivial_numeric_casts,
                reason = "the upper bits are lost"
            )]
            fn wrap(dtype: DType, operand: Operand<'_, Self>, output: Output<'_, Self>) {
                match dtype {
                    $(DType::$variant => {
                        each_one(operand, output, |number: Self| (number as $integer).into());
                    })*
                    _ => other_class(),
                }
            }
        }
    };
}
integer_class!(i32(I32): I8(i8), I16(i16), I32(i32), U8(u8), U16(u16));
integer_class!(i64(I64): U32(u32), I64(i64));

/// Runs an expression with `$class` as an alias of the type in which kernels compute the elements of a dtype.
macro_rules! with_class {
    ($dtype:expr, $class:ident => $body:expr) => {
        $crate::__with_alias!($crate::loops::elementwise::classes::class_of($dtype), $class => $body;
            DType::Bool => bool, DType::F32 => f32, DType::F64 => f64, DType::I32 => i32, _ => i64)
    };
}
pub(crate) use with_class;

/// Returns the dtype of the numbers that kernels compute for the elements of a dtype.
pub(crate) fn class_of(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::F64 => dtype,
        _ if dtype.is_float() => DType::F32,
        DType::U32 | DType::I64 => DType::I64,
        _ => DType::I32,
    }
}

/// A conversion between the types in which kernels compute, as Rust's `as`.
pub(crate) trait Convert<R>: Class {
    /// Converts a number. A float that is converted to an integer becomes the nearest one in `range`, and NaN becomes 0.
    fn convert(self, range: (i64, i64)) -> R;
}

/// Converts a float to an integer as `as` does, but in steps for which the compiler finds wide instructions.
macro_rules! saturated {
    ($number:expr, $float:ident, $integer:ident) => {{
        let number = if $number.is_nan() { 0.0 } else { $number };
        let least = $integer::MIN as $float;
        // The greatest float below 2³¹ or 2⁶³.
        let greatest = $float::from_bits((-least).to_bits() - 1);
        let inside = if number > least { number } else { least };
        let inside = if inside < greatest { inside } else { greatest };
        // SAFETY: the number is not NaN, and the integer part of it is in the range of the integer.
        let integer = unsafe { inside.to_int_unchecked::<$integer>() };
        if number > greatest {
            $integer::MAX
        } else {
            integer
        }
    }};
}

macro_rules! conversions {
    ($($from:ty => $to:ty: |$number:ident, $range:ident| $converted:expr;)*) => {$(
        #[allow(
            clippy::cast_lossless,
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::float_cmp,
            clippy::no_effect_underscore_binding,
            unused_variables,
            trivial_numeric_casts,
            unsafe_code,
            reason = "converting is what this does, and its rule is that of `as`"
        )]
        impl Convert<$to> for $from {
            #[inline(always)]
            fn convert(self, $range: (i64, i64)) -> $to {
                let $number = self;
                $converted
            }
        }
    )*};
}
conversions! {
    f32 => f32: |x, range| x;
    f32 => f64: |x, range| x.into();
    f32 => i32: |x, range| saturated!(x, f32, i32).clamp(range.0 as i32, range.1 as i32);
    f32 => i64: |x, range| saturated!(x, f32, i64).clamp(range.0, range.1);
    f32 => bool: |x, range| x != 0.0;
    f64 => f32: |x, range| x as f32;
    f64 => f64: |x, range| x;
    f64 => i32: |x, range| saturated!(x, f64, i32).clamp(range.0 as i32, range.1 as i32);
    f64 => i64: |x, range| saturated!(x, f64, i64).clamp(range.0, range.1);
    f64 => bool: |x, range| x != 0.0;
    i32 => f32: |x, range| x as f32;
    i32 => f64: |x, range| x.into();
    i32 => i32: |x, range| x;
    i32 => i64: |x, range| x.into();
    i32 => bool: |x, range| x != 0;
    i64 => f32: |x, range| x as f32;
    i64 => f64: |x, range| x as f64;
    i64 => i32: |x, range| x as i32;
    i64 => i64: |x, range| x;
    i64 => bool: |x, range| x != 0;
    bool => f32: |x, range| u8::from(x).into();
    bool => f64: |x, range| u8::from(x).into();
    bool => i32: |x, range| x.into();
    bool => i64: |x, range| x.into();
    bool => bool: |x, range| x;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_possible_truncation, reason = "the rule is that of `as`")]
    fn floats_become_integers_as_by_a_cast() {
        let limits = [
            2_f64.powi(31),
            2_f64.powi(63),
            0.0,
            1.5,
            1e300,
            f64::INFINITY,
        ];
        let near = |limit: f64| [limit, limit.next_down(), limit.next_up()];
        let signs = |number: f64| [number, -number];
        let numbers = limits.into_iter().flat_map(near).flat_map(signs);
        for number in numbers.chain([f64::NAN]) {
            let narrow = number as f32;
            let (short, long) = ((i32::MIN.into(), i32::MAX.into()), (i64::MIN, i64::MAX));
            for narrow in [narrow, narrow.next_down(), narrow.next_up()] {
                assert_eq!(
                    Convert::<i32>::convert(narrow, short),
                    narrow as i32,
                    "{narrow}"
                );
                assert_eq!(
                    Convert::<i64>::convert(narrow, long),
                    narrow as i64,
                    "{narrow}"
                );
            }
            assert_eq!(
                Convert::<i32>::convert(number, short),
                number as i32,
                "{number}"
            );
            assert_eq!(
                Convert::<i64>::convert(number, long),
                number as i64,
                "{number}"
            );
        }
    }
}
