//! Collects all errors of an item, so that a user sees all errors after one compilation.

use proc_macro2::TokenStream;
use pytree_base::suggest::Effort;
use quote::ToTokens;

/// Collects errors until all rules are checked.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error that rustc reports at the tokens `place`.
    pub(crate) fn push(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(place, message));
    }

    /// Adds an error that the parser `syn` returned.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns all collected errors as one error, or `Ok` if there are none.
    pub(crate) fn into_result(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }

    /// Returns the errors as tokens, if there are any.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.0.map(|errors| errors.to_compile_error())
    }
}

/// Returns the end of a message: a suggestion of the candidate that is similar to the misspelt `word`, or an empty text
/// if no candidate is similar.
pub(crate) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    closest(word, candidates).map_or_else(String::new, |candidate| {
        format!("; did you mean `{candidate}`?")
    })
}

/// Returns the hint of [`did_you_mean`] for the name of an axis. Short names get no hint, because different short
/// names, such as `in` and `n`, are often similar by chance.
pub(crate) fn did_you_mean_axis(name: &str, candidates: &[&str]) -> String {
    if name.chars().count() <= EDITS + 1 {
        return String::new();
    }
    did_you_mean(name, candidates)
}

/// The maximum number of edits (inserted, removed or replaced letters) of a word that counts as misspelt.
const EDITS: usize = 2;

/// Returns the candidate that differs from `word` by the fewest edits, but at most by [`EDITS`]. If several candidates
/// are equally near, returns the first.
///
/// A much longer `word` is not compared with the candidates.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let length = word.chars().count();
    let candidates = candidates
        .iter()
        .filter(|candidate| length.abs_diff(candidate.chars().count()) <= EDITS)
        .map(|candidate| (*candidate, candidate));
    let (candidate, edits) = Effort::default().nearest(word, candidates)?;
    (edits <= EDITS).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::{closest, did_you_mean};

    #[test]
    fn a_swapped_letter_is_found() {
        assert_eq!(
            did_you_mean("sttaic", &["crate", "static"]),
            "; did you mean `static`?"
        );
    }

    #[test]
    fn suggestion_is_the_nearest_within_two_edits() {
        let words = ["static", "recursive", "param", "state"];
        assert_eq!(closest("statc", &words), Some("static"));
        assert_eq!(closest("stat", &words), Some("state"));
        assert_eq!(closest("pram", &words), Some("param"));
        assert_eq!(closest("recurse", &words), Some("recursive"));
        assert_eq!(closest("recurs", &words), None);
        assert_eq!(closest("static", &[]), None);
    }

    #[test]
    fn unrelated_word_has_no_suggestion() {
        assert_eq!(did_you_mean("frozen", &["crate", "static"]), "");
    }
}
