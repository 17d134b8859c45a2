//! The body of a function: whether it may return early, and its statements.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Macros that do not return from the function that calls them.
pub(super) const MACROS: [&str; 11] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "format",
    "ix",
    "matches",
    "print",
    "println",
    "vec",
];

/// Returns whether a body may return early: whether it contains `return` or `?`, or calls a macro whose expansion may
/// contain them.
///
/// The answer must never be false for a body that returns early, because the comparison of the result would be skipped.
/// So every macro counts as an early return, except some known macros, because a macro cannot know the expansions of
/// other macros. A `return` in a nested function or closure also counts.
///
/// If the answer is true for a body that does not return early, the body becomes a closure without need. In this case,
/// a panic in the body has the line of the operation, and not the line of the caller.
pub(super) fn may_return(body: TokenStream) -> bool {
    let mut tokens = body.into_iter().peekable();
    let mut before = None;
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Ident(ident) if ident == "return" => return true,
            TokenTree::Punct(mark) if mark.as_char() == '?' => return true,
            TokenTree::Punct(mark) if mark.as_char() == '!' => {
                let is_call = matches!(tokens.peek(), Some(TokenTree::Group(_)));
                let name = before.as_ref().map(TokenTree::to_string);
                let is_name = matches!(before, Some(TokenTree::Ident(_)));
                if is_call && is_name && !name.is_some_and(|name| MACROS.contains(&&*name)) {
                    return true;
                }
            }
            TokenTree::Group(group) if may_return(group.stream()) => return true,
            _ => {}
        }
        before = Some(token);
    }
    false
}

/// Returns the statements of a block without its braces, or any other expression as it is.
pub(super) fn statements(body: &TokenStream) -> TokenStream {
    let mut tokens = body.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Group(block)), None) if block.delimiter() == Delimiter::Brace => {
            block.stream()
        }
        _ => body.clone(),
    }
}
