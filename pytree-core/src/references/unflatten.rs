//! Unflattens shared nodes and references. A node is built at its first occurrence, and reused at later occurrences.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::base::error::TreeError;
use crate::contract::commit::Staged;
use crate::contract::handles::{AnyCell, AnyReference};
use crate::contract::pytree::Pytree;
use crate::contract::unflatten::{Numbered, Unflattener};
use crate::node::shape::{self, NodeKind};
use crate::references::reference::{Cell, Ref, WeakRef};
use crate::references::shared::{Shared, WeakShared};

/// A reference whose content is not built yet.
struct Begun<T> {
    number: usize,
    /// The value of [`Unflattener::links`] before the reference began; see [`Unflattener::end_links`].
    links: usize,
    cell: Arc<Cell<T>>,
    value: Content<T>,
}

/// The use of a reference's content after the content is built.
enum Content<T> {
    /// The content is stored in a new reference.
    Filled,
    /// The content is written to an existing reference after everything is built.
    Staged(Arc<Cell<T>>),
    /// The existing reference keeps its old content, and the new content is dropped.
    Kept,
}

impl Unflattener<'_> {
    /// Unflattens a shared node: builds it at its first occurrence, and reuses it at later occurrences.
    pub(crate) fn shared<T: Pytree + Send + Sync>(&mut self) -> Result<Shared<T>, TreeError> {
        if let Some(found) = self.alias()? {
            return Ok(Shared(found));
        }
        self.enter_fixed(&shape::SHARED, 1)?;
        let number = self.next_number;
        if let Some((used, contents)) = self.used
            && !contents.is_written(number)
            && let Some(node) = used.node(number)
            && let Ok(node) = node.downcast::<OnceLock<T>>()
        {
            let node = self.begin_numbered(|| node)?;
            self.shared_content::<T>()?;
            return Ok(Shared(node));
        }
        let links = std::mem::take(&mut self.links);
        if !self.leads_back {
            self.next_number += 1;
            self.numbered.push(None);
            let built = self.shared_content()?;
            let built = self.exit(built);
            self.numbered[number] = Some(Numbered {
                node: Arc::clone(&built.0) as Arc<dyn Any + Send + Sync>,
                began: true,
                links: 0,
            });
            self.end_links(number, links);
            return Ok(built);
        }
        let node = self.begin_numbered(|| Arc::new(OnceLock::<T>::new()))?;
        if !self.set_content(&node)? {
            return Err(self.wrong_node("a shared node that has not been built yet"));
        }
        let built = self.exit(Shared(node));
        self.end_numbered(number, &built.0);
        self.end_links(number, links);
        Ok(built)
    }

    /// Unflattens a reference: builds it at its first occurrence, and reuses it at later occurrences.
    pub(crate) fn reference<T: Pytree + Send + Sync>(&mut self) -> Result<Ref<T>, TreeError> {
        if let Some(found) = self.alias()? {
            return Ok(Ref(found));
        }
        let begun = self.begin_reference()?;
        let value = self.content()?;
        Ok(self.end_reference(begun, value))
    }

    /// Begins a reference at its first occurrence.
    #[inline(never)]
    fn begin_reference<T: Pytree + Send + Sync>(&mut self) -> Result<Begun<T>, TreeError> {
        let kinds = [NodeKind::Reference];
        let node = self.enter_any(&kinds, shape::REFERENCE_NAME)?;
        let shape = node.shape().to_owned_shape();
        let (position, number) = (self.references.len(), self.next_number);
        let links = std::mem::take(&mut self.links);
        let used = self
            .used
            .and_then(|(used, contents)| Some((used.cells.get(position)?, contents)));
        let Some((used, contents)) = used else {
            let cell = self.begin_numbered(|| Arc::new(Cell::<T>::empty(shape)))?;
            let any: Arc<dyn AnyCell> = Arc::clone(&cell) as Arc<dyn AnyCell>;
            self.references.cells.push(AnyReference(any));
            let value = Content::Filled;
            return Ok(Begun {
                number,
                links,
                cell,
                value,
            });
        };
        let Some(cell) = used.cell::<T>() else {
            return Err(self.wrong_node("a reference of the same type"));
        };
        self.references.cells.push(used.clone());
        let node = self.begin_numbered(|| Arc::clone(&cell))?;
        let value = if contents.is_written(number) {
            Content::Staged(cell)
        } else {
            Content::Kept
        };
        Ok(Begun {
            number,
            links,
            cell: node,
            value,
        })
    }

    /// Ends a reference whose content is built.
    #[inline(never)]
    fn end_reference<T: Pytree + Send + Sync>(&mut self, begun: Begun<T>, value: Arc<T>) -> Ref<T> {
        match begun.value {
            Content::Filled => begun.cell.fill(value),
            Content::Staged(cell) => self.staged.push(Staged::new(cell, value)),
            Content::Kept => {}
        }
        let built = self.exit(Ref(begun.cell));
        self.end_numbered(begun.number, &built.0);
        self.end_links(begun.number, begun.links);
        built
    }

    /// Unflattens the content of a reference and moves it to the heap. The function is separate and small, because in a
    /// debug build each copy of a value takes space in the stack frame of its function.
    #[inline(never)]
    fn content<T: Pytree>(&mut self) -> Result<Arc<T>, TreeError> {
        T::unflatten(self).map(Arc::new)
    }

    /// Unflattens the content of a shared node; see [`content`](Self::content).
    #[inline(never)]
    fn shared_content<T: Pytree>(&mut self) -> Result<Shared<T>, TreeError> {
        T::unflatten(self).map(Shared::new)
    }

    /// Unflattens the content of a shared node and stores it in the node; see [`content`](Self::content). Returns
    /// whether the node was empty.
    #[inline(never)]
    fn set_content<T: Pytree>(&mut self, node: &OnceLock<T>) -> Result<bool, TreeError> {
        T::unflatten(self).map(|built| node.set(built).is_ok())
    }

    /// Unflattens a weak edge to a shared node.
    pub(crate) fn weak<T: Pytree + Send + Sync>(&mut self) -> Result<WeakShared<T>, TreeError> {
        let target = self.weak_target(|_| Arc::new(OnceLock::<T>::new()))?;
        Ok(target.map_or_else(WeakShared::new, |node| WeakShared(Arc::downgrade(&node))))
    }

    /// Unflattens a weak handle of a reference.
    pub(crate) fn weak_reference<T: Pytree + Send + Sync>(
        &mut self,
    ) -> Result<WeakRef<T>, TreeError> {
        let target =
            self.weak_target(|shape| Arc::new(Cell::<T>::empty(shape.to_owned_shape())))?;
        Ok(target.map_or_else(WeakRef::new, |node| WeakRef(Arc::downgrade(&node))))
    }
}
