//! Patterns of names with placeholders, such as `h.{i}.attn` and `blocks[{i}].attention`.
//!
//! A placeholder may match texts of several lengths. The search remembers what it has tried, so its time is a polynomial in the
//! number of placeholders.

use std::collections::HashSet;
use std::fmt;

/// The maximum number of bytes that a placeholder matches. There is a limit because names in a hostile file may be
/// megabytes long.
const LONGEST: usize = 64;

/// The maximum number of placeholders that a pattern has several times. The time of the search is exponential in this number.
const REPEATED: usize = 2;

/// A name with placeholders, each of which matches one step of a path or a part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    /// A placeholder. In `{2*i+1}` the factor is 2 and the offset is 1.
    Placeholder {
        name: String,
        factor: usize,
        offset: usize,
    },
}

/// The values of placeholders by their names.
pub(crate) type Captures<'t> = Vec<(String, &'t str)>;

impl Pattern {
    /// Parses a pattern, or returns the reason why it is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let (inside, after) = after
                .split_once('}')
                .ok_or_else(|| format!("`{text}` has a `{{` without a `}}`"))?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            }
            pieces.push(placeholder(inside).ok_or_else(|| {
                format!("`{{{inside}}}` in `{text}` is no placeholder: write a name, such as `{{i}}`, `{{i+1}}` or `{{2*i}}`")
            })?);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        if pieces.is_empty() {
            return Err("a pattern is empty".to_owned());
        }
        let text = text.to_owned();
        let pattern = Self { text, pieces };
        if pattern.repeated().len() > REPEATED {
            return Err(format!(
                "`{pattern}` has more than {REPEATED} placeholders several times"
            ));
        }
        Ok(pattern)
    }

    /// Returns the names of the placeholders in the order of the pattern.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder { name, .. } => Some(name.as_str()),
            Piece::Literal(_) => None,
        })
    }

    /// Returns the names of the placeholders that the pattern has several times, each once.
    fn repeated(&self) -> Vec<&str> {
        let mut repeated: Vec<&str> = self.names().collect();
        repeated.retain(|name| self.names().filter(|other| other == name).count() > 1);
        repeated.sort_unstable();
        repeated.dedup();
        repeated
    }

    /// Returns the names of the placeholders, sorted.
    pub(crate) fn placeholders(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns whether a placeholder has a factor or an offset, which only the replacement of a name can have.
    pub(crate) fn computes(&self) -> bool {
        let computes = |piece: &Piece| matches!(piece, Piece::Placeholder { factor, offset, .. } if (*factor, *offset) != (1, 0));
        self.pieces.iter().any(computes)
    }

    /// Matches the beginning of a name up to the end of a step. Returns the values of the placeholders and the rest.
    pub(crate) fn matched<'t>(&self, name: &'t str) -> Option<(Captures<'t>, &'t str)> {
        let mut search = Search {
            repeated: self.repeated(),
            captures: Vec::new(),
            failed: HashSet::new(),
        };
        let rest = search.matched(&self.pieces, name)?;
        Some((search.captures, rest))
    }

    /// Replaces the placeholders by values. Returns `None` if a placeholder has no value, or if a value of `{i+1}` is
    /// not a number.
    pub(crate) fn filled(&self, captures: &Captures<'_>) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => filled.push_str(literal),
                Piece::Placeholder {
                    name,
                    factor,
                    offset,
                } => {
                    let (_, value) = captures.iter().find(|(known, _)| known == name)?;
                    if (*factor, *offset) == (1, 0) {
                        filled.push_str(value);
                    } else {
                        let number: usize = value.parse().ok()?;
                        let number = number.checked_mul(*factor)?.checked_add(*offset)?;
                        filled.push_str(&number.to_string());
                    }
                }
            }
        }
        Some(filled)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn placeholder(inside: &str) -> Option<Piece> {
    let (inside, offset) = match inside.split_once('+') {
        Some((inside, offset)) => (inside, offset.trim().parse().ok()?),
        None => (inside, 0),
    };
    let (factor, name) = match inside.split_once('*') {
        Some((factor, name)) => (factor.trim().parse().ok()?, name),
        None => (1, inside),
    };
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| Piece::Placeholder {
        name: name.to_owned(),
        factor,
        offset,
    })
}

/// Returns whether a step of a path ends before this character.
fn separates(character: char) -> bool {
    matches!(character, '.' | '[' | ']' | '/' | '\'')
}

/// A search for the texts that the placeholders of a pattern match.
struct Search<'p, 't> {
    /// The placeholders whose values decide what later pieces match.
    repeated: Vec<&'p str>,
    captures: Captures<'t>,
    /// What does not match: a number of pieces, a number of last bytes of the name, and the values of `repeated`.
    failed: HashSet<(usize, usize, Vec<Option<&'t str>>)>,
}

impl<'t> Search<'_, 't> {
    fn value(&self, placeholder: &str) -> Option<&'t str> {
        let mut captures = self.captures.iter();
        captures.find_map(|(known, value)| (known == placeholder).then_some(*value))
    }

    fn matched(&mut self, pieces: &[Piece], name: &'t str) -> Option<&'t str> {
        let Some((first, others)) = pieces.split_first() else {
            let ends = name.is_empty() || name.starts_with(['.', '[', '/']);
            return ends.then_some(name);
        };
        let placeholder = match first {
            Piece::Literal(literal) => {
                return self.matched(others, name.strip_prefix(literal.as_str())?);
            }
            Piece::Placeholder { name, .. } => name,
        };
        if let Some(value) = self.value(placeholder) {
            return self.matched(others, name.strip_prefix(value)?);
        }
        let values = self.repeated.iter().map(|known| self.value(known));
        let tried = (pieces.len(), name.len(), values.collect());
        if self.failed.contains(&tried) {
            return None;
        }
        let ends = name.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
        let step = ends.take_while(|&(end, c)| end <= LONGEST && !separates(c));
        for (end, _) in step {
            self.captures.push((placeholder.clone(), &name[..end]));
            if let Some(rest) = self.matched(others, &name[end..]) {
                return Some(rest);
            }
            self.captures.pop();
        }
        self.failed.insert(tried);
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::Pattern;

    fn moved(from: &str, to: &str, name: &str) -> Option<(String, String)> {
        let (from, to) = (Pattern::parse(from).unwrap(), Pattern::parse(to).unwrap());
        let (captures, rest) = from.matched(name)?;
        Some((to.filled(&captures)?, rest.to_owned()))
    }

    #[test]
    fn placeholders_match_parts_of_steps() {
        let is = |from, to, name, filled: &str, rest: &str| {
            assert_eq!(
                moved(from, to, name),
                Some((filled.to_owned(), rest.to_owned()))
            );
        };
        is(
            "blocks[{i}]",
            "h.{i}",
            "blocks[12].mlp.bias",
            "h.12",
            ".mlp.bias",
        );
        is(
            "stages[{i}][{j}].conv{k}",
            "layer{i+1}.{j}.conv{k}",
            "stages[0][1].conv2",
            "layer1.1.conv2",
            "",
        );
        is("layers[{i}]", "{2*i+1}", "layers[3].bias", "7", ".bias");
        is("a{x}b{y}", "{y}{x}", "a1b2b", "2b1", "");
        is("{x}.{x}", "{x}", "a.a", "a", "");
        for name in [
            "blocks",
            "blocks[]",
            "blocksx[1]",
            "blocks[1]x",
            "x.blocks[1]",
        ] {
            assert_eq!(moved("blocks[{i}]", "h.{i}", name), None, "{name}");
        }
        assert_eq!(moved("{x}.{x}", "{x}", "a.b"), None);
        assert_eq!(moved("b.{i}", "{i+1}", "b.x"), None);
    }

    #[test]
    fn long_names_are_refused_soon() {
        let name = "ab".repeat(1_000_000);
        assert_eq!(moved("{a}b{c}b{d}b{e}x", "{a}", &name), None);
    }

    /// Without a memory of what was tried, four placeholders would take seconds, and eight longer than a life.
    #[test]
    fn placeholders_side_by_side_are_matched_soon() {
        let name = "a".repeat(600);
        for pattern in [
            "{a}{b}{c}{d}{e}{f}{g}{h}x",
            "{a}a{b}a{c}a{d}a{e}a{f}a{g}ax",
            "{c}{d}{a}{b}{a}{b}x",
            "{a}{b}{c}{d}",
        ] {
            assert_eq!(moved(pattern, "{a}", &name), None, "{pattern}");
        }
        // The values of a placeholder that comes again are part of the memory.
        let found = moved("{a}{b}.{a}.{b}", "{a}-{b}", "xyz.xy.z");
        assert_eq!(found, Some(("xy-z".to_owned(), String::new())));
    }

    #[test]
    fn invalid_patterns_say_why() {
        let why = |text| Pattern::parse(text).unwrap_err();
        assert_eq!(why("h.{i"), "`h.{i` has a `{` without a `}`");
        assert!(why("h.{}").starts_with("`{}` in `h.{}` is no placeholder"));
        assert!(why("h.{i-1}").contains("`{i+1}`"));
        assert_eq!(why(""), "a pattern is empty");
        assert!(why("{a}{b}{c}{a}{b}{c}").ends_with("has more than 2 placeholders several times"));
    }
}
