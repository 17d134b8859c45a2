//! Unflattens shared nodes and references. Each is built at its first occurrence, and later occurrences reuse it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::base::error::TreeError;
use crate::contract::commit::Staged;
use crate::contract::handles::{AnyCell, AnyReference};
use crate::contract::pytree::Pytree;
use crate::contract::unflatten::{Contents, Numbered, Unflattener};
use crate::node::shape::{self, NodeKind};
use crate::references::reference::{Cell, Ref, WeakRef};
use crate::references::shared::{Shared, Weak};

impl Unflattener<'_> {
    /// Unflattens a shared node: builds it at its first occurrence, and reuses it at later occurrences.
    pub(crate) fn shared<T: Pytree + Send + Sync>(&mut self) -> Result<Shared<T>, TreeError> {
        if let Some(found) = self.alias()? {
            return Ok(Shared(found));
        }
        self.enter_fixed(&shape::SHARED, 1)?;
        let number = self.next_number;
        if let Some((used, Contents::Same)) = self.used
            && let Some(node) = used.node(number)
            && let Ok(node) = node.downcast::<OnceLock<T>>()
        {
            let node = self.begin_numbered(|| node)?;
            T::unflatten(self)?;
            return Ok(Shared(node));
        }
        let links = std::mem::take(&mut self.links);
        if !self.leads_back {
            self.next_number += 1;
            self.numbered.push(None);
            let built = T::unflatten(self)?;
            let built = self.exit(Shared::new(built));
            self.numbered[number] = Some(Numbered {
                node: Arc::clone(&built.0) as Arc<dyn Any + Send + Sync>,
                began: true,
                links: 0,
            });
            self.end_links(number, links);
            return Ok(built);
        }
        let node = self.begin_numbered(|| Arc::new(OnceLock::<T>::new()))?;
        let built = T::unflatten(self)?;
        if node.set(built).is_err() {
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
        let kinds = [NodeKind::Reference];
        let node = self.enter_any(&kinds, shape::REFERENCE_NAME)?;
        let shape = node.shape().to_owned_shape();
        let (position, number) = (self.references.len(), self.next_number);
        let links = std::mem::take(&mut self.links);
        let used = self
            .used
            .and_then(|(used, contents)| Some((used.cells.get(position)?, contents)));
        if let Some((used, contents)) = used {
            let Some(cell) = used.cell::<T>() else {
                return Err(self.wrong_node("a reference of the same type"));
            };
            self.references.cells.push(used.clone());
            let node = self.begin_numbered(|| Arc::clone(&cell))?;
            let value = T::unflatten(self)?;
            if contents.is_written(position) {
                self.staged.push(Staged::new(cell, Arc::new(value)));
            }
            let built = self.exit(Ref(node));
            self.end_numbered(number, &built.0);
            self.end_links(number, links);
            return Ok(built);
        }
        let cell = self.begin_numbered(|| Arc::new(Cell::<T>::empty(shape)))?;
        let any: Arc<dyn AnyCell> = Arc::clone(&cell) as Arc<dyn AnyCell>;
        self.references.cells.push(AnyReference(any));
        let value = T::unflatten(self)?;
        cell.fill(value);
        let built = self.exit(Ref(cell));
        self.end_numbered(number, &built.0);
        self.end_links(number, links);
        Ok(built)
    }

    /// Unflattens a weak edge to a shared node.
    pub(crate) fn weak<T: Pytree + Send + Sync>(&mut self) -> Result<Weak<T>, TreeError> {
        let target = self.weak_target(|_| Arc::new(OnceLock::<T>::new()))?;
        Ok(target.map_or_else(Weak::new, |node| Weak(Arc::downgrade(&node))))
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
