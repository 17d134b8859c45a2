//! Modules whose fields are registered at run time.
//!
//! A derived module says in its type which of its fields are parameters, states, modules and static. A
//! [`DynamicModule`] is told so, field by field, by a program that learns it only when it runs: one that builds
//! a model from a description, or reads one from a file. Its node in a treedef equals that of a derived type
//! with the same name and fields, so the one becomes the other.

mod below;
mod kinds;
mod problem;
mod reading;
mod register;
mod traits;

pub use self::problem::RegistrationProblem;
pub(crate) use self::reading::not_trainable;
use self::reading::{read_checked, read_tree, wrong_kinds};
use crate::dynamic::Tree;
use crate::error::TreeError;
use crate::kind::FieldKind;
use crate::leaf::{AnyLeaf, Leaf, short_name};
use crate::path::KeyPath;
use crate::pytree::Pytree;
use crate::shape::{Field, NodeKind, NodeShape};
use crate::statics::{StaticBox, StaticValue};
use crate::treedef::Builder;

/// The names of a module's fields with their kinds.
type Registry = &'static [(&'static str, FieldKind)];

/// A module whose fields are registered at run time.
///
/// Fields that are trees come first, then static ones, each in the order they were registered. What is
/// registered is checked: a parameter has float leaves, a sub-module has a kind for each leaf, and a name is
/// there once. A call that fails changes nothing, and its error tells all that is wrong.
///
/// The registry is read-only. Clones share it; a change of one gives that one another.
///
/// A [`Shared`](crate::Shared) node in a value is registered at each of its places, as trees have it.
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
#[derive(Clone)]
pub struct DynamicModule<L = AnyLeaf> {
    /// Made at run time.
    shape: &'static NodeShape,
    registry: Registry,
    /// The values of the fields that are trees.
    values: Vec<Tree<L>>,
    /// The values of the static fields.
    statics: Vec<StaticBox>,
}

/// Where a field is: among the trees, or among the static ones.
#[derive(Clone, Copy)]
enum Place {
    Tree(usize),
    Static(usize),
}

impl<L: Leaf + Clone> DynamicModule<L> {
    /// A module of a name, without fields.
    ///
    /// # Errors
    /// [`TreeError::Build`] if there are too many shapes of nodes made at run time: see [`NodeShape::dynamic`].
    pub fn new(name: &str) -> Result<Self, TreeError> {
        let shape = NodeShape::dynamic(NodeKind::Struct, name, &[], &[])?;
        Ok(Self::from_shape(shape, Vec::new(), Vec::new()))
    }

    fn from_shape(
        shape: &'static NodeShape,
        values: Vec<Tree<L>>,
        statics: Vec<StaticBox>,
    ) -> Self {
        Self {
            shape,
            registry: kinds::registry_of(shape),
            values,
            statics,
        }
    }

    /// A struct of any type, derived or not, as a module whose fields can be changed at run time.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the value is no struct or has leaves of another type than `L`.
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
        let tree = read_tree(value, &KeyPath::root()).map_err(|problems| {
            let module = short_name(std::any::type_name::<T>());
            failed(module, problems)
        })?;
        Self::from_tree(tree)
    }

    /// A tree whose root is a struct as a module.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if the root is no struct.
    pub fn from_tree(tree: Tree<L>) -> Result<Self, TreeError> {
        let root = tree.treedef().0.nodes.first().copied();
        let Some(root) =
            root.filter(|node| matches!(node.shape.kind, NodeKind::Struct | NodeKind::TupleStruct))
        else {
            let found = tree.root().root().describe();
            return Err(failed(
                found.clone(),
                vec![RegistrationProblem::NotAStruct { found }],
            ));
        };
        let statics = tree.treedef().0.aux_of(0).to_vec();
        Ok(Self::from_shape(
            at_run_time(root.shape)?,
            tree.into_children(),
            statics,
        ))
    }

    /// The module as a tree.
    pub fn to_tree(&self) -> Tree<L> {
        let mut builder = Builder::default();
        builder.enter(self.shape, self.values.len());
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

    /// The name of the module, as displays show it.
    pub fn name(&self) -> &'static str {
        self.shape.name
    }

    /// The fields with their kinds, trees first; a subtree has none.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Option<FieldKind>)> + use<L> {
        let trees = self.shape.fields.iter();
        let statics = self.shape.statics.iter();
        trees
            .map(|field| (field.name, field.kind))
            .chain(statics.map(|&name| (name, Some(FieldKind::Static))))
    }

    /// The names of the fields that have a kind, with it: all but subtrees. Clones share it.
    pub fn registry(&self) -> &'static [(&'static str, FieldKind)] {
        self.registry
    }

    /// The value of a field that is a tree.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field, with the name that is most alike, or it is static.
    pub fn get(&self, name: &str) -> Result<&Tree<L>, TreeError> {
        self.tree_place(name).map(|position| &self.values[position])
    }

    /// The leaves of a field that is a tree, to be changed in place. What is put there is not checked, as
    /// [`set`](Self::set) does, but [`lint`](crate::lint::lint) finds it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, name: &str) -> Result<&mut [L], TreeError> {
        self.tree_place(name)
            .map(|position| self.values[position].leaves_mut())
    }

    /// The value of a field that is a tree, as a `T`.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`Tree::to_value`].
    pub fn value<T: Pytree>(&self, name: &str) -> Result<T, TreeError> {
        self.get(name)?.to_value()
    }

    /// The value of a static field.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field, it is a tree, or it holds no `T`.
    pub fn get_static<T: StaticValue>(&self, name: &str) -> Result<T, TreeError> {
        let value = &self.statics[self.static_place(name)?];
        value.to_value().ok_or_else(|| {
            self.failed(vec![RegistrationProblem::StaticType {
                name: name.to_owned(),
                expected: short_name(std::any::type_name::<T>()),
                found: format!("{value:?}"),
            }])
        })
    }

    /// Gives a field that is a tree another value, of any structure that its kind allows.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field, it is static, or the value is not what the kind
    /// asks for.
    pub fn set(&mut self, name: &str, value: impl Pytree) -> Result<(), TreeError> {
        let position = self.tree_place(name)?;
        let kind = self.shape.fields[position].kind;
        let tree = read_checked(&value, name, kind).map_err(|problems| self.failed(problems))?;
        self.values[position] = tree;
        Ok(())
    }

    /// Gives a static field another value, which may be of another type.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field, or it is a tree.
    pub fn set_static(&mut self, name: &str, value: impl StaticValue) -> Result<(), TreeError> {
        let position = self.static_place(name)?;
        self.statics[position] = StaticBox::new(value);
        Ok(())
    }

    /// Gives a field that is a tree another kind.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field, the field or the kind is static, or the value is
    /// not what the kind asks for.
    pub fn set_kind(&mut self, name: &str, kind: FieldKind) -> Result<(), TreeError> {
        let position = self.tree_place(name)?;
        if kind == FieldKind::Static {
            return Err(self.failed(vec![RegistrationProblem::StaticField {
                name: name.to_owned(),
                is_static: false,
            }]));
        }
        let problems = wrong_kinds(&self.values[position], name, Some(kind));
        if !problems.is_empty() {
            return Err(self.failed(problems));
        }
        let mut fields: Vec<_> = self.shape.fields.iter().map(named).collect();
        fields[position].1 = Some(kind);
        self.reshape(&fields, self.shape.statics)
    }

    /// Takes a field out and gives back its value; of a static field, none.
    ///
    /// # Errors
    /// [`TreeError::Registration`] if there is no such field.
    pub fn unregister(&mut self, name: &str) -> Result<Option<Tree<L>>, TreeError> {
        let place = self.place(name)?;
        let mut fields: Vec<_> = self.shape.fields.iter().map(named).collect();
        let mut statics = self.shape.statics.to_vec();
        match place {
            Place::Tree(position) => {
                fields.remove(position);
                self.reshape(&fields, &statics)?;
                Ok(Some(self.values.remove(position)))
            }
            Place::Static(position) => {
                statics.remove(position);
                self.reshape(&fields, &statics)?;
                self.statics.remove(position);
                Ok(None)
            }
        }
    }

    fn reshape(
        &mut self,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> Result<(), TreeError> {
        self.shape = NodeShape::dynamic(self.shape.kind, self.shape.name, fields, statics)?;
        self.registry = kinds::registry_of(self.shape);
        Ok(())
    }

    fn failed(&self, problems: Vec<RegistrationProblem>) -> TreeError {
        failed(self.shape.name.to_owned(), problems)
    }

    fn vacant(&self, name: &str) -> Result<(), RegistrationProblem> {
        match self.fields().find(|(found, _)| *found == name) {
            None => Ok(()),
            Some((_, kind)) => Err(RegistrationProblem::Registered {
                name: name.to_owned(),
                kind,
            }),
        }
    }

    fn place(&self, name: &str) -> Result<Place, TreeError> {
        let trees = self.shape.fields;
        if let Some(position) = trees.iter().position(|field| field.name == name) {
            return Ok(Place::Tree(position));
        }
        if let Some(position) = self.shape.statics.iter().position(|&found| found == name) {
            return Ok(Place::Static(position));
        }
        let nearest = self
            .fields()
            .min_by_key(|(found, _)| crate::error::edit_distance(found, name));
        Err(self.failed(vec![RegistrationProblem::NotRegistered {
            name: name.to_owned(),
            nearest: nearest.map(|(found, _)| found.to_owned()),
        }]))
    }

    fn tree_place(&self, name: &str) -> Result<usize, TreeError> {
        match self.place(name)? {
            Place::Tree(position) => Ok(position),
            Place::Static(_) => Err(self.of_other_sort(name, true)),
        }
    }

    fn static_place(&self, name: &str) -> Result<usize, TreeError> {
        match self.place(name)? {
            Place::Static(position) => Ok(position),
            Place::Tree(_) => Err(self.of_other_sort(name, false)),
        }
    }

    fn of_other_sort(&self, name: &str, is_static: bool) -> TreeError {
        self.failed(vec![RegistrationProblem::StaticField {
            name: name.to_owned(),
            is_static,
        }])
    }
}

fn named(field: &Field) -> (&'static str, Option<FieldKind>) {
    (field.name, field.kind)
}

fn failed(module: String, problems: Vec<RegistrationProblem>) -> TreeError {
    TreeError::Registration { module, problems }
}

/// The shape as one made at run time, which it may be already.
fn at_run_time(shape: &'static NodeShape) -> Result<&'static NodeShape, TreeError> {
    if shape.is_dynamic() {
        return Ok(shape);
    }
    let fields: Vec<_> = shape.fields.iter().map(named).collect();
    NodeShape::dynamic(shape.kind, shape.name, &fields, shape.statics)
}
