//! Text with places where lines may break: what jaxprs are laid out with.
//!
//! A group stands on one line if it fits the rest of it; otherwise each break of it is a line's end, and its own
//! groups are asked in turn (Wadler, "A prettier printer", 2003).

/// A text whose lines are not broken yet.
#[derive(Clone, Debug)]
pub(crate) enum Doc {
    Text(String),
    /// A line's end, or this text.
    Break(&'static str),
    /// With lines that begin two places further to the right.
    Nest(Box<Self>),
    /// On one line if it fits.
    Group(Box<Self>),
    Concat(Vec<Self>),
}

impl Doc {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn group(inner: Self) -> Self {
        Self::Group(Box::new(inner))
    }

    pub(crate) fn nest(inner: Self) -> Self {
        Self::Nest(Box::new(inner))
    }

    /// Items with a break between, which is `separator` if they stand on one line.
    pub(crate) fn joined(separator: &'static str, items: Vec<Self>) -> Self {
        let mut parts = Vec::with_capacity(2 * items.len());
        for item in items {
            if !parts.is_empty() {
                parts.push(Self::Break(separator));
            }
            parts.push(item);
        }
        Self::Concat(parts)
    }

    /// Items on as few lines as possible.
    pub(crate) fn filled(separator: &'static str, items: Vec<Self>) -> Self {
        let mut parts = Vec::with_capacity(3 * items.len());
        for item in items {
            if !parts.is_empty() {
                parts.push(Self::text(separator));
                parts.push(Self::group(Self::Break(" ")));
            }
            parts.push(item);
        }
        Self::nest(Self::group(Self::Concat(parts)))
    }

    /// Something in brackets, which stand on lines of their own if it does not fit one.
    pub(crate) fn bracketed(open: &'static str, inner: Self, close: &'static str) -> Self {
        Self::group(Self::Concat(vec![
            Self::nest(Self::Concat(vec![Self::text(open), Self::Break(""), inner])),
            Self::Break(""),
            Self::text(close),
        ]))
    }

    /// The text with lines of at most `width` characters where that can be.
    pub(crate) fn format(&self, width: usize) -> String {
        let mut text = String::new();
        let mut column = 0;
        let mut rest = vec![(0_usize, false, self)];
        while let Some((indent, flat, doc)) = rest.pop() {
            match doc {
                Self::Text(part) => {
                    text.push_str(part);
                    column += part.chars().count();
                }
                Self::Break(part) if flat => {
                    text.push_str(part);
                    column += part.len();
                }
                Self::Break(_) => {
                    text.push('\n');
                    text.extend(std::iter::repeat_n(' ', indent));
                    column = indent;
                }
                Self::Nest(inner) => rest.push((indent + 2, flat, inner)),
                Self::Group(inner) => {
                    let fits = flat || inner.fits(width.saturating_sub(column));
                    rest.push((indent, fits, inner));
                }
                Self::Concat(parts) => {
                    rest.extend(parts.iter().rev().map(|part| (indent, flat, part)));
                }
            }
        }
        text
    }

    /// The text on one line.
    pub(crate) fn format_flat(&self) -> String {
        Self::group(self.clone()).format(usize::MAX)
    }

    /// Whether it fits on one line of this many characters.
    fn fits(&self, mut width: usize) -> bool {
        let mut rest = vec![self];
        while let Some(doc) = rest.pop() {
            let length = match doc {
                Self::Text(part) => part.chars().count(),
                Self::Break(part) => part.len(),
                Self::Nest(inner) | Self::Group(inner) => {
                    rest.push(inner);
                    0
                }
                Self::Concat(parts) => {
                    rest.extend(parts.iter().rev());
                    0
                }
            };
            match width.checked_sub(length) {
                Some(left) => width = left,
                None => return false,
            }
        }
        true
    }
}
