//! Key paths that are read from strings.

use pytree::KeyPath;

use crate::{fuzz, read};

const PIECES: [&str; 40] = [
    "a",
    "weight",
    "layers",
    ".",
    "..",
    "[",
    "]",
    "[0]",
    "[-1]",
    "[",
    "'",
    "\"",
    "\\",
    "\\x41",
    "\\u00e9",
    "\\U0001f600",
    "\\U00110000",
    "é",
    "🦀",
    "\u{0}",
    "\n",
    " ",
    "0",
    "9",
    "-",
    "-0",
    "+1",
    "1e5",
    "99999999999999999999",
    "0x",
    "340282366920938463463374607431768211456",
    "['a']",
    "[\"it's\"]",
    "(",
    ")",
    ",",
    "true",
    "None",
    "[(1, 'x')]",
    "/",
];

#[test]
fn paths_are_read_or_refused() {
    fuzz("paths_are_read_or_refused", |random| {
        let mut text = random.text(&PIECES, 12);
        if random.one_in(50) {
            text = text.repeat(1 + random.below(1_000));
        }
        read(text.len(), || {
            if let Ok(path) = text.parse::<KeyPath>() {
                let shown = path.to_string();
                let again = shown.parse::<KeyPath>().map(|again| again == path);
                assert_eq!(again.ok(), Some(true), "{text:?} is shown as {shown:?}");
            }
        });
    });
}
