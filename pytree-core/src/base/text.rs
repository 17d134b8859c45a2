//! Writes leaves and their types: strings and numbers as in Python, types without their modules.

use std::fmt;

/// Returns the name of a type without its modules: `Vec<Tensor>` for `alloc::vec::Vec<crate::Tensor>`.
pub(crate) fn short_name(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut word = 0;
    for character in full.chars() {
        short.push(character);
        if character == ':' {
            short.truncate(word);
        } else if !character.is_alphanumeric() && character != '_' {
            word = short.len();
        }
    }
    short
}

/// Quotes a string as Python does: in single quotes, or in double quotes if it contains a single quote.
pub(crate) fn write_quoted(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    f.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            c if c == quote => {
                f.write_char('\\')?;
                f.write_char(c)?;
            }
            c if is_printable(c) => f.write_char(c)?,
            c => match u32::from(c) {
                code @ ..0x100 => write!(f, "\\x{code:02x}")?,
                code @ ..0x1_0000 => write!(f, "\\u{code:04x}")?,
                code => write!(f, "\\U{code:08x}")?,
            },
        }
    }
    f.write_char(quote)
}

/// Writes a bool as Python does.
pub(crate) fn write_bool(f: &mut impl fmt::Write, value: bool) -> fmt::Result {
    f.write_str(if value { "True" } else { "False" })
}

/// Writes a float as Python does, with the fewest digits that identify the float in its type.
pub(crate) fn write_float(
    f: &mut impl fmt::Write,
    value: &(impl fmt::Display + fmt::LowerExp),
) -> fmt::Result {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return f.write_str(if scientific == "NaN" {
            "nan"
        } else {
            &scientific
        });
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // Python's `repr` uses the fixed notation for these exponents.
    if (-4..16).contains(&exponent) {
        let fixed = value.to_string();
        let point = if fixed.contains('.') { "" } else { ".0" };
        return write!(f, "{fixed}{point}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns whether Python's `repr` shows a character unescaped.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // `escape_debug` escapes a combining mark only at the beginning of a text, so the text begins with another letter.
    let text: String = ['a', character].into_iter().collect();
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: f64) -> String {
        let mut text = String::new();
        write_float(&mut text, &value).unwrap();
        text
    }

    #[test]
    fn floats_are_written_as_by_python() {
        // The expected texts are the results of `repr` in Python 3.
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (-1e22, "-1e+22"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(shown(value), expected);
        }
        let mut single = String::new();
        write_float(&mut single, &1e-7_f32).unwrap();
        assert_eq!(single, "1e-07");
    }
}
