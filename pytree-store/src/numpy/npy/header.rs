//! The header of a `.npy` file: a dictionary in Python's syntax with the keys `descr`, `fortran_order` and `shape`.

use std::io::Read;

use pytree_core::{ArrayInfo, ElementType};

use crate::numpy::npy::error::NpyError;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The longest header that is read, in bytes. NumPy itself reads at most 10,000 by default.
const LONGEST: u32 = 1 << 16;
/// The largest number of axes, as in NumPy.
const AXES: usize = 64;
/// The elements begin at a multiple of this number of bytes.
const ALIGNMENT: usize = 64;
/// NumPy leaves room for a first axis of so many digits.
const DIGITS: usize = 21;

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: ElementType,
    pub(super) order: ByteOrder,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    /// Reads the header. Also returns the number of bytes up to the elements.
    pub(super) fn read(reader: &mut impl Read) -> Result<(Self, u64), NpyError> {
        let mut start = [0; 8];
        fill(reader, &mut start, "the magic number of a `.npy` file")?;
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return Err(NpyError::Archive { path: None });
        }
        if start[..6] != *MAGIC {
            let found = format!("the bytes `{}`", start[..6].escape_ascii());
            return Err(NpyError::format("`\\x93NUMPY` at the beginning", found));
        }
        let (length, before) = if let 1 = start[6] {
            let mut length = [0; 2];
            fill(reader, &mut length, "the length of the header")?;
            (u32::from(u16::from_le_bytes(length)), 10)
        } else if let 2 | 3 = start[6] {
            let mut length = [0; 4];
            fill(reader, &mut length, "the length of the header")?;
            (u32::from_le_bytes(length), 12)
        } else {
            let found = format!("version {}.{}", start[6], start[7]);
            return Err(NpyError::format("version 1, 2 or 3 of the format", found));
        };
        if length > LONGEST {
            let expected = format!("a header of at most {LONGEST} bytes");
            return Err(NpyError::format(expected, format!("{length} bytes")));
        }
        let mut text = vec![0; length as usize];
        fill(reader, &mut text, "the header")?;
        // Latin-1 and UTF-8 differ only in names of fields, which no header that is accepted has.
        let text = String::from_utf8_lossy(&text);
        Ok((parse(&text)?, before + u64::from(length)))
    }

    /// Returns the bytes of a file up to the elements, as NumPy writes them.
    pub(super) fn written(info: ArrayInfo<&[usize]>) -> Vec<u8> {
        let lengths: Vec<String> = info.shape.iter().map(ToString::to_string).collect();
        let shape = match &lengths[..] {
            [length] => format!("({length},)"),
            _ => format!("({})", lengths.join(", ")),
        };
        let descr = descr(info.element);
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let spaces = lengths
            .first()
            .map_or(0, |first| DIGITS.saturating_sub(first.len()));
        text.extend(std::iter::repeat_n(' ', spaces));
        // A shape of many axes can exceed the 16 bits of version 1.
        let long = text.len() + ALIGNMENT > usize::from(u16::MAX);
        let before = if long { 12 } else { 10 };
        let padding = ALIGNMENT - (before + text.len() + 1) % ALIGNMENT;
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        #[allow(clippy::cast_possible_truncation, reason = "a tensor has few axes")]
        if long {
            bytes.extend([2, 0]);
            bytes.extend((text.len() as u32).to_le_bytes());
        } else {
            bytes.extend([1, 0]);
            bytes.extend((text.len() as u16).to_le_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes
    }

    /// Returns NumPy's name of the dtype, with the character of the byte order.
    pub(super) fn descr(&self) -> String {
        let descr = descr(self.dtype);
        match self.order {
            ByteOrder::Little => descr,
            ByteOrder::Big => descr.replace('<', ">"),
        }
    }

    /// Returns dtype and shape.
    pub(super) fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: self.dtype,
            shape: &self.shape,
        }
    }
}

fn fill(reader: &mut impl Read, bytes: &mut [u8], what: &str) -> Result<(), NpyError> {
    reader
        .read_exact(bytes)
        .map_err(|error| NpyError::format(what, error.to_string()))
}

/// Returns NumPy's name of a dtype, with the character of the byte order.
fn descr(dtype: ElementType) -> String {
    let order = if dtype.bytes() == 1 { '|' } else { '<' };
    format!("{order}{}", dtype.npy())
}

/// Returns the dtype and the byte order of a name of NumPy.
fn dtype(descr: &str) -> Option<(ElementType, ByteOrder)> {
    let (order, name) = descr.split_at_checked(1)?;
    let order = match order {
        "<" | "|" => ByteOrder::Little,
        "=" if cfg!(target_endian = "little") => ByteOrder::Little,
        ">" | "=" => ByteOrder::Big,
        _ => return None,
    };
    let dtype = ElementType::from_npy(name)?;
    Some((dtype, order))
}

/// Parses the text of a header.
fn parse(text: &str) -> Result<Header, NpyError> {
    let mut rest = Rest(text.trim_end());
    let (mut found_dtype, mut fortran, mut shape) = (None, None, None);
    rest.expect('{')?;
    while !rest.accepts('}') {
        let key = rest.text()?;
        rest.expect(':')?;
        match key {
            "descr" => found_dtype = Some(rest.dtype()?),
            "fortran_order" => fortran = Some(rest.boolean()?),
            "shape" => shape = Some(rest.shape()?),
            other => {
                let expected = "only the keys `descr`, `fortran_order` and `shape` in the header";
                return Err(NpyError::format(expected, format!("`{other}`")));
            }
        }
        if !rest.accepts(',') {
            rest.expect('}')?;
            break;
        }
    }
    if !rest.0.is_empty() {
        return Err(rest.wrong("the end of the header"));
    }
    let missing = |key: &str| NpyError::format(format!("`{key}` in the header"), "no such key");
    let (dtype, order) = found_dtype.ok_or_else(|| missing("descr"))?;
    Ok(Header {
        dtype,
        order,
        fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// The part of a header that is not parsed yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Returns an error at this place.
    fn wrong(&self, expected: &str) -> NpyError {
        let found: String = self.0.chars().take(20).collect();
        let found = match found.as_str() {
            "" => "the end of the header".to_owned(),
            found => format!("`{}`", found.escape_debug()),
        };
        NpyError::format(format!("{expected} in the header"), found)
    }

    /// Skips a character, if it is the next after spaces.
    fn accepts(&mut self, character: char) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(character) {
            Some(rest) => {
                self.0 = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, character: char) -> Result<(), NpyError> {
        if self.accepts(character) {
            Ok(())
        } else {
            Err(self.wrong(&format!("`{character}`")))
        }
    }

    /// Parses a text in single or double quotes, without escapes.
    fn text(&mut self) -> Result<&'a str, NpyError> {
        let quote = self
            .0
            .chars()
            .next()
            .filter(|quote| matches!(quote, '\'' | '"'));
        let parsed = quote.and_then(|quote| self.0[1..].split_once(quote));
        let Some((text, rest)) = parsed else {
            return Err(self.wrong("a text in quotes"));
        };
        self.0 = rest;
        Ok(text)
    }

    fn dtype(&mut self) -> Result<(ElementType, ByteOrder), NpyError> {
        if self.0.starts_with('[') {
            return Err(NpyError::DType {
                path: None,
                descr: "a record with named fields".to_owned(),
            });
        }
        let descr = self.text()?;
        dtype(descr).ok_or_else(|| NpyError::DType {
            path: None,
            descr: descr.escape_debug().to_string(),
        })
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(self.wrong("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.accepts(')') {
            let end = self.0.find(|character: char| !character.is_ascii_digit());
            let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
            let Ok(length) = digits.parse() else {
                return Err(self.wrong("the length of an axis"));
            };
            if shape.len() == AXES {
                return Err(self.wrong(&format!("a shape of at most {AXES} axes")));
            }
            shape.push(length);
            // Python 2 wrote `3L`.
            self.0 = rest.strip_prefix('L').unwrap_or(rest);
            if !self.accepts(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}
