//! References through transformations: writes reach the caller's references, sharing is kept, and mistakes are
//! errors.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use pytree_core::kind::State;
use pytree_core::{Filter, Module, Pytree, Ref, Shared, WeakRef, WeakShared, graph};
use pytree_transform::{
    Axes, ScanOptions, Tensor, associative_scan, cond, custom_vjp, fori_loop, grad, jacrev, jit,
    jvp, make_jaxpr, remat, scan, scan_with, switch, value_and_grad, value_and_grad_mut, vjp, vmap,
    vmap_mut, while_loop,
};

#[derive(Module, Clone, Debug)]
struct Counted {
    #[param]
    weight: Tensor,
    #[state]
    calls: Ref<Tensor>,
}

fn counted() -> Counted {
    Counted {
        weight: Tensor::from(3.0_f64),
        calls: Ref::new(Tensor::from(0)),
    }
}

impl Counted {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.calls.update(|calls| calls + 1);
        x * &self.weight
    }
}

fn calls(model: &Counted) -> i32 {
    model.calls.get().item()
}

fn panics<T>(function: impl FnOnce() -> T) -> String {
    let error = catch_unwind(AssertUnwindSafe(function))
        .err()
        .expect("it panics");
    match error.downcast::<String>() {
        Ok(text) => *text,
        Err(error) => (*error.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn jit_writes_reach_the_reference() {
    let model = counted();
    let forward = jit(|(model, x): (Counted, Tensor)| model.forward(&model.forward(&x)));
    for round in 1..4 {
        let y = forward((model.clone(), Tensor::from(2.0_f64)));
        assert_eq!(y.item::<f64>(), 18.0);
        assert_eq!(calls(&model), 2 * round);
    }
    assert_eq!(forward.traces(), 1);
}

#[test]
fn jit_returns_the_reference_itself() {
    let model = counted();
    let step = jit(|model: Counted| {
        model.forward(&Tensor::from(1.0_f64));
        (model.calls.clone(), model, Ref::new(Tensor::from(7)))
    });
    let (count, back, fresh) = step(model.clone());
    assert!(count.same(&model.calls) && back.calls.same(&model.calls));
    assert_eq!((calls(&model), fresh.get().item::<i32>()), (1, 7));
    let (_, back, other) = step(back);
    assert!(back.calls.same(&model.calls) && !other.same(&fresh));
    assert_eq!((calls(&model), step.traces()), (2, 1));
}

#[test]
fn shared_references_stay_shared_under_jit() {
    let shared = Ref::new(Tensor::from(1.0));
    let add = jit(
        |(a, b, other): (Ref<Tensor>, Vec<Ref<Tensor>>, Ref<Tensor>)| {
            assert!(a.same(&b[0]) && !a.same(&other));
            a.update(|a| a + 1.0);
            b[0].get() * other.get()
        },
    );
    let other = Ref::new(Tensor::from(10.0));
    let product = add((shared.clone(), vec![shared.clone()], other.clone()));
    assert_eq!(product.item::<f64>(), 20.0);
    assert_eq!(shared.get().item::<f64>(), 2.0);
    assert_eq!(add.traces(), 1);
    // Separate references have another structure.
    let apart = jit(|(a, b): (Ref<Tensor>, Ref<Tensor>)| {
        a.update(|a| a + 1.0);
        b.get()
    });
    assert_eq!(apart((shared.clone(), shared.clone())).item::<f64>(), 3.0);
    assert_eq!(apart((shared.clone(), other.clone())).item::<f64>(), 10.0);
    assert_eq!(apart.traces(), 2);
    assert!(
        apart.why_retraced().unwrap().to_string().contains("alias"),
        "{}",
        apart.why_retraced().unwrap()
    );
}

#[test]
fn reference_to_model_is_replaced_whole() {
    let pair = Ref::new(vec![Tensor::from(1.0), Tensor::from(2.0)]);
    let grow = jit(|pair: Ref<Vec<Tensor>>| {
        pair.update(|mut items| {
            items.push(&items[0] + &items[1]);
            items
        });
    });
    grow(pair.clone());
    grow(pair.clone());
    let items: Vec<f64> = pair.get().iter().map(Tensor::item).collect();
    assert_eq!((items, grow.traces()), (vec![1.0, 2.0, 3.0, 3.0], 2));
}

#[test]
fn grad_writes_are_kept_without_gradient() {
    let model = counted();
    let x = Tensor::from(2.0_f64);
    let gradient = grad(|model: &Counted| model.forward(&x).square())(&model);
    assert_eq!(
        (
            gradient["weight"].item::<f64>(),
            calls(&model),
            gradient.len()
        ),
        (24.0, 1, 1)
    );
    let (loss, _) = value_and_grad(|model: &Counted| model.forward(&x))(&model);
    assert_eq!((loss.item::<f64>(), calls(&model)), (6.0, 2));
    let mut own = model.clone();
    value_and_grad_mut(|model: &mut Counted| {
        model.weight = &model.weight * 2.0;
        model.forward(&x)
    })(&mut own);
    assert!(own.calls.same(&model.calls));
    assert_eq!((calls(&model), own.weight.item::<f64>()), (3, 6.0));
    let (_, pullback) = vjp(|model: &Counted| model.forward(&x), &model);
    assert_eq!(
        pullback.call(&Tensor::from(1.0_f64))["weight"].item::<f64>(),
        2.0
    );
    assert_eq!(calls(&model), 4);
    let (primal, _) = jvp(
        |pair: &(Ref<Tensor>, Tensor)| {
            pair.0.set(&pair.1 * 3.0);
            pair.0.get()
        },
        &(Ref::new(x.clone()), x.clone()),
        &(Ref::new(x.clone()), x.clone()),
    );
    assert_eq!(primal.item::<f64>(), 6.0);
}

#[test]
fn reference_has_its_own_gradient() {
    let weight = Ref::param(Tensor::from(3.0));
    let tied = vec![weight.clone(), weight.clone()];
    let loss = |refs: &Vec<Ref<Tensor>>| refs[0].get() * refs[1].get() * 2.0 + refs[1].get();
    let gradient = grad(loss)(&tied);
    assert_eq!(gradient.len(), 1);
    assert_eq!(gradient["[0]"].item::<f64>(), 13.0);
    // A written value carries its gradient to later reads.
    let chained = grad(|reference: &Ref<Tensor>| {
        reference.update(|value| &value * &value);
        reference.get()
    })
    .wrt(Filter::everything());
    assert_eq!(chained(&weight)[""].item::<f64>(), 6.0);
    assert_eq!(weight.get().item::<f64>(), 9.0);
}

#[test]
fn vmap_writes_along_the_reference_axis() {
    let counts = Ref::new(Tensor::from([0, 10]));
    let add = vmap(|(count, x): (Ref<Tensor>, Tensor)| {
        count.update(|count| count + &x);
        count.get() * 2
    });
    let doubled = add((counts.clone(), Tensor::from([1, 2])));
    assert_eq!(doubled.to_vec::<i32>(), [2, 24]);
    assert_eq!(counts.get().to_vec::<i32>(), [1, 12]);

    let model = counted();
    let y = vmap(|(model, x): (Counted, Tensor)| model.forward(&x)).in_axes((None, 0))((
        model.clone(),
        Tensor::from([1.0, 2.0]),
    ));
    assert_eq!(y.to_vec::<f64>(), [3.0, 6.0]);
    assert_eq!(
        calls(&model),
        1,
        "what is the same for all examples is written once"
    );

    let mut own = model.clone();
    let by_row = vmap_mut(|(model, x): (&mut Counted, Tensor)| {
        model.weight = &model.weight * 2.0;
        model.forward(&x)
    })
    .in_axes((None, 0));
    by_row((&mut own, Tensor::from([1.0, 2.0])));
    assert!(own.calls.same(&model.calls));
    assert_eq!((calls(&model), own.weight.item::<f64>()), (2, 6.0));
}

#[test]
fn batch_in_unmapped_reference_is_rejected() {
    let total = Ref::new(Tensor::from(0));
    let write = vmap(|(total, x): (Ref<Tensor>, Tensor)| {
        total.set(x.clone());
        x
    })
    .in_axes((None, 0));
    let text = panics(|| write((total.clone(), Tensor::from([1, 2]))));
    assert!(
        text.starts_with("cannot vmap: the values written to references do not fit the axes: [0] (i32[]) differs between the examples, but its axis is `None`; map the reference with `.in_axes(…)`"),
        "{text}"
    );
    assert_eq!(total.get().item::<i32>(), 0);
    let grow = vmap(|list: Ref<Vec<Tensor>>| {
        list.update(|mut list| {
            list.push(list[0].clone());
            list
        })
    });
    let text = panics(|| grow(Ref::new(vec![Tensor::from([1, 2])])));
    assert!(
        text.contains("has a different structure than the old value: PyTreeDef([*, *])"),
        "{text}"
    );
}

#[derive(Pytree, Clone, Debug)]
struct Holding {
    value: Tensor,
    inner: Ref<Tensor>,
}

#[test]
fn nested_references_are_written_under_vmap() {
    let inner = Ref::new(Tensor::from(1));
    let outer = Ref::new(Holding {
        value: Tensor::from(0),
        inner: inner.clone(),
    });
    let add = vmap(|(outer, x): (Ref<Holding>, Tensor)| {
        outer.modify(|held| held.value = &held.value + 1);
        x + outer.get().inner.get()
    })
    .in_axes((None, 0));
    assert_eq!(
        add((outer.clone(), Tensor::from([1, 2]))).to_vec::<i32>(),
        [2, 3]
    );
    assert_eq!(outer.get().value.item::<i32>(), 1);
    assert!(outer.get().inner.same(&inner));
    let stacked = Ref::new(Holding {
        value: Tensor::from([0, 10]),
        inner: Ref::new(Tensor::from([5, 6])),
    });
    let both = vmap(|(outer, x): (Ref<Holding>, Tensor)| {
        outer.modify(|held| held.value = &held.value + &x);
        outer.get().inner.update(|inner| inner * 2);
    });
    both((stacked.clone(), Tensor::from([1, 2])));
    assert_eq!(stacked.get().value.to_vec::<i32>(), [1, 12]);
    assert_eq!(stacked.get().inner.get().to_vec::<i32>(), [10, 12]);
    let differs = vmap(|(outer, x): (Ref<Holding>, Tensor)| {
        outer.modify(|held| held.value = x.clone());
    })
    .in_axes((None, 0));
    let text = panics(|| differs((outer, Tensor::from([1, 2]))));
    assert!(
        text.contains("[0].value (i32[]) differs between the examples"),
        "{text}"
    );
}

/// A layer that counts its calls, and holds a mean behind a second reference.
#[derive(Module, Clone, Debug)]
struct Layer {
    #[param]
    weight: Tensor,
    #[state]
    calls: Ref<Tensor>,
    #[state]
    held: Ref<Holding>,
}

impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.calls.update(|calls| calls + 1);
        self.held.modify(|held| held.value = &held.value + x);
        self.held.get().inner.update(|inner| inner * 2);
        x * &self.weight
    }
}

fn stacked_layers() -> Layer {
    Layer {
        weight: Tensor::from([2.0, 3.0, 4.0]),
        calls: Ref::new(Tensor::from([0, 10, 20])),
        held: Ref::new(Holding {
            value: Tensor::from([0.5, 0.5, 0.5]),
            inner: Ref::new(Tensor::from([1, 2, 3])),
        }),
    }
}

fn assert_written(layers: &Layer, times: i32) {
    let calls = [0, 10, 20].map(|calls| calls + times);
    assert_eq!(layers.calls.get().to_vec::<i32>(), calls);
    let held = layers.held.get();
    // The inputs of the layers are 1, 2 and 6.
    let sums = [1.0, 2.0, 6.0].map(|x| 0.5 + f64::from(times) * x);
    assert_eq!(held.value.to_vec::<f64>(), sums);
    let doubled = [1, 2, 3].map(|inner| inner << times);
    assert_eq!(held.inner.get().to_vec::<i32>(), doubled);
}

#[test]
fn stacked_references_are_written_by_scan() {
    let step = |x: Tensor, layer: Layer| (layer.forward(&x), x);
    let layers = stacked_layers();
    let (last, inputs) = scan(step, Tensor::from(1.0), layers.clone());
    assert_eq!(last.item::<f64>(), 24.0);
    assert_eq!(inputs.to_vec::<f64>(), [1.0, 2.0, 6.0]);
    assert_written(&layers, 1);

    // In a carry and in the inputs, compiled and differentiated.
    let total = Ref::new(Tensor::from(0.0));
    let run = |layers: &Layer, total: Ref<Tensor>| {
        let step = |(x, total): (Tensor, Ref<Tensor>), layer: Layer| {
            total.update(|total| total + &x);
            ((layer.forward(&x), total), ())
        };
        scan(step, (Tensor::from(1.0), total), layers.clone()).0.0
    };
    let compiled = jit(move |(layers, total): (Layer, Ref<Tensor>)| run(&layers, total));
    assert_eq!(
        compiled((layers.clone(), total.clone())).item::<f64>(),
        24.0
    );
    assert_written(&layers, 2);
    assert_eq!(total.get().item::<f64>(), 9.0);
    let loss = |layers: &mut Layer| scan(step, Tensor::from(1.0), layers.clone()).0;
    let mut layers = layers;
    let (_, gradient) = value_and_grad_mut(loss)(&mut layers);
    assert_eq!(gradient["weight"].to_vec::<f64>(), [12.0, 8.0, 6.0]);
    assert_written(&layers, 3);

    // In the other direction each value has the position of its layer.
    let options = ScanOptions::new().reverse();
    let layers = stacked_layers();
    scan_with(options, step, Tensor::from(1.0), layers.clone());
    assert_eq!(layers.held.get().value.to_vec::<f64>(), [12.5, 4.5, 1.5]);

    // A failed step writes nothing.
    let layers = stacked_layers();
    let failed = scan(
        |x: Tensor, layer: Layer| {
            layer.forward(&x);
            Err::<(Tensor, ()), &str>("stop")
        },
        Tensor::from(1.0),
        layers.clone(),
    );
    assert_eq!(failed.unwrap_err(), "stop");
    assert_written(&layers, 0);
}

#[test]
fn carried_reference_is_written_each_iteration() {
    let model = counted();
    let (carry, ys) = scan(
        |(model, sum): (Counted, Tensor), x: Tensor| {
            let y = model.forward(&x);
            ((model, sum + &y), y)
        },
        (model.clone(), Tensor::from(0.0)),
        Tensor::from([1.0, 2.0, 3.0]),
    );
    assert!(carry.0.calls.same(&model.calls));
    assert_eq!((calls(&model), carry.1.item::<f64>()), (3, 18.0));
    assert_eq!(ys.to_vec::<f64>(), [3.0, 6.0, 9.0]);

    let model = while_loop(
        |model: &Counted| model.calls.get().less(10),
        |model| {
            model.forward(&Tensor::from(1.0));
            model
        },
        model,
    );
    assert_eq!(calls(&model), 10);
    let model = fori_loop(
        0,
        5,
        |_, model: Counted| {
            model.forward(&Tensor::from(1.0));
            model
        },
        model,
    );
    assert_eq!(calls(&model), 15);

    let count = jit(|(model, steps): (Counted, Tensor)| {
        fori_loop(
            0,
            &steps,
            |_, model: Counted| {
                model.forward(&Tensor::from(1.0));
                model
            },
            model,
        );
    });
    count((model.clone(), Tensor::from(4)));
    assert_eq!(calls(&model), 19);
}

#[test]
fn branches_can_write_different_references() {
    let pair = (Ref::new(Tensor::from(1)), Ref::new(Tensor::from(2)));
    let choose = |which: Tensor, pair: (Ref<Tensor>, Ref<Tensor>)| {
        cond(
            &which,
            |pair: (Ref<Tensor>, Ref<Tensor>)| {
                pair.0.update(|value| value * 10);
                pair.1.get()
            },
            |pair: (Ref<Tensor>, Ref<Tensor>)| {
                pair.1.update(|value| value * 100);
                pair.0.get()
            },
            pair,
        )
    };
    let values = |pair: &(Ref<Tensor>, Ref<Tensor>)| {
        (pair.0.get().item::<i32>(), pair.1.get().item::<i32>())
    };
    assert_eq!(choose(Tensor::from(true), pair.clone()).item::<i32>(), 2);
    assert_eq!(values(&pair), (10, 2));
    let compiled =
        jit(move |(which, pair): (Tensor, (Ref<Tensor>, Ref<Tensor>))| choose(which, pair));
    compiled((Tensor::from(false), pair.clone()));
    assert_eq!(values(&pair), (10, 200));
    compiled((Tensor::from(true), pair.clone()));
    assert_eq!((values(&pair), compiled.traces()), ((100, 200), 1));
    let add: &dyn Fn(Ref<Tensor>) = &|reference| reference.update(|value| value + 1);
    let nothing: &dyn Fn(Ref<Tensor>) = &|_| ();
    switch(&Tensor::from(1), &[nothing, add], pair.0.clone());
    switch(&Tensor::from(0), &[nothing, add], pair.0.clone());
    assert_eq!(values(&pair), (101, 200));
}

#[test]
fn remat_writes_happen_once() {
    let model = counted();
    let x = Tensor::from(2.0);
    let forward = remat(|(model, x): &(Counted, Tensor)| model.forward(x));
    forward(&(model.clone(), x.clone()));
    assert_eq!(calls(&model), 1);
    let slope = grad(|model: &Counted| forward(&(model.clone(), x.clone())).square())(&model);
    assert_eq!((slope["weight"].item::<f64>(), calls(&model)), (24.0, 2));
}

#[test]
fn nested_transformations_propagate_writes() {
    let model = counted();
    let per_example = jit(|(model, xs): (Counted, Tensor)| {
        vmap(|(model, x): (Counted, Tensor)| {
            grad(|model: &Counted| model.forward(&x).square())(&model)["weight"].clone()
        })
        .in_axes((None, 0))((model, xs))
    });
    let slopes = per_example((model.clone(), Tensor::from([1.0, 2.0])));
    assert_eq!(slopes.to_vec::<f64>(), [6.0, 24.0]);
    assert_eq!(calls(&model), 1);
    let curvature = grad(|model: &Counted| {
        grad(|inner: &Counted| inner.forward(&Tensor::from(1.0)).powi(3))(model)["weight"].clone()
    })(&model);
    assert_eq!(
        (curvature["weight"].item::<f64>(), calls(&model)),
        (18.0, 2)
    );
}

#[derive(Pytree, Clone, Debug)]
struct Node {
    value: Ref<Tensor>,
    next: Ref<Vec<Shared<Node>>>,
    back: WeakRef<Tensor>,
}

/// Returns two nodes that refer to each other.
fn ring() -> Shared<Node> {
    let values = [1.0, 2.0].map(|value| Ref::new(Tensor::from(value)));
    let node = |at: usize| {
        Shared::new(Node {
            value: values[at].clone(),
            next: Ref::new(Vec::new()),
            back: values[1 - at].downgrade(),
        })
    };
    let (first, second) = (node(0), node(1));
    first.next.set(vec![second.clone()]);
    second.next.set(vec![first.clone()]);
    first
}

#[test]
fn cycles_survive_compilation() {
    let ring = ring();
    let step = jit(|node: Shared<Node>| {
        let other = node.next.get()[0].clone();
        assert!(other.next.get()[0].same(&node));
        assert!(other.back.upgrade().unwrap().same(&node.value));
        other.value.update(|value| value * node.value.get() + 1.0);
        node
    });
    for _ in 0..2 {
        let back = step(ring.clone());
        let other = back.next.get()[0].clone();
        assert!(other.value.same(&ring.next.get()[0].value));
        assert!(
            ring.next.get()[0].next.get()[0].same(&ring),
            "what was not written stays"
        );
    }
    assert_eq!(ring.next.get()[0].value.get().item::<f64>(), 4.0);
    assert_eq!(step.traces(), 1);
    let gradient =
        grad(|node: &Shared<Node>| node.value.get() * node.next.get()[0].value.get().square())(
            &ring,
        );
    assert_eq!((gradient.len(), gradient["value"].item::<f64>()), (2, 16.0));
    ring.next.set(Vec::new());
}

#[test]
fn weak_edges_survive_compilation() {
    #[derive(Pytree, Debug)]
    struct Tree {
        parent: WeakShared<Tree>,
        value: Tensor,
        children: Vec<Shared<Tree>>,
    }
    let root = Shared::new_cyclic(|root: &WeakShared<Tree>| Tree {
        parent: WeakShared::new(),
        value: Tensor::from(2.0),
        children: vec![Shared::new(Tree {
            parent: root.clone(),
            value: Tensor::from(3.0),
            children: Vec::new(),
        })],
    });
    let step = jit(|root: Shared<Tree>| {
        let child = &root.children[0];
        assert!(child.parent.upgrade().unwrap().same(&root));
        graph::map(&root, |value: &Tensor| {
            value * &child.parent.upgrade().unwrap().value
        })
    });
    let after = step(step(root));
    assert!(after.children[0].parent.upgrade().unwrap().same(&after));
    assert_eq!(
        (
            after.value.item::<f64>(),
            after.children[0].value.item::<f64>()
        ),
        (16.0, 24.0)
    );
    assert_eq!(step.traces(), 1);
}

#[test]
fn captured_references_cannot_be_written() {
    let count = Ref::new(Tensor::from(1.0));
    let inside = |what: &str| {
        format!(
            "cannot write a reference inside of `{what}` if the reference was created outside: traced values would leak out of the transformation; pass the reference as part of the argument, so that its final value is written back"
        )
    };
    let x = Tensor::from([1.0, 2.0]);
    let text = panics(|| {
        vmap(|x: Tensor| {
            count.set(x.clone());
            x
        })(x.clone())
    });
    assert_eq!(text, inside("vmap"));
    let text = panics(|| {
        grad(|x: &Tensor| {
            count.set(x.clone());
            x.sum()
        })(&x)
    });
    assert_eq!(text, inside("grad"));
    let text = panics(|| {
        scan(
            |carry: Tensor, x: Tensor| {
                count.set(carry.clone());
                (carry + x, ())
            },
            Tensor::from(0.0),
            x.clone(),
        );
    });
    assert_eq!(text, inside("scan"));
    let text = panics(|| {
        cond(
            &Tensor::from(true),
            |x: Tensor| {
                count.set(x.clone());
                x
            },
            |x| x,
            x.clone(),
        )
    });
    assert_eq!(text, inside("cond"));
    let captured = count.clone();
    let stale = jit(move |x: Tensor| x * captured.get());
    let text = panics(|| stale(x.clone()));
    assert_eq!(
        text,
        "cannot read a reference inside of `jit` if the reference was created outside: its value would become a constant of the recorded function; pass the reference as part of the argument"
    );
    let captured = count.clone();
    let deep = jit(move |x: Tensor| grad(|x: &Tensor| (x * captured.get()).sum())(&x));
    assert!(panics(|| deep(x.clone())).contains("inside of `jit`"));
    let text = panics(|| make_jaxpr(|x: Tensor| x * count.get())(x.clone()));
    assert!(text.contains("inside of `make_jaxpr`"));
    let read = vmap(|x: Tensor| x * count.get())(x.clone());
    assert_eq!(
        read.to_vec::<f64>(),
        [1.0, 2.0],
        "it runs now, with the value of now"
    );
    assert_eq!(count.get().item::<f64>(), 1.0);
    count.set(Tensor::from(5.0));
}

#[test]
fn inner_jit_reads_references_of_outer_argument() {
    let count = Ref::new(Tensor::from(2.0));
    let why = Arc::new(Mutex::new(None));
    let outer = {
        let why = Arc::clone(&why);
        jit(move |(count, x): (Ref<Tensor>, Tensor)| {
            let captured = count.clone();
            let scaled = jit(move |x: Tensor| x * captured.get());
            let first = scaled(x.clone());
            count.update(|count| count * 10.0);
            let second = scaled(x);
            assert_eq!((scaled.traces(), scaled.cached()), (2, 0));
            *why.lock().unwrap() = scaled.why_retraced();
            (first, second)
        })
    };
    let x = Tensor::from([1.0, 2.0]);
    for (value, written) in [(2.0, 20.0), (20.0, 200.0)] {
        let (first, second) = outer((count.clone(), x.clone()));
        assert_eq!(first.to_vec::<f64>(), [value, 2.0 * value]);
        assert_eq!(second.to_vec::<f64>(), [written, 2.0 * written]);
        assert_eq!(count.get().item::<f64>(), written);
    }
    assert_eq!(outer.traces(), 1, "the value is no constant");
    let why = why.lock().unwrap().clone().unwrap();
    assert_eq!(
        why,
        "the function reads a reference that it captured; pass it as part of the argument"
    );
    // The reference of the outermost call is read through two functions, and differentiated.
    let loss = |pair: &(Ref<Tensor>, Tensor)| {
        let captured = pair.0.clone();
        let deep = jit(move |x: Tensor| {
            let captured = captured.clone();
            jit(move |x: Tensor| (x * captured.get()).sum())(x)
        });
        let before = deep(pair.1.clone());
        pair.0.update(|value| value.square());
        before + deep(pair.1.clone())
    };
    let pair = (Ref::param(Tensor::from(3.0)), x.clone());
    let gradient = grad(loss)(&pair);
    // Σ x · (v + v²) has the derivatives Σ x · (1 + 2 v) and v + v².
    assert_eq!(gradient.0.leaves()[0].item::<f64>(), 3.0 * 7.0);
    assert_eq!(gradient.1.to_vec::<f64>(), [12.0, 12.0]);
    assert_eq!(pair.0.get().item::<f64>(), 9.0);
    // Each call of an eager transformation has its own value, also where it is a number.
    let each = vmap(|(count, x): (Ref<Tensor>, Tensor)| {
        let captured = count.clone();
        let scaled = jit(move |x: Tensor| x * captured.get());
        let first = scaled(x.clone());
        count.set(Tensor::from(-1.0));
        (first, scaled(x))
    })
    .in_axes((None, 0));
    let (first, second) = each((count.clone(), x.clone()));
    assert_eq!(first.to_vec::<f64>(), [200.0, 400.0]);
    assert_eq!(second.to_vec::<f64>(), [-1.0, -2.0]);
    assert_eq!(count.get().item::<f64>(), -1.0);
    // A captured reference is not written, and the inner function writes the references of its own argument.
    let text = panics(|| {
        jit(|(count, x): (Ref<Tensor>, Tensor)| {
            let captured = count.clone();
            jit(move |x: Tensor| captured.set(x))(x)
        })((count.clone(), x.clone()))
    });
    assert!(
        text.starts_with("cannot write a reference inside of `jit`"),
        "{text}"
    );
    let both = jit(|(a, b): (Ref<Tensor>, Ref<Tensor>)| {
        let captured = a.clone();
        let add = jit(move |b: Ref<Tensor>| b.update(|b| b + captured.get()));
        add(b.clone());
        a.set(Tensor::from(5.0));
        add(b);
    });
    let sum = Ref::new(Tensor::from(100.0));
    both((count.clone(), sum.clone()));
    assert_eq!(
        (sum.get().item::<f64>(), count.get().item::<f64>()),
        (104.0, 5.0)
    );
    // Outside of all transformations, the value would be a constant of a program that is kept.
    let captured = count.clone();
    let stale = jit(move |x: Tensor| {
        let captured = captured.clone();
        jit(move |x: Tensor| x * captured.get())(x)
    });
    assert!(panics(|| stale(x.clone())).contains("inside of `jit`"));
}

#[test]
fn reference_made_inside_is_rejected_outside() {
    let kept = Mutex::new(None);
    let x = Tensor::from([1.0, 2.0]);
    vmap(|x: Tensor| {
        *kept.lock().unwrap() = Some(Ref::new(x.clone()));
        x
    })(x.clone());
    let escaped = kept.lock().unwrap().take().unwrap();
    let over = "a reference that was created inside of `vmap`, which has finished or runs on another thread; return it as part of the result, and use the reference in that result";
    assert_eq!(panics(|| escaped.get()), format!("cannot read {over}"));
    assert_eq!(
        panics(|| escaped.set(x.clone())),
        format!("cannot write {over}")
    );
    assert_eq!(
        panics(|| graph::flatten::<Tensor, _>(&escaped)),
        format!("cannot read {over}")
    );

    let on_another_thread = vmap(|x: Tensor| {
        let own = Ref::new(x.clone());
        std::thread::scope(|scope| {
            let found = scope.spawn(|| own.try_get().map(|_| ()));
            assert!(
                found
                    .join()
                    .unwrap()
                    .unwrap_err()
                    .to_string()
                    .contains("runs on another thread")
            );
        });
        own.get()
    });
    assert_eq!(on_another_thread(x.clone()), x);
}

#[test]
fn traced_tensor_is_rejected_elsewhere() {
    let kept = Mutex::new(None);
    let x = Tensor::from([1.0, 2.0]);
    vmap(|x: Tensor| {
        let copy = x.clone();
        let found =
            std::thread::scope(|scope| scope.spawn(|| panics(|| &copy + 1.0)).join().unwrap());
        assert!(
            found.contains("vmap") && found.contains("thread"),
            "{found}"
        );
        *kept.lock().unwrap() = Some(x.clone());
        x
    })(x);
    let escaped = kept.lock().unwrap().take().unwrap();
    let text = panics(|| &escaped + 1.0);
    assert!(text.contains("vmap"), "{text}");
}

#[test]
fn writes_without_destination_are_errors() {
    let reference = Ref::new(Tensor::from([1.0, 2.0]));
    let write = |reference: &Ref<Tensor>| {
        reference.update(|value| value * 2.0);
        reference.get()
    };
    let text = panics(|| jacrev(write)(&reference));
    assert_eq!(
        text,
        "cannot write the reference at the root inside of jacrev: the write would be lost; return the value instead"
    );
    let text = panics(|| {
        scan(
            |(), x: Ref<Vec<Tensor>>| {
                x.set(Vec::new());
                ((), ())
            },
            (),
            Ref::new(vec![Tensor::from([1.0, 2.0])]),
        )
    });
    assert!(
        text.starts_with(
            "cannot write the reference at the root inside of scan, among its inputs: expected a value with the structure"
        ),
        "{text}"
    );
    let text = panics(|| {
        associative_scan(
            |a: Ref<Tensor>, b: Ref<Tensor>| {
                a.set(b.get());
                a
            },
            reference.clone(),
        )
    });
    assert!(text.contains("inside of associative_scan"), "{text}");
    let text = panics(|| {
        while_loop(
            |x: &Ref<Tensor>| {
                x.set(Tensor::from([1.0, 1.0]));
                x.get().sum().less(3.0)
            },
            |x| x,
            reference.clone(),
        )
    });
    assert!(
        text.contains("inside of the condition of while_loop"),
        "{text}"
    );
    let ruled = custom_vjp(
        |pair: &(Ref<Tensor>, Tensor)| pair.0.get() * &pair.1,
        |pair: &(Ref<Tensor>, Tensor)| {
            pair.0.set(pair.1.clone());
            (pair.0.get(), ())
        },
        |(), cotangent: Tensor| (Ref::new(cotangent.clone()), cotangent),
    );
    let text = panics(|| {
        grad(|x: &Tensor| ruled(&(reference.clone(), x.clone())).sum())(&Tensor::from([1.0, 2.0]))
    });
    assert!(text.contains("inside of `forward` of custom_vjp"), "{text}");
    assert_eq!(reference.get().to_vec::<f64>(), [1.0, 2.0]);
}

#[test]
fn shared_node_has_one_axis_and_kind() {
    let shared = Shared::new(Tensor::from([1.0, 2.0]));
    let pair = || (shared.clone(), shared.clone());
    let sum = |(a, b): (Shared<Tensor>, Shared<Tensor>)| &*a + &*b;
    let text = panics(|| vmap(sum).in_axes((0, None))(pair()));
    assert!(
        text.starts_with("cannot vmap: `.in_axes(…)` gives different axes to one shared node: 0 for [0], None for [1]; pass the same axis for all paths of the node"),
        "{text}"
    );
    // The axes of a later place must match too. Otherwise the other axes would not be checked.
    let text = panics(|| vmap(sum).in_axes((0, (0, 1)))(pair()));
    assert!(
        text.starts_with("cannot vmap: the axes of `.in_axes(…)` do not fit the value: "),
        "{text}"
    );
    assert_eq!(
        vmap(sum).in_axes((0, 0))(pair()).to_vec::<f64>(),
        [2.0, 4.0]
    );
    let text =
        panics(|| vmap(|x: Shared<Tensor>| (x.clone(), x)).out_axes((0, None))(shared.clone()));
    assert!(
        text.contains(
            "`.out_axes(…)` gives different axes to one shared node: 0 for [0], None for [1]"
        ),
        "{text}"
    );
    let named = |(a, b): (&mut Shared<Tensor>, Shared<Tensor>)| &**a + &*b;
    let text = panics(|| {
        vmap_mut(named).in_axes((0, Axes::from(None)))((&mut shared.clone(), shared.clone()))
    });
    assert!(text.contains("0 for [0], None for [1]"), "{text}");

    #[derive(Module, Debug)]
    struct Two {
        #[param]
        trained: Shared<Tensor>,
        #[state(State)]
        kept: Shared<Tensor>,
    }
    let two = Two {
        trained: shared.clone(),
        kept: shared.clone(),
    };
    let text = panics(|| grad(|two: &Two| (&*two.trained * &*two.kept).sum())(&two));
    assert!(
        text.starts_with("cannot differentiate: one shared node has different kinds at different paths: Param at trained, State at kept; give these fields the same kind, or use a separate node in each field"),
        "{text}"
    );
}
