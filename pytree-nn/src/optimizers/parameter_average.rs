//! A running average of the parameters of a model.

use pytree_core::{Filter, KeyPath, LeafKind, PytreeOf, TreeDef, graph, partition};

use crate::convert_floats::{at_least_f32, at_least_f32_dtype};
use crate::optimizers::prelude::*;

/// A running average of the parameters of a model, for evaluation (Polyak and Juditsky 1992, "Acceleration of
/// stochastic approximation by averaging"). The average is exponential, as in `optax.incremental_update`.
///
/// The average is a pytree of states, so it can be an argument and a result of `jit`, and can be saved. The average of a
/// half-precision parameter is f32, because a half-precision average would not move.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, ParameterAverage, Rngs};
/// use pytree_transform::Tensor;
/// let mut model = Linear::new(1, 1, &mut Rngs::new(0));
/// model.weight = Tensor::from([[1.0_f32]]);
/// let mut average = ParameterAverage::new(&model, 0.75);
/// model.weight = Tensor::from([[5.0_f32]]);
/// average.update(&model);
/// assert_eq!(average.apply(&model).weight, Tensor::from([[2.0_f32]]));
/// ```
#[doc(alias("optax.incremental_update", "torch.optim.swa_utils.AveragedModel"))]
#[derive(Module, Clone, Debug)]
pub struct ParameterAverage {
    /// The average of each chosen leaf, in f32 or a wider dtype.
    #[state(OptState)]
    average: Tree<Tensor>,
    /// The number of updates, `u32[]`, which the warm-up needs. `None` without a warm-up.
    #[state(OptState)]
    count: Option<Tensor>,
    #[r#static]
    decay: f64,
    #[r#static]
    warm_up: Option<f64>,
    /// The number of leaves of the model that are not states.
    #[r#static]
    parameters: usize,
}

impl ParameterAverage {
    /// Creates an average that begins with the current parameters. `decay` is the weight of the old average in each
    /// update. The average contains all leaves that are not states.
    ///
    /// # Panics
    /// If `decay` is not from 0 to 1, or if a leaf that is not a state is not a float.
    #[track_caller]
    pub fn new<M: PytreeOf<Tensor>>(model: &M, decay: f64) -> Self {
        Self::with_filter(model, decay, &!Filter::any_state())
    }

    /// Creates an average of the leaves that `filter` accepts, such as the parameters and the running statistics.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// use pytree_core::kind::BatchStat;
    /// use pytree_nn::{BatchNorm, ParameterAverage, Rngs};
    /// use pytree_transform::Tensor;
    /// let mut norm = BatchNorm::new(1, &mut Rngs::new(0));
    /// let chosen = Filter::param() | Filter::state::<BatchStat>();
    /// let mut average = ParameterAverage::with_filter(&norm, 0.5, &chosen);
    /// norm.mean = Tensor::from([4.0_f32]);
    /// average.update(&norm);
    /// assert_eq!(average.apply(&norm).mean, Tensor::from([2.0_f32]));
    /// ```
    ///
    /// # Panics
    /// If `decay` is not from 0 to 1, if the filter has an unknown path or accepts no leaf, or if it accepts a leaf that is
    /// not a float.
    #[track_caller]
    pub fn with_filter<M: PytreeOf<Tensor>>(model: &M, decay: f64, filter: &Filter) -> Self {
        fraction("ParameterAverage", "decay", decay);
        let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
        let chosen = match filter.choose(&treedef, &leaves) {
            Ok(chosen) => chosen,
            Err(error) => panic!("cannot average: {error}"),
        };
        let whole = treedef.as_whole();
        let part = partition::select::<M, Tensor>(&whole, &leaves, |position| chosen[position]);
        let part = part.into_tree();
        let not_float = part
            .leaves()
            .iter()
            .position(|leaf| !leaf.dtype().is_float());
        if let Some(position) = not_float {
            panic!(
                "cannot average {}: expected a float dtype, found {}; make the leaf a state, or choose the leaves with `ParameterAverage::with_filter`",
                part.treedef().leaf_paths()[position].or_root(),
                part.leaves()[position].info()
            );
        }
        Self {
            average: part.map(at_least_f32),
            count: None,
            decay,
            warm_up: None,
            parameters: number_of_parameters(&treedef),
        }
    }

    /// Returns the average with a warm-up: after n updates, the decay of the next update is
    /// min(`decay`, (1 + n) / (`warm_up` + n)). So the first parameters, which are random, lose their weight early. The
    /// formula is that of `tf.train.ExponentialMovingAverage` with `num_updates`, which has the `warm_up` 10.
    ///
    /// With the decay 1 and the warm-up 2, the average is the mean of the first parameters and those of all updates, like
    /// `torch.optim.swa_utils.AveragedModel`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::ParameterAverage;
    /// use pytree_transform::Tensor;
    /// let mut average = ParameterAverage::new(&Tensor::from(1.0_f32), 1.0).with_warm_up(2.0);
    /// for parameter in [2.0_f32, 6.0] {
    ///     average.update(&Tensor::from(parameter));
    /// }
    /// assert_eq!(average.apply(&Tensor::from(6.0_f32)), Tensor::from(3.0_f32));
    /// ```
    ///
    /// # Panics
    /// If `warm_up` is not a finite number above 1.
    #[must_use]
    #[track_caller]
    pub fn with_warm_up(mut self, warm_up: f64) -> Self {
        assert!(
            warm_up.is_finite() && warm_up > 1.0,
            "cannot make `ParameterAverage`: expected a finite number above 1 as `warm_up`, found {warm_up}; after n updates, the decay is at most (1 + n) / (`warm_up` + n), so 10 is usual, and 2 gives the mean of all parameters"
        );
        self.warm_up = Some(warm_up);
        self.count = Some(Tensor::from(0_u32));
        self
    }

    /// Adds the current parameters: average ← `decay` · average + (1 - `decay`) · parameter.
    ///
    /// # Panics
    /// If the model has another number of parameters than the model of the average, if it lacks an averaged leaf, or if
    /// such a leaf has another shape or dtype.
    #[track_caller]
    pub fn update<M: PytreeOf<Tensor>>(&mut self, model: &M) {
        let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
        let places = self.places(&leaves, &treedef);
        let mut weights = self.next_decay().map(|decay| {
            let rest = 1.0 - &decay;
            (Scalar::new(decay), Scalar::new(rest))
        });
        for (average, place) in self.average.leaves_mut().iter_mut().zip(places) {
            let (dtype, current) = (average.dtype(), at_least_f32(&leaves[place]));
            *average = match &mut weights {
                Some((old, new)) => &*average * old.of_type(dtype) + current * new.of_type(dtype),
                None => &*average * self.decay + current * (1.0 - self.decay),
            };
        }
    }

    /// Counts an update, and returns its decay in f64. Returns `None` without a warm-up.
    fn next_decay(&mut self) -> Option<Tensor> {
        let (count, warm_up) = (self.count.as_mut()?, self.warm_up?);
        let before = count.convert(DType::F64);
        *count = &*count + 1;
        Some(((&before + 1.0) / (&before + warm_up)).minimum(self.decay))
    }

    /// Returns the model with each averaged leaf replaced by its average, in the dtype of the leaf. The other leaves are
    /// those of `model`.
    ///
    /// # Panics
    /// In the same cases as [`update`](Self::update).
    #[must_use]
    #[track_caller]
    pub fn apply<M: PytreeOf<Tensor>>(&self, model: &M) -> M {
        let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
        let places = self.places(&leaves, &treedef);
        let mut averages = places.into_iter().zip(self.average.leaves()).peekable();
        let mut position = 0..;
        graph::map(model, |leaf: &Tensor| {
            let here = position.next();
            let average = averages.next_if(|(place, _)| Some(*place) == here);
            average.map_or_else(
                || leaf.clone(),
                |(_, average)| average.convert(leaf.dtype()),
            )
        })
    }

    /// Returns the position of each averaged leaf among the leaves of a model.
    #[track_caller]
    fn places(&self, leaves: &[Tensor], treedef: &TreeDef) -> Vec<usize> {
        let found = number_of_parameters(treedef);
        assert!(
            found == self.parameters,
            "cannot average: expected a model with {} parameters, found {found}; make a new average for this model",
            self.parameters
        );
        let paths = treedef.leaf_paths();
        let mut places = paths.iter().zip(leaves).enumerate();
        let wanted = self.average.treedef().leaf_paths();
        let wanted = wanted.iter().zip(self.average.leaves());
        wanted
            .map(|(path, average)| {
                let Some((place, (_, leaf))) = places.find(|(_, (found, _))| *found == path) else {
                    missing(path)
                };
                let dtype = at_least_f32_dtype(leaf.dtype());
                assert!(
                    average.shape() == leaf.shape() && average.dtype() == dtype,
                    "cannot average {}: expected {}, found {}; make a new average for this model",
                    path.or_root(),
                    average.info(),
                    leaf.info()
                );
                place
            })
            .collect()
    }
}

#[cold]
#[track_caller]
fn missing(path: &KeyPath) -> ! {
    panic!(
        "cannot average {}: the model has no such leaf; make a new average for this model",
        path.or_root()
    )
}

/// Returns the number of leaves that are not states.
fn number_of_parameters(treedef: &TreeDef) -> usize {
    let kinds = treedef.leaf_kinds().into_iter();
    kinds
        .filter(|kind| !matches!(kind, Some(LeafKind::State(_))))
        .count()
}
