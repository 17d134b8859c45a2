//! Models as modules of burn.

use std::fmt;

use burn_core022::module::{
    Content, Devices, Flag, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper,
    ModuleVisitor, Param, ParamId, RunningState,
};
use burn_core022::tensor::{Bool, Device, Float, Int, Tensor};

use crate::base::error::{LeafMismatch, TreeError};
use crate::base::kind::LeafKind;
use crate::base::text::short_name;
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, Visitor, rebuilt};
use crate::contract::unflatten::Unflattener;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeKind;
use crate::treedef::NodeView;
use crate::trees::dynamic::Tree;
use crate::trees::graph;

/// A model as a module of burn: its optimizers, records, groups of parameters and `valid` work on it.
///
/// burn sees each [`Param`] under the names of the fields above it, and keeps its `ParamId`. It sees a [`Shared`](crate::Shared) parameter
/// once. States are not trained: no gradient requires them, as burn does with its running states. Other leaves, such as numbers and arrays
/// of ndarray, are invisible to burn, as are static fields.
///
/// What the types of burn do not allow:
/// - A `#[param]` must be a `Param`, because burn's optimizers know a parameter by its `ParamId`. A plain `Tensor` is a constant for burn.
/// - A `Param` has up to six axes, because the rank is part of its type, and leaves are found by their types.
/// - A crate cannot implement traits of burn, such as `TrainStep` of its `Learner`, for `AsBurn<Model>`. It implements them for a struct with
///   burn's derive that has an `AsBurn<Model>` as a field.
///
/// # Examples
/// See [`burn022`](crate::burn022).
#[derive(Clone)]
pub struct AsBurn<M>(M);

impl<M: Pytree> AsBurn<M> {
    /// Wraps a model.
    ///
    /// # Errors
    /// [`TreeError::LeafTypes`] with all parameters of the model that are no parameters for burn.
    pub fn new(model: M) -> Result<Self, TreeError> {
        let (leaves, treedef) = graph::try_flatten_any(&model)?;
        let kinds = treedef.leaf_kinds();
        let places = leaves.iter().zip(treedef.leaf_paths()).zip(&kinds);
        let unfit = places.filter(|((leaf, _), kind)| {
            let is_param = matches!(kind, Some(LeafKind::Param | LeafKind::ParamIn(_)));
            is_param && id((*leaf).clone()).is_none()
        });
        let mismatches: Vec<LeafMismatch> = unfit
            .map(|((leaf, path), _)| {
                let expected = "`Param<Tensor<D>>` with D from 1 to 6".to_owned();
                LeafMismatch::new(path, expected, short_name(leaf.type_name()))
            })
            .collect();
        if !mismatches.is_empty() {
            let doing = "cannot make a model a module of burn";
            return Err(TreeError::LeafTypes { doing, mismatches });
        }
        Ok(Self(model).each(&mut Change::Nothing))
    }

    /// Returns the model.
    pub fn into_model(self) -> M {
        self.0
    }

    /// Calls a function for each leaf that burn knows, in the order of burn.
    fn each<F: Function>(self, function: &mut F) -> Self {
        let (leaves, treedef) = passed(graph::try_flatten_any(&self.0));
        // Without another owner, burn computes in place.
        drop(self);
        let kinds = treedef.leaf_kinds();
        let mut leaves = leaves.into_iter().zip(kinds);
        let mut new = Vec::with_capacity(treedef.num_leaves());
        walk(treedef.root(), &mut |step| match step {
            Step::Enter(name, container) => function.enter(name, container),
            Step::Exit(name, container) => function.exit(name, container),
            Step::Leaf => {
                let Some((leaf, kind)) = leaves.next() else {
                    return;
                };
                let is_state = matches!(kind, Some(LeafKind::State(_)));
                let leaf = call(leaf, function);
                new.push(if is_state {
                    call(leaf, &mut Change::Untrained)
                } else {
                    leaf
                });
            }
        });
        Self(rebuilt(graph::unflatten(&treedef, new)))
    }

    /// Calls a function for each leaf that burn knows, and discards the results.
    fn look<F: Function>(&self, function: &mut F) {
        let (leaves, treedef) = passed(graph::try_flatten_any(&self.0));
        let mut leaves = leaves.into_iter();
        walk(treedef.root(), &mut |step| match step {
            Step::Enter(name, container) => function.enter(name, container),
            Step::Exit(name, container) => function.exit(name, container),
            Step::Leaf => drop(leaves.next().map(|leaf| call(leaf, function))),
        });
    }
}

/// A function of any module of burn.
trait Function {
    fn of<T: Module>(&mut self, module: T) -> T;
    fn enter(&mut self, _name: &str, _container: &str) {}
    fn exit(&mut self, _name: &str, _container: &str) {}
}

struct Visiting<'v, V>(&'v mut V);

impl<V: ModuleVisitor> Function for Visiting<'_, V> {
    fn of<T: Module>(&mut self, module: T) -> T {
        module.visit(self.0);
        module
    }
    fn enter(&mut self, name: &str, container: &str) {
        self.0.enter_module(name, container);
    }
    fn exit(&mut self, name: &str, container: &str) {
        self.0.exit_module(name, container);
    }
}

struct Mapping<'m, M>(&'m mut M);

impl<M: ModuleMapper> Function for Mapping<'_, M> {
    fn of<T: Module>(&mut self, module: T) -> T {
        module.map(self.0)
    }
    fn enter(&mut self, name: &str, container: &str) {
        self.0.enter_module(name, container);
    }
    fn exit(&mut self, name: &str, container: &str) {
        self.0.exit_module(name, container);
    }
}

impl Function for Devices {
    fn of<T: Module>(&mut self, module: T) -> T {
        *self = module.collect_devices(std::mem::take(self));
        module
    }
}

/// The methods of a module that burn does not derive from `map`.
enum Change<'d> {
    Nothing,
    Untrained,
    ToDevice(&'d Device),
    Fork(&'d Device),
    Train,
    Valid,
    Materialize,
}

impl Function for Change<'_> {
    fn of<T: Module>(&mut self, module: T) -> T {
        match self {
            Self::Nothing => module,
            Self::Untrained => module.set_require_grad(false),
            Self::ToDevice(device) => module.to_device(device),
            Self::Fork(device) => module.fork(device),
            Self::Train => module.train(),
            Self::Valid => module.valid(),
            Self::Materialize => module.materialize(),
        }
    }
}

/// Calls a function with a leaf, if it is a module of burn.
fn call<F: Function>(leaf: AnyLeaf, function: &mut F) -> AnyLeaf {
    macro_rules! attempt {
        ($($module:ty),*) => {$(
            if let Some(module) = leaf.downcast_ref::<$module>() {
                let module = module.clone();
                drop(leaf);
                return AnyLeaf::new(function.of(module));
            }
        )*};
    }
    macro_rules! of_ranks {
        ($($rank:literal)*) => {$(
            attempt!(
                Param<Tensor<$rank, Float>>, Param<Tensor<$rank, Int>>, Param<Tensor<$rank, Bool>>,
                Tensor<$rank, Float>, Tensor<$rank, Int>, Tensor<$rank, Bool>, RunningState<Tensor<$rank>>
            );
        )*};
    }
    of_ranks!(1 2 3 4 5 6);
    attempt!(Param<Flag>);
    leaf
}

/// Returns the identity of a leaf that burn knows as a parameter.
pub(super) fn id(leaf: AnyLeaf) -> Option<ParamId> {
    struct Found(Option<ParamId>);
    impl ModuleVisitor for Found {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.get_or_insert(param.id);
        }
        fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
            self.0 = Some(param.id);
        }
        fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
            self.0 = Some(param.id);
        }
        fn visit_flag(&mut self, flag: &Param<Flag>) {
            self.0 = Some(flag.id);
        }
    }
    let mut found = Found(None);
    call(leaf, &mut Visiting(&mut found));
    found.0
}

/// Makes a function of the leaves of two models, for [`graph::map2_any`], from a function of their elements: an average, for instance. The
/// function gets the elements of two float tensors as tensors with one axis, whatever their ranks, and without gradients. A parameter keeps its
/// identity and whether it is trained. Leaves that are no float tensors of burn stay those of the first model.
///
/// # Panics
/// The function that is made panics if two leaves have different types, and as burn does if their shapes differ.
///
/// # Examples
/// ```no_run
/// # use burn_core022 as burn_core;
/// use burn_core::{module::Param, tensor::Tensor};
/// use pytree_core::{burn022, graph};
/// let weight = |numbers| Param::<Tensor<2>>::from_data([numbers], &Default::default());
/// let mean = burn022::elementwise(|now, before| (now + before) / 2.0);
/// let average = graph::map2_any(weight([1.0, 2.0]), &weight([3.0, 4.0]), mean)?;
/// assert_eq!(average.to_data().iter::<f32>().collect::<Vec<_>>(), [2.0, 3.0]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
pub fn elementwise(
    mut function: impl FnMut(Tensor<1>, Tensor<1>) -> Tensor<1>,
) -> impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf {
    move |leaf, other| {
        let [left, right] = [leaf.type_name(), other.type_name()].map(short_name);
        assert!(
            left == right,
            "cannot combine a leaf of type `{left}` with a leaf of type `{right}`: both models need the same leaves"
        );
        // A plain tensor is a constant for burn, which maps parameters alone.
        macro_rules! constants {
            ($($rank:literal)*) => {$(
                if let Some(tensor) = leaf.downcast_ref::<Tensor<$rank>>()
                    && let Some(other) = other.downcast_ref::<Tensor<$rank>>()
                {
                    return AnyLeaf::new(combined(tensor, other, &mut function));
                }
            )*};
        }
        constants!(1 2 3 4 5 6);
        let mut pair = Pair {
            other: Some(other),
            function: &mut function,
        };
        call(leaf, &mut pair)
    }
}

fn combined<const D: usize>(
    tensor: &Tensor<D>,
    other: &Tensor<D>,
    function: &mut impl FnMut(Tensor<1>, Tensor<1>) -> Tensor<1>,
) -> Tensor<D> {
    let [left, right] = [tensor, other].map(|it| it.clone().without_autodiff().flatten(0, D - 1));
    let new = function(left, right).reshape(tensor.dims());
    let new = if tensor.is_autodiff() {
        Tensor::from_inner(new)
    } else {
        new
    };
    new.set_require_grad(tensor.is_require_grad())
}

/// A function of two tensors, and the leaf with the second one.
struct Pair<'p, F> {
    /// `None` after the first tensor: those of a reparameterization follow it, and stay.
    other: Option<&'p dyn Leaf>,
    function: &'p mut F,
}

impl<F: FnMut(Tensor<1>, Tensor<1>) -> Tensor<1>> ModuleMapper for Pair<'_, F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let other = self.other.take();
        match other.and_then(|it| it.downcast_ref::<Param<Tensor<D>>>()) {
            Some(other) => param.map(|tensor| combined(&tensor, other, self.function)),
            None => param,
        }
    }
}

impl<F: FnMut(Tensor<1>, Tensor<1>) -> Tensor<1>> Function for Pair<'_, F> {
    fn of<T: Module>(&mut self, module: T) -> T {
        module.map(self)
    }
}

/// A step of a walk through a model in the order of burn. Fields have names, and containers the names of burn for their types.
enum Step<'s> {
    Enter(&'s str, &'s str),
    Exit(&'s str, &'s str),
    Leaf,
}

fn walk(node: NodeView<'_>, step: &mut dyn FnMut(Step<'_>)) {
    let node = node.inside();
    let container = match node.kind() {
        NodeKind::Leaf => return step(Step::Leaf),
        NodeKind::Absent | NodeKind::Alias => return,
        NodeKind::List => "Vec".to_owned(),
        NodeKind::Tuple => "Tuple".to_owned(),
        _ => format!("Struct:{}", node.shape().name_text()),
    };
    for (at, child) in node.children().enumerate() {
        let name = node.key(at).map(|key| key.plain());
        if let Some(name) = &name {
            step(Step::Enter(name, &container));
        }
        walk(child, step);
        if let Some(name) = &name {
            step(Step::Exit(name, &container));
        }
    }
}

impl<M: Pytree + Clone + Send + fmt::Debug> Module for AsBurn<M> {
    fn collect_devices(&self, mut devices: Devices) -> Devices {
        self.look(&mut devices);
        devices
    }
    fn fork(self, device: &Device) -> Self {
        self.each(&mut Change::Fork(device))
    }
    fn to_device(self, device: &Device) -> Self {
        self.each(&mut Change::ToDevice(device))
    }
    fn train(self) -> Self {
        self.each(&mut Change::Train)
    }
    fn valid(&self) -> Self {
        self.clone().each(&mut Change::Valid)
    }
    fn materialize(self) -> Self {
        self.each(&mut Change::Materialize)
    }
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.look(&mut Visiting(visitor));
    }
    fn map<F: ModuleMapper>(self, mapper: &mut F) -> Self {
        self.each(&mut Mapping(mapper))
    }
}

impl<M: Pytree> ModuleDisplayDefault for AsBurn<M> {
    fn content(&self, content: Content) -> Option<Content> {
        let (leaves, treedef) = graph::flatten_any(&self.0);
        content
            .add_formatted(&Tree::from_parts(treedef, leaves))
            .optional()
    }
}
impl<M: Pytree> ModuleDisplay for AsBurn<M> {}

/// The tree of the model.
impl<M: Pytree> Pytree for AsBurn<M> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        M::unflatten(source).map(Self)
    }
}

pytree_base::dereferences! { [M] AsBurn<M>, 0: M }

impl<M: fmt::Debug> fmt::Debug for AsBurn<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
