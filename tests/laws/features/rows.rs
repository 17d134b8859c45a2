//! The rows of the table: models of one program, each with another feature.
//!
//! Every model has the leaves `weight`, `bias`, `mean` and `count`. The weight is orthogonal, so a weight norm, a spectral
//! norm and a quantisation do not change it.

use pytree::kind::{BatchStat, Intermediate, Perturbation};
use pytree::nn::{
    Forward, Intermediates, Lora, Perturbed, Quantized, Sown, SpectralNorm, WeightNorm, capture,
    forward,
};
use pytree::optim::{
    Chain, LossScale, MixedPrecision, Momentum, Optimizer, ParameterAverage, accumulate, adafactor,
    adam, apply_if_finite, groups, lion, masked, set_to_zero, sgd_momentum,
};
use pytree::random::{Key, RngStream};
use pytree::{
    DType, Filter, Freeze, Model, Module, Partition, Ref, Shared, Tensor, Tree, WeakRef,
    WeakShared, graph, partition,
};

pub fn weight() -> Tensor {
    Tensor::from([[0.0_f32, 1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
}

/// The program: it reads two parameters, uses the weight twice, and writes two states.
pub fn program(
    [weight, bias]: [&Tensor; 2],
    [mean, count]: [&mut Tensor; 2],
    x: &Tensor,
) -> Tensor {
    let hidden = (x.convert(weight.dtype()).matmul(weight) + bias).tanh();
    let y = hidden.matmul(weight);
    *mean = &*mean * 0.5 + y.convert(mean.dtype()).mean_axes([0]) * 0.5;
    *count = &*count + 1;
    y
}

/// The program without a feature.
#[derive(Module, Clone, Debug)]
pub struct Plain {
    #[param("in out", roles(input, output))]
    pub weight: Tensor,
    #[param("out")]
    pub bias: Tensor,
    #[state(BatchStat, "out")]
    pub mean: Tensor,
    #[state]
    pub count: Tensor,
}

impl Plain {
    pub fn new() -> Self {
        Self {
            weight: weight(),
            bias: Tensor::from([0.25_f32, -0.5, 0.125]),
            mean: Tensor::zeros(DType::F32, [3]),
            count: Tensor::from(0),
        }
    }
    pub fn forward(&mut self, x: &Tensor) -> Tensor {
        let states = [&mut self.mean, &mut self.count];
        program([&self.weight, &self.bias], states, x)
    }
}

/// Parameters that are tied.
#[derive(Module, Clone, Debug)]
pub struct Tied {
    #[param("in out", roles(input, output))]
    weight: Shared<Tensor>,
    #[param("in out", roles(input, output))]
    same: Shared<Tensor>,
    #[param]
    bias: Shared<Tensor>,
    #[param]
    again: Shared<Tensor>,
    #[state(BatchStat)]
    mean: Tensor,
    #[state]
    count: Tensor,
}

impl Tied {
    fn new() -> Self {
        let Plain {
            weight,
            bias,
            mean,
            count,
        } = Plain::new();
        let (weight, bias) = (Shared::new(weight), Shared::new(bias));
        Self {
            same: weight.clone(),
            weight,
            again: bias.clone(),
            bias,
            mean,
            count,
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let bias = (&*self.bias + &*self.again) * 0.5;
        let hidden = (x.convert(self.weight.dtype()).matmul(&self.weight) + bias).tanh();
        let y = hidden.matmul(&self.same);
        self.mean = &self.mean * 0.5 + y.convert(self.mean.dtype()).mean_axes([0]) * 0.5;
        self.count = &self.count + 1;
        y
    }
}

/// Parameters and states in references, with two handles each.
#[derive(Module, Clone, Debug)]
pub struct Referenced {
    #[param("in out", roles(input, output))]
    weight: Ref<Tensor>,
    #[param]
    bias: Ref<Tensor>,
    #[state(BatchStat)]
    mean: Ref<Tensor>,
    #[state]
    count: Ref<Tensor>,
    #[state]
    counted: Ref<Tensor>,
}

impl Referenced {
    fn new() -> Self {
        let Plain {
            weight,
            bias,
            mean,
            count,
        } = Plain::new();
        let count = Ref::new(count);
        Self {
            weight: Ref::new(weight),
            bias: Ref::new(bias),
            mean: Ref::new(mean),
            counted: count.clone(),
            count,
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let (mut mean, mut count) = (self.mean.get(), self.counted.get());
        let states = [&mut mean, &mut count];
        let y = program([&self.weight.get(), &self.bias.get()], states, x);
        self.mean.set(mean);
        self.count.set(count);
        y
    }
}

/// Two heads on one body, which is a reference.
#[derive(Module, Clone, Debug)]
pub struct Heads {
    left: Ref<Plain>,
    right: Ref<Plain>,
}

impl Heads {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.left.same(&self.right).then_some(()).expect("one body");
        self.right.modify(|body| body.forward(x))
    }
}

/// A shared node that holds itself, and references.
#[derive(Module, Clone, Debug)]
pub struct Node {
    inner: Referenced,
    itself: WeakShared<Node>,
}

#[derive(Module, Clone, Debug)]
pub struct Cyclic {
    root: Shared<Node>,
    again: Shared<Node>,
}

impl Cyclic {
    fn new() -> Self {
        let root = Shared::new_cyclic(|itself| Node {
            inner: Referenced::new(),
            itself: itself.clone(),
        });
        Self {
            again: root.clone(),
            root,
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let node = self.root.itself.upgrade().expect("the node holds itself");
        assert!(node.same(&self.again));
        node.inner.clone().forward(x)
    }
}

/// A reference whose value holds a handle of the reference.
#[derive(Module, Clone, Debug)]
pub struct Link {
    body: Plain,
    back: WeakRef<Link>,
}

#[derive(Module, Clone, Debug)]
pub struct Ring {
    link: Ref<Link>,
}

impl Ring {
    fn new() -> Self {
        let link = Ref::new(Link {
            body: Plain::new(),
            back: WeakRef::new(),
        });
        link.modify(|value| value.back = link.downgrade());
        Self { link }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let back = self
            .link
            .get()
            .back
            .upgrade()
            .expect("the link holds itself");
        assert!(back.same(&self.link));
        back.modify(|link| link.body.forward(x))
    }
}

/// A model that computes in another dtype than it stores.
#[derive(Module, Clone, Debug)]
pub struct Mixed<M> {
    model: M,
    #[r#static]
    precision: MixedPrecision,
}

impl<M: Model + Forward> Mixed<M> {
    fn new(model: M) -> Self {
        let precision = MixedPrecision {
            compute: DType::F64,
            output: DType::F32,
        };
        Self { model, precision }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let Self { model, precision } = self;
        let y = precision.compute_mut(model, |model| Forward::forward(model, x));
        precision.output(&y)
    }
}
impl<M: Model + Forward> Forward for Mixed<M> {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        Self::forward(self, x)
    }
}

#[derive(Module, Clone, Debug)]
pub enum Choice {
    Other(#[param] Tensor),
    Layer {
        layer: Plain,
        missing: Option<Plain>,
    },
}

#[derive(Module, Clone, Debug)]
pub struct Optional {
    choice: Choice,
    #[param]
    missing: Option<Tensor>,
    list: Vec<Option<Choice>>,
}

impl Optional {
    fn new() -> Self {
        let choice = Choice::Layer {
            layer: Plain::new(),
            missing: None,
        };
        let other = Choice::Other(Tensor::from(1.0_f32));
        Self {
            choice,
            missing: None,
            list: vec![None, Some(other)],
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        match &mut self.choice {
            Choice::Layer { layer, .. } => layer.forward(x),
            Choice::Other(_) => unreachable!("the choice is a layer"),
        }
    }
}

/// Parts of a model, a frozen model and a dynamic tree.
#[derive(Module, Clone, Debug)]
pub struct Parts {
    parts: [Partition<Plain>; 2],
    frozen: Freeze<Tied>,
    #[state]
    tree: Tree<Tensor>,
}

impl Parts {
    fn new() -> Self {
        let tied = Tied::new();
        Self {
            parts: partition::split(
                &Plain::new(),
                [Filter::path("weight"), Filter::everything()],
            )
            .expect("two parts"),
            tree: graph::map_to(&tied, |leaf: &Tensor| leaf * 2),
            frozen: Freeze::frozen(tied),
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let mut model = partition::merge(self.parts.clone()).expect("all parts");
        let y = model.forward(x);
        self.parts = partition::split(&model, [Filter::path("weight"), Filter::everything()])
            .expect("two parts");
        y
    }
}

/// States whose structure changes, in a shared node and beside it.
#[derive(Module, Clone, Debug)]
pub struct Sowing {
    layer: Tied,
    #[state(Intermediate)]
    sown: Sown,
    #[state(Intermediate)]
    named: Intermediates,
    #[state(Intermediate)]
    seen: Option<Tensor>,
}

impl Sowing {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = self.layer.forward(x);
        self.sown.sow(y.clone());
        self.named.sow("y", y.clone());
        self.seen = Some(y.clone());
        y
    }
}

/// States whose structure changes and that are removed after each run.
#[derive(Module, Clone, Debug)]
pub struct Captured {
    sowing: Sowing,
    #[state(Perturbation)]
    perturbed: Perturbed,
}

impl Captured {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let filter = Filter::state::<Intermediate>();
        let (y, captured) = capture(&mut self.sowing, &filter, |sowing| sowing.forward(x));
        assert_eq!(captured.len(), 3);
        self.perturbed.perturb(&y)
    }
}

/// Random streams, one of them in a reference.
#[derive(Module, Clone, Debug)]
pub struct Random {
    layer: Plain,
    own: RngStream,
    shared: Ref<RngStream>,
}

impl Random {
    fn new() -> Self {
        let stream = |seed| RngStream::new("noise", Key::new(seed));
        Self {
            layer: Plain::new(),
            own: stream(0),
            shared: Ref::new(stream(1)),
        }
    }
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let noise = self.own.next_key().normal(DType::F32, [3]);
        let noise = noise
            + self
                .shared
                .modify(|stream| stream.next_key().normal(DType::F32, [3]));
        self.layer.forward(x) + noise * 0.0
    }
}

/// A tied model beside its optimizers, its average and a loss scale.
#[derive(Module, Clone, Debug)]
pub struct Trained {
    model: Tied,
    optimizers: Vec<Optimizer<Tied>>,
    averages: [ParameterAverage; 2],
    scale: LossScale,
}

impl Trained {
    fn new() -> Self {
        let model = Tied::new();
        let chains: [Chain; 7] = [
            adam(1e-2),
            adafactor(1e-2),
            accumulate(2, sgd_momentum(1e-2, 0.9, Momentum::Nesterov)),
            masked(Filter::path_contains("bias"), lion(1e-2, 0.0)),
            apply_if_finite(3, adam(1e-2)),
            groups([
                (Filter::path("weight"), adam(1e-2)),
                (Filter::everything(), set_to_zero()),
            ]),
            pytree::optim::ema(0.5),
        ];
        let filter = Filter::path("weight");
        let part = Optimizer::with_filter(&model, adam(1e-2), &filter);
        let optimizers = chains
            .map(|chain| Optimizer::new(&model, chain))
            .into_iter();
        Self {
            optimizers: optimizers.chain([part]).collect(),
            averages: [
                ParameterAverage::new(&model, 0.5).with_warm_up(2.0),
                ParameterAverage::with_filter(&model, 0.5, &filter),
            ],
            scale: LossScale::dynamic(),
            model,
        }
    }
    /// Also updates the optimizers with a copy of the model, by gradients that are 0.
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = self.model.forward(x);
        let mut model = self.model.clone();
        for (position, optimizer) in self.optimizers.iter_mut().enumerate() {
            let filter = match position {
                7 => Filter::path("weight"),
                _ => Filter::param(),
            };
            let zeros = partition::filter::<Tied, Tensor>(&model, &filter)
                .map(|leaf| Tensor::zeros_like(leaf).stop_gradient());
            optimizer.update(&mut model, &zeros);
            self.scale.adjust(&zeros);
        }
        for average in &mut self.averages {
            average.update(&self.model);
        }
        y
    }
}

forward!(
    Plain, Tied, Referenced, Heads, Cyclic, Ring, Optional, Parts, Sowing, Captured, Random,
    Trained
);

/// Defines the model of all rows: an enum with a variant for each row.
macro_rules! rows {
    ($($name:ident: $type:ty = $new:expr;)*) => {
        #[derive(Module, Clone, Debug)]
        pub enum Row {
            $($name($type),)*
        }

        impl Row {
            pub fn forward(&mut self, x: &Tensor) -> Tensor {
                match self {
                    $(Self::$name(model) => Forward::forward(model, x),)*
                }
            }
        }

        /// The name of each row, and the function that builds its model.
        pub const ROWS: &[(&str, fn() -> Row)] = &[$((stringify!($name), || Row::$name($new)),)*];
    };
}

fn all() -> Filter {
    Filter::param()
}
fn rngs() -> pytree::random::Rngs {
    pytree::random::Rngs::new(0)
}

rows! {
    Plain: Plain = Plain::new();
    Tied: Tied = Tied::new();
    Referenced: Referenced = Referenced::new();
    Heads: Heads = heads();
    Cyclic: Cyclic = Cyclic::new();
    Ring: Ring = Ring::new();
    LoraTied: Lora<Tied> = Lora::new(&Tied::new(), &all(), 1, &mut rngs());
    LoraReferenced: Lora<Referenced> = Lora::new(&Referenced::new(), &all(), 1, &mut rngs());
    WeightNorm: WeightNorm<Tied> = WeightNorm::new(&Tied::new(), &Filter::path("weight"));
    SpectralNorm: SpectralNorm<Referenced> =
        SpectralNorm::new(&Referenced::new(), &Filter::path("weight"), &mut rngs());
    Quantized: Quantized<Tied> = Quantized::new(&Tied::new(), &Filter::path("weight"));
    QuantizedCaptured: Quantized<Captured> =
        Quantized::new(&captured(), &Filter::path("sowing.layer.weight"));
    QuantizedHeads: Quantized<Heads> =
        Quantized::new(&heads(), &Filter::path("left.weight"));
    MixedTied: Mixed<Tied> = Mixed::new(Tied::new());
    MixedReferenced: Mixed<Referenced> = Mixed::new(Referenced::new());
    MixedCaptured: Mixed<Captured> = Mixed::new(captured());
    MixedHeads: Mixed<Heads> = Mixed::new(heads());
    LoraHeads: Lora<Heads> = Lora::new(&heads(), &all(), 1, &mut rngs());
    WeightNormCyclic: WeightNorm<Cyclic> =
        WeightNorm::new(&Cyclic::new(), &Filter::path("root.inner.weight"));
    SpectralNormRing: SpectralNorm<Ring> =
        SpectralNorm::new(&Ring::new(), &Filter::path("link.body.weight"), &mut rngs());
    Optional: Optional = Optional::new();
    Boxed: Box<dyn Forward> = Box::new(Tied::new());
    Parts: Parts = Parts::new();
    Sowing: Sowing = sowing();
    LoraSowing: Lora<Sowing> = Lora::new(&sowing(), &all(), 1, &mut rngs());
    MixedSowing: Mixed<Sowing> = Mixed::new(sowing());
    QuantizedSowing: Quantized<Sowing> =
        Quantized::new(&sowing(), &Filter::path("layer.weight"));
    Captured: Captured = captured();
    Random: Random = Random::new();
    Trained: Trained = Trained::new();
}

fn heads() -> Heads {
    let left = Ref::new(Plain::new());
    Heads {
        right: left.clone(),
        left,
    }
}
fn sowing() -> Sowing {
    Sowing {
        layer: Tied::new(),
        sown: Sown::new(),
        named: Intermediates::new(),
        seen: None,
    }
}
fn captured() -> Captured {
    let mut perturbed = Perturbed::new();
    let _ = perturbed.perturb(&Tensor::zeros(DType::F32, [2, 3]));
    Captured {
        sowing: sowing(),
        perturbed,
    }
}
