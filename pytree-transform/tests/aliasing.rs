//! Sharing through every transformation: shared references and nodes in arguments, carries, branches and results,
//! references made inside, and mismatched sharing.
//!
//! The tests cover the sharing that Flax NNX and refx test:
//!
//! - references swapped, added, made inside and led back to themselves under `jit`, and when that traces again
//! - one reference at several places of what `jit`, `grad`, `vjp`, `jvp`, `vmap`, loops, branches and `remat` take
//! - a returned reference keeps its identity, and no result is a captured reference
//! - a carry keeps its references; no reference is both in the carry and among the inputs of a loop
//! - branches agree in which references they give
//! - the form of a result is found without writing to references
//!
//! The tests of writes, and of writes that are errors, are in `references.rs`.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use pytree_core::kind::State;
use pytree_core::{Filter, Module, Pytree, Ref, Shared, graph, nodes};
use pytree_transform::{
    Axes, DType, Tensor, cond, custom_vjp, eval_shape, fori_loop, grad, jit, jvp, make_jaxpr,
    remat, scan, switch, value_and_grad, vjp, vmap, while_loop,
};

type Pair = (Ref<Tensor>, Ref<Tensor>);

fn number(value: f64) -> Ref<Tensor> {
    Ref::new(Tensor::from(value))
}

fn value(reference: &Ref<Tensor>) -> f64 {
    reference.get().item()
}

/// Returns one reference at two places.
fn twice(value: f64) -> Pair {
    let reference = Ref::param(Tensor::from(value));
    (reference.clone(), reference)
}

fn add(reference: &Ref<Tensor>, value: f64) {
    reference.update(|held| held + value);
}

#[track_caller]
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
fn swapped_references_keep_their_identity() {
    let (a, b) = (number(1.0), number(2.0));
    let model = Ref::new((a.clone(), b.clone()));
    let swap = jit(|model: Ref<Pair>| model.update(|(a, b)| (b, a)));
    for swapped in [true, false, true, false] {
        swap(model.clone());
        let (first, second) = model.get();
        assert_eq!((first.same(&b), second.same(&a)), (swapped, swapped));
        assert_eq!((first.same(&a), second.same(&b)), (!swapped, !swapped));
    }
    assert_eq!((value(&a), value(&b)), (1.0, 2.0));
    assert_eq!(swap.traces(), 1);
    // The references are returned instead of written, and then their values are swapped instead.
    let swapped = jit(|(a, b): Pair| (b, a));
    let (first, second) = swapped((a.clone(), b.clone()));
    assert!(first.same(&b) && second.same(&a));
    let values = jit(|(a, b): Pair| {
        let held = a.get();
        a.set(b.get());
        b.set(held);
    });
    values((a.clone(), b.clone()));
    assert_eq!((value(&a), value(&b)), (2.0, 1.0));
}

#[test]
fn same_reference_pattern_hits_the_cache() {
    let (a, b) = (number(1.0), number(2.0));
    let first = jit(|(x, y, z): (Ref<Tensor>, Ref<Tensor>, Ref<Tensor>)| {
        assert!(!y.same(&z));
        add(&y, 1.0);
        x
    });
    let call = |x: &Ref<Tensor>, y: &Ref<Tensor>, z: &Ref<Tensor>| {
        first((x.clone(), y.clone(), z.clone()))
    };
    assert!(call(&a, &a, &b).same(&a));
    assert!(call(&a, &a, &b).same(&a));
    assert!(call(&b, &b, &a).same(&b));
    assert_eq!(first.traces(), 1);
    assert_eq!((value(&a), value(&b)), (3.0, 3.0));
    assert!(call(&a, &b, &a).same(&a));
    assert_eq!(first.traces(), 2);
    assert_eq!((value(&a), value(&b)), (3.0, 4.0));
}

#[derive(Pytree, Clone, Debug)]
struct Link {
    value: Ref<Tensor>,
    next: Ref<Vec<Link>>,
}

fn link() -> Link {
    Link {
        value: number(1.0),
        next: Ref::new(Vec::new()),
    }
}

#[test]
fn reference_cycle_can_be_made_inside() {
    let node = link();
    let close = jit(|node: Link| {
        add(&node.value, 1.0);
        node.next.set(vec![node.clone()]);
        node
    });
    for traces in [1, 2, 2] {
        let back = close(node.clone());
        assert!(back.next.same(&node.next) && back.value.same(&node.value));
        let inside = node.next.get();
        assert_eq!(inside.len(), 1);
        assert!(inside[0].next.same(&node.next) && inside[0].value.same(&node.value));
        assert_eq!(close.traces(), traces);
    }
    assert_eq!(value(&node.value), 4.0);
    node.next.set(Vec::new());
}

#[test]
fn references_added_inside_stay_shared() {
    let first = number(1.0);
    let list = Ref::new(vec![first.clone(), first.clone()]);
    let grow = jit(|list: Ref<Vec<Ref<Tensor>>>| {
        list.update(|mut items| {
            let fresh = Ref::new(items[0].get() * 10.0);
            items.extend([items[0].clone(), fresh.clone(), fresh]);
            items
        });
        add(&list.get()[0], 1.0);
    });
    grow(list.clone());
    let items = list.get();
    assert_eq!(items.len(), 5);
    assert!(items[..3].iter().all(|item| item.same(&first)));
    assert!(items[3].same(&items[4]) && !items[3].same(&first));
    assert_eq!((value(&items[0]), value(&items[4])), (2.0, 10.0));
}

#[test]
fn returning_captured_reference_is_an_error() {
    let outside = number(4.0);
    let expected = |transformation: &str| {
        format!(
            "cannot return a reference inside of `{transformation}` if the reference was created outside: the function would return a different reference; pass the reference as part of the argument"
        )
    };
    let xs = Tensor::from([1.0, 2.0]);
    let text = panics(|| vmap(|_: Tensor| outside.clone())(xs.clone()));
    assert_eq!(text, expected("vmap"));
    let text = panics(|| value_and_grad(|x: &Tensor| (x.sum(), outside.clone()))(&xs));
    assert_eq!(text, expected("grad"));
    let captured = outside.clone();
    let text = panics(|| jit(move |_: Tensor| captured.clone())(xs.clone()));
    assert!(text.contains("inside of `jit`"), "{text}");
    // A captured reference cannot be part of a written value either.
    let list = Ref::new(Vec::new());
    let text = panics(|| {
        vmap(|list: Ref<Vec<_>>| list.set(vec![outside.clone()])).axis_size(2)(list.clone())
    });
    assert_eq!(text, expected("vmap"));
    assert!(list.get().is_empty());
    // A reference that is passed as an argument keeps its identity.
    let (back, _) =
        vmap(|pair: (Ref<Tensor>, Tensor)| pair).in_axes((None, 0))((outside.clone(), xs));
    assert!(back.same(&outside));
}

#[test]
fn escaped_reference_is_rejected() {
    let kept = Mutex::new(None);
    let x = Tensor::from(1.0);
    vmap(|x: Tensor| {
        *kept.lock().unwrap() = Some(Ref::new(x.clone()));
        x
    })(Tensor::from([1.0]));
    let escaped: Ref<Tensor> = kept.lock().unwrap().take().unwrap();
    let text = panics(|| grad(|x: &Tensor| x * escaped.get())(&x));
    assert!(
        text.contains("created inside of `vmap`, which has finished"),
        "{text}"
    );
    let text = panics(|| jit(|pair: Pair| add(&pair.0, 1.0))((escaped.clone(), number(1.0))));
    assert!(
        text.contains("created inside of `vmap`, which has finished"),
        "{text}"
    );
}

#[test]
fn returned_argument_keeps_its_vmap_axis() {
    let matrix = || Tensor::zeros(DType::F64, [2, 3]);
    let reference = Ref::new(matrix());
    let rows = vmap(|row: Ref<Tensor>| {
        assert_eq!(row.get().shape(), [3]);
        row
    });
    assert!(rows(reference.clone()).same(&reference));
    // The reference keeps the axis of the argument, whatever `out_axes` says, because it is the same reference.
    let other = vmap(|row: Ref<Tensor>| (row.clone(), Ref::new(row.get()))).out_axes(1);
    let (same, fresh) = other(reference.clone());
    assert!(same.same(&reference) && !fresh.same(&reference));
    assert_eq!(
        (same.get().shape(), fresh.get().shape()),
        (&[2, 3][..], &[3, 2][..])
    );
    let columns = vmap(|column: Ref<Tensor>| add(&column, 1.0)).in_axes(1);
    columns(reference.clone());
    assert_eq!(reference.get(), Tensor::ones(DType::F64, [2, 3]));
    // One reference is at two places with two axes.
    let text = panics(|| {
        vmap(|(a, b): Pair| a.get() + b.get()).in_axes((0, 1))((
            reference.clone(),
            reference.clone(),
        ))
    });
    assert!(
        text.contains("different axes to one shared node: 0 for [0], 1 for [1]; pass the same axis for all paths"),
        "{text}"
    );
    let inner = (
        vec![reference.clone()],
        (reference.clone(), Tensor::from(1.0)),
    );
    let text = panics(|| {
        let axes = Axes::from((1, (Some(0), None)));
        vmap(|(a, (b, _)): (Vec<Ref<Tensor>>, (Ref<Tensor>, Tensor))| a[0].get() + b.get())
            .in_axes(axes)(inner)
    });
    assert!(text.contains("1 for [0][0], 0 for [1][0]"), "{text}");
}

/// An environment with a batch of games.
#[derive(Pytree, Clone, Debug)]
struct Games {
    rules: Ref<Tensor>,
    index: Ref<Tensor>,
    step: Ref<Tensor>,
}

#[test]
fn vmapped_branches_keep_unwritten_references() {
    let games = Games {
        rules: Ref::new(Tensor::from(1)),
        index: Ref::new(Tensor::from([0, 1, 2, 3, 4])),
        step: Ref::new(Tensor::from([0, 0, 0, 0, 0])),
    };
    let axes = Axes::fields([("rules", None), ("index", Some(0)), ("step", Some(0))]);
    let play = vmap(|games: Games| {
        let index = games.index.get();
        let is_even = (&index / 2 * 2).equal(&index);
        let increment = |games: Games| games.step.update(|step| step + games.rules.get());
        cond(&is_even, increment, |_: Games| (), games);
    })
    .in_axes(axes);
    play(games.clone());
    play(games.clone());
    assert_eq!(games.step.get().to_vec::<i32>(), [2, 0, 2, 0, 2]);
    assert_eq!(games.index.get().to_vec::<i32>(), [0, 1, 2, 3, 4]);
    assert_eq!(games.rules.get().item::<i32>(), 1);
}

#[test]
fn branches_write_shared_reference_by_any_path() {
    let pair = twice(0.0);
    let choose = |first: bool| {
        cond(
            &Tensor::from(first),
            |(a, _): Pair| add(&a, 1.0),
            |(_, b): Pair| add(&b, 2.0),
            pair.clone(),
        );
        assert_eq!(value(&pair.0), value(&pair.1));
        value(&pair.0)
    };
    assert_eq!((choose(true), choose(false)), (1.0, 3.0));
    let first: &dyn Fn(Pair) = &|(a, _)| add(&a, 10.0);
    let second: &dyn Fn(Pair) = &|(_, b)| add(&b, 100.0);
    switch(&Tensor::from(0), &[first, second], pair.clone());
    assert_eq!(value(&pair.1), 13.0);
    switch(&Tensor::from(1), &[first, second], pair.clone());
    assert_eq!(value(&pair.0), 113.0);
}

#[test]
fn branches_must_return_the_same_references() {
    let pair = (number(1.0), number(2.0));
    let yes = Tensor::from(false);
    let back = cond(&yes, |pair: Pair| pair, |pair| pair, pair.clone());
    assert!(back.0.same(&pair.0) && back.1.same(&pair.1));
    let fresh = cond(
        &yes,
        |(a, _): Pair| Ref::new(a.get() * 10.0),
        |(_, b): Pair| Ref::new(b.get() * 10.0),
        pair.clone(),
    );
    assert!(!fresh.same(&pair.1));
    assert_eq!(value(&fresh), 20.0);

    let text = panics(|| cond(&yes, |(a, _): Pair| a, |(_, b): Pair| b, pair.clone()));
    assert!(
        text.starts_with("cannot choose by cond: the branch for true differs from the branch for false: node type at the root: node 1 of the argument against node 0 of the argument; all branches"),
        "{text}"
    );
    let text = panics(|| {
        cond(
            &yes,
            |(a, _): Pair| Ref::new(a.get()),
            |(a, _)| a,
            pair.clone(),
        )
    });
    assert!(
        text.contains("at the root: node 0 of the argument against a reference;"),
        "{text}"
    );
    let list = Ref::new(vec![Tensor::from(1.0)]);
    let text = panics(|| {
        cond(
            &yes,
            |list: Ref<Vec<Tensor>>| list.set(Vec::new()),
            |list| list.set(vec![Tensor::from(1)]),
            list.clone(),
        )
    });
    assert!(
        text.contains("in the reference at the root of the argument: number of children at the root: 1 against 0"),
        "{text}"
    );
    assert_eq!(list.get().len(), 1);
}

#[test]
fn carry_keeps_its_references() {
    let expected = |operation: &str, place: &str| {
        format!(
            "cannot loop: the carry that the {operation} returns differs from the carry it received: at {place}: found a different reference than the received one; write to the received reference with `.set(…)`, and return the received reference;"
        )
    };
    let xs = Tensor::from([1.0, 2.0, 3.0]);
    let count = number(0.0);
    let text = panics(|| {
        scan(
            |count: Ref<Tensor>, x: Tensor| (Ref::new(count.get() + &x), x),
            count.clone(),
            xs.clone(),
        )
    });
    assert!(
        text.starts_with(&expected("function of scan", "the root")),
        "{text}"
    );
    let text = panics(|| fori_loop(0, 3, |_, (a, b): Pair| (b, a), (count.clone(), number(1.0))));
    assert!(
        text.contains("at [0]: found a different reference")
            && text.contains("at [1]: found a different reference"),
        "{text}"
    );
    let text = panics(|| {
        while_loop(
            |pair: &(Tensor, Ref<Tensor>)| pair.0.less(3.0),
            |(n, held): (Tensor, Ref<Tensor>)| (n + 1.0, Ref::new(held.get())),
            (Tensor::from(0.0), count.clone()),
        )
    });
    assert!(
        text.starts_with(&expected("body of while_loop", "[1]")),
        "{text}"
    );
    // One reference cannot become two, and two cannot become one.
    let text = panics(|| {
        let apart = |_, (a, _): Pair| (a.clone(), Ref::new(a.get()));
        fori_loop(0, 2, apart, (count.clone(), count.clone()))
    });
    assert!(
        text.contains("at [1]: alias 0 against a reference"),
        "{text}"
    );
    let text = panics(|| {
        fori_loop(
            0,
            2,
            |_, (a, _): Pair| (a.clone(), a),
            (count.clone(), number(1.0)),
        )
    });
    assert!(
        text.contains("at [1]: a reference against alias 0"),
        "{text}"
    );
    assert_eq!(value(&count), 0.0);
    // The same holds below a reference.
    let holder = Ref::new(vec![count.clone()]);
    let text = panics(|| {
        let replace = |_, holder: Ref<Vec<Ref<Tensor>>>| {
            holder.set(vec![number(1.0)]);
            holder
        };
        fori_loop(0, 2, replace, holder.clone())
    });
    assert!(
        text.contains("at [0]: found a different reference"),
        "{text}"
    );
    assert!(holder.get()[0].same(&count));
    // An unchanged reference keeps its identity, and a new shared node is a new value.
    let back = fori_loop(
        0,
        3,
        |_, (held, node): (Ref<Tensor>, Shared<Tensor>)| {
            add(&held, 1.0);
            (held, Shared::new(&*node * 2.0))
        },
        (count.clone(), Shared::new(Tensor::from(1.0))),
    );
    assert!(back.0.same(&count));
    assert_eq!((value(&count), back.1.item::<f64>()), (3.0, 8.0));
}

#[test]
fn carried_reference_keeps_structure_and_shape() {
    let list = Ref::new(vec![Tensor::from(1.0)]);
    let grow = |list: Ref<Vec<Tensor>>| {
        list.update(|mut items| {
            items.push(items[0].clone());
            items
        });
        list
    };
    let text = panics(|| while_loop(|list| list.get()[0].less(3.0), grow, list.clone()));
    assert!(
        text.contains("number of children at the root: 1 against 2"),
        "{text}"
    );
    let text = panics(|| {
        fori_loop(
            0,
            2,
            |_, held: Ref<Tensor>| {
                held.update(|held| held.reshape([1]));
                held
            },
            number(1.0),
        )
    });
    assert!(
        text.contains("at the root: expected f64[], found f64[1]"),
        "{text}"
    );
    assert_eq!(list.get().len(), 1);
}

/// A model with one part at three places.
#[derive(Module, Clone, Debug)]
struct Tied {
    a: Shared<Held>,
    b: Vec<Shared<Held>>,
    #[param]
    loose: Ref<Tensor>,
}

#[derive(Module, Clone, Debug)]
struct Held {
    #[param]
    weight: Ref<Tensor>,
}

fn tied() -> Tied {
    let weight = number(1.0);
    let a = Shared::new(Held {
        weight: weight.clone(),
    });
    Tied {
        b: vec![a.clone(), a.clone()],
        a,
        loose: weight,
    }
}

#[test]
fn shared_modules_are_carried_through_loops() {
    let model = tied();
    let before = nodes::find_duplicates(&model);
    let run = jit(|model: Tied| {
        fori_loop(
            0,
            10,
            |_, model: Tied| {
                assert!(model.b[1].same(&model.a) && model.b[0].weight.same(&model.loose));
                add(&model.b[0].weight, 1.0);
                model
            },
            model,
        )
    });
    let back = run(model.clone());
    assert!(back.b[1].same(&back.a) && back.loose.same(&model.loose));
    assert_eq!(nodes::find_duplicates(&back), before);
    assert_eq!((value(&model.loose), value(&back.a.weight)), (11.0, 11.0));
    assert_eq!(run(model.clone()).a.weight.get().item::<f64>(), 21.0);
    assert_eq!(run.traces(), 1);

    // The carry holds one object twice, unchanged.
    let (count, first, second) = while_loop(
        |carry: &(Tensor, Tied, Tied)| carry.0.less(2),
        |(count, first, _)| (count + 1, first.clone(), first),
        (Tensor::from(0), model.clone(), model.clone()),
    );
    assert_eq!(count.item::<i32>(), 2);
    assert!(first.a.same(&second.b[0]) && first.loose.same(&model.loose));
    // The value is written through one place and read through another in the next iteration.
    let (_, sum) = scan(
        |model: Tied, x: Tensor| {
            let y = &x * model.a.weight.get();
            model.loose.set(Tensor::from(0.0));
            (model, y)
        },
        model.clone(),
        Tensor::from([1.0, 2.0]),
    );
    assert_eq!(sum.to_vec::<f64>(), [21.0, 0.0]);
    assert_eq!(value(&model.b[1].weight), 0.0);
}

#[test]
fn reference_in_carry_and_inputs_is_rejected() {
    let xs = Ref::new(Tensor::from([1.0, 2.0, 3.0]));
    let text = panics(|| {
        scan(
            |(sum, all): (Tensor, Ref<Tensor>), x: Vec<Ref<Tensor>>| ((sum + x[0].get(), all), ()),
            (Tensor::from(0.0), xs.clone()),
            vec![xs.clone()],
        )
    });
    assert_eq!(
        text,
        "cannot loop: the carry and the inputs of scan contain the same reference: [1] in the carry is [0] in the inputs; the loop would have two copies of the reference, and a write to one copy would not change the other; use separate references in the carry and in the inputs"
    );
    // The outputs of each iteration are stacked in a new reference.
    let total = number(0.0);
    let (back, sums) = scan(
        |total: Ref<Tensor>, x: Ref<Tensor>| {
            total.update(|total| total + x.get());
            (total.clone(), (total, x))
        },
        total.clone(),
        xs.clone(),
    );
    assert!(back.same(&total) && !sums.0.same(&total) && !sums.1.same(&xs));
    assert_eq!(value(&total), 6.0);
    assert_eq!(sums.0.get().to_vec::<f64>(), [1.0, 3.0, 6.0]);
    assert_eq!(sums.1.get(), xs.get());
}

#[test]
fn shared_leaf_has_one_gradient() {
    let pair = twice(3.0);
    let product = |(a, b): &Pair| {
        assert!(a.same(b));
        a.get() * b.get()
    };
    let only = |(first, second): (
        pytree_core::Partition<_, Tensor>,
        pytree_core::Partition<_, Tensor>,
    )| {
        assert!(second.is_empty());
        first.leaves()[0].item::<f64>()
    };
    assert_eq!(only(grad(product)(&pair)), 6.0);
    assert_eq!(only(grad(product).wrt(Filter::path("[0]"))(&pair)), 6.0);
    let (_, pullback) = vjp(product, &pair);
    assert_eq!(only(pullback.call(&Tensor::from(2.0))), 12.0);
    let (primal, tangent) = jvp(product, &pair, &twice(1.0));
    assert_eq!((primal.item::<f64>(), tangent.item::<f64>()), (9.0, 6.0));
    let text = panics(|| jvp(product, &pair, &(number(1.0), number(1.0))));
    assert!(
        text.contains(
            "PyTreeDef((*, *)), expected the structure of the primals, PyTreeDef((*, alias 0))"
        ),
        "{text}"
    );
    // A shared leaf is selected by any of its places.
    assert_eq!(only(grad(product).wrt(Filter::path("[1]"))(&pair)), 6.0);

    #[derive(Module, Debug)]
    struct Two {
        #[param]
        trained: Ref<Tensor>,
        #[state(State)]
        kept: Ref<Tensor>,
    }
    let (trained, kept) = twice(1.0);
    let text =
        panics(|| grad(|two: &Two| two.trained.get() * two.kept.get())(&Two { trained, kept }));
    assert!(
        text.contains("different kinds at different paths: Param at trained, State at kept"),
        "{text}"
    );
}

#[test]
fn auxiliary_results_can_be_references() {
    let weight = Ref::param(Tensor::from(3.0));
    let loss = |weight: &Ref<Tensor>| {
        let fresh = Ref::new(weight.get() * 2.0);
        (
            weight.get().square(),
            (weight.clone(), vec![fresh.clone(), fresh]),
        )
    };
    let ((loss, (same, fresh)), gradient) = value_and_grad(loss)(&weight);
    assert!(same.same(&weight) && fresh[0].same(&fresh[1]));
    assert_eq!((loss.item::<f64>(), value(&fresh[0])), (9.0, 6.0));
    assert_eq!(gradient[""].item::<f64>(), 6.0);
}

#[test]
fn custom_rule_returns_one_shared_cotangent() {
    let pair = twice(3.0);
    let product = |(a, b): &Pair| a.get() * b.get();
    let ruled = custom_vjp(
        product,
        move |pair: &Pair| (product(pair), pair.clone()),
        |(a, b): Pair, cotangent: Tensor| {
            assert!(a.same(&b), "unchanged values stay shared");
            let both = Ref::param(cotangent * (a.get() + b.get()) * 10.0);
            (both.clone(), both)
        },
    );
    let gradient = grad(|pair: &Pair| ruled(pair))(&pair);
    assert_eq!(gradient.0.leaves()[0].item::<f64>(), 60.0);
    let apart = custom_vjp(
        product,
        move |pair: &Pair| (product(pair), pair.clone()),
        |(a, b): Pair, cotangent: Tensor| {
            (
                Ref::param(&cotangent * b.get()),
                Ref::new(cotangent * a.get()),
            )
        },
    );
    let text = panics(|| grad(|pair: &Pair| apart(pair))(&pair));
    assert!(
        text.contains("the cotangent that `backward` returns differs from the argument: node type at [1]: alias 0 against a reference"),
        "{text}"
    );
}

#[test]
fn remat_keeps_sharing() {
    let pair = twice(3.0);
    let square = remat(|(a, b): &Pair| {
        assert!(a.same(b));
        a.update(|a| a * 2.0);
        (b.get().square(), (a.clone(), Ref::new(b.get())))
    });
    let (y, (same, fresh)) = square(&pair);
    assert!(same.same(&pair.1) && !fresh.same(&pair.1));
    assert_eq!((y.item::<f64>(), value(&pair.0)), (36.0, 6.0));
    let gradient = grad(|pair: &Pair| square(pair).0)(&pair);
    // The derivative of (2 a)² at 6.
    assert_eq!(gradient.0.leaves()[0].item::<f64>(), 48.0);
    assert_eq!(value(&pair.1), 12.0);
}

#[test]
fn recording_writes_no_reference() {
    let count = number(2.0);
    let step = |count: &Ref<Tensor>| {
        add(count, 1.0);
        (count.get() * Tensor::ones(DType::F64, [3]), count.clone())
    };
    let shapes = eval_shape(step, &count);
    let shown: Vec<String> = shapes.leaves().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["f64[3]", "f64[]"]);
    let pair = (count.clone(), count.clone());
    let shapes = eval_shape(
        |(a, b): &Pair| {
            add(a, 1.0);
            b.get()
        },
        &pair,
    );
    assert_eq!(shapes.leaves()[0].to_string(), "f64[]");
    let jaxpr = make_jaxpr(|count: Ref<Tensor>| step(&count).0)(count.clone());
    assert!(jaxpr.to_string().contains("add a 1.0"), "{jaxpr}");
    let compiled = jit(move |count: Ref<Tensor>| step(&count).0);
    let _ = compiled.lower(&count);
    assert_eq!(value(&count), 2.0);
    compiled(count.clone());
    assert_eq!(value(&count), 3.0);
}

#[test]
fn copy_has_its_own_references() {
    let model = tied();
    let copy = nodes::copy(&model);
    add(&model.loose, 9.0);
    assert_eq!((value(&copy.a.weight), value(&model.a.weight)), (1.0, 10.0));
    assert_eq!(graph::structure(&copy), graph::structure(&model));
    let step = jit(|model: Tied| add(&model.loose, 1.0));
    step(model.clone());
    step(copy.clone());
    assert_eq!(step.traces(), 1);
    assert_eq!((value(&copy.b[0].weight), value(&model.loose)), (2.0, 11.0));
}
