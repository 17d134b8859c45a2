//! The terms of a rule `a | b | …` or `a & b & …`, in a flat list.
//!
//! Nested terms would need a recursion as deep as the number of terms. The terms that are paths are sorted once, so a
//! single search finds whether a leaf is at or below any of these paths.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use super::rule::Rule;
use crate::base::path::KeyPath;
use crate::treedef::TreeDef;

#[derive(Clone)]
pub(super) struct Terms {
    terms: VecDeque<Rule>,
    index: OnceLock<Index>,
}

/// Terms, grouped by how they are evaluated.
#[derive(Clone)]
pub(super) struct Index {
    /// The sorted paths, without paths below other paths.
    paths: Vec<KeyPath>,
    /// The positions of all other terms.
    others: Vec<usize>,
}

impl Terms {
    pub(super) fn one(rule: Rule) -> Self {
        Self {
            terms: VecDeque::from([rule]),
            index: OnceLock::new(),
        }
    }

    /// Appends other terms. The shorter list is moved, so that many terms can be joined one by one from either end.
    pub(super) fn followed_by(mut self, mut other: Self) -> Self {
        if self.terms.len() >= other.terms.len() {
            self.terms.append(&mut other.terms);
            self.index = OnceLock::new();
            return self;
        }
        for term in self.terms.into_iter().rev() {
            other.terms.push_front(term);
        }
        other.index = OnceLock::new();
        other
    }

    /// Returns the terms for a structure in which each shared node has only its first path; see [`Rule::resolved`]. The
    /// paths that `path_of` returns are looked up together. For each first path that is found, `term_of` creates an
    /// additional term. All other terms are replaced by the result of `resolved`.
    pub(super) fn resolved(
        &self,
        treedef: &TreeDef,
        path_of: fn(&Rule) -> Option<&KeyPath>,
        term_of: fn(KeyPath) -> Rule,
        resolved: impl Fn(&Rule) -> Rule,
    ) -> Self {
        let own = self.iter().map(|term| match path_of(term) {
            Some(_) => term.clone(),
            None => resolved(term),
        });
        let firsts = treedef.first_places(self.iter().filter_map(path_of));
        Self {
            terms: own.chain(firsts.into_iter().map(term_of)).collect(),
            index: OnceLock::new(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.terms.iter()
    }

    /// Returns the index of the terms: the sorted paths that `path_of` returns, and the positions of all other terms.
    /// The index is created by the first call.
    pub(super) fn index(&self, path_of: fn(&Rule) -> Option<&KeyPath>) -> &Index {
        self.index.get_or_init(|| {
            let mut paths: Vec<&KeyPath> = self.iter().filter_map(path_of).collect();
            paths.sort_unstable();
            // A path sorts right before the paths below it.
            paths.dedup_by(|below, above| above.is_prefix_of(below));
            let terms = self.iter().enumerate();
            Index {
                paths: paths.into_iter().cloned().collect(),
                others: terms
                    .filter(|(_, term)| path_of(term).is_none())
                    .map(|(position, _)| position)
                    .collect(),
            }
        })
    }

    /// Writes the terms in parentheses.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, operator: &str) -> fmt::Result {
        f.write_str("(")?;
        for (position, term) in self.iter().enumerate() {
            if position > 0 {
                f.write_str(operator)?;
            }
            write!(f, "{term:?}")?;
        }
        f.write_str(")")
    }
}

impl Index {
    /// Returns whether `path` is at or below one of the sorted paths.
    pub(super) fn leads_to(&self, path: &KeyPath) -> bool {
        // In sorted order, a path is followed by all paths below it, and `dedup_by` has removed these paths from the
        // list. So only the last listed path that is not greater than `path` can be a prefix of `path`.
        let not_greater = self.paths.partition_point(|known| known <= path);
        let last = not_greater.checked_sub(1).map(|last| &self.paths[last]);
        last.is_some_and(|last| last.is_prefix_of(path))
    }

    /// Returns the terms that are not sorted paths.
    pub(super) fn others<'t>(&self, terms: &'t Terms) -> impl Iterator<Item = &'t Rule> {
        self.others.iter().map(|&position| &terms.terms[position])
    }
}
