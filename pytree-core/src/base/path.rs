//! Key paths, which lead from the root of a tree to a leaf or a node.
//!
//! A path is displayed as in Rust or Python, `layers[0].weight` or `['a'][1].x`. A name that the parser would misread
//! is quoted as in Python: a field as `.'a.b'`, and a key that is neither an integer nor a text as `[<'a]'>]`. Parsing
//! the displayed text returns the same path.

mod as_key_path;

pub use self::as_key_path::AsKeyPath;
use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::base::text::write_quoted;

/// A step of a [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PathKey {
    /// A field of a struct: `.weight`.
    Field(Cow<'static, str>),
    /// A position in a sequence or tuple, or an integer key of a map: `[0]`.
    Index(i128),
    /// A text key of a map: `['a']`.
    Text(String),
    /// The displayed text of a map key that is neither an integer nor a text: `[(1, 2)]`.
    Other(String),
}

impl PathKey {
    /// Returns the key that is displayed as `text` in brackets. An integer becomes [`Index`](Self::Index) and a quoted
    /// string becomes [`Text`](Self::Text), because parsing the displayed path gives these keys.
    pub(crate) fn of_display(text: &str) -> Self {
        match parse_bracket(&format!("{text}]")) {
            Some((key @ (Self::Index(_) | Self::Text(_)), "")) => key,
            _ => Self::Other(text.to_owned()),
        }
    }
}

impl PathKey {
    /// Returns the step without punctuation, as in [`KeyPath::join`].
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Field(name) => name.to_string(),
            Self::Index(index) => index.to_string(),
            Self::Text(name) | Self::Other(name) => name.clone(),
        }
    }

    /// Returns whether the step without punctuation is `text`.
    pub(crate) fn is_plain(&self, text: &str) -> bool {
        match self {
            Self::Field(name) => name == text,
            Self::Index(_) => self.plain() == text,
            Self::Text(name) | Self::Other(name) => name == text,
        }
    }
}

impl fmt::Display for PathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => {
                f.write_char('.')?;
                if is_bare(name) {
                    f.write_str(name)
                } else {
                    write_quoted(f, name)
                }
            }
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Text(text) => {
                f.write_char('[')?;
                write_quoted(f, text)?;
                f.write_char(']')
            }
            Self::Other(text) => {
                let shown = format!("[{text}]");
                match parse_bracket(&shown[1..]) {
                    Some((Self::Other(read), "")) if read == *text => f.write_str(&shown),
                    _ => {
                        f.write_str("[<")?;
                        write_quoted(f, text)?;
                        f.write_str(">]")
                    }
                }
            }
        }
    }
}

/// Returns whether a field is displayed without quotes.
fn is_bare(name: &str) -> bool {
    let is_part =
        |character: char| !matches!(character, '.' | '[' | ']') && !character.is_control();
    !name.is_empty() && !name.starts_with(['\'', '"']) && name.chars().all(is_part)
}

/// The path from the root of a tree to a leaf or a node: a sequence of [`PathKey`]s.
///
/// # Examples
/// ```
/// use pytree_core::KeyPath;
/// let path: KeyPath = "layers[0].weight".parse()?;
/// assert_eq!(path.keys().len(), 3);
/// assert_eq!(path.to_string(), "layers[0].weight");
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias = "jax.tree_util.KeyPath")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPath(Vec<PathKey>);

impl KeyPath {
    /// Returns the path of the root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns the steps from the root.
    pub fn keys(&self) -> &[PathKey] {
        &self.0
    }

    /// Appends a step.
    pub fn push(&mut self, key: PathKey) {
        self.0.push(key);
    }

    /// Removes and returns the last step.
    pub fn pop(&mut self) -> Option<PathKey> {
        self.0.pop()
    }

    /// Returns whether this path equals `other` or leads to a node above `other`.
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Joins the steps, without their punctuation, with `separator`: `layers/0/weight`.
    #[doc(alias = "jax.tree_util.keystr")]
    pub fn join(&self, separator: &str) -> String {
        let mut text = String::new();
        for (position, key) in self.0.iter().enumerate() {
            if position > 0 {
                text.push_str(separator);
            }
            text.push_str(&key.plain());
        }
        text
    }

    /// Formats the steps as a Python tuple, as Flax NNX prints a path: `('layers', 0, 'weight')`.
    pub fn tuple(&self) -> String {
        let steps = self.0.iter().map(|key| match key {
            PathKey::Field(name) => quoted(name),
            PathKey::Text(text) => quoted(text),
            PathKey::Index(index) => index.to_string(),
            PathKey::Other(text) => text.clone(),
        });
        let steps: Vec<String> = steps.collect();
        let comma = if steps.len() == 1 { "," } else { "" };
        format!("({}{comma})", steps.join(", "))
    }

    /// Formats the path of a part of the value `name`: `x.layers[0]`.
    pub(crate) fn below(&self, name: &str) -> String {
        let mut text = name.to_owned();
        for key in &self.0 {
            // Writing to a string does not fail.
            let _ = write!(text, "{key}");
        }
        text
    }

    /// Formats the path for messages, in which the empty path is `the root`.
    pub fn or_root(&self) -> String {
        if self.0.is_empty() {
            "the root".to_owned()
        } else {
            self.to_string()
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    // Writing to a string does not fail.
    let _ = write_quoted(&mut quoted, text);
    quoted
}

impl FromIterator<PathKey> for KeyPath {
    fn from_iter<I: IntoIterator<Item = PathKey>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.0.iter().enumerate() {
            match key {
                PathKey::Field(name) if position == 0 && is_bare(name) => f.write_str(name)?,
                key => key.fmt(f)?,
            }
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<KeyPath, (usize, &'static str)> {
    let mut path = KeyPath::root();
    let mut rest = text;
    while !rest.is_empty() {
        let position = text.len() - rest.len();
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = parse_bracket(inner).ok_or((position, "a key and `]` after `[`"))?;
            path.push(key);
            rest = after;
        } else {
            let named = match rest.strip_prefix('.') {
                Some(named) => named,
                None if position == 0 => rest,
                None => return Err((position, "`.` or `[`")),
            };
            if named.starts_with(['\'', '"']) {
                let (name, after) = parse_quoted(named)
                    .ok_or((position, "a quoted field name with a closing quote"))?;
                path.push(PathKey::Field(name.into()));
                rest = after;
                continue;
            }
            let end = named.find(['.', '[']).unwrap_or(named.len());
            if end == 0 {
                return Err((position, "a field name"));
            }
            path.push(PathKey::Field(named[..end].to_owned().into()));
            rest = &named[end..];
        }
    }
    Ok(path)
}

/// Parses an escape sequence, given the characters after its backslash, and returns the character that it denotes.
fn escaped(characters: &mut std::str::CharIndices<'_>) -> Option<char> {
    let digits = match characters.next()?.1 {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let mut code = 0_u32;
    for _ in 0..digits {
        code = code.checked_mul(16)? + characters.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}

/// Parses a quoted text. Returns the text without its quotes, and the rest after the closing quote.
fn parse_quoted(quoted: &str) -> Option<(String, &str)> {
    let mut characters = quoted.char_indices();
    let (_, quote) = characters
        .next()
        .filter(|(_, first)| matches!(first, '\'' | '"'))?;
    let mut text = String::new();
    while let Some((position, character)) = characters.next() {
        match character {
            '\\' => text.push(escaped(&mut characters)?),
            character if character == quote => return Some((text, &quoted[position + 1..])),
            character => text.push(character),
        }
    }
    None
}

/// Parses a key in brackets, given the text after `[`. Returns the key and the text after `]`.
fn parse_bracket(inner: &str) -> Option<(PathKey, &str)> {
    if inner.starts_with(['\'', '"']) {
        let (name, after) = parse_quoted(inner)?;
        return Some((PathKey::Text(name), after.strip_prefix(']')?));
    }
    let quoted = inner.strip_prefix('<').and_then(parse_quoted);
    if let Some((text, after)) = quoted
        && let Some(after) = after.strip_prefix(">]")
    {
        return Some((PathKey::Other(text), after));
    }
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (position, character) in inner.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '[' | '(' | '{') => depth += 1,
            (None, ']') if depth == 0 => {
                let key = &inner[..position];
                if key.is_empty() {
                    return None;
                }
                let key = key
                    .parse()
                    .map_or_else(|_| PathKey::Other(key.to_owned()), PathKey::Index);
                return Some((key, &inner[position + 1..]));
            }
            (None, ']' | ')' | '}') => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}
