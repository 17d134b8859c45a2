//! Numbered nodes: shared nodes and references. All numbered nodes of a treedef are counted in preorder, and aliases
//! and weak edges refer to a numbered node by its index.

use std::any::Any;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_at};

use super::{LINKED_DEPTH_LIMIT, Unflattener};
use crate::base::error::TreeError;
use crate::base::text::short_name;
use crate::contract::commit::Staged;
use crate::contract::depth::NODE_LIMIT;
use crate::contract::handles::References;
use crate::node::shape::{self, NodeKind, Shape};

/// A shared node or reference, to which aliases refer by index.
pub(crate) struct Numbered {
    pub(crate) node: Arc<dyn Any + Send + Sync>,
    /// Whether the building of the node has begun. A weak edge may refer to a node before its building begins.
    pub(crate) began: bool,
    /// The length of the longest chain of aliases below this node; see [`Unflattener::links`]. The length is 0 while
    /// the node is being built, because dropping an edge that leads back to a node does not drop the node.
    pub(crate) links: usize,
}

impl<'a> Unflattener<'a> {
    /// If the next node is an alias, skips it and returns its target. Otherwise, returns `None`.
    pub(crate) fn alias<N: Any + Send + Sync>(&mut self) -> Result<Option<Arc<N>>, TreeError> {
        let alias = self.node;
        let Some(node) = self.treedef.node(alias) else {
            return Ok(None);
        };
        let found = match node.kind() {
            NodeKind::Alias => {
                let number = node.target();
                let numbered = number.and_then(|number| self.numbered.get(number)?.as_ref());
                if let Some(numbered) = numbered {
                    // The part of a value between two aliases is at most as deep as the treedef.
                    let links = numbered.links + 1;
                    let depth = self.treedef.depth().min(NODE_LIMIT);
                    self.links = self.links.max(links);
                    if links.saturating_mul(depth) > LINKED_DEPTH_LIMIT {
                        return Err(self.too_deep(LINKED_DEPTH_LIMIT));
                    }
                }
                numbered.map(|numbered| Arc::clone(&numbered.node))
            }
            NodeKind::Argument => self
                .known
                .and_then(|known| known.node(node.number_in_argument()? as usize)),
            _ => return Ok(None),
        };
        self.node += 1;
        match found.and_then(|node| node.downcast().ok()) {
            Some(node) => Ok(Some(node)),
            None => Err(self.wrong_alias::<N>(alias)),
        }
    }

    #[cold]
    fn wrong_alias<N>(&self, node: usize) -> TreeError {
        TreeError::NodeType {
            path: self.treedef.path_of(node),
            expected: format!("`{}`", short_name(std::any::type_name::<N>())),
            found: "an alias whose target has another type or is not in this tree".to_owned(),
        }
    }

    /// Begins a shared node or reference. Creates the node, or returns the node that an earlier weak edge created.
    pub(crate) fn begin_numbered<N: Any + Send + Sync>(
        &mut self,
        new: impl FnOnce() -> Arc<N>,
    ) -> Result<Arc<N>, TreeError> {
        let number = self.next_number;
        self.next_number += 1;
        let node = self.numbered_node(number, new)?;
        self.numbered_mut(number).began = true;
        Ok(node)
    }

    /// Returns the entry of node `number`. The building of the node must have begun.
    fn numbered_mut(&mut self, number: usize) -> &mut Numbered {
        match self.numbered.get_mut(number) {
            Some(Some(numbered)) => numbered,
            _ => bug(format_args!(
                "the building of node {number} to begin before the node is used"
            )),
        }
    }

    /// Stores node `number` again after it was built, because the callback `on_exit` may have replaced it.
    pub(crate) fn end_numbered<N: Any + Send + Sync>(&mut self, number: usize, node: &Arc<N>) {
        if self.on_exit.is_some() {
            self.numbered_mut(number).node = Arc::clone(node) as Arc<dyn Any + Send + Sync>;
        }
    }

    /// Stores in node `number`, which has just been built, the length of the longest chain of aliases below the node.
    /// `around` is the greatest such length among the siblings before the node.
    pub(crate) fn end_links(&mut self, number: usize, around: usize) {
        self.numbered_mut(number).links = self.links;
        self.links = self.links.max(around);
    }

    /// Returns node `number`. Creates the node by `new` if it does not exist.
    pub(super) fn numbered_node<N: Any + Send + Sync>(
        &mut self,
        number: usize,
        new: impl FnOnce() -> Arc<N>,
    ) -> Result<Arc<N>, TreeError> {
        if self.numbered.len() <= number {
            self.numbered.resize_with(number + 1, || None);
        }
        if let Some(numbered) = &self.numbered[number] {
            let found = Arc::clone(&numbered.node).downcast::<N>();
            return found.map_err(|_| self.wrong_alias::<N>(self.node - 1));
        }
        let node = new();
        self.numbered[number] = Some(Numbered {
            node: Arc::clone(&node) as Arc<dyn Any + Send + Sync>,
            began: false,
            links: 0,
        });
        Ok(node)
    }

    /// Returns the target of a weak edge. If the target comes later in the treedef, creates the target by `new`.
    pub(crate) fn weak_target<N: Any + Send + Sync>(
        &mut self,
        new: impl FnOnce(Shape<'_>) -> Arc<N>,
    ) -> Result<Option<Arc<N>>, TreeError> {
        self.enter_fixed(&shape::WEAK, 1)?;
        let is_known = self
            .peek()
            .is_some_and(|shape| shape.kind() == NodeKind::Argument);
        if is_known {
            return self.alias();
        }
        self.enter_fixed(&shape::ALIAS, 0)?;
        match self.treedef.alias_of(self.node - 1) {
            Some(number) if number < self.treedef.num_numbered() => {
                let shape = self.shape_of_numbered(number);
                let used = self.used_as(number, shape);
                let used = used.and_then(|node| node.downcast().ok());
                self.numbered_node(number, || used.unwrap_or_else(|| new(shape)))
                    .map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a value that will be written to one of the given references after everything is built.
    pub(crate) fn stage(
        &mut self,
        references: &References,
        position: usize,
    ) -> Result<(), TreeError> {
        let Some(reference) = references.cells.get(position) else {
            return Err(self.wrong_node("the value of a reference of the argument"));
        };
        let staged = Arc::clone(&reference.0).stage(self)?;
        self.staged.push(staged);
        Ok(())
    }

    /// Returns the shape of node `number`, even if the node comes later in the treedef.
    fn shape_of_numbered(&self, number: usize) -> Shape<'a> {
        let expected = "a position for each shared node and each reference";
        let place = *expect_at(self.treedef.numbered_nodes(), number, expected);
        self.treedef.view(place).shape()
    }

    /// Returns the existing node that the caller provides for `number`, or `None` if a new node must be built.
    fn used_as(&self, number: usize, shape: Shape<'_>) -> Option<Arc<dyn Any + Send + Sync>> {
        let (used, contents) = self.used?;
        let is_used = shape.kind() == NodeKind::Reference || !contents.is_written(number);
        used.node(number).filter(|_| is_used)
    }

    /// Checks that the target of every weak edge was built, then writes the existing references.
    pub(super) fn finish(mut self) -> Result<References, TreeError> {
        if self.numbered.is_empty() && self.staged.is_empty() {
            return Ok(self.references);
        }
        let missing = self
            .numbered
            .iter()
            .any(|numbered| numbered.as_ref().is_none_or(|numbered| !numbered.began));
        if missing {
            return Err(self.wrong_node("the target of a weak edge"));
        }
        Staged::write_all(std::mem::take(&mut self.staged), self.read)?;
        let nodes = self.numbered.into_iter().flatten();
        Ok(self
            .references
            .of_built(nodes.map(|numbered| numbered.node)))
    }
}
