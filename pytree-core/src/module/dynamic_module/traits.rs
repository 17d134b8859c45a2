//! Implements `Pytree` and `Module` for dynamic modules.

use std::fmt;

use super::DynamicModule;
use crate::base::error::TreeError;
use crate::contract::pytree::{Pytree, PytreeOf, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::module::field::{HoldsArrays, ModuleField};
use crate::module::registry::{Module, Registry};
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;
use crate::trees::select_part::{SelectPart, select_partition};

impl<L: Leaf + Clone> Pytree for DynamicModule<L> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter_dynamic(self.layout.shape(), self.values.len()) == Visit::Skip {
            return;
        }
        for value in &self.statics {
            visitor.aux(value.as_static_ref());
        }
        for value in &self.values {
            value.visit(visitor);
        }
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let structs = [NodeKind::Struct, NodeKind::TupleStruct];
        let node = source.enter_any(&structs, "DynamicModule")?;
        let (shape, arity) = (node.shape(), node.num_children());
        let statics = shape.static_names();
        let statics: Vec<StaticBox> = statics
            .map(|_| source.aux_box())
            .collect::<Result<_, _>>()?;
        let values: Vec<Tree<L>> = (0..arity)
            .map(|_| Tree::unflatten(source))
            .collect::<Result<_, _>>()?;
        let module = Self::from_shape(shape, values, statics);
        Ok(source.exit(module))
    }
}

impl<L: Leaf + Clone> PytreeOf<L> for DynamicModule<L> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.values.iter().for_each(|value| value.each_leaf(visit));
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        let values = self.values.iter();
        Self {
            values: values.map(|value| value.map_leaves(function)).collect(),
            statics: self.statics.clone(),
            layout: self.layout.clone(),
        }
    }
}

impl<L: Leaf + Clone> SelectPart<L> for DynamicModule<L> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        select_partition(tree)
    }
}

#[diagnostic::do_not_recommend]
impl<L: Leaf + Clone> Module for DynamicModule<L> {
    fn registry(&self) -> Registry<'_> {
        Self::registry(self)
    }
}
#[diagnostic::do_not_recommend]
impl<L: Leaf + Clone> ModuleField for DynamicModule<L> {}
impl<L> HoldsArrays for DynamicModule<L> {}

impl<L: PartialEq> PartialEq for DynamicModule<L> {
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout && self.statics == other.statics && self.values == other.values
    }
}

impl<L: Leaf + Clone> fmt::Display for DynamicModule<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_tree(), f)
    }
}

impl<L: Leaf + Clone> fmt::Debug for DynamicModule<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_tree(), f)
    }
}
