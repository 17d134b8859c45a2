//! Reads the parts of the format: numbers, strings, and the data of static values.

use super::{Reader, fail};
use crate::base::error::TreeError;
use crate::node::statics::{FloatBits, StaticData};

/// The maximal nesting depth of the data of a static value, in levels.
const NESTING: usize = 64;

impl<'a> Reader<'a> {
    pub(super) fn data(&mut self, depth: usize) -> Result<StaticData, TreeError> {
        let position = self.at;
        let tag = self.byte("data")?;
        if depth == NESTING {
            let expected = format!("data nested at most {NESTING} levels deep");
            return Err(fail(position, expected, "a deeper level"));
        }
        Ok(match tag {
            0 => StaticData::Unit,
            1 => StaticData::Bool(false),
            2 => StaticData::Bool(true),
            3 => {
                let zigzag = self.varint("an integer")?;
                let magnitude = (zigzag >> 1).cast_signed();
                StaticData::Integer(if zigzag & 1 == 0 {
                    magnitude
                } else {
                    !magnitude
                })
            }
            4 => {
                let mut bits = [0; 8];
                bits.copy_from_slice(self.take(8, "a float")?);
                StaticData::Float(FloatBits::from(f64::from_bits(u64::from_le_bytes(bits))))
            }
            5 => StaticData::Text(self.text("a text")?),
            6 => StaticData::Tuple(self.items(depth)?),
            7 => StaticData::Sequence(self.items(depth)?),
            8 => StaticData::Optional(None),
            9 => StaticData::Optional(Some(Box::new(self.data(depth + 1)?))),
            10 => {
                let mut entries = Vec::new();
                for _ in 0..self.count("the number of entries")? {
                    entries.push((self.data(depth + 1)?, self.data(depth + 1)?));
                }
                StaticData::Map(entries)
            }
            11 => {
                let name = self.text("the name of a record")?;
                let mut fields = Vec::new();
                for _ in 0..self.count("the number of fields")? {
                    fields.push((self.text("the name of a field")?, self.data(depth + 1)?));
                }
                StaticData::Record { name, fields }
            }
            12 => StaticData::Opaque {
                type_name: self.text("the name of a type")?,
                text: self.text("a text")?,
            },
            code => return Err(fail(position, "data", format!("the code {code}"))),
        })
    }

    pub(super) fn items(&mut self, depth: usize) -> Result<Vec<StaticData>, TreeError> {
        let mut items = Vec::new();
        for _ in 0..self.count("the number of items")? {
            items.push(self.data(depth + 1)?);
        }
        Ok(items)
    }

    pub(super) fn text(&mut self, expected: &str) -> Result<String, TreeError> {
        let length = self.count(expected)?;
        let position = self.at;
        let bytes = self.take(length, expected)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(fail(
                position + error.valid_up_to(),
                format!("{expected} in valid UTF-8"),
                "invalid bytes",
            )),
        }
    }

    /// Reads a count of items that take at least one byte each.
    pub(super) fn count(&mut self, expected: &str) -> Result<usize, TreeError> {
        let position = self.at;
        let value = self.varint(expected)?;
        let fits = usize::try_from(value)
            .ok()
            .filter(|&value| value <= self.left());
        fits.ok_or_else(|| {
            fail(
                position,
                format!(
                    "{expected}, which is at most {}, the number of remaining bytes",
                    self.left()
                ),
                value.to_string(),
            )
        })
    }

    pub(super) fn varint(&mut self, expected: &str) -> Result<u128, TreeError> {
        let position = self.at;
        let mut value = 0_u128;
        let mut shift = 0;
        loop {
            let byte = self.byte(expected)?;
            let low = u128::from(byte & 0x7f);
            let shifted = low
                .checked_shl(shift)
                .filter(|shifted| shifted >> shift == low);
            // A last byte of zero is rejected, so that each number can be written in only one way.
            let Some(shifted) = shifted.filter(|_| byte != 0 || shift == 0) else {
                let expected =
                    format!("{expected} as a number of at most 128 bits in its shortest form");
                return Err(fail(position, expected, "another form"));
            };
            value |= shifted;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    pub(super) fn byte(&mut self, expected: &str) -> Result<u8, TreeError> {
        Ok(self.take(1, expected)?[0])
    }

    pub(super) fn take(&mut self, length: usize, expected: &str) -> Result<&'a [u8], TreeError> {
        if length > self.left() {
            return Err(fail(self.bytes.len(), expected, "the end"));
        }
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
}
