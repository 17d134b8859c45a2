//! Registering the fields of a module.

use super::{DynamicModule, check_name, read_checked};
use crate::base::error::TreeError;
use crate::base::kind::{Collection, FieldKind, Param, State};
use crate::contract::pytree::Pytree;
use crate::node::leaf::Leaf;
use crate::node::statics::{StaticBox, StaticValue};

impl<L: Leaf + Clone> DynamicModule<L> {
    /// Registers a tree whose leaves are trained.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name already exists or is not an identifier, or if a leaf is not a float
    /// array or number, has a kind of its own, or is not an `L`. The error lists all such leaves.
    #[doc(alias = "pax.register_parameter")]
    pub fn register_param(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        self.register_param_in::<Param>(name, value)
    }

    /// Registers a tree in the collection `C` of parameters. The leaves of the tree are trained.
    ///
    /// # Errors
    /// The errors of [`register_param`](Self::register_param).
    pub fn register_param_in<C: Collection>(
        &mut self,
        name: &str,
        value: impl Pytree,
    ) -> Result<(), TreeError> {
        const {
            assert!(
                C::KIND.is_param(),
                "this is a collection of states: write `register_state_in` instead of `register_param_in`"
            );
        }
        self.register_as(name, Some(FieldKind::of::<C>()), &value)
    }

    /// Registers a tree whose leaves are not trained, in the collection [`State`].
    ///
    /// # Errors
    /// The errors of [`register_state_in`](Self::register_state_in).
    #[doc(alias("pax.register_state", "nn.Module.register_buffer"))]
    pub fn register_state(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        self.register_state_in::<State>(name, value)
    }

    /// Registers a tree in the collection `C` of states. The leaves of the tree are not trained.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name already exists or is not an identifier, or if a leaf has a kind of its
    /// own or is not an `L`. The error lists all such leaves.
    pub fn register_state_in<C: Collection>(
        &mut self,
        name: &str,
        value: impl Pytree,
    ) -> Result<(), TreeError> {
        const {
            assert!(
                C::KIND.is_state(),
                "this is a collection of parameters, not of states: write `register_param_in` instead of `register_state_in`"
            );
        }
        self.register_as(name, Some(FieldKind::of::<C>()), &value)
    }

    /// Registers a module, or a container of modules.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name already exists or is not an identifier, or if a leaf has no kind or is
    /// not an `L`. The error lists all such leaves.
    #[doc(alias("pax.register_module", "nn.Module.add_module"))]
    pub fn register_module(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        self.register_as(name, Some(FieldKind::Module), &value)
    }

    /// Registers a container whose leaves have no kind. Filters by kind and optimizers ignore these leaves.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name already exists or is not an identifier, or if a leaf has a kind of its
    /// own or is not an `L`. The error lists all such leaves.
    pub fn register_subtree(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        self.register_as(name, None, &value)
    }

    /// Registers a value as a module. All leaves of the value must have kinds. For a value whose leaves have no kinds,
    /// call the function that registers the wanted kind.
    ///
    /// # Errors
    /// The errors of [`register_module`](Self::register_module).
    pub fn register(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        self.register_module(name, value)
    }

    /// Registers a value that is part of the structure, not a leaf.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name already exists or is not an identifier.
    pub fn register_static(
        &mut self,
        name: &str,
        value: impl StaticValue,
    ) -> Result<(), TreeError> {
        check_name(name)
            .and_then(|()| self.vacant(name))
            .map_err(|problem| self.failed("register a static field of", vec![problem]))?;
        self.layout.push_static(name);
        self.statics.push(StaticBox::new(value));
        Ok(())
    }

    fn register_as(
        &mut self,
        name: &str,
        kind: Option<FieldKind>,
        value: &impl Pytree,
    ) -> Result<(), TreeError> {
        let doing = match kind {
            None => "register a subtree of",
            Some(FieldKind::Param | FieldKind::ParamIn(_)) => "register a parameter of",
            Some(FieldKind::Module) => "register a module of",
            Some(_) => "register a state of",
        };
        let named = check_name(name).and_then(|()| self.vacant(name));
        let mut problems: Vec<_> = named.err().into_iter().collect();
        let tree = match read_checked(value, name, kind)? {
            Ok(tree) if problems.is_empty() => tree,
            outcome => {
                problems.extend(outcome.err().unwrap_or_default());
                return Err(self.failed(doing, problems));
            }
        };
        self.layout.push(name, kind);
        self.values.push(tree);
        Ok(())
    }
}
