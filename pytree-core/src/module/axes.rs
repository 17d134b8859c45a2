//! Named axes: shapes that are declared once, in a module's fields, and checked wherever they are used.
//!
//! `#[param("in out")]` names the axes of a field. `#[shapes(x = "... in", return = "... out")]` names the axes of a
//! function's arguments and result. In a method, a name from the module's fields has the same length as in the fields.
//! [`Pytree::check_shapes`] compares all arrays of a model with the axes that its modules declare. The page `docs/reference/shapes.md` describes
//! the language. `#[module(stacked = "expert")]` names the leading axis of a field of stacked modules. `roles(input, output)` after the names declares what the module does with each axis: see [`AxisRole`].

use std::collections::HashMap;
use std::panic::Location;

use crate::base::error::ShapeError;
use crate::base::identity::NodeIdentity;
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::arena::{Arena, Content};
use crate::contract::flatten::{Flatten, Sharing, borrowing};
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, ReferenceNode, Single, Visit, Visitor, check_shapes};
use crate::node::axes::{Capture, Capturing, name_of_function, name_of_type, returned};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{DynamicShape, NodeShape};
use crate::node::statics::StaticRef;
use crate::references::level::{Level, with_levels};
use crate::treedef::{Stacking, TreeDef};
use crate::trees::shapes;

#[doc(hidden)]
pub use crate::node::axes::{
    AxisPattern, Expression, Operator, Owner, Rest, Running, Step, describe_running,
};
pub use crate::node::axes::{
    AxisRole, ElementPattern, Roles, Scope, ShapePattern, StaticFields, names,
};
pub use crate::treedef::LeafRoles;

/// Runs the body of a function with `#[shapes]`. The bound makes the body an `FnOnce`, which can return a value that it
/// borrows mutably.
#[doc(hidden)]
#[inline]
pub fn body<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Whether the results of functions with `#[shapes]` are checked. The feature `unchecked-results` turns the checks off
/// in release builds.
#[doc(hidden)]
pub const CHECKS_RESULTS: bool = cfg!(debug_assertions) || !cfg!(feature = "unchecked-results");

/// A type whose fields may have named axes.
///
/// `#[derive(Module)]` and `#[derive(Pytree)]` implement this trait. `#[shapes]` on a method requires it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no named axes",
    label = "`#[shapes]` on a method reads the axes of the fields",
    note = "write `#[derive(Module)]` or `#[derive(Pytree)]` on `{Self}`, or make the method a function without `self`"
)]
pub trait NamedAxes {
    /// Compares the fields with their patterns, and binds the names to lengths.
    fn bind_axes(&self, scope: &mut Scope);
}

/// Marks a name that the methods of a type can use as a length: the name of an axis in a field's pattern, or the name
/// of a static integer field. `NAME` encodes the name. The derive implements this trait for each such name. So a method
/// that uses another name does not compile.
#[doc(hidden)]
pub trait BindsAxis<const NAME: u128> {}

/// The error of a function with `#[shapes]` that returns a `Result`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is returned as an error, but cannot be made of a `ShapeError`",
    label = "the function returns a `Result`, so a wrong shape is its error",
    note = "implement `From<ShapeError>` for `{Self}`, for instance by a variant `Shapes(#[from] ShapeError)`"
)]
pub trait HoldsShapeError {
    /// Converts a wrong shape into the error of the function.
    fn of(error: ShapeError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<ShapeError>> HoldsShapeError for E {
    fn of(error: ShapeError) -> Self {
        error.into()
    }
}

/// A value whose arrays can be compared with a pattern: a pytree, or a slice of pytrees.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the shapes of `{Self}` cannot be checked",
    label = "arrays, or pytrees of arrays, have shapes",
    note = "derive `Pytree` on the type, or remove the argument from `#[shapes(…)]`"
)]
pub trait Arrays {
    /// Visits all arrays.
    fn visit_arrays<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// Returns the array, if the value is a single leaf.
    fn single(&self) -> Single<'_>;

    /// Compares all arrays with a pattern.
    #[inline]
    fn __compare_axes(&self, scope: &mut Scope, pattern: &'static ShapePattern) {
        scope.value(pattern, self);
    }
}

impl<T: Pytree> Arrays for T {
    #[inline]
    fn visit_arrays<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.visit(visitor);
    }
    #[inline]
    fn single(&self) -> Single<'_> {
        self.__single()
    }
}
impl<T: Pytree> Arrays for [T] {
    fn visit_arrays<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter(&crate::node::shape::LIST, self.len()) == Visit::Skip {
            return;
        }
        self.iter().for_each(|item| item.visit(visitor));
        visitor.exit();
    }
    fn single(&self) -> Single<'_> {
        Single::Visit
    }
}

impl Scope {
    /// Compares each array of a value with a pattern.
    #[doc(hidden)]
    #[inline]
    pub fn value<T: Arrays + ?Sized>(&mut self, pattern: &'static ShapePattern, value: &T) {
        if self.records() {
            return self.each_path(pattern, value);
        }
        if self.captures() {
            self.capture(value);
        }
        match value.single() {
            Single::Leaf(Some(found)) => self.compare(pattern, found),
            Single::Leaf(None) => {}
            Single::Visit => self.each_leaf(pattern, value),
        }
    }

    /// Keeps the address of an array of the module, or the arrays of the result.
    #[cold]
    fn capture<T: Arrays + ?Sized>(&mut self, value: &T) {
        if self.owner() == Owner::Argument {
            return;
        }
        let arena = Arena::default();
        let mut leaves: Vec<&dyn Leaf> = Vec::new();
        let mut flatten =
            Flatten::new(Sharing::Preserve, borrowing(&mut leaves)).with_arena(&arena);
        value.visit_arrays(&mut flatten);
        passed(flatten.finish());
        if self.owner() == Owner::Result {
            let arrays = leaves
                .iter()
                .map(|leaf| AnyLeaf::from_boxed(leaf.clone_boxed()));
            returned(arrays.collect(), with_levels(<[Level]>::len));
        } else if let Some(leaf) = leaves.first() {
            self.keep_array(address(*leaf));
        }
    }

    /// Compares each array of a value with a pattern, without key paths.
    fn each_leaf<T: Arrays + ?Sized>(&mut self, pattern: &'static ShapePattern, value: &T) {
        let mut visitor = Compare {
            scope: self,
            pattern,
            depth: 0,
            is_incomplete: false,
        };
        value.visit_arrays(&mut visitor);
        if visitor.is_incomplete {
            self.each_path(pattern, value);
        }
    }

    /// Compares each array of a value with a pattern, and records the key path of each array. The value may also
    /// contain references and cycles.
    #[cold]
    fn each_path<T: Arrays + ?Sized>(&mut self, pattern: &'static ShapePattern, value: &T) {
        let arena = Arena::default();
        let mut leaves: Vec<&dyn Leaf> = Vec::new();
        let mut flatten =
            Flatten::new(Sharing::Preserve, borrowing(&mut leaves)).with_arena(&arena);
        value.visit_arrays(&mut flatten);
        let treedef = passed(flatten.finish());
        self.compare_with_paths(pattern, &leaves, &treedef);
    }

    /// Compares each leaf of a treedef with a pattern, and records the key paths of the leaves.
    fn compare_with_paths(
        &mut self,
        pattern: &'static ShapePattern,
        leaves: &[&dyn Leaf],
        treedef: &TreeDef,
    ) {
        let paths = treedef.leaf_paths();
        for (leaf, path) in leaves.iter().zip(paths) {
            if let Some(found) = leaf.array_info() {
                if self.records() {
                    self.set_place(path.below(pattern.label));
                    self.set_mapped(leaf.mapped_axes());
                }
                self.compare(pattern, found);
            }
        }
    }

    /// Compares the arguments of a function, which then runs. `module` returns the name of the type whose method it is. The
    /// name is `()` for a function without `self`.
    ///
    /// # Errors
    /// All arguments that do not match.
    #[doc(hidden)]
    pub fn arguments(
        &mut self,
        module: fn() -> &'static str,
        function: &'static str,
        bind: &dyn Fn(&mut Self),
    ) -> Result<Running, ShapeError> {
        bind(self);
        if self.matches() {
            return Ok(Running::enter(module, function, self));
        }
        let function = name_of_function(module(), function);
        let mismatches = Self::explained(&short_name(module()), bind);
        Err(ShapeError::new(function, mismatches).inside(describe_running()))
    }

    /// Compares the result of a function, which is the caller.
    ///
    /// # Errors
    /// The parts of the result that do not match.
    #[doc(hidden)]
    #[track_caller]
    pub fn result(
        &mut self,
        module: fn() -> &'static str,
        function: &str,
        compare: &dyn Fn(&mut Self),
    ) -> Result<(), ShapeError> {
        if !CHECKS_RESULTS {
            return Ok(());
        }
        self.begin(Owner::Result);
        compare(self);
        if self.matches() {
            return Ok(());
        }
        self.record_from_here(&short_name(module()));
        self.begin(Owner::Result);
        compare(self);
        // A closure has no name: it is called `the closure`.
        let quote = if function.contains(' ') { "" } else { "`" };
        let place = Location::caller();
        let fix = format!(
            "this is a mistake in {quote}{function}{quote} itself, at {}:{}, and not in its arguments",
            place.file(),
            place.line()
        );
        let mut mismatches = self.take_mismatches();
        for mismatch in &mut mismatches {
            mismatch.fix.clone_from(&fix);
        }
        let function = name_of_function(module(), function);
        Err(ShapeError::new(function, mismatches))
    }
}

/// Panics about a wrong shape.
///
/// # Panics
/// Always.
#[doc(hidden)]
#[cold]
#[track_caller]
pub fn refuse(error: &ShapeError) -> ! {
    panic!("{error}")
}

/// Compares each visited array with one pattern. Does not record the paths of the arrays.
struct Compare<'s> {
    scope: &'s mut Scope,
    pattern: &'static ShapePattern,
    depth: usize,
    /// Whether a part of the value was not visited, because this visitor cannot visit it: the content of a reference,
    /// or a deeply nested shared node, which may be part of a cycle.
    is_incomplete: bool,
}

/// Shared nodes at this depth (in nodes) or deeper are not visited, because they may be part of a cycle.
const SHALLOW: usize = 32;

impl<'a> Visitor<'a> for Compare<'_> {
    #[inline]
    fn enter(&mut self, _: &'static NodeShape, _: usize) -> Visit {
        self.depth += 1;
        Visit::Descend
    }
    fn enter_dynamic(&mut self, _: &std::sync::Arc<DynamicShape>, _: usize) -> Visit {
        self.depth += 1;
        Visit::Descend
    }
    #[inline]
    fn aux(&mut self, _: StaticRef<'a>) {}
    #[inline]
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if let Some(found) = leaf.array_info() {
            self.scope.compare(self.pattern, found);
        }
    }
    #[inline]
    fn exit(&mut self) {
        self.depth -= 1;
    }
    fn tree(&mut self, _: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        leaves.for_each(|leaf| self.leaf(leaf));
    }
    fn shared(&mut self, _: NodeIdentity) -> Visit {
        if self.depth < SHALLOW {
            return Visit::Descend;
        }
        self.is_incomplete = true;
        Visit::Skip
    }
    fn reference(&mut self, _: &dyn ReferenceNode) -> Visit {
        self.is_incomplete = true;
        Visit::Skip
    }
    fn keep(&mut self, _: Content) -> &'a dyn Pytree {
        self.is_incomplete = true;
        &()
    }
    fn weak(&mut self, _: Option<NodeIdentity>) {}
}

/// Compares all arrays of a stacked model with the named axes that its modules declare. A stacked model, such as `vmap`
/// returns, holds several models. Each of its arrays has additional leading axes, and `names` contains the names of
/// these axes. If only a field of a model is stacked, write `#[module(stacked = "name")]` above the field, and use [`Pytree::check_shapes`].
///
/// # Errors
/// All arrays whose shapes do not match, with their key paths.
///
/// # Examples
/// ```
/// use ndarray::Array3;
/// use pytree_core::{Module, Pytree, axes};
/// #[derive(Module)]
/// struct Linear<W: pytree_core::field::ParamField> {
///     #[param("in out")]
///     weight: W,
/// }
/// let ensemble = Linear { weight: Array3::<f32>::zeros((5, 64, 128)) };
/// assert!(ensemble.check_shapes().is_err());
/// assert!(axes::check_stacked(&ensemble, &["member"]).is_ok());
/// ```
pub fn check_stacked<T: Pytree + ?Sized>(model: &T, names: &[&str]) -> Result<(), ShapeError> {
    check_shapes(model, Stacking::Named(names))
}

/// Compares all arrays of a model with the named axes that its modules declare. Each module may be stacked: its arrays
/// may have additional leading axes. All arrays of a module must have the same number of additional axes.
///
/// The leaves of dynamic trees in the model are not compared, because a tree with the structure of a model may hold
/// anything for each array. `partition::merge`, edits of models and new optimizers make the same comparison.
///
/// # Errors
/// All arrays whose shapes do not match, with their key paths.
pub fn check_any_stack<T: Pytree + ?Sized>(model: &T) -> Result<(), ShapeError> {
    shapes::check(model)
}

/// Runs a function on a model, and captures what the methods of the modules in the model return, without a change of the
/// modules. Returns the result of the function, and each captured array with its name, in the order of the calls.
///
/// All methods with `#[shapes]` that declare their result are captured: all layers of the library, and your own. The name
/// is the path of the module, such as `blocks[0].norm`. For methods other than `forward` and `try_forward` the name of the
/// method follows.
///
/// A module is found by the address of its arrays, so the function must use the model that it receives, and not a copy. A
/// module without arrays is found if it calls methods of modules with arrays. Calls inside of a further transformation are
/// not captured, because their values are invalid outside of it: call `capture` inside, and return the values.
///
/// # Panics
/// If the feature `unchecked-results` turns off the checks that see the results.
#[track_caller]
#[allow(
    clippy::assertions_on_constants,
    reason = "the constant depends on a feature"
)]
pub fn capture<M: Pytree, R>(
    model: &mut M,
    run: impl FnOnce(&mut M) -> R,
) -> (R, Vec<(String, AnyLeaf)>) {
    assert!(
        CHECKS_RESULTS,
        "cannot capture results: the feature `unchecked-results` turns off the checks that see them; build without this feature"
    );
    let capturing = Capturing::begin(places(model));
    let result = run(model);
    (result, capturing.finish())
}

/// Returns the places of a model.
fn places<M: Pytree>(model: &M) -> Capture {
    let arena = Arena::default();
    let mut leaves: Vec<&dyn Leaf> = Vec::new();
    let treedef = Flatten::new(Sharing::Preserve, borrowing(&mut leaves))
        .with_arena(&arena)
        .run(model);
    let treedef = passed(treedef);
    let addresses = leaves.iter().map(|leaf| address(*leaf));
    let mut types: HashMap<KeyPath, Vec<String>> = HashMap::new();
    for node in treedef.nodes() {
        let name = name_of_type(node.shape().type_name());
        types.entry(node.path()).or_default().push(name);
    }
    let arrays = addresses.zip(treedef.leaf_paths()).collect();
    Capture::new(arrays, types, with_levels(<[Level]>::len))
}

/// Returns the address of a leaf.
fn address(leaf: &dyn Leaf) -> usize {
    std::ptr::from_ref(leaf).cast::<()>().addr()
}
