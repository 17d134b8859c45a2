//! Streams of random keys, alone, in models and through transformations.
//!
//! What Flax NNX shows of them in its own tests, by behaviour, and where it is shown here:
//!
//! - [x] a key is drawn without a name: `streams_fall_back_to_the_default`
//! - [x] a name without a stream falls back to the default, or is an error: the same, and
//!   `random::rngs::tests::missing_stream_lists_existing_streams`
//! - [x] a stream counts what it gave, and keeps its key: `a_stream_counts_and_keeps_its_key`
//! - [x] a stream is not written from inside of a transformation that captured it: does not compile, which
//!   `tests/ui/use/captured_mutation.rs` shows, and in a reference it is an error: `captured_streams_are_not_drawn_from`;
//!   one that left a transformation is an error, too: `stream_that_left_its_transformation_is_refused`
//! - [x] streams that several layers draw from: `layers_may_share_their_streams`
//! - [x] `jit` returns counts: `compiled_function_returns_counts`
//! - [x] keys of one stream are mapped over, those of another are not: `streams_can_be_mapped_separately`
//! - [x] new seeds: `reseeded_model_draws_like_a_new_one`
//! - [x] streams split by a number or a shape, forked, broadcast; all, by name, the first rule that fits, some split and
//!   the rest forked, those without a rule as they were: `streams_are_changed_as_in_flax`
//! - [x] the keys of the streams that are split stay: the same
//! - [x] two rules for one stream: a `match` has one arm for it, so that there is nothing to show
//! - [x] streams in any pytree: `streams_are_found_in_any_pytree`
//! - [x] streams restored after they were split: `with_rngs` gives others, so that there is nothing to restore; other
//!   states return to the model: `states_beside_split_streams_return_to_the_model`
//! - [x] streams that are not split: `unsplit_streams_are_refused_unless_recorded`, `loop_does_not_advance_captured_stream`
//! - [x] a step of a loop for each of the split streams: `loop_draws_from_split_streams`
//! - [x] an ensemble whose members have streams of their own: `ensemble_is_created_from_split_streams`
//! - [x] numbers and initialisers from streams: `numbers_are_drawn_as_in_flax`
//! - [x] an unknown attribute: streams have names and no attributes

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use pytree_core::kind::{BatchStat, RngState};
use pytree_core::{Filter, Module, Partition, Ref, Shared, Tree, TreeDef, graph, partition};
use pytree_nn::{Dropout, Initializer, Key, Linear, RngStream, Rngs, eval, reseed, with_rngs};
use pytree_transform::{
    Axes, DType, Tensor, grad, ix, jacfwd, jit, jit_mut, scan, value_and_grad_mut, vmap, vmap_mut,
};
use serde_json::Value;

use crate::support::{close, golden, tensor};

#[track_caller]
fn assert_stream(stream: &RngStream, expected: &Value) {
    assert_eq!(stream.tag(), expected["tag"].as_str().unwrap());
    assert_eq!(*stream.key().data(), tensor(&expected["key"]));
    assert_eq!(*stream.count(), tensor(&expected["count"]));
}

#[track_caller]
fn assert_streams(rngs: &Rngs, expected: &Value) {
    let expected = expected.as_array().unwrap();
    assert_eq!(rngs.streams().count(), expected.len());
    for (name, stream) in rngs.streams() {
        let expected = expected.iter().find(|stream| stream["name"] == name);
        assert_stream(stream, expected.unwrap());
    }
}

#[test]
fn streams_fall_back_to_the_default() {
    let mut rngs = Rngs::with([("default", 0), ("params", 1)]);
    assert_eq!(rngs.next("default"), Key::new(0).fold_in(0));
    assert_eq!(rngs.dropout(), Key::new(0).fold_in(1));
    assert_eq!(rngs.next("anything"), Key::new(0).fold_in(2));
    assert_eq!(rngs.params(), Key::new(1).fold_in(0));
    let error = Rngs::with([("some_name", 0)]).try_next("dropout");
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("a stream `dropout`")
    );
}

#[test]
fn a_stream_counts_and_keeps_its_key() {
    let mut stream = RngStream::new("params", Key::new(0));
    let mut drawn = vec![Key::new(0)];
    for count in 0..3_u32 {
        assert_eq!(stream.count().item::<u32>(), count);
        let key = stream.next_key();
        assert!(!drawn.contains(&key));
        drawn.push(key);
        assert_eq!(stream.key(), &Key::new(0));
    }
}

#[test]
#[should_panic(
    expected = "the jit that made it has finished, or runs on another thread; return the tensor from the function"
)]
fn stream_that_left_its_transformation_is_refused() {
    let left = Arc::new(Mutex::new(None));
    let place = Arc::clone(&left);
    let leak = jit(move |x: Tensor| {
        let mut stream = RngStream::new("default", Key::new(1).fold_in(x.clone()));
        let _ = stream.next_key();
        *place.lock().unwrap() = Some(stream);
        x
    });
    let _ = leak(Tensor::from(1));
    let mut stream = left.lock().unwrap().take().unwrap();
    let _ = stream.next_key();
}

/// A layer that draws from streams that it is given.
#[derive(Module, Clone, Debug)]
struct Given {
    linear: Linear,
}

impl Given {
    fn forward(&self, x: &Tensor, rngs: &mut Rngs) -> Tensor {
        let x = self.linear.forward(x);
        let keep = rngs.dropout().bernoulli(0.5, x.shape());
        keep.select(&x / 0.5, Tensor::zeros_like(&x))
    }
}

#[test]
fn compiled_function_returns_counts() {
    let mut rngs = Rngs::new(0);
    let model = Given {
        linear: Linear::new(2, 2, &mut rngs),
    };
    let count = |rngs: &Rngs| rngs.streams().next().unwrap().1.count().item::<u32>();
    assert_eq!(count(&rngs), 2);
    let run = jit(|(model, x, mut rngs): (Given, Tensor, Rngs)| {
        let x = model.forward(&x, &mut rngs);
        (model.forward(&x, &mut rngs), rngs)
    });
    let x = Tensor::ones(DType::F32, [2, 2]);
    let (y, after) = run((model.clone(), x.clone(), rngs.clone()));
    assert_eq!(count(&after), 4);
    let (other, after) = run((model.clone(), x.clone(), after));
    assert_eq!(count(&after), 6);
    assert_ne!(y, other);
    let first = model.forward(&x, &mut rngs);
    assert_eq!(model.forward(&first, &mut rngs), y);
    assert_eq!(run.traces(), 1);
}

/// Draws from two streams of its own.
#[derive(Module, Clone, Debug)]
struct Own {
    rngs: Rngs,
    linear: Linear,
}

type OwnPart = Partition<Own, Tensor>;

#[test]
fn streams_can_be_mapped_separately() {
    let mut rngs = Rngs::with([("params", 0), ("dropout", 1)]);
    let linear = Linear::new(2, 3, &mut rngs);
    let mut own = Own { rngs, linear };
    let dropout = Filter::state::<RngState>() & Filter::path_contains("dropout");
    let keys = dropout.clone() & Filter::path_contains("key");
    let counts = Filter::state::<RngState>() & Filter::path_contains("count");
    let filters = [keys, counts, Filter::everything()];
    let [dropout_keys, rng_counts, rest]: [Partition<_, Tensor>; 3] =
        partition::split(&own, filters).unwrap();
    assert_eq!((dropout_keys.len(), rng_counts.len()), (1, 2));
    let dropout_keys =
        dropout_keys.map(|key| Key::from_data(key.clone()).split_stacked(4).data().clone());
    let run = |(keys, counts, rest, x): (OwnPart, OwnPart, OwnPart, Tensor)| {
        let mut own: Own = partition::merge([keys, counts, rest]).unwrap();
        let y = own.linear.forward(&x);
        let y = own
            .rngs
            .dropout()
            .bernoulli(0.5, y.shape())
            .select(&y, Tensor::zeros_like(&y));
        (
            y,
            partition::filter(
                &own,
                &(Filter::state::<RngState>() & Filter::path_contains("count")),
            ),
        )
    };
    let x = Tensor::ones(DType::F32, [4, 1, 2]);
    let mapped = vmap(run)
        .in_axes((0, None, None, 0))
        .out_axes((Some(0), None));
    let (y, counts) = mapped((dropout_keys, rng_counts, rest, x));
    assert_eq!(y.shape(), [4, 1, 3]);
    own = partition::replace(&own, &counts).unwrap();
    let counts: Vec<_> = own
        .rngs
        .streams()
        .map(|(_, stream)| stream.count().item::<u32>())
        .collect();
    assert_eq!(counts, [1, 2]); // of dropout and params
    let rows = y.reshape([4, 3]).to_vec::<f32>();
    let mut rows: Vec<_> = rows
        .chunks(3)
        .map(|row| row.iter().map(|y| *y != 0.0).collect::<Vec<_>>())
        .collect();
    rows.sort();
    rows.dedup();
    assert!(rows.len() > 1, "each example has a key of its own");
}

#[test]
fn streams_are_changed_as_in_flax() {
    let file = golden("rngs");
    let check = |name: &str, change: fn(&mut RngStream) -> RngStream| {
        let mut rngs = Rngs::with([("params", 0), ("dropout", 1), ("noise", 2)]);
        let changed = with_rngs(&mut rngs, change);
        assert_streams(&changed, &file["with_rngs"][name]["new"]);
        assert_streams(&rngs, &file["with_rngs"][name]["parent_after"]);
    };
    check("split", |stream| stream.split([4]));
    check("split_shape", |stream| stream.split([2, 3]));
    check("fork", RngStream::fork);
    check("broadcast", |stream| stream.broadcast([5]));
    check("split_by_name", |stream| match stream.tag() {
        "params" => stream.split([4]),
        _ => stream.split([2, 3]),
    });
    check("split_some_fork_rest", |stream| match stream.tag() {
        "params" => stream.split([4]),
        _ => stream.fork(),
    });
    check("fork_one", |stream| match stream.tag() {
        "params" => stream.fork(),
        _ => stream.clone(),
    });
    check("broadcast_one", |stream| match stream.tag() {
        "params" => stream.broadcast([5]),
        _ => stream.clone(),
    });
}

#[test]
fn streams_are_found_after_reading_bytes() {
    let streams = vec![
        RngStream::new("a", Key::new(0)),
        RngStream::new("b", Key::new(1)),
    ];
    let (leaves, treedef) = graph::flatten::<Tensor, _>(&streams);
    let read = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
    let tree: Tree<Tensor> = graph::unflatten(&read, leaves).unwrap();
    let other = reseed(&tree, [("b", 7)]);
    let expected = reseed(&streams, [("b", 7)]);
    assert_ne!(expected, streams);
    assert_eq!(other.leaves(), graph::flatten::<Tensor, _>(&expected).0);
}

#[test]
fn streams_are_found_in_any_pytree() {
    let shared = Shared::new(RngStream::new("shared", Key::new(2)));
    let mut tree = (
        vec![
            RngStream::new("a", Key::new(0)),
            RngStream::new("b", Key::new(1)),
        ],
        Some(shared.clone()),
        shared,
        Tensor::from(1.0_f32),
    );
    let mut met = Vec::new();
    let split = with_rngs(&mut tree, |stream| {
        met.push(stream.tag().to_owned());
        stream.split([3])
    });
    assert_eq!(met, ["a", "b", "shared"]);
    assert_eq!(
        split.0[1].key().data(),
        Key::new(1).fold_in(0).split_stacked(3).data()
    );
    assert!(
        split.2.same(split.1.as_ref().unwrap()),
        "what was shared is shared"
    );
    assert_eq!(split.2.key().data().shape(), [3, 2]);
    assert_eq!(
        (tree.0[0].key(), tree.0[0].count().item::<u32>()),
        (&Key::new(0), 1)
    );
    assert!(tree.2.same(tree.1.as_ref().unwrap()));
    assert_eq!(split.3, tree.3);
    // A part of a model that has no streams, or only their counts, is as it was.
    let counts: Partition<_, Tensor> = partition::filter(&tree, &Filter::path_contains("count"));
    assert_eq!(with_rngs(&mut counts.clone(), |_| unreachable!()), counts);
}

/// A layer that draws from streams that others draw from, too.
#[derive(Module, Clone, Debug)]
struct Sharing {
    rngs: Ref<Rngs>,
}

impl Sharing {
    fn next_key(&self) -> Key {
        let mut rngs = self.rngs.get();
        let key = rngs.dropout();
        self.rngs.set(rngs);
        key
    }
}

#[test]
fn captured_streams_are_not_drawn_from() {
    fn message<T>(run: impl FnOnce() -> T) -> String {
        let error = catch_unwind(AssertUnwindSafe(run)).err().unwrap();
        *error.downcast::<String>().unwrap()
    }
    let layer = Sharing {
        rngs: Ref::new(Rngs::new(0)),
    };
    let captured = layer.clone();
    let text =
        message(|| jit(move |x: Tensor| x + captured.next_key().uniform(DType::F32, []))(ones()));
    assert!(
        text.starts_with(
            "cannot read a reference inside of `jit` if the reference was created outside"
        ),
        "{text}"
    );
    let text = message(|| vmap(|x: Tensor| x + layer.next_key().uniform(DType::F32, []))(ones()));
    assert!(
        text.starts_with("cannot draw a key from the stream `default` inside of `vmap`"),
        "{text}"
    );
    let kept = Mutex::new(None);
    let leak = vmap(|x: Tensor| {
        *kept.lock().unwrap() = Some(Sharing {
            rngs: Ref::new(Rngs::new(1)),
        });
        x
    });
    let _ = leak(ones());
    let left = kept.lock().unwrap().take().unwrap();
    let text = message(|| left.next_key());
    assert!(
        text.contains("created inside of `vmap`, which has finished"),
        "{text}"
    );
    assert_eq!(
        layer.next_key(),
        Key::new(0).fold_in(0),
        "nothing was drawn"
    );
}

#[test]
fn layers_may_share_their_streams() {
    let rngs = Ref::new(Rngs::new(0));
    let layers = vec![
        Sharing { rngs: rngs.clone() },
        Sharing { rngs: rngs.clone() },
    ];
    assert_eq!(layers[0].next_key(), Key::new(0).fold_in(0));
    assert_eq!(layers[1].next_key(), Key::new(0).fold_in(1));
    let draw = jit(|layers: Vec<Sharing>| {
        let keys: Vec<Key> = layers.iter().map(Sharing::next_key).collect();
        keys
    });
    assert_eq!(
        draw(layers.clone()),
        [Key::new(0).fold_in(2), Key::new(0).fold_in(3)]
    );
    assert_eq!(rngs.get().dropout(), Key::new(0).fold_in(4));
    // Split: once, for both, and what is shared has advanced at all places.
    let mut layers = layers;
    let split = with_rngs(&mut layers, |stream| stream.split([2]));
    assert!(split[0].rngs.same(&split[1].rngs));
    assert!(!split[0].rngs.same(&rngs));
    assert!(layers[0].rngs.same(&rngs));
    assert_eq!(rngs.get().dropout(), Key::new(0).fold_in(5));
}

/// Two layers that drop, each with a stream of its own.
#[derive(Module, Clone, Debug, PartialEq)]
struct TwoDropouts {
    first: Dropout,
    second: Dropout,
}

impl TwoDropouts {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::with([("dropout", seed)]);
        Self {
            first: Dropout::new(0.5, &mut rngs),
            second: Dropout::new(0.25, &mut rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.second.forward(&self.first.forward(x))
    }

    #[track_caller]
    fn assert_state(&self, expected: &Value) {
        assert_stream(self.first.stream(), &expected[0]);
        assert_stream(self.second.stream(), &expected[1]);
    }
}

fn ones() -> Tensor {
    Tensor::ones(DType::F32, [4, 6])
}

/// Streams are mapped over, nothing else is.
fn streams_mapped() -> Axes {
    Axes::filter([
        (Filter::state::<RngState>(), Some(0)),
        (Filter::everything(), None),
    ])
}

#[test]
fn reseeded_model_draws_like_a_new_one() {
    let file = &golden("rngs")["model"];
    let mut model = TwoDropouts::new(42);
    let first = model.forward(&ones());
    close(&first, &tensor(&file["first"]), 1e-6, "first");
    let run = jit(|(mut model, x): (TwoDropouts, Tensor)| {
        let y = model.forward(&x);
        (model, y)
    });
    let y;
    (model, y) = run((model, ones()));
    close(&y, &tensor(&file["under_jit"]), 1e-6, "under jit");
    model.assert_state(&file["after"]);
    let other = reseed(&model, [("dropout", 7), ("params", 1)]);
    other.assert_state(&file["reseeded"]);
    assert_eq!(other, TwoDropouts::new(7));
    assert_eq!(reseed(&model, [("params", 1)]), model);
    let mut again = reseed(&other, [("dropout", 42)]);
    assert_eq!(again.forward(&ones()), first);
}

#[test]
fn each_example_drops_others() {
    let file = &golden("rngs")["model"];
    let mut model = TwoDropouts::new(3);
    let mut each = with_rngs(&mut model, |stream| stream.split([4]));
    let forward = |(model, x): (&mut TwoDropouts, Tensor)| model.forward(&x);
    let mapped = vmap_mut(forward).in_axes((streams_mapped(), 0));
    let y = mapped((&mut each, ones()));
    close(&y, &tensor(&file["per_example"]), 1e-6, "per example");
    each.assert_state(&file["split_after"]);
    model.assert_state(&file["model_after_split"]);
    reseed(&each, [("dropout", 5)]).assert_state(&file["split_reseeded"]);
    // At rest nothing is drawn.
    let mut at_rest = eval(&each);
    assert_eq!(mapped((&mut at_rest, ones())), ones());

    let mut model = TwoDropouts::new(3);
    let mut same = with_rngs(&mut model, |stream| stream.broadcast([4]));
    let y = mapped((&mut same, ones()));
    close(&y, &tensor(&file["same_for_all"]), 1e-6, "same for all");
}

#[test]
fn counts_are_carried_through_a_loop() {
    let file = &golden("rngs")["model"];
    let step = |mut model: TwoDropouts, x: Tensor| {
        let y = model.forward(&x);
        (model, y)
    };
    let (model, y) = scan(step, TwoDropouts::new(9), ones());
    close(&y, &tensor(&file["scanned"]), 1e-6, "scanned");
    model.assert_state(&file["after_scan"]);
}

/// A layer that drops, and counts its calls in a state that is not random.
#[derive(Module, Clone, Debug)]
struct Counted {
    dropout: Dropout,
    #[state(BatchStat)]
    calls: Tensor,
}

impl Counted {
    fn new() -> Self {
        Self {
            dropout: Dropout::new(0.5, &mut Rngs::with([("dropout", 3)])),
            calls: Tensor::from(0),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.calls = &self.calls + 1;
        self.dropout.forward(x)
    }

    #[track_caller]
    fn assert_state(&self, expected: &Value) {
        assert_stream(self.dropout.stream(), &expected["stream"]);
        assert_eq!(self.calls, tensor(&expected["calls"]));
    }
}

#[test]
fn states_beside_split_streams_return_to_the_model() {
    let file = &golden("rngs")["splits"]["split_twice"];
    let mapped = vmap_mut(|(model, x): (&mut Counted, Tensor)| model.forward(&x))
        .in_axes((streams_mapped(), 0));
    let mut model = Counted::new();
    for call in 0..2 {
        let mut each = with_rngs(&mut model, |stream| stream.split([4]));
        let y = mapped((&mut each, ones()));
        close(&y, &tensor(&file["results"][call]), 1e-6, "split");
        let written = partition::filter(&each, &!Filter::state::<RngState>());
        partition::update(&mut model, &written).unwrap();
    }
    model.assert_state(file);
}

/// In Flax NNX all examples drop the same elements, without a warning.
#[test]
fn unsplit_streams_are_refused_unless_recorded() {
    let file = &golden("rngs")["splits"];
    let expected = &file["unsplit"];
    let y = tensor(&expected["results"][0]);
    for row in 1..4 {
        assert_eq!(y.index(ix![row]), y.index(ix![0]), "in Flax NNX");
    }
    let forward = |(model, x): (&mut Counted, Tensor)| model.forward(&x);
    let refused = |call: &mut dyn FnMut()| {
        let problem = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        let text = problem.downcast::<String>().unwrap();
        assert!(text.contains("stream.split([examples])"), "{text}");
        assert!(text.contains("stream.broadcast([examples])"), "{text}");
    };
    let mut model = Counted::new();
    let mapped = vmap_mut(forward).in_axes((None, 0));
    refused(&mut || drop(mapped((&mut model, ones()))));
    let compiled = jit_mut(move |(model, x): (&mut Counted, Tensor)| {
        vmap_mut(forward).in_axes((None, 0))((model, x))
    });
    refused(&mut || drop(compiled((&mut model, ones()))));
    assert_eq!(model.calls.item::<i32>(), 0);

    // Inside of a compiled function it is not known where a stream comes from.
    let mapped = vmap_mut(jit_mut(forward)).in_axes((None, 0));
    let y = mapped((&mut model, ones()));
    close(
        &y,
        &tensor(&file["unsplit_jit"]["results"][0]),
        1e-6,
        "in jit",
    );
    model.assert_state(&file["unsplit_jit"]);
}

#[test]
fn loop_draws_from_split_streams() {
    let file = &golden("rngs")["splits"]["scan_split"];
    let mut model = Counted::new();
    let each = with_rngs(&mut model, |stream| stream.split([4]));
    let filters = [Filter::state::<RngState>(), Filter::everything()];
    let [streams, rest] = partition::split(&each, filters).unwrap();
    // The rest is the carry, so that its states are kept.
    let (rest, y) = scan(
        |rest: Partition<Counted, Tensor>, (stream, x): (Partition<Counted, Tensor>, Tensor)| {
            let mut model: Counted = partition::merge([stream, rest]).unwrap();
            let y = model.forward(&x);
            let rest = partition::filter(&model, &!Filter::state::<RngState>());
            (rest, y)
        },
        rest,
        (streams, ones()),
    );
    close(&y, &tensor(&file["results"][0]), 1e-6, "each step");
    // In Flax NNX the writes of a model that is not the carry are lost.
    assert_eq!(tensor(&file["calls"]).item::<i32>(), 0);
    partition::update(&mut model, &rest).unwrap();
    assert_eq!(model.calls.item::<i32>(), 4);
    assert_stream(model.dropout.stream(), &file["stream"]);
}

/// The function of a loop is traced once, so a model that is not the carry begins each step with the same states.
#[test]
fn loop_does_not_advance_captured_stream() {
    let file = &golden("rngs")["splits"]["scan_unsplit"];
    let dropout = Dropout::new(0.5, &mut Rngs::with([("dropout", 3)]));
    let step = |(), x: Tensor| ((), dropout.clone().forward(&x));
    let ((), y) = scan(step, (), ones());
    close(&y, &tensor(&file["results"][0]), 1e-6, "each step");
    assert_stream(dropout.stream(), &file["stream"]);
}

#[test]
fn ensemble_is_created_from_split_streams() {
    let file = &golden("rngs")["splits"]["ensemble"];
    let mut rngs = Rngs::with([("params", 0), ("dropout", 1)]);
    let create = |mut rngs: Rngs| {
        let linear = Linear::new(6, 2, &mut rngs);
        (linear, Dropout::new(0.5, &mut rngs))
    };
    let mut members = vmap(create)(rngs.split(3));
    close(&members.0.weight, &tensor(&file["kernel"]), 1e-6, "kernel");
    assert_streams(&rngs, &file["rngs_after"]);
    let forward = |((linear, dropout), x): (&mut (Linear, Dropout), Tensor)| {
        dropout.forward(&linear.forward(&x))
    };
    let y = vmap_mut(forward).in_axes((0, None))((&mut members, ones()));
    close(&y, &tensor(&file["result"]), 1e-6, "result");
    assert_stream(members.1.stream(), &file["stream"]);
}

/// Weights before the layers that drop.
#[derive(Module, Clone, Debug)]
struct Weighted {
    #[param]
    weights: Tensor,
    dropouts: TwoDropouts,
}

#[test]
fn gradient_returns_counts() {
    let file = &golden("rngs")["model"];
    let mut model = Weighted {
        weights: Tensor::from([0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]),
        dropouts: TwoDropouts::new(11),
    };
    let loss = |model: &mut Weighted| model.dropouts.forward(&(ones() * &model.weights)).sum();
    let (loss, gradient) = value_and_grad_mut(loss)(&mut model);
    close(&loss, &tensor(&file["loss"]), 1e-6, "loss");
    close(
        &gradient["weights"],
        &tensor(&file["gradient"]),
        1e-6,
        "gradient",
    );
    model.dropouts.assert_state(&file["after_gradient"]);
}

#[test]
fn numbers_are_drawn_as_in_flax() {
    let file = &golden("rngs")["draws"];
    let mut rngs = Rngs::with([("default", 0), ("params", 1)]);
    let normal = rngs.normal(DType::F32, [2, 3]);
    close(&normal, &tensor(&file["normal"]), 1e-6, "normal");
    let uniform = rngs.params().uniform(DType::F32, [2, 3]);
    assert_eq!(uniform, tensor(&file["params_uniform"]));
    let initialize =
        |initializer: Initializer, key: Key| initializer.initialize(&key, DType::F32, [2, 3]);
    let drawn = initialize(Initializer::lecun_normal(), rngs.next("default"));
    close(&drawn, &tensor(&file["lecun_normal"]), 1e-6, "lecun_normal");
    let drawn = initialize(Initializer::lecun_uniform(), rngs.params());
    close(
        &drawn,
        &tensor(&file["params_lecun_uniform"]),
        1e-6,
        "lecun_uniform",
    );
    assert_streams(&rngs, &file["after"]);
}

#[test]
#[should_panic(
    expected = "cannot draw a key from the stream `default`, because the stream was split into the keys u32[3,2]: use `vmap` or `vmap_mut` to map over"
)]
fn what_was_split_is_mapped_over() {
    let mut rngs = Rngs::new(0);
    let mut split = rngs.split(3);
    let _ = with_rngs(&mut split, |stream| stream.fork());
}

/// Returns the message of a program that panics.
fn message<T>(program: impl FnOnce() -> T) -> String {
    let call = AssertUnwindSafe(|| drop(program()));
    let problem = catch_unwind(call).unwrap_err();
    *problem.downcast::<String>().unwrap()
}

#[test]
fn stream_that_is_not_mapped_is_rejected_under_vmap() {
    let dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [4, 8]);
    let expected = "cannot draw a key from the stream `default` inside of `vmap`: the stream is the same for all examples";
    // As an argument by value and by `&mut`, captured, and in a gradient for each example.
    let by_value = vmap(|(mut dropout, x): (Dropout, Tensor)| dropout.forward(&x));
    let text = message(|| by_value.in_axes((None, 0))((dropout.clone(), x.clone())));
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("stream.split([examples])"), "{text}");
    assert!(text.contains("stream.broadcast([examples])"), "{text}");
    let by_place = vmap_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x));
    let mut own = dropout.clone();
    let text = message(|| by_place.in_axes((None, 0))((&mut own, x.clone())));
    assert!(text.starts_with(expected), "{text}");
    let captured = vmap(|x: Tensor| dropout.clone().forward(&x));
    assert!(message(|| captured(x.clone())).starts_with(expected));
    let of_example = vmap(|x: Tensor| grad(|x: &Tensor| dropout.clone().forward(x).sum())(&x));
    assert!(message(|| of_example(x.clone())).starts_with(expected));
    // Recorded around the `vmap`.
    let inside = dropout.clone();
    let recorded = jit(move |x: Tensor| vmap(|x: Tensor| inside.clone().forward(&x))(x));
    assert!(message(|| recorded(x.clone())).starts_with(expected));
    // Mapped over the outer axis only.
    let mut parent = dropout.clone();
    let split = with_rngs(&mut parent, |stream| stream.split([4]));
    let nested =
        vmap(|(dropout, x): (Dropout, Tensor)| vmap(|x: Tensor| dropout.clone().forward(&x))(x));
    let axes = Axes::filter([
        (Filter::state::<RngState>(), Some(0)),
        (Filter::everything(), None),
    ]);
    let nested = nested.in_axes((axes, 0));
    let text = message(|| nested((split, Tensor::ones(DType::F32, [4, 2, 8]))));
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn streams_that_are_meant_are_allowed_under_vmap() {
    let x = Tensor::ones(DType::F32, [4, 32]);
    let axes = Axes::filter([
        (Filter::state::<RngState>(), Some(0)),
        (Filter::everything(), None),
    ]);
    let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let drop =
        vmap_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x)).in_axes((axes, 0));
    let mut split = with_rngs(&mut dropout, |stream| stream.split([4]));
    let y = drop((&mut split, x.clone()));
    assert_ne!(y.index(ix![0]), y.index(ix![1]));
    let mut broadcast = with_rngs(&mut dropout, |stream| stream.broadcast([4]));
    let y = drop((&mut broadcast, x.clone()));
    assert_eq!(y.index(ix![0]), y.index(ix![1]));
    // Nothing is drawn.
    let quiet = vmap(|(mut dropout, x): (Dropout, Tensor)| dropout.forward(&x)).in_axes((None, 0));
    assert_eq!(quiet((eval(&dropout), x.clone())), x);
    // The stream is created inside.
    let created = vmap(|x: Tensor| {
        let mut rngs = Rngs::new(1);
        Dropout::new(0.5, &mut rngs).forward(&x) + rngs.fork().normal(DType::F32, [32])
    });
    assert_eq!(created(x.clone()).shape(), [4, 32]);
    // A Jacobian maps directions, not examples.
    let jacobian = jacfwd(|x: &Tensor| dropout.clone().forward(x))(&x.index(ix![0]));
    assert_eq!(jacobian.shape(), [32, 32]);
}
