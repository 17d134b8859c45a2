//! `vmap` with axes of every form, axis names, written states, and the messages for mistakes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree_core::kind::BatchStat;
use pytree_core::{Filter, Module, Tree};
use pytree_transform::{
    Axes, DType, Jaxpr, Tensor, Tiling, all_gather, all_to_all, axis_index, axis_size, grad, jit,
    jvp, make_jaxpr, pmax, pmean, ppermute, pshuffle, psum, vmap, vmap_mut,
};

#[derive(Module, Clone, Debug)]
struct Norm {
    #[param]
    scale: Tensor,
    #[param]
    bias: Option<Tensor>,
    #[state(BatchStat)]
    mean: Tensor,
}

fn norm() -> Norm {
    Norm {
        scale: Tensor::from([1.0, 2.0]),
        bias: None,
        mean: Tensor::from(10.0),
    }
}

fn message(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.unwrap_or_else(|| payload.downcast_ref::<String>().unwrap().clone())
}

fn apply((norm, x): (Norm, Tensor)) -> Tensor {
    x * norm.scale - norm.mean
}

#[test]
fn in_axes_accepts_filters_fields_and_trees() {
    let x = Tensor::from([3.0, 4.0]);
    let expected = [-7.0, -2.0];
    let by_filter = Axes::filter([(Filter::param(), Some(0)), (Filter::everything(), None)]);
    let by_field = Axes::fields([("scale", Some(-1)), ("mean", None)]);
    let tree: Tree<Tensor> = Tree::from_value(&norm());
    let by_tree = Axes::from(tree.map(|leaf| (leaf.rank() > 0).then_some(0)));
    for axes in [by_filter, by_field, by_tree] {
        let f = vmap(apply).in_axes((axes, 0));
        assert_eq!(f((norm(), x.clone())).to_vec::<f64>(), expected);
    }
}

#[test]
fn in_axes_apply_to_lists_maps_options() {
    type Argument = (Vec<Tensor>, BTreeMap<String, Option<Tensor>>);
    let axes = (
        [Some(1), None],
        Axes::dict([("a", Axes::from(0)), ("b", Axes::from((0, 0)))]),
    );
    let f = vmap(|(list, map): Argument| &list[0] + &list[1] * map["a"].as_ref().unwrap())
        .in_axes(axes);
    let list = vec![Tensor::from([[1.0, 2.0]]), Tensor::from(10.0)];
    let map = BTreeMap::from([
        ("a".to_owned(), Some(Tensor::from([1.0, 2.0]))),
        ("b".to_owned(), None),
    ]);
    assert_eq!(f((list, map)), Tensor::from([[11.0], [22.0]]));
}

#[test]
fn results_have_the_given_out_axes() {
    let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let f = vmap(|x: Tensor| (x.clone(), vec![x.sum(), x], Tensor::from([7.0, 8.0]))).out_axes((
        1,
        [0, -1],
        -1,
    ));
    let (first, list, constant) = f(x.clone());
    assert_eq!(first, x.t());
    assert_eq!(list, [x.sum_axes([1]), x.t()]);
    assert_eq!(constant, Tensor::from([[7.0, 7.0], [8.0, 8.0]]));
    let same = vmap(|x: Tensor| (pmax(&x, "i"), Tensor::from(1.0))).axis_name("i");
    let (maximum, constant) = same.out_axes(None)(x.clone());
    assert_eq!(maximum, Tensor::from([4.0, 5.0, 6.0]));
    assert_eq!(constant, Tensor::from(1.0));
}

#[test]
fn axis_size_replaces_mapped_leaves() {
    let f = vmap(|x: Tensor| x * 2.0).in_axes(None).axis_size(2);
    assert_eq!(f(Tensor::from(1.0)).to_vec::<f64>(), [2.0, 2.0]);
    let f = vmap(|x: Tensor| x * 2.0).axis_size(2);
    assert_eq!(f(Tensor::from([1.0, 2.0])).to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn empty_and_single_batches_are_mapped() {
    for (size, nested) in [(0, 0), (0, 2), (1, 1), (1, 0)] {
        let x = Tensor::ones(DType::F64, [size, nested, 3]);
        let f = |x: Tensor| {
            (
                x.sin() * psum(&x, "i") + pmean(&x, ("i", "j")),
                axis_index("j"),
            )
        };
        let (found, index) = vmap(vmap(f).axis_name("j")).axis_name("i")(x);
        assert_eq!(found.shape(), [size, nested, 3]);
        assert_eq!(index.shape(), [size, nested]);
        let slopes = vmap(grad(|x: &Tensor| psum(&x.sin(), "i").sum())).axis_name("i");
        assert_eq!(
            slopes(Tensor::ones(DType::F64, [size, 3])).shape(),
            [size, 3]
        );
    }
}

#[test]
fn psum_accepts_pytrees() {
    let f = vmap(|pair: (Tensor, Vec<Tensor>)| psum(&pair, "i")).axis_name("i");
    let (first, rest) = f((Tensor::from([1, 2]), vec![Tensor::from([true, true])]));
    assert_eq!(first.to_vec::<i32>(), [3, 3]);
    assert_eq!(rest[0].to_vec::<i32>(), [2, 2]);
}

#[test]
fn jit_retraces_for_each_axis_length() {
    let f = jit(|x: Tensor| &x / psum(&x, "i") + axis_size("i") as f64);
    let plain = jit(|x: Tensor| x.sin());
    for size in [2, 3, 2] {
        let ones = Tensor::ones(DType::F64, [size]);
        let found = vmap(&f).axis_name("i")(ones.clone());
        assert_eq!(
            found,
            Tensor::full(DType::F64, [size], 1.0 / size as f64 + size as f64)
        );
        let _ = vmap(&plain).axis_name("i")(ones);
    }
    assert_eq!(f.traces(), 2);
    assert_eq!(
        f.why_retraced().unwrap(),
        "the batch axis `i`: 2 before, 3 now"
    );
    assert_eq!(plain.traces(), 1);
    let text = message(|| drop(f(Tensor::from(1.0))));
    assert!(
        text.contains(
            "cannot psum over the batch axis `i`: no enclosing `vmap` names a batch axis"
        ),
        "{text}"
    );
}

#[test]
fn nested_jit_depends_on_outer_axes() {
    let inner = jit(|x: Tensor| all_gather(&x, "i", 0, Tiling::Stacked));
    let outer = jit(move |x: Tensor| inner(x).sum());
    for size in [2, 3] {
        let found = vmap(&outer).axis_name("i")(Tensor::ones(DType::F64, [size]));
        assert_eq!(found, Tensor::full(DType::F64, [size], size as f64));
    }
    assert_eq!(outer.traces(), 2);
}

#[test]
fn jit_of_unmapped_value_sees_axis() {
    let f = jit(|x: Tensor| psum(&x, "i") + axis_index("i").convert(DType::F64));
    let one = Tensor::from(1.0);
    let inner = f.clone();
    let found = vmap(|()| inner(one.clone())).axis_name("i").axis_size(3);
    assert_eq!(found(()).to_vec::<f64>(), [3.0, 4.0, 5.0]);
    let whole = jit(move |x: Tensor| {
        vmap(|y: Tensor| f(x.clone()) + y).axis_name("i")(Tensor::from([0.0, 10.0]))
    });
    assert_eq!(whole(Tensor::from(1.0)).to_vec::<f64>(), [2.0, 13.0]);
}

#[test]
fn gradients_through_collectives_cover_the_batch() {
    let x = Tensor::from([[0.5, 1.0], [-1.0, 2.0], [0.25, 0.0]]);
    let center = |x: &Tensor| {
        let f = vmap(|x: Tensor| (&x - pmean(&x, "i")).powi(3).sum()).axis_name("i");
        f(x.clone()).sum()
    };
    let whole = |x: &Tensor| (x - x.mean_keep([0])).powi(3).sum();
    let close = |left: Tensor, right: Tensor| (left - right).abs().max().item::<f64>() < 1e-12;
    assert!(close(grad(center)(&x), grad(whole)(&x)));
    assert!(close(jvp(center, &x, &x).1, jvp(whole, &x, &x).1));
    let second = move |x: &Tensor| grad(center)(x).square().sum();
    let whole_second = |x: &Tensor| grad(whole)(x).square().sum();
    assert!(close(grad(second)(&x), grad(whole_second)(&x)));
    assert!(close(
        jit(move |x: Tensor| grad(second)(&x))(x.clone()),
        grad(whole_second)(&x)
    ));
}

#[test]
fn mapped_and_shared_states_are_written() {
    let update = |(norm, x): (&mut Norm, Tensor)| {
        norm.mean = &norm.mean * 0.5 + pmean(&x, "i") * 0.5;
        norm.bias = Some(x.clone());
        x * &norm.scale
    };
    let mut model = norm();
    let axes = Axes::filter([(Filter::param(), Some(0)), (Filter::everything(), None)]);
    let f = vmap_mut(update).in_axes((axes, 0)).axis_name("i");
    let y = f((&mut model, Tensor::from([2.0, 4.0])));
    assert_eq!(y.to_vec::<f64>(), [2.0, 8.0]);
    assert_eq!(model.mean, Tensor::from(6.5));
    assert_eq!(model.bias.unwrap().to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn batched_write_to_unmapped_state_is_rejected() {
    let mut model = norm();
    let text = message(|| {
        let write = vmap_mut(|(norm, x): (&mut Norm, Tensor)| {
            norm.scale = &norm.scale * 2.0;
            norm.mean = x.clone();
            x
        });
        let _ = write.in_axes((None, 0)).axis_name("i")((&mut model, Tensor::from([1.0, 2.0])));
    });
    assert!(
        text.contains(
            "[0].mean (f64[]) differs between the examples of `i`, but its axis is `None`"
        ),
        "{text}"
    );
    assert!(!text.contains("scale"), "{text}");
    assert_eq!(model.scale, norm().scale);
}

#[test]
fn axis_length_mismatch_groups_leaves() {
    let text = message(|| {
        let x = Tensor::zeros(DType::F32, [3, 2]);
        let y = Tensor::zeros(DType::F32, [4]);
        let f = vmap(|(x, y): (Vec<Tensor>, Tensor)| &x[0] + &x[1] + y).in_axes((0, -1));
        let _ = f((vec![x.clone(), x], y));
    });
    assert!(text.contains("\n  3: axis 0 of [0][0] (f32[3,2]), axis 0 of [0][1] (f32[3,2])\n  4: axis 0 of [1] (f32[4])\n"), "{text}");
    let text = message(|| drop(vmap(|x: Tensor| x).axis_size(3)(Tensor::from([1, 2]))));
    assert!(
        text.contains("\n  3: `.axis_size(…)`\n  2: axis 0 of the root (i32[2])\n"),
        "{text}"
    );
    let text = message(|| drop(vmap(|x: Tensor| x).in_axes(None)(Tensor::from([1, 2]))));
    assert!(
        text.contains("map at least one leaf, or set the number of examples with `.axis_size(…)`"),
        "{text}"
    );
}

#[test]
fn mismatched_in_axes_are_all_listed() {
    let call =
        |axes: Axes| message(|| drop(vmap(apply).in_axes(axes)((norm(), Tensor::from([1.0])))));
    let text = call(Axes::from((
        Axes::fields([("scal", Some(0)), ("mean", None)]),
        (0, 0),
    )));
    for part in [
        "at [0]: `Norm` of (scale, bias, mean) has no field `scal`; did you mean field `scale`?",
        "at [0].scale: no axis is given",
        "at [1]: the axes are given as a tuple of 2, but the value is a leaf",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = call(Axes::from((Axes::filter([(Filter::param(), Some(0))]), 0)));
    assert!(
        text.contains("at [0].mean: no filter accepts the leaf (BatchStat)"),
        "{text}"
    );
    let text = call(Axes::from((
        Axes::filter([(Filter::path("scael"), Some(0))]),
        0,
    )));
    assert!(text.contains("did you mean `scale`?"), "{text}");
    let params = (Filter::param(), Some(0));
    let text = call(Axes::from((
        Axes::filter([(Filter::everything(), None), params]),
        0,
    )));
    assert!(
        text.contains(
            "at [0]: `Filter::everything()` accepts all leaves, so no leaves are left for the filters after it: param; put `Filter::everything()` last"
        ),
        "{text}"
    );
    let text = call(Axes::from((Axes::from(3), Axes::from(-2))));
    assert!(text.contains("[0].scale: f64[2] has no axis 3; [0].mean: f64[] has no axis 3; [1]: f64[1] has no axis -2"), "{text}");
    let tree: Tree<Tensor> = Tree::from_value(&(Tensor::from(1.0), Tensor::from(1.0)));
    let text = call(Axes::from((Axes::from(tree.map(|_| Some(0))), 0)));
    assert!(text.contains("is not a prefix"), "{text}");
    let twice = Axes::fields([("scale", Some(0)), ("scale", None), ("mean", None)]);
    let text = call(Axes::from((twice, 0)));
    assert!(
        text.contains("at [0]: field `scale` is named twice"),
        "{text}"
    );
}

#[test]
fn invalid_out_axes_are_named() {
    let x = Tensor::from([[1.0, 2.0]]);
    let call = |axes: Axes| {
        message(|| {
            drop(vmap(|x: Tensor| (x.clone(), vec![x])).out_axes(axes)(
                x.clone(),
            ))
        })
    };
    let text = call(Axes::from((0, None)));
    assert!(
        text.contains("[1][0] (f64[2]) differs between the examples, but its axis is `None`"),
        "{text}"
    );
    let text = call(Axes::from(2));
    assert!(
        text.contains("[0]: f64[2] with a batch axis added has no axis 2"),
        "{text}"
    );
    let text = call(Axes::from((0, 0, 0)));
    assert!(text.contains("`.out_axes(…)` do not fit the value: at the root: the axes are given as a tuple of 3, but the value is a tuple of 2"), "{text}");
}

/// Records a function of one example in a batch of 3 whose batch axis is `i`.
fn recorded_under_axis(function: impl Fn(Tensor) -> Tensor + Send + Sync) -> Jaxpr {
    let recorded = std::sync::Mutex::new(None);
    let record = |x: Tensor| {
        *recorded.lock().unwrap() = Some(make_jaxpr(&function)(x.clone()));
        x
    };
    drop(vmap(record).axis_name("i")(Tensor::from([1.0, 2.0, 3.0])));
    recorded.into_inner().unwrap().unwrap()
}

#[test]
fn recorded_function_requires_its_batch_axis() {
    let summed = jit(|x: Tensor| psum(&x, "i"));
    let sums = recorded_under_axis(&*summed);
    let gathers = recorded_under_axis(|x| all_gather(&x, "i", 0, Tiling::Stacked));
    for jaxpr in [&sums, &gathers] {
        let run = |x: Tensor| jaxpr.evaluate(&[x]).remove(0);
        let found = vmap(run).axis_name("i")(Tensor::from([1.0, 2.0, 4.0]));
        assert_eq!(found.sum().item::<f64>() % 7.0, 0.0);
        let text = message(|| drop(run(Tensor::from(1.0))));
        assert!(
            text.contains("over the batch axis `i`: no enclosing `vmap` names a batch axis"),
            "{text}"
        );
    }
    let gathered = |x: Tensor| gathers.evaluate(&[x]).remove(0);
    let text = message(|| drop(vmap(gathered).axis_name("i")(Tensor::from([1.0, 2.0]))));
    assert_eq!(
        text,
        "cannot all_gather f64[]: the batch axis `i` has length 2, but the operation was recorded for length 3; record the function again under the `vmap` that calls it"
    );
}

#[test]
fn unbound_and_repeated_names_are_errors() {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let nested = |f: fn(Tensor) -> Tensor| {
        message(|| {
            drop(vmap(vmap(f).axis_name("columns")).axis_name("rows")(
                x.clone(),
            ))
        })
    };
    let text = nested(|x| psum(&x, "column"));
    assert_eq!(
        text,
        "cannot psum over the batch axis `column`: the enclosing `vmap`s have the names `columns`, `rows`; set this name with `.axis_name(\"column\")` on an enclosing `vmap`"
    );
    let text = nested(|x| jit(|x: Tensor| pmean(&x, "j"))(x));
    assert!(
        text.contains("cannot pmean over the batch axis `j`: the enclosing `vmap`s have the names"),
        "{text}"
    );
    let text = nested(|x| psum(&x, ["rows", "rows"]));
    assert!(
        text.contains("cannot psum over the batch axis `rows` twice"),
        "{text}"
    );
    let text = nested(|x| ppermute(&x, ("rows", "columns"), [(0, 1)]));
    assert!(text.contains("expected one axis name, found 2"), "{text}");
    let text = message(|| drop(axis_index("rows")));
    assert!(
        text.contains("no enclosing `vmap` names a batch axis"),
        "{text}"
    );
}

#[test]
fn invalid_collectives_name_the_mistake() {
    let x = Tensor::from([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]);
    let call = |f: fn(Tensor) -> Tensor| message(|| drop(vmap(f).axis_name("i")(x.clone())));
    let text = call(|x| ppermute(&x, "i", [(0, 2), (0, 1), (1, 1)]));
    assert!(text.contains("the pair (0, 2) is out of range for the batch axis `i` of length 2, example 0 sends twice, example 1 receives twice"), "{text}");
    let text = call(|x| all_to_all(&x, "i", 0, 0, Tiling::Stacked));
    assert!(
        text.contains("axis 0 has length 3, but the batch axis `i` has length 2"),
        "{text}"
    );
    let text = call(|x| all_to_all(&x, "i", 0, 0, Tiling::Tiled));
    assert!(text.contains("cannot be divided into 2 pieces"), "{text}");
    let text = call(|x| all_gather(&x, "i", 2, Tiling::Stacked));
    assert!(
        text.contains(
            "cannot all_gather f64[3]: axis 2 is out of range for a new axis in a result of 2 axes; use an axis from -2 to 1"
        ),
        "{text}"
    );
    let text = call(|x| pshuffle(&x, "i", [0]));
    assert!(text.contains("expected 2 entries, found 1"), "{text}");
    let text = call(|x| pmean(&x.greater(0.0), "i"));
    assert!(text.contains("expected a float dtype"), "{text}");
}

#[test]
fn stack_without_members_is_an_error() {
    let text = message(|| drop(Tensor::stack(&[] as &[Tensor], 0)));
    assert!(text.starts_with("cannot stack nothing: "), "{text}");
    let text = message(|| drop(pytree_transform::stack::<Tensor>(&[], 0)));
    assert!(text.contains("the list of members is empty"), "{text}");
}
