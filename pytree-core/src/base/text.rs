//! How leaves and their types are written: strings as in Python, types without their modules.

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

/// Returns whether Python's `repr` shows a character unescaped.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // `escape_debug` escapes a combining mark only at the beginning of a text, so the text begins with another letter.
    let text: String = ['a', character].into_iter().collect();
    text.escape_debug().nth(1) == Some(character)
}
