//! The rules of filters. A rule accepts or rejects a leaf.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use super::terms::Terms;
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
