//! The kinds of leaves, and the identities of the collections in them.

use std::fmt;

use pytree_base::bug::bug;

/// The kind of a leaf of a module. Leaves outside of any module have no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LeafKind {
    /// A trained leaf.
    Param,
    /// A trained leaf in a collection below [`Param`](struct@super::Param). The value names this collection.
    ParamIn(CollectionId),
    /// A leaf that is not trained. The value names the collection of the leaf.
    State(CollectionId),
}

impl LeafKind {
    /// Returns whether the leaf is trained: [`Param`](Self::Param) or [`ParamIn`](Self::ParamIn).
    #[inline]
    pub const fn is_param(&self) -> bool {
        matches!(self, Self::Param | Self::ParamIn(_))
    }

    /// Returns whether the leaf is a state, of any collection.
    #[inline]
    pub const fn is_state(&self) -> bool {
        matches!(self, Self::State(_))
    }

    /// Returns whether a leaf of this kind belongs to the collection of `other`, or to a collection below it. Every
    /// trained leaf is in [`Param`](Self::Param).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::LeafKind;
    /// use pytree_core::kind::{BatchStat, Param};
    /// #[derive(pytree_core::Collection)]
    /// #[collection(parent = Param)]
    /// struct LoraParam;
    /// let kind = LeafKind::of::<LoraParam>();
    /// assert!(kind.is_in(&LeafKind::Param) && kind.is_in(&kind));
    /// assert!(!kind.is_in(&LeafKind::of::<BatchStat>()) && !LeafKind::Param.is_in(&kind));
    /// ```
    #[inline(never)]
    pub fn is_in(&self, other: &Self) -> bool {
        match (self, other) {
            (kind, Self::Param) => kind.is_param(),
            (Self::ParamIn(own), Self::ParamIn(other)) | (Self::State(own), Self::State(other)) => {
                own.is_in(other)
            }
            _ => false,
        }
    }
}

/// The greatest total length, in bytes, of the names of a state collection and its ancestors. Each ancestor takes one
/// byte more than its name.
pub(crate) const NAME_LIMIT: usize = 46;

/// A [`Collection`](super::Collection) as a value. Two values are equal if their names and those of their ancestors are equal.
///
/// The value contains the bytes of the names instead of a pointer. So a `CollectionId` is `Copy` even if the names were
/// read from a file, and there is no global table of names that would grow with the files that a process reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId {
    /// The name of the collection, then the names of its ancestors, beginning with the parent. Before the name of each
    /// ancestor, a byte contains the length of this name plus one. All remaining bytes are zero.
    bytes: [u8; NAME_LIMIT],
    /// The length of the collection's own name.
    length: u8,
}

impl CollectionId {
    /// Returns the collection `name` below `parent`, or `None` if the names are too long.
    pub(super) const fn from_name(name: &str, parent: Option<&Self>) -> Option<Self> {
        let name = name.as_bytes();
        let behind = match parent {
            None => 0,
            Some(parent) => 1 + parent.used(),
        };
        if name.len() + behind > NAME_LIMIT {
            return None;
        }
        let mut bytes = [0; NAME_LIMIT];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name[at];
            at += 1;
        }
        if let Some(parent) = parent {
            bytes[at] = parent.length + 1;
            at += 1;
            let mut from = 0;
            while from < parent.used() {
                bytes[at + from] = parent.bytes[from];
                from += 1;
            }
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a name has at most 46 bytes"
        )]
        let length = name.len() as u8;
        Some(Self { bytes, length })
    }

    /// Returns the number of bytes of all names, plus one byte for each ancestor.
    pub(crate) const fn used(&self) -> usize {
        let mut at = self.length as usize;
        while at < NAME_LIMIT && self.bytes[at] > 0 {
            at += self.bytes[at] as usize;
        }
        at
    }

    /// Returns the name of the collection.
    pub fn name(&self) -> &str {
        match self
            .bytes
            .get(..usize::from(self.length))
            .map(str::from_utf8)
        {
            Some(Ok(name)) => name,
            _ => bug("the name of a collection to be valid UTF-8"),
        }
    }

    /// Returns the parent. Returns `None` if the collection has no parent or if its parent is
    /// [`Param`](struct@super::Param), because [`LeafKind::ParamIn`] already implies this parent.
    pub fn parent(&self) -> Option<Self> {
        let at = usize::from(self.length);
        let length = self.bytes.get(at).copied().unwrap_or(0).checked_sub(1)?;
        let mut bytes = [0; NAME_LIMIT];
        for (to, from) in bytes.iter_mut().zip(&self.bytes[at + 1..]) {
            *to = *from;
        }
        Some(Self { bytes, length })
    }

    /// Returns the collection, then its ancestors, beginning with the parent.
    pub(crate) fn with_ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), Self::parent)
    }

    /// Returns whether this collection is `other`, or a descendant of `other`.
    #[inline]
    pub fn is_in(&self, other: &Self) -> bool {
        self == other || (self.has_parent() && self.is_below(other))
    }

    #[inline]
    pub(super) fn has_parent(&self) -> bool {
        let behind = self.bytes.get(usize::from(self.length));
        behind.is_some_and(|length| *length > 0)
    }

    #[inline(never)]
    fn is_below(self, other: &Self) -> bool {
        self.with_ancestors()
            .skip(1)
            .any(|ancestor| ancestor == *other)
    }

    /// Returns the collection with `root` as an additional, outermost ancestor, or `None` if the names are too long.
    pub(crate) fn below_root(&self, root: &Self) -> Option<Self> {
        let names: Vec<Self> = self.with_ancestors().collect();
        let mut names = names.iter().rev();
        names.try_fold(*root, |parent, name| {
            Self::from_name(name.name(), Some(&parent))
        })
    }

    /// Returns the collection without its last ancestor, if this ancestor is `root`.
    pub(crate) fn without_root(&self, root: &Self) -> Option<Self> {
        let mut names: Vec<Self> = self.with_ancestors().collect();
        if names.pop()? != *root {
            return None;
        }
        let below =
            |parent: Option<Self>, name: &Self| Self::from_name(name.name(), parent.as_ref());
        let (outermost, rest) = names.split_last()?;
        let outermost = below(None, outermost)?;
        let mut rest = rest.iter().rev();
        rest.try_fold(outermost, |parent, name| below(Some(parent), name))
    }
}

#[track_caller]
pub(super) const fn too_long() -> ! {
    panic!(
        "the names of a collection and its ancestors, with one more byte for each ancestor, have at most 46 bytes, or 39 if \
         the leaves are parameters; write shorter ones"
    )
}

impl fmt::Debug for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
