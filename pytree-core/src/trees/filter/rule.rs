//! The rules of filters. A rule accepts or rejects a leaf.

use std::any::TypeId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;
use crate::node::leaf::Leaf;
use crate::treedef::TreeDef;

type Predicate = dyn Fn(&KeyPath, Option<LeafKind>, &dyn Leaf) -> bool + Send + Sync;

#[derive(Clone)]
pub(super) enum Rule {
    Everything,
    Nothing,
    Param,
    AnyState,
    /// Accepts the leaves of a collection and of its descendants.
    In(Box<LeafKind>),
    Path(KeyPath),
    Contains(String),
    Type(TypeId, &'static str),
    Predicate(Arc<Predicate>),
    /// Accepts weights that multiply features. [`Rule::resolved`] replaces this rule by the paths of these weights.
    Matrices,
    Not(Box<Rule>),
    /// Accepts if all terms accept.
    All(Box<Terms>),
    /// Accepts if one of the terms accepts.
    Any(Box<Terms>),
}

impl Rule {
    /// Returns the path if the rule is a path. In the terms of [`Rule::Any`], such paths are looked up in a sorted
    /// list.
    fn as_path(&self) -> Option<&KeyPath> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the path if the rule is a negated path. In the terms of [`Rule::All`], such paths are looked up in a
    /// sorted list.
    fn as_other_than_path(&self) -> Option<&KeyPath> {
        match self {
            Self::Not(rule) => rule.as_path(),
            _ => None,
        }
    }

    pub(super) fn inverted(self) -> Self {
        match self {
            Self::Not(rule) => *rule,
            rule => Self::Not(Box::new(rule)),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        let terms = |rule| match rule {
            Self::All(terms) => *terms,
            rule => Terms::one(rule),
        };
        Self::All(Box::new(terms(self).followed_by(terms(other))))
    }

    pub(super) fn or(self, other: Self) -> Self {
        let terms = |rule| match rule {
            Self::Any(terms) => *terms,
            rule => Terms::one(rule),
        };
        Self::Any(Box::new(terms(self).followed_by(terms(other))))
    }

    /// Returns the rule for a structure in which each shared node has only its first path. The returned rule accepts
    /// this first path if this rule accepts any path of the node. `matrices` contains the paths of the leaves that
    /// [`Rule::Matrices`] accepts if they are parameters.
    pub(super) fn resolved(&self, treedef: &TreeDef, matrices: &[KeyPath]) -> Self {
        match self {
            Self::Matrices => {
                let paths = matrices.iter().cloned().map(Self::Path);
                Self::Param.and(paths.fold(Self::Nothing, Self::or))
            }
            Self::Path(path) => self.clone().or_paths(treedef.first_places([path])),
            Self::Contains(name) => {
                let firsts = treedef.first_places_below(|key| key.is_plain(name));
                self.clone().or_paths(firsts)
            }
            Self::Not(rule) => rule.resolved(treedef, matrices).inverted(),
            Self::All(terms) => {
                let other = |path| Self::Path(path).inverted();
                let resolved = |rule: &Self| rule.resolved(treedef, matrices);
                let path_of = Self::as_other_than_path;
                Self::All(Box::new(terms.resolved(treedef, path_of, other, resolved)))
            }
            Self::Any(terms) => {
                let resolved = |rule: &Self| rule.resolved(treedef, matrices);
                let path_of = Self::as_path;
                Self::Any(Box::new(terms.resolved(
                    treedef,
                    path_of,
                    Self::Path,
                    resolved,
                )))
            }
            rule => rule.clone(),
        }
    }

    fn or_paths(self, paths: Vec<KeyPath>) -> Self {
        let own = self.as_path().cloned();
        let paths = paths.into_iter().filter(|path| Some(path) != own.as_ref());
        paths.fold(self, |rule, path| rule.or(Self::Path(path)))
    }

    pub(super) fn collect_paths<'a>(&'a self, paths: &mut Vec<&'a KeyPath>) {
        match self {
            Self::Path(path) => paths.push(path),
            Self::Not(rule) => rule.collect_paths(paths),
            Self::All(terms) | Self::Any(terms) => {
                terms.iter().for_each(|term| term.collect_paths(paths));
            }
            _ => {}
        }
    }

    /// Returns whether the rule depends on the roles of axes.
    pub(super) fn needs_roles(&self) -> bool {
        match self {
            Self::Matrices => true,
            Self::Not(rule) => rule.needs_roles(),
            Self::All(terms) | Self::Any(terms) => terms.iter().any(Self::needs_roles),
            _ => false,
        }
    }

    pub(super) fn collect_names<'a>(&'a self, names: &mut Vec<&'a String>) {
        match self {
            Self::Contains(name) => names.push(name),
            Self::Not(rule) => rule.collect_names(names),
            Self::All(terms) | Self::Any(terms) => {
                terms.iter().for_each(|term| term.collect_names(names));
            }
            _ => {}
        }
    }

    pub(super) fn accepts(
        &self,
        path: &KeyPath,
        kind: Option<LeafKind>,
        leaf: Option<&dyn Leaf>,
    ) -> bool {
        match self {
            Self::Path(prefix) => prefix.is_prefix_of(path),
            Self::Contains(name) => path.keys().iter().any(|key| key.is_plain(name)),
            Self::Type(identity, _) => {
                leaf.is_some_and(|leaf| leaf.as_any().type_id() == *identity)
            }
            Self::Predicate(predicate) => leaf.is_some_and(|leaf| predicate(path, kind, leaf)),
            Self::Not(rule) => !rule.accepts(path, kind, leaf),
            Self::All(terms) => {
                let index = terms.index(Self::as_other_than_path);
                !index.leads_to(path)
                    && index
                        .others(terms)
                        .all(|term| term.accepts(path, kind, leaf))
            }
            Self::Any(terms) => {
                let index = terms.index(Self::as_path);
                index.leads_to(path)
                    || index
                        .others(terms)
                        .any(|term| term.accepts(path, kind, leaf))
            }
            _ => self.accepts_kind(kind.as_ref()),
        }
    }

    pub(super) fn is_by_kind(&self) -> bool {
        match self {
            Self::Everything | Self::Nothing | Self::Param | Self::AnyState | Self::In(_) => true,
            Self::Not(rule) => rule.is_by_kind(),
            Self::All(terms) | Self::Any(terms) => terms.iter().all(Self::is_by_kind),
            _ => false,
        }
    }

    pub(super) fn accepts_kind(&self, kind: Option<&LeafKind>) -> bool {
        match self {
            Self::Everything => true,
            Self::Param => kind.is_some_and(LeafKind::is_param),
            Self::AnyState => kind.is_some_and(LeafKind::is_state),
            Self::In(collection) => kind.is_some_and(|kind| kind.is_in(collection)),
            Self::Not(rule) => !rule.accepts_kind(kind),
            Self::All(terms) => terms.iter().all(|term| term.accepts_kind(kind)),
            Self::Any(terms) => terms.iter().any(|term| term.accepts_kind(kind)),
            _ => false,
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("everything"),
            Self::Nothing => f.write_str("nothing"),
            Self::AnyState => f.write_str("any_state"),
            Self::Param => f.write_str("param"),
            Self::In(kind) => {
                let family = if kind.is_param() { "param" } else { "state" };
                write!(f, "{family}({kind})")
            }
            Self::Path(path) => write!(f, "path({path})"),
            Self::Contains(name) => write!(f, "path_contains({name})"),
            Self::Type(_, name) => write!(f, "type({name})"),
            Self::Predicate(_) => f.write_str("predicate"),
            Self::Matrices => f.write_str("matrices"),
            Self::Not(rule) => write!(f, "!{rule:?}"),
            Self::All(terms) => terms.write(f, " & "),
            Self::Any(terms) => terms.write(f, " | "),
        }
    }
}

/// The terms of a rule `a | b | …` or `a & b & …`, in a flat list.
///
/// Nested terms would need a recursion as deep as the number of terms. The terms that are paths are sorted once, so a
/// single search finds whether a leaf is at or below any of these paths.
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
