//! Functions that write `&mut` arguments, under `jit_mut` and `vmap_mut`: errors half way, several arguments, sharing,
//! and other transformations around and inside of them.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a failed unwrap is a failed test, and says where"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use pytree_core::{Ref, Shared};
use pytree_transform::{
    JitMut, Mut, Tensor, debug_callback, grad, jit, jit_mut, pmean, value_and_grad_mut, vmap,
    vmap_mut,
};

fn panics(run: impl FnOnce()) -> String {
    let error = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    match error.downcast::<String>() {
        Ok(text) => *text,
        Err(error) => error.downcast_ref::<&str>().unwrap().to_string(),
    }
}

fn vector(numbers: &[f64]) -> Tensor {
    Tensor::new([numbers.len()], numbers.to_vec())
}

/// Writes both arguments, and fails after that if `x` has three elements.
fn add((sum, product, x): (&mut Tensor, &mut Tensor, Tensor)) -> Result<Tensor, String> {
    *sum = &*sum + x.sum();
    *product = &*product * x.sum();
    if x.len() == 3 {
        return Err(format!("{} elements", x.len()));
    }
    Ok(x * 2.0)
}

type Adding = JitMut<(Mut<Tensor>, Mut<Tensor>, Tensor), Result<Tensor, String>>;

#[test]
fn error_half_way_writes_no_argument() {
    let step = jit_mut(add);
    let (mut sum, mut product) = (Tensor::from(1.0), Tensor::from(2.0));
    for _ in 0..2 {
        let before = (sum.item::<f64>(), product.item::<f64>());
        let error = step((&mut sum, &mut product, vector(&[1.0, 2.0, 3.0])));
        assert_eq!(error.unwrap_err(), "3 elements");
        assert_eq!((sum.item::<f64>(), product.item::<f64>()), before);
        let doubled = step((&mut sum, &mut product, vector(&[3.0]))).unwrap();
        assert_eq!(doubled.to_vec::<f64>(), [6.0]);
        assert_eq!(step.traces(), 1, "a failure is no trace");
    }
    assert_eq!((sum.item::<f64>(), product.item::<f64>()), (7.0, 18.0));
    assert_eq!(step.cached(), 1);

    let each = vmap_mut(add);
    let (mut sums, mut products) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]));
    let rows = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let error = each((&mut sums, &mut products, rows));
    assert_eq!(error.unwrap_err(), "3 elements");
    assert_eq!(sums, vector(&[1.0, 2.0]));
    assert_eq!(products, vector(&[3.0, 4.0]));
}

#[test]
fn error_of_inner_call_writes_no_outer_argument() {
    let inner: Adding = jit_mut(add);
    let outer = jit_mut(
        move |(count, sum, product, x): (&mut Tensor, &mut Tensor, &mut Tensor, Tensor)| {
            *count = &*count + 1.0;
            inner((&mut *sum, &mut *product, vector(&[1.0])))?;
            inner((sum, product, x))
        },
    );
    let mut count = Tensor::from(0.0);
    let (mut sum, mut product) = (Tensor::from(1.0), Tensor::from(2.0));
    let wrong = vector(&[1.0, 2.0, 3.0]);
    assert!(outer((&mut count, &mut sum, &mut product, wrong)).is_err());
    assert_eq!(count.item::<f64>(), 0.0);
    assert_eq!((sum.item::<f64>(), product.item::<f64>()), (1.0, 2.0));
    outer((&mut count, &mut sum, &mut product, vector(&[4.0, 5.0]))).unwrap();
    assert_eq!(count.item::<f64>(), 1.0);
    assert_eq!((sum.item::<f64>(), product.item::<f64>()), (11.0, 18.0));
}

#[test]
fn gradient_of_a_compiled_function_that_fails() {
    let forward = jit_mut(|(pair, x): (&mut (Tensor, Tensor), Tensor)| {
        pair.1 = &pair.1 + 1.0;
        match x.len() {
            3 => Err("3 elements"),
            _ => Ok((&pair.0 * &x).sum()),
        }
    });
    let mut pair = (Tensor::from(2.0), Tensor::from(0.0));
    let mut step = |x: Tensor| {
        let loss = |pair: &mut (Tensor, Tensor)| {
            pair.1 = &pair.1 * 10.0;
            forward((pair, x.clone()))
        };
        let result = value_and_grad_mut(loss)(&mut pair);
        (result, pair.1.item::<f64>())
    };
    let (result, count) = step(vector(&[1.0, 2.0, 3.0]));
    assert_eq!((result.unwrap_err(), count), ("3 elements", 0.0));
    let (result, count) = step(vector(&[1.0, 2.0]));
    let (loss, (slope, _)) = result.unwrap();
    assert_eq!(
        (loss.item::<f64>(), slope.item::<f64>(), count),
        (6.0, 3.0, 1.0)
    );

    // The gradient inside of the compiled function.
    let compiled = jit_mut(|(pair, x): (&mut (Tensor, Tensor), Tensor)| {
        pair.1 = &pair.1 + 5.0;
        let loss = |weight: &Tensor| match x.len() {
            3 => Err("3 elements"),
            _ => Ok((weight * &x).square().sum()),
        };
        let slope = grad(loss)(&pair.0)?;
        pair.0 = &pair.0 - &slope;
        Ok::<_, &str>(slope)
    });
    let mut pair = (Tensor::from(2.0), Tensor::from(0.0));
    compiled((&mut pair, vector(&[1.0, 2.0, 3.0]))).unwrap_err();
    assert_eq!((pair.0.item::<f64>(), pair.1.item::<f64>()), (2.0, 0.0));
    compiled((&mut pair, vector(&[0.5]))).unwrap();
    assert_eq!((pair.0.item::<f64>(), pair.1.item::<f64>()), (1.0, 5.0));
}

#[test]
fn mapped_and_compiled_functions_nest_both_ways() {
    let xs = Tensor::from([[1.0], [2.0]]);
    let wide = Tensor::from([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
    let start = || (vector(&[0.0, 1.0]), vector(&[1.0, 2.0]));
    let mapped = vmap_mut(jit_mut(add));
    let compiled = jit_mut(vmap_mut(add));
    let (mut a, mut b) = start();
    assert!(mapped((&mut a, &mut b, wide.clone())).is_err());
    assert!(compiled((&mut a, &mut b, wide)).is_err());
    assert_eq!((&a, &b), (&start().0, &start().1));
    let doubled = mapped((&mut a, &mut b, xs.clone())).unwrap();
    assert_eq!(
        (doubled, &a, &b),
        (&xs * 2.0, &vector(&[1.0, 3.0]), &vector(&[1.0, 4.0]))
    );
    let (mut a, mut b) = start();
    let doubled = compiled((&mut a, &mut b, xs.clone())).unwrap();
    assert_eq!(
        (doubled, &a, &b),
        (&xs * 2.0, &vector(&[1.0, 3.0]), &vector(&[1.0, 4.0]))
    );
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn functions_of_six_arguments_nest() {
    type Three<'a> = (
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        Tensor,
        Tensor,
        Tensor,
    );
    let add = |(a, b, c, x, y, z): Three<'_>| {
        (*a, *b, *c) = (&*a + x, &*b + y, &*c + z);
        a.sum()
    };
    let ones = || vector(&[1.0, 1.0]);
    let (mut a, mut b, mut c) = (ones(), ones(), ones());
    let compiled = jit_mut(vmap_mut(add).in_axes((0, 0, 0, 0, None, None)));
    let two = Tensor::from(2.0);
    let sums = compiled((&mut a, &mut b, &mut c, ones(), two.clone(), two));
    assert_eq!((sums, a), (vector(&[2.0, 2.0]), vector(&[2.0, 2.0])));
    assert_eq!((b, c), (vector(&[3.0, 3.0]), vector(&[3.0, 3.0])));
}

#[test]
fn functions_of_eight_arguments_nest() {
    // A step of two models with an optimizer each, such as a GAN.
    type Four<'a> = (
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        Tensor,
        Tensor,
        Tensor,
        Tensor,
    );
    let add = |(a, b, c, d, w, x, y, z): Four<'_>| {
        (*a, *b, *c, *d) = (&*a + w, &*b + x, &*c + y, &*d + z);
        a.sum()
    };
    let ones = || vector(&[1.0, 1.0]);
    let (mut a, mut b, mut c, mut d) = (ones(), ones(), ones(), ones());
    let compiled = jit_mut(vmap_mut(add).in_axes((0, 0, 0, 0, 0, None, None, None)));
    let number = |x: f64| Tensor::from(x);
    let arguments = (ones(), number(2.0), number(3.0), number(4.0));
    let (w, x, y, z) = arguments;
    let sums = compiled((&mut a, &mut b, &mut c, &mut d, w, x, y, z));
    assert_eq!((sums, a), (vector(&[2.0, 2.0]), vector(&[2.0, 2.0])));
    assert_eq!((b, c), (vector(&[3.0, 3.0]), vector(&[4.0, 4.0])));
    assert_eq!(d, vector(&[5.0, 5.0]));

    type Eight<'a> = (
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
        &'a mut Tensor,
    );
    let double = jit_mut(|(a, b, c, d, e, f, g, h): Eight<'_>| {
        for tensor in [a, b, c, d, e, f, g, h] {
            *tensor = &*tensor * 2.0;
        }
    });
    let mut numbers: [Tensor; 8] = std::array::from_fn(|at| number(at as f64));
    let [a, b, c, d, e, f, g, h] = &mut numbers;
    double((a, b, c, d, e, f, g, h));
    let found = numbers.map(|tensor| tensor.item::<f64>());
    assert_eq!(found, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
}

#[test]
fn panic_half_way_writes_no_argument() {
    // A value that is written to a leaf that is not mapped must not differ between the examples.
    let each = vmap_mut(|(mapped, mean, x): (&mut Tensor, &mut Tensor, Tensor)| {
        *mapped = &*mapped + &x;
        *mean = x;
    })
    .in_axes((0, None, 0));
    let (mut mapped, mut mean) = (vector(&[1.0, 2.0]), Tensor::from(0.5));
    let text = panics(|| each((&mut mapped, &mut mean, vector(&[3.0, 4.0]))));
    assert!(
        text.contains("the written values do not fit the axes: [1] (f64[])"),
        "{text}"
    );
    assert_eq!((&mapped, mean.item::<f64>()), (&vector(&[1.0, 2.0]), 0.5));
    let each = vmap_mut(|(mapped, mean, x): (&mut Tensor, &mut Tensor, Tensor)| {
        *mapped = &*mapped + &x;
        *mean = pmean(&x, "i");
    })
    .in_axes((0, None, 0))
    .axis_name("i");
    each((&mut mapped, &mut mean, vector(&[3.0, 5.0])));
    assert_eq!((&mapped, mean.item::<f64>()), (&vector(&[4.0, 7.0]), 4.0));

    // A panic while the program runs.
    let calls = jit_mut(|(a, b): (&mut Tensor, &mut Tensor)| {
        *a = &*a * 2.0;
        debug_callback(&[&*a], |_| panic!("stop"));
        *b = &*b * &*a;
    });
    let (mut a, mut b) = (Tensor::from(3.0), Tensor::from(4.0));
    for _ in 0..2 {
        assert!(panics(|| calls((&mut a, &mut b))).contains("stop"));
        assert_eq!((a.item::<f64>(), b.item::<f64>()), (3.0, 4.0));
    }
    let checked = jit_mut(|(a, b): (&mut Tensor, &mut Tensor)| {
        *a = &*a + 1.0;
        *b = (&*b - 10.0).log();
        Ok::<_, String>(())
    })
    .check_nans();
    for _ in 0..2 {
        panics(|| drop(checked((&mut a, &mut b))));
        assert_eq!((a.item::<f64>(), b.item::<f64>()), (3.0, 4.0));
    }
}

type Scaled = (Shared<Tensor>, Tensor);

fn scale((own, read, x): (&mut Scaled, Scaled, Tensor)) -> Tensor {
    own.1 = &own.1 + &*read.0 * &read.1 + &x;
    &*own.0 * &x
}

#[test]
fn arguments_share_nodes_and_references() {
    // A node that is shared between the written and the read argument has one leaf.
    let table = Shared::new(vector(&[1.0, 2.0]));
    let pair = |number| (table.clone(), vector(&[number, number]));
    let (mut eager, mut mapped, mut compiled) = (pair(1.0), pair(1.0), pair(1.0));
    let x = vector(&[3.0, 4.0]);
    let expected = scale((&mut eager, pair(2.0), x.clone()));
    assert_eq!(
        vmap_mut(scale)((&mut mapped, pair(2.0), x.clone())),
        expected
    );
    assert_eq!(
        jit_mut(scale)((&mut compiled, pair(2.0), x.clone())),
        expected
    );
    assert_eq!((&mapped.1, &compiled.1), (&eager.1, &eager.1));
    assert!(compiled.0.same(&table));

    // A reference in both arguments, written through the argument that is only read.
    let count = Ref::new(vector(&[0.0, 10.0]));
    let write = |(own, read): (&mut (Ref<Tensor>, Tensor), Ref<Tensor>)| {
        read.update(|count| count + 1.0);
        own.1 = own.0.get() * 2.0;
    };
    let mut own = (count.clone(), vector(&[0.0, 0.0]));
    vmap_mut(write)((&mut own, count.clone()));
    assert_eq!(
        (count.get(), &own.1),
        (vector(&[1.0, 11.0]), &vector(&[2.0, 22.0]))
    );
    jit_mut(write)((&mut own, count.clone()));
    assert_eq!(
        (count.get(), &own.1),
        (vector(&[2.0, 12.0]), &vector(&[4.0, 24.0]))
    );
    assert!(own.0.same(&count));

    // An error after the write.
    let fails = jit_mut(|(own, read): (&mut (Ref<Tensor>, Tensor), Ref<Tensor>)| {
        read.update(|count| count + 1.0);
        own.1 = own.0.get() * 2.0;
        Err::<(), _>("fails")
    });
    assert_eq!(fails((&mut own, count.clone())), Err("fails"));
    assert_eq!(
        (count.get(), &own.1),
        (vector(&[2.0, 12.0]), &vector(&[4.0, 24.0]))
    );
}

static RECURSIVE: OnceLock<JitMut<Mut<Tensor>, ()>> = OnceLock::new();

#[test]
fn messages_name_the_transformation() {
    let step = jit_mut(|x: &mut Tensor| {
        *x = &*x + 1.0;
        Err::<(), _>("fails")
    });
    let mut x = Tensor::from(1.0);
    let text = panics(|| drop(step.jaxpr(&mut x)));
    assert!(
        text.starts_with(
            "cannot record the function of the jit_mut at pytree-transform/tests/writing.rs:"
        ),
        "{text}"
    );
    let text = panics(|| drop(step.lower(&mut x)));
    assert!(
        text.contains("the function returned an `Err` for this argument"),
        "{text}"
    );
    assert_eq!(x.item::<f64>(), 1.0);
    let text = panics(|| drop(jit(|_: Tensor| Err::<(), _>("fails")).lower(&x)));
    assert!(
        text.starts_with("cannot record the function of the jit at "),
        "{text}"
    );

    // A compiled function that calls itself.
    let recursive = RECURSIVE.get_or_init(|| jit_mut(|x: &mut Tensor| RECURSIVE.get().unwrap()(x)));
    let text = panics(|| recursive(&mut x));
    assert!(text.contains("(jit_mut at "), "{text}");
    assert_eq!(x.item::<f64>(), 1.0);
}

#[test]
fn options_keep_the_function() {
    let step = jit_mut(add).cache_size(1).check_infs();
    let (mut sum, mut product) = (Tensor::from(0.0), Tensor::from(1.0));
    for length in [1, 2, 1] {
        step((&mut sum, &mut product, vector(&vec![1.0; length]))).unwrap();
    }
    assert_eq!((step.traces(), step.cached()), (3, 1));
    assert_eq!(
        step.why_retraced().unwrap(),
        "[2]: f64[2] before, f64[1] now"
    );
    step.clone().clear_cache();
    assert_eq!(step.cached(), 0, "a clone shares the cache");
    let text = panics(|| {
        drop(step((
            &mut sum,
            &mut product,
            vector(&[f64::MAX, f64::MAX]),
        )))
    });
    assert!(text.contains("inf"), "{text}");
    assert_eq!((sum.item::<f64>(), product.item::<f64>()), (4.0, 2.0));

    let both = vmap(jit(|x: Tensor| Ok::<_, String>(x.sum()))).in_axes(1);
    assert_eq!(
        both(Tensor::from([[1.0, 2.0]])).unwrap(),
        vector(&[1.0, 2.0])
    );
}
