//! A compiled function writes an update of a tensor in its memory if nothing else holds the tensor: an argument, and a value that a loop
//! carries. The bits are those of a copy.

use pytree::control::{fori_loop, scan, while_loop};
use pytree::optim::{Chain, adagrad, adam, chain, clip_by_global_norm, lazy_adam};
use pytree::prelude::*;

use crate::counting::peak;

const SHAPE: [usize; 2] = [1 << 16, 16];
const BYTES: usize = SHAPE[0] * SHAPE[1] * 4;
const COUNT: usize = 512;

/// A function of a tensor, of indices and of an update, whose result is an updated tensor.
type Update = fn(&Tensor, &Tensor, &Tensor) -> Tensor;

#[rustfmt::skip]
fn updates() -> Vec<(&'static str, Update)> {
    vec![
        ("set at indices", |x, at, update| x.at_indices(at, 0).set(update)),
        ("add at indices", |x, at, update| x.at_indices(at, 0).add(update)),
        ("multiply at indices", |x, at, update| x.at_indices(at, 0).multiply(update)),
        ("minimum at indices", |x, at, update| x.at_indices(at, 0).min(update)),
        ("maximum at indices", |x, at, update| x.at_indices(at, 0).max(update)),
        ("set a window", |x, _, update| x.at(ix![9..9 + COUNT as isize]).set(update)),
        ("minimum of a window", |x, _, update| x.at(ix![9..9 + COUNT as isize]).min(update)),
        ("maximum of a window", |x, _, update| x.at(ix![9..9 + COUNT as isize]).max(update)),
        ("update a slice", |x, at, update| x.dynamic_update_slice(update, &[at.index(ix![1]), Tensor::from(0)])),
        ("running sum", |x, _, _| x.cumsum(0)),
        ("running maximum", |x, _, _| x.cummax(0)),
        ("arithmetic", |x, _, _| (x * 0.5 + 1.0).relu()),
    ]
}

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let number = |n: usize| ((n * 7919 + seed) % 1009) as f32 * 0.002 - 1.0;
    let count = shape.iter().product();
    Tensor::new(shape, (0..count).map(number).collect::<Vec<_>>())
}

/// Checks that a compiled function needs no memory of the size of its first argument, and computes what it computes from a copy.
fn check(
    what: &str,
    function: impl Fn((Tensor, Tensor, Tensor)) -> Tensor + Send + Sync + 'static,
) {
    let at = |n: usize| (n * 7_919_777 % (SHAPE[0] + 9)) as i32;
    let at = Tensor::from((0..COUNT).map(at).collect::<Vec<_>>());
    let update = numbers(&[COUNT, SHAPE[1]], 5);
    let function = jit(function);
    let x = numbers(&SHAPE, 3);
    let expected = function((x.clone(), at.clone(), update.clone()));
    drop(x);
    let x = numbers(&SHAPE, 3);
    let (found, most) = peak(|| function((x, at, update)));
    assert!(most < BYTES / 2, "{what}: {most} bytes for {BYTES}");
    assert!(found == expected, "{what}");
}

pub(crate) fn updates_overwrite_what_nothing_else_holds() {
    for (name, update) in updates() {
        check(name, move |(x, at, y)| update(&x, &at, &y));
        check(&format!("{name} in a loop of 3"), move |(x, at, y)| {
            fori_loop(0, 3, |i, x: Tensor| update(&x, &(&at + i), &y), x)
        });
        check(&format!("{name} in a scan"), move |(x, at, y)| {
            let step = |x: Tensor, number: Tensor| (update(&x, &(&at + number), &y), ());
            scan(step, x, Tensor::from([0, 1, 2])).0
        });
        check(&format!("{name} while less"), move |(x, at, y)| {
            let step = |(count, x): (Tensor, Tensor)| {
                let updated = update(&x, &(&at + &count), &y);
                (count + 1, updated)
            };
            while_loop(
                |(count, _): &(Tensor, Tensor)| count.less(3),
                step,
                (Tensor::from(0), x),
            )
            .1
        });
    }
}

type Table = Vec<Tensor>;

/// The states of optimizers, too.
pub(crate) fn steps_overwrite_tables_and_states() {
    let chains: [fn() -> Chain; 3] = [
        || chain([clip_by_global_norm(1.0), adagrad(0.1)]),
        || lazy_adam(0.1),
        || adam(0.1),
    ];
    for (number, make) in chains.into_iter().enumerate() {
        let step = jit(
            |((mut table, mut optimizer), at): ((Table, Optimizer<Table>), Tensor)| {
                let loss = |table: &Table| table[0].take(&at, 0).square().sum();
                let gradient = grad(loss)(&table);
                optimizer.update(&mut table, &gradient);
                (table, optimizer)
            },
        );
        let state = || {
            let table = vec![numbers(&SHAPE, 3)];
            let optimizer = Optimizer::new(&table, make());
            (table, optimizer)
        };
        let at = Tensor::from((0..COUNT as i32).map(|n| n * 31).collect::<Vec<_>>());
        // The first means of Adam share their memory.
        let state = step((state(), at.clone()));
        let (_, most) = peak(|| step((state, at)));
        // Adam computes the whole gradient.
        let tables = usize::from(number == 2);
        assert!(most < BYTES * tables + BYTES / 2, "{number}: {most} bytes");
    }
}
