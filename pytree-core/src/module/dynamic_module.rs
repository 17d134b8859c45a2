//! Modules whose fields are registered at run time.
//!
//! If a module has a derived type, the type determines which fields are parameters, states, modules or static. The
//! fields of a [`DynamicModule`] are registered one by one by a program that knows them only at run time, for instance
//! from a description or a file. In a treedef, the node of a dynamic module compares as equal to the node of a derived
//! type with the same name and fields. So a dynamic module can be converted into the derived type and back.

mod below;
mod kinds;
mod layout;
mod reading;
mod register;
mod traits;

use pytree_base::suggest::Effort;

use self::layout::{FieldLayout, FieldPosition};
pub(crate) use self::reading::not_trainable;
use self::reading::{read_checked, read_tree, wrong_kinds};
use crate::base::error::{RegistrationProblem, TreeError};
use crate::base::kind::FieldKind;
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::module::registry::Registry;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::{StaticBox, StaticValue};
use crate::treedef::Builder;
use crate::trees::dynamic::Tree;

/// A module whose fields are registered at run time.
///
/// Fields that are trees come before static fields; otherwise fields are in the order of registration. Each
/// registration checks the value and the name: a parameter must have float leaves, each leaf of a sub-module must have
/// a kind, and names must be unique. If a call fails, the module is unchanged, and the error lists all problems.
///
/// If a value contains a [`Shared`](crate::Shared) node, the node is copied to each of its paths, as in trees.
///
/// # Examples
/// ```
/// use pytree_core::{DynamicModule, FieldKind, tree};
/// let mut counter: DynamicModule = DynamicModule::new("Counter")?;
/// counter.register_state("count", 0)?;
/// counter.register_param("bias", 0.0)?;
/// counter.set("count", counter.value::<i32>("count")? + 1)?;
/// assert_eq!(counter.to_string(), "Counter { count: 1, bias: 0.0 }");
/// assert_eq!(tree::structure(&counter).to_string(), "PyTreeDef(Counter { count: *, bias: * })");
///
/// let error = counter.register_param("bais", 1).unwrap_err();
/// assert!(error.to_string().contains("expected a float array or number"));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias = "pax.Module")]
#[derive(Clone)]
pub struct DynamicModule<L = AnyLeaf> {
    layout: FieldLayout,
    /// The values of the fields that are trees.
    values: Vec<Tree<L>>,
    /// The values of the static fields.
    statics: Vec<StaticBox>,
}

impl DynamicModule<AnyLeaf> {
    /// Creates a module without fields, whose leaves may be of any types.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name is not an identifier.
    pub fn new(name: &str) -> Result<Self, TreeError> {
        Self::typed(name)
    }
}

impl<L: Leaf + Clone> DynamicModule<L> {
    /// Creates a module without fields, whose leaves are all of type `L`. For instance, transformations can trace a
    /// `DynamicModule::<Tensor>::typed("Layer")`.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the name is not an identifier.
    pub fn typed(name: &str) -> Result<Self, TreeError> {
        if let Err(problem) = check_name(name) {
            return Err(failed("create", name, vec![problem]));
        }
        Ok(Self {
            layout: FieldLayout::empty(name),
            values: Vec::new(),
            statics: Vec::new(),
        })
    }

    fn from_shape(shape: Shape<'_>, values: Vec<Tree<L>>, statics: Vec<StaticBox>) -> Self {
        Self {
            layout: FieldLayout::of(shape),
            values,
            statics,
        }
    }

    /// Converts a struct of any type, derived or not, into a module whose fields can be changed at run time.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the value is not a struct, or if a leaf is not an `L`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{DynamicModule, Module, Tree};
    /// #[derive(Module, Clone, Debug, PartialEq)]
    /// struct Line {
    ///     #[param]
    ///     slope: f32,
    /// }
    /// let line = Line { slope: 2.0 };
    /// let module: DynamicModule = DynamicModule::from_value(&line)?;
    /// assert_eq!(module.to_tree().to_value::<Line>()?, line);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn from_value<T: Pytree>(value: &T) -> Result<Self, TreeError> {
        let tree = read_tree(value, &KeyPath::root())?.map_err(|problems| {
            let module = short_name(std::any::type_name::<T>());
            failed("build", &module, problems)
        })?;
        Self::from_tree(tree)
    }

    /// Converts a tree whose root is a struct into a module.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the root is not a struct.
    pub fn from_tree(tree: Tree<L>) -> Result<Self, TreeError> {
        let treedef = tree.treedef().clone();
        let root = treedef.root();
        if !matches!(root.kind(), NodeKind::Struct | NodeKind::TupleStruct) {
            let found = root.describe();
            let problem = RegistrationProblem::NotAStruct {
                found: found.clone(),
            };
            return Err(failed("build", &found, vec![problem]));
        }
        let statics = root.aux().to_vec();
        Ok(Self::from_shape(
            root.shape(),
            tree.into_children(),
            statics,
        ))
    }

    /// Returns the module as a tree.
    pub fn to_tree(&self) -> Tree<L> {
        let mut builder = Builder::default();
        builder.enter_dynamic(self.layout.shape(), self.values.len());
        self.statics
            .iter()
            .for_each(|value| builder.aux(value.clone()));
        self.values
            .iter()
            .for_each(|value| builder.subtree(value.treedef()));
        builder.exit();
        let leaves = self.values.iter().flat_map(Tree::leaves).cloned().collect();
        Tree::from_parts(builder.finish(), leaves)
    }

    /// Returns the displayed name of the module.
    pub fn name(&self) -> &str {
        self.layout.name()
    }

    /// Iterates over the names and kinds of the fields: first the trees, then the static fields. A subtree has no kind.
    pub fn fields(&self) -> impl Iterator<Item = (&str, Option<FieldKind>)> {
        let trees = self.layout.fields().iter();
        let statics = self.layout.statics().iter();
        trees
            .map(|(name, kind)| (&**name, *kind))
            .chain(statics.map(|name| (&**name, Some(FieldKind::Static))))
    }

    /// Returns the names and kinds of the fields that have a kind: all except subtrees.
    pub fn registry(&self) -> Registry<'_> {
        let fields = self.fields();
        fields
            .filter_map(|(name, kind)| Some((name, kind?)))
            .collect()
    }

    /// Returns the value of a field that is a tree.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the field is static or does not exist. If the field does not exist, the error
    /// contains the most similar name.
    pub fn get(&self, name: &str) -> Result<&Tree<L>, TreeError> {
        self.tree_place("read a field of", name)
            .map(|position| &self.values[position])
    }

    /// Returns mutable access to the leaves of a field that is a tree. Changes to the leaves are not checked, unlike
    /// changes with [`set`](Self::set); [`lint`](crate::tools::lint::lint) finds mistakes in the leaves.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_mut(&mut self, name: &str) -> Result<&mut [L], TreeError> {
        self.tree_place("read a field of", name)
            .map(|position| self.values[position].leaves_mut())
    }

    /// Returns the value of a field that is a tree, as a `T`.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get) and of [`Tree::to_value`]. A number of another type is an error.
    pub fn value<T: Pytree>(&self, name: &str) -> Result<T, TreeError> {
        let value = self.get(name)?.to_exact_value();
        value.map_err(|error: TreeError| error.while_doing("cannot read a field"))
    }

    /// Returns the value of a static field.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the field does not exist, is a tree, or holds a value that is not a `T`.
    pub fn get_static<T: StaticValue>(&self, name: &str) -> Result<T, TreeError> {
        const DOING: &str = "read a static field of";
        let value = &self.statics[self.static_place(DOING, name)?];
        value.to_value().ok_or_else(|| {
            self.failed(
                DOING,
                vec![RegistrationProblem::StaticType {
                    name: name.to_owned(),
                    expected: short_name(std::any::type_name::<T>()),
                    found: format!("{value:?}"),
                }],
            )
        })
    }

    /// Replaces the value of a field that is a tree. The new value may have any structure that the field's kind allows.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the field does not exist or is static, or if the field's kind does not allow the
    /// value.
    pub fn set(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        const DOING: &str = "change a field of";
        let position = self.tree_place(DOING, name)?;
        let kind = self.layout.fields()[position].1;
        let tree =
            read_checked(&value, name, kind)?.map_err(|problems| self.failed(DOING, problems))?;
        self.values[position] = tree;
        Ok(())
    }

    /// Replaces the value of a static field. The new value may have another type.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the field does not exist or is a tree.
    pub fn set_static(&mut self, name: &str, value: impl StaticValue) -> Result<(), TreeError> {
        let position = self.static_place("change a static field of", name)?;
        self.statics[position] = StaticBox::new(value);
        Ok(())
    }

    /// Changes the kind of a field that is a tree.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if:
    /// - the field does not exist
    /// - the field or the kind is static
    /// - the kind does not allow the value
    pub fn set_kind(&mut self, name: &str, kind: FieldKind) -> Result<(), TreeError> {
        const DOING: &str = "change the kind of a field of";
        let position = self.tree_place(DOING, name)?;
        if kind == FieldKind::Static {
            return Err(self.failed(
                DOING,
                vec![RegistrationProblem::TreeField {
                    name: name.to_owned(),
                }],
            ));
        }
        let problems = wrong_kinds(&self.values[position], name, Some(kind));
        if !problems.is_empty() {
            return Err(self.failed(DOING, problems));
        }
        self.layout.set_kind(position, Some(kind));
        Ok(())
    }

    /// Removes a field and returns its value. Returns `None` for a static field.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the field does not exist.
    pub fn unregister(&mut self, name: &str) -> Result<Option<Tree<L>>, TreeError> {
        let place = self.place("take a field out of", name)?;
        self.layout.remove(place);
        match place {
            FieldPosition::Tree(position) => Ok(Some(self.values.remove(position))),
            FieldPosition::Static(position) => {
                self.statics.remove(position);
                Ok(None)
            }
        }
    }

    fn failed(&self, doing: &'static str, problems: Vec<RegistrationProblem>) -> TreeError {
        failed(doing, self.name(), problems)
    }

    fn vacant(&self, name: &str) -> Result<(), RegistrationProblem> {
        let kind = match self.layout.place(name) {
            None => return Ok(()),
            Some(FieldPosition::Tree(position)) => self.layout.fields()[position].1,
            Some(FieldPosition::Static(_)) => Some(FieldKind::Static),
        };
        Err(RegistrationProblem::Registered {
            name: name.to_owned(),
            kind,
        })
    }

    fn place(&self, doing: &'static str, name: &str) -> Result<FieldPosition, TreeError> {
        if let Some(place) = self.layout.place(name) {
            return Ok(place);
        }
        let fields = self.fields().map(|(found, _)| (found, found));
        let nearest = Effort::default().nearest(name, fields);
        let nearest = nearest.map(|(found, _)| found.to_owned());
        let name = name.to_owned();
        let problem = RegistrationProblem::NotRegistered { name, nearest };
        Err(self.failed(doing, vec![problem]))
    }

    fn tree_place(&self, doing: &'static str, name: &str) -> Result<usize, TreeError> {
        match self.place(doing, name)? {
            FieldPosition::Tree(position) => Ok(position),
            FieldPosition::Static(_) => {
                let name = name.to_owned();
                Err(self.failed(doing, vec![RegistrationProblem::StaticField { name }]))
            }
        }
    }

    fn static_place(&self, doing: &'static str, name: &str) -> Result<usize, TreeError> {
        match self.place(doing, name)? {
            FieldPosition::Static(position) => Ok(position),
            FieldPosition::Tree(_) => {
                let name = name.to_owned();
                Err(self.failed(doing, vec![RegistrationProblem::TreeField { name }]))
            }
        }
    }
}

fn failed(doing: &'static str, module: &str, problems: Vec<RegistrationProblem>) -> TreeError {
    let module = module.to_owned();
    TreeError::Registration {
        doing,
        module,
        problems,
    }
}

/// Checks that a name is an identifier.
fn check_name(name: &str) -> Result<(), RegistrationProblem> {
    let mut characters = name.chars();
    let begins = |first: char| first == '_' || first.is_alphabetic();
    if characters.next().is_some_and(begins)
        && characters.all(|next| next == '_' || next.is_alphanumeric())
    {
        return Ok(());
    }
    let name = name.to_owned();
    Err(RegistrationProblem::NotAName { name })
}
