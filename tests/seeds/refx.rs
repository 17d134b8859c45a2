//! "A reference system for jax" of refx: references through transformations, parts by collection, gradient descent.
//!
//! Transformations take references as they are: `deref` before and `reref` after are not needed, but are there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree::Partition;
use pytree::prelude::*;
use pytree::refs::{deref, reref, update_refs};
use pytree::{LeafKind, TreeError};

use crate::seeds::printed::Printed;

/// `{'a': [r1, r1, r2], 'b': r2}`.
#[derive(Pytree, Clone, Debug)]
struct Example {
    a: Vec<Ref<Tensor>>,
    b: Ref<Tensor>,
}

fn example(r1: &Ref<Tensor>, r2: &Ref<Tensor>) -> Example {
    Example {
        a: vec![r1.clone(), r1.clone(), r2.clone()],
        b: r2.clone(),
    }
}

fn value(reference: &Ref<Tensor>) -> f32 {
    reference.get().item()
}

#[test]
fn value_is_shared_by_all_handles() {
    let (r1, r2) = (Ref::new(Tensor::from(1)), Ref::new(Tensor::from(2)));
    let pytree = example(&r1, &r2);
    pytree.a[0].set(Tensor::from(10));
    assert_eq!(pytree.a[1].get(), Tensor::from(10));
}

#[test]
fn references_cross_border_of_compiled_function() -> Result<(), TreeError> {
    let (r1, r2) = (Ref::new(Tensor::from(1)), Ref::new(Tensor::from(2)));
    // By hand, with values outside and references inside.
    let by_hand = jit(|values: Tree<Tensor>| {
        let pytree: Example = reref(&values).expect("it is an example");
        pytree.a[2].set(Tensor::from(50));
        deref::<Tensor, _>(&pytree)
    });
    let pytree: Example = reref(&by_hand(deref(&example(&r1, &r2))))?;
    assert_eq!(pytree.b.get(), Tensor::from(50));
    assert_eq!(r2.get(), Tensor::from(2), "the references are new ones");
    // As they are.
    let f = jit(|pytree: Example| pytree.a[2].set(Tensor::from(50)));
    let pytree = example(&r1, &r2);
    f(pytree.clone());
    assert_eq!(pytree.b.get(), Tensor::from(50));
    assert_eq!(r2.get(), Tensor::from(50));
    Ok(())
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn reference_of_other_level_is_not_written() {
    let r = Ref::new(Tensor::from(1));
    let captured = r.clone();
    let f = jit(move |(): ()| captured.set(Tensor::from(1.0)));
    let error = catch_unwind(AssertUnwindSafe(|| f(()))).expect_err("it panics");
    let mut out = Printed::default();
    out.say(error.downcast::<String>().expect("it says why"));
    out.expect(
        "cannot write a reference inside of `jit` if the reference was created outside: traced values would leak out of the transformation; pass the reference as part of the argument, so that its final value is written back",
    );
    assert_eq!(r.get(), Tensor::from(1));
}

fn parts_example() -> (Ref<Tensor>, Ref<Tensor>, Example) {
    let r1 = Ref::param(Tensor::from(1.0_f32));
    let r2 = Ref::state::<BatchStat>(Tensor::from(2.0_f32));
    let pytree = example(&r1, &r2);
    (r1, r2, pytree)
}

#[test]
fn partition_has_one_part_more_than_predicates() -> Result<(), TreeError> {
    let (_, _, pytree) = parts_example();
    let [params, rest] =
        partition::split::<_, Tensor, 2>(&pytree, [Filter::param(), Filter::everything()])?;
    // A part holds a reference's value where it is met first; what is in another part is a place without leaf.
    let mut out = Printed::default();
    out.say(&params);
    out.say(&rest);
    out.expect(
        "
        Example { a: [Tensor(1., dtype=f32), alias 0, -], b: alias 1 }
        Example { a: [-, alias 0, Tensor(2., dtype=f32)], b: alias 1 }
        ",
    );
    for (part, absent) in [(&params, "a[2]"), (&rest, "a[0]")] {
        let error = part.get(absent).unwrap_err().to_string();
        assert!(error.contains("in another part"), "{error}");
    }
    // There are more parts than two if there are more predicates.
    let parts = [Filter::path("a[2]"), Filter::param(), Filter::everything()];
    let counts = partition::split::<_, Tensor, 3>(&pytree, parts)?.map(|part| part.len());
    assert_eq!(counts, [1, 1, 0]);
    let merged = partition::merge([params.clone(), rest.clone()])?;
    assert!(merged.a[0].same(&merged.a[1]) && merged.a[2].same(&merged.b));
    assert_eq!(merged.a[0].kind(), Some(LeafKind::Param));
    let twice = partition::merge([params.clone(), params.clone(), rest]);
    assert!(twice.unwrap_err().to_string().contains("a[0]"));
    let missing = partition::merge([params]);
    assert!(missing.unwrap_err().to_string().contains("a[2]"));
    Ok(())
}

#[test]
fn a_single_part_is_chosen() {
    let (_, _, pytree) = parts_example();
    let params: Partition<Example, Tensor> = partition::filter(&pytree, &Filter::param());
    assert_eq!(
        params.to_string(),
        "Example { a: [Tensor(1., dtype=f32), alias 0, -], b: alias 1 }"
    );
}

#[test]
fn references_descend_along_the_gradient() -> Result<(), TreeError> {
    let (r1, r2, pytree) = parts_example();
    let [params, rest] =
        partition::split::<_, Tensor, 2>(&pytree, [Filter::param(), Filter::everything()])?;
    let loss = |params: &Partition<Example, Tensor>| {
        let pytree = partition::merge([params.clone(), rest.clone()]).expect("a whole was split");
        pytree.a[0].get().square() * pytree.b.get() + pytree.a[1].get()
    };
    let grads = grad(loss)(&params);
    // The reference is at two places and has one gradient, their sum.
    assert_eq!((grads.len(), grads["a[0]"].item::<f32>()), (1, 5.0));
    // gradient descent
    let params = params.map2(&grads, |w, g| w - 0.1 * g)?;
    update_refs(&pytree, &params)?;
    assert_eq!((value(&r1), value(&r2)), (0.5, 2.0));
    assert_eq!(pytree.a[1].get(), Tensor::from(0.5_f32));
    Ok(())
}
