//! Writes and reads protocol buffers: the messages of XLA that this crate exchanges with plugins.

/// The wire type of an integer of variable length.
const VARINT: u64 = 0;
/// The wire type of a value of 8 bytes.
const FIXED_64: u64 = 1;
/// The wire type of bytes, strings, messages and packed numbers. These values begin with their length.
const BYTES: u64 = 2;
/// The wire type of a value of 4 bytes.
const FIXED_32: u64 = 5;

/// Writes a message. Each method writes one field.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    /// Writes an integer or a bool. Negative numbers take ten bytes.
    pub(crate) fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.varint(field << 3 | VARINT);
        self.varint(value.cast_unsigned());
        self
    }

    /// Writes a count.
    pub(crate) fn count(&mut self, field: u64, value: usize) -> &mut Self {
        self.varint(field << 3 | VARINT);
        self.varint(value as u64);
        self
    }

    /// Writes a `double`.
    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.varint(field << 3 | FIXED_64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Writes bytes or a text.
    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.varint(field << 3 | BYTES);
        self.varint(value.len() as u64);
        self.bytes.extend(value);
        self
    }

    /// Writes a message. The function `write` writes the fields of the message.
    pub(crate) fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.bytes)
    }

    /// Writes a list of integers in packed form.
    pub(crate) fn packed(&mut self, field: u64, values: &[i64]) -> &mut Self {
        let mut inner = Self::default();
        values
            .iter()
            .for_each(|value| inner.varint(value.cast_unsigned()));
        self.bytes(field, &inner.bytes)
    }

    /// Returns the bytes of the message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// An integer, an enum or a bool.
    Int(u64),
    /// Bytes, a text, a message or packed numbers.
    Bytes(&'a [u8]),
    /// A number of fixed size. The messages of this crate contain no such number.
    Fixed,
}

impl<'a> Value<'a> {
    /// Returns the fields of a message. Returns no fields if the value is not a message.
    pub(crate) fn fields(self) -> Fields<'a> {
        match self {
            Self::Bytes(bytes) => Fields { bytes },
            Self::Int(_) | Self::Fixed => Fields { bytes: &[] },
        }
    }

    /// Appends the integers of a repeated field: one integer, or several in packed form. Returns `None` if the value is
    /// malformed.
    pub(crate) fn extend_ints(self, target: &mut Vec<u64>) -> Option<()> {
        match self {
            Self::Int(value) => target.push(value),
            Self::Bytes(mut bytes) => {
                while !bytes.is_empty() {
                    target.push(varint(&mut bytes)?);
                }
            }
            Self::Fixed => return None,
        }
        Some(())
    }
}

/// Iterates over the fields of a message as pairs of number and value. A malformed field is `None` and ends the
/// iteration.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads a message.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        VARINT => Value::Int(varint(bytes)?),
        FIXED_64 => take(bytes, 8).map(|_| Value::Fixed)?,
        BYTES => {
            let length = varint(bytes)?;
            Value::Bytes(take(bytes, length)?)
        }
        FIXED_32 => take(bytes, 4).map(|_| Value::Fixed)?,
        _ => return None,
    };
    Some((tag >> 3, value))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let read = field(&mut self.bytes);
        if read.is_none() {
            self.bytes = &[];
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The bytes are the examples of https://protobuf.dev/programming-guides/encoding.
    #[test]
    fn bytes_are_those_of_specification() {
        let mut writer = Writer::default();
        writer.int(1, 150);
        assert_eq!(writer.finish(), [0x08, 0x96, 0x01]);
        let mut writer = Writer::default();
        writer.bytes(2, b"testing");
        assert_eq!(writer.finish(), b"\x12\x07testing");
        let mut writer = Writer::default();
        writer.message(3, |inner| {
            inner.int(1, 150);
        });
        assert_eq!(writer.finish(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut writer = Writer::default();
        writer.packed(6, &[3, 270, 86942]);
        assert_eq!(
            writer.finish(),
            [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]
        );
        let mut writer = Writer::default();
        writer.int(1, -2);
        assert_eq!(
            writer.finish(),
            [
                0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01
            ]
        );
    }

    #[test]
    fn malformed_bytes_end_the_fields() {
        for bytes in [
            &[0x08][..],
            &[0x12, 0x05, 0x00],
            &[0x0b],
            &[0x09, 1, 2],
            &[0xff; 12],
        ] {
            let fields: Vec<_> = Fields::new(bytes).collect();
            assert_eq!(fields, [None], "{bytes:?}");
        }
    }
}
