//! Small loops and small compiled functions return the bits of their operations run one by one.

use std::cell::Cell;

use pytree::control::{ScanOptions, cond, fori_loop, scan, scan_with, while_loop};
use pytree::debug::debug_nans;
use pytree::{DType, Jit, Tensor, grad, ix, jit, vmap};

use crate::laws::close::assert_same_bits;
use crate::laws::programs::noise;

thread_local! {
    /// Whether loops run as Rust loops, whose operations run one by one.
    static IS_PLAIN: Cell<bool> = const { Cell::new(false) };
}

type Values = Vec<Tensor>;

/// Repeats a function of the number of the round and a state, as one of three loops.
fn repeat(
    kind: usize,
    rounds: i32,
    f: impl Fn(&Tensor, Values) -> Values,
    state: Values,
) -> Values {
    if IS_PLAIN.get() {
        return (0..rounds).fold(state, |state, i| f(&Tensor::from(i), state));
    }
    match kind % 3 {
        0 => fori_loop(0, rounds, |i, state| f(&i, state), state),
        1 => {
            let holds = |(i, _): &(Tensor, Values)| i.less(rounds);
            let step = |(i, state): (Tensor, Values)| (&i + 1, f(&i, state));
            while_loop(holds, step, (Tensor::from(0), state)).1
        }
        _ => {
            let positions = Tensor::arange(DType::I32, rounds as usize);
            scan(|state, i: Tensor| (f(&i, state), ()), state, positions).0
        }
    }
}

/// Scans a function of a state and an element, and returns the last state and the stacked results.
fn scan_over(
    is_reverse: bool,
    f: impl Fn(Values, Values) -> (Values, Values),
    state: Values,
    inputs: Values,
) -> Values {
    let length = inputs[0].shape()[0];
    if !IS_PLAIN.get() {
        let forward = ScanOptions::new();
        let options = if is_reverse {
            forward.reverse()
        } else {
            forward
        };
        let (state, stacks) = scan_with(options, f, state, inputs);
        return [state, stacks].concat();
    }
    let (mut state, mut results) = (state, Vec::new());
    for step in 0..length {
        let at = if is_reverse { length - 1 - step } else { step } as isize;
        let element = inputs.iter().map(|x| x.index(ix![at])).collect();
        let (next, result) = f(state, element);
        state = next;
        results.push(result);
    }
    if is_reverse {
        results.reverse();
    }
    let stacks = (0..results[0].len()).map(|k| {
        let parts: Values = results.iter().map(|result| result[k].clone()).collect();
        Tensor::stack(&parts, 0)
    });
    state.into_iter().chain(stacks).collect()
}

/// Compares a compiled function with its operations run one by one.
#[track_caller]
fn check(
    what: &str,
    f: impl Fn(&[Tensor]) -> Values + Clone + Send + Sync + 'static,
    inputs: &[Tensor],
) {
    let compiled = jit({
        let f = f.clone();
        move |inputs: Values| f(&inputs)
    });
    IS_PLAIN.set(true);
    let expected = f(inputs);
    IS_PLAIN.set(false);
    // The second run finds the memory of the first one.
    for _ in 0..2 {
        assert_same_bits(what, &compiled(inputs.to_vec()), &expected);
    }
}

/// A tensor of random numbers.
fn numbers(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let floats = noise(DType::F64, shape, seed);
    if dtype.is_float() {
        floats.convert(dtype)
    } else {
        (floats * 40.0).convert(dtype)
    }
}

/// A body of a loop: a function of the number of the round, of the vectors `x` and `y`, and of a vector and a number from outside.
type Body = fn(&Tensor, &Tensor, &Tensor, &Tensor, &Tensor) -> [Tensor; 2];

/// The first and the last half of a vector.
fn halves(x: &Tensor) -> [Tensor; 2] {
    let (length, half) = (x.len() as isize, x.len().div_ceil(2) as isize);
    [x.index(ix![..half]), x.index(ix![length - half..])]
}

/// A vector with a part that is replaced from the position `i` on.
fn updated(x: &Tensor, part: &Tensor, i: &Tensor) -> Tensor {
    x.dynamic_update_slice(part, std::slice::from_ref(i))
}

/// A loop in a body, whose constants change in the loop around it.
fn inner(x: &Tensor, y: &Tensor, w: &Tensor, s: &Tensor, kind: usize) -> Values {
    let [x, w, s] = [x, w, s].map(Tensor::clone);
    let step = move |i: &Tensor, state: Values| {
        let (of_outer, of_none) = (&x * 2 + &x, &w * &s - &w);
        let z = updated(&of_none, &halves(&state[0])[1], i) + &of_outer;
        vec![updated(&z, &halves(&of_outer)[0], i), of_none]
    };
    repeat(kind, 2, step, vec![y.clone(), y.clone()])
}

const BODIES: &[(&str, Body)] = &[
    ("two updates of what is read between", |i, x, y, w, _| {
        let [before, _] = halves(x);
        let z = updated(x, &halves(y)[1], i);
        let [first, last] = halves(&z);
        let z = updated(&z, &(&before * &first), &(1 - i));
        [
            updated(&z, &(last - before), i),
            updated(w, &halves(&z)[0], i),
        ]
    }),
    ("windows that move", |i, x, y, w, s| {
        let half = x.len().div_ceil(2);
        let window = |x: &Tensor, at: &Tensor| x.dynamic_slice(std::slice::from_ref(at), [half]);
        let z = updated(x, &(window(y, i) * s), &(1 - i));
        let sum = window(x, &(i + 1)) + window(&(w - y), i);
        [z, updated(y, &sum, i)]
    }),
    ("waiting views of what is updated", |i, x, y, _, s| {
        let [a, b] = halves(x);
        let waiting = a + b;
        let z = updated(x, &halves(y)[0], i);
        let part = &waiting * s - halves(&z)[1].clone();
        [z, updated(y, &(part + waiting), i)]
    }),
    ("waiting operands that are overwritten", |_, x, y, w, s| {
        let waiting = x * y;
        let next = x + w;
        [next, waiting - s]
    }),
    ("waiting operands that are updated", |i, x, y, w, s| {
        let (waiting, other) = (x - y, y * s);
        let z = x.at_indices(i, 0).add(s).at_indices(&(i + 1), 0).set(3);
        let y = y.at_indices(i, 0).multiply(2);
        [waiting * z + w, other * y]
    }),
    ("moves of what is overwritten", |_, x, y, w, _| {
        let (reversed, [a, b]) = (x.reverse([-1]), halves(y));
        let both = Tensor::concatenate(&[b, a], 0).index(ix![..x.len() as isize]);
        let next = y - w;
        [both + w, reversed * y - next]
    }),
    ("slices of slices", |i, x, y, _, _| {
        let [a, b] = halves(x);
        let [[c, d], [e, f]] = [&a, &b].map(halves);
        let z = updated(x, &(&c * f + &d), i);
        [
            updated(&z, &(c + d), &(i + 1)),
            updated(y, &(e.maximum(&halves(&a)[0])), i),
        ]
    }),
    ("exchange", |_, x, y, _, _| [y.clone(), x + y]),
    ("exchange without arithmetic", |_, x, y, _, _| {
        [y.clone(), x.clone()]
    }),
    ("one that stays", |_, x, y, _, s| [x.clone(), x * s + y]),
    ("one result twice", |_, x, y, w, _| [x * y - w, x * y - w]),
    ("invariants that are updated", |i, x, y, w, s| {
        let (invariant, other) = (w * s, w * s + w);
        let z = updated(&invariant, &halves(x)[0], i) * y;
        [
            z.at_indices(i, 0).set(s),
            other.at_indices(i, 0).set(1) - invariant,
        ]
    }),
    ("invariants that are carried", |_, x, _, w, s| {
        [w * s - w + x, w * s]
    }),
    ("constants", |i, x, y, _, _| {
        let full = Tensor::ones(x.dtype(), x.shape());
        [updated(&(&full + &full), &halves(x)[0], i), full + y]
    }),
    ("choices", |i, x, y, w, s| {
        let z = x.less(y).select(&(x * y), &(x - w));
        let z = updated(&z, &halves(w)[1], i);
        let is_same = z.equal(x) | y.less(0);
        [is_same.select(&z, &(&z + s)), z.maximum(w) - y]
    }),
    ("narrow numbers", |i, x, y, w, s| {
        let other = if x.dtype() == DType::BF16 {
            DType::F32
        } else {
            DType::BF16
        };
        let z = (x * y).convert(other) + (w * s).convert(other);
        let z = updated(&z.convert(x.dtype()), &halves(x)[0], i);
        [&z * &z - w, z]
    }),
    ("conditions", |i, x, y, w, s| {
        let branches: [fn(&Tensor, &Tensor, &Tensor) -> Tensor; 2] = [
            |x: &Tensor, y: &Tensor, i: &Tensor| updated(&(x * y + x), &halves(y)[1], i),
            |x: &Tensor, y: &Tensor, i: &Tensor| updated(x, &halves(&(x - y))[0], i),
        ];
        let holds = i.less(1);
        let found = match IS_PLAIN.get() {
            true => branches[usize::from(!holds.item::<bool>())](x, y, i),
            false => cond(
                &holds,
                |(x, y, i): (Tensor, Tensor, Tensor)| branches[0](&x, &y, &i),
                |(x, y, i)| branches[1](&x, &y, &i),
                (x.clone(), y.clone(), i.clone()),
            ),
        };
        [updated(&found, &halves(w)[0], i), found * s - x]
    }),
    ("loops", |_, x, y, w, s| {
        let [a, b] = [0, 2].map(|kind| inner(x, y, w, s, kind));
        [&a[0] * x - &b[1], &b[0] + &a[1]]
    }),
];

/// The dtypes that take turns. Each case also runs on f32.
const DTYPES: [DType; 10] = {
    use DType::{BF16, F16, F64, I8, I16, I32, I64, U8, U16, U32};
    [BF16, F16, U8, I8, I32, U32, F64, I64, U16, I16]
};

#[test]
fn values_are_read_before_they_are_overwritten() {
    let lengths = [0, 1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097];
    for &(name, body) in BODIES {
        for (number, &length) in lengths.iter().enumerate() {
            for at in 0..if length > 65 { 1 } else { 3 } {
                let (number, rounds) = (3 * number + at * 5, (number as i32 + at as i32) % 4);
                for dtype in [DTYPES[number % 10], DType::F32] {
                    let mut inputs = [1, 2, 3]
                        .map(|seed| numbers(dtype, &[length], seed))
                        .to_vec();
                    inputs.push(numbers(dtype, &[], 4));
                    let once = move |i: &Tensor, state: &[Tensor], w: &Tensor, t: &[Tensor]| {
                        body(i, &state[0], &state[1], w, &t[3]).to_vec()
                    };
                    let repeated = move |t: &[Tensor]| {
                        let step = |i: &Tensor, state: Values| once(i, &state, &t[2], t);
                        repeat(at, rounds, step, t[..2].to_vec())
                    };
                    let scanned = move |t: &[Tensor]| {
                        let step = |state: Values, elements: Values| {
                            let next = once(&elements[0], &state, &elements[1], t);
                            let [_, half] = halves(&next[0]);
                            (next.clone(), vec![next[1].clone(), state[0].clone(), half])
                        };
                        let stack = Tensor::stack(&[&t[2], &t[0], &t[2]], 0);
                        let elements = vec![Tensor::arange(DType::I32, 3), stack];
                        scan_over(at == 1, step, t[..2].to_vec(), elements)
                    };
                    let what =
                        format!("{name}, {dtype:?}, {length} elements, loop {at}, {rounds} rounds");
                    check(&what, repeated, &inputs);
                    check(&what, scanned, &inputs);
                    check(&what, move |t| once(&Tensor::from(1), t, &t[2], t), &inputs);
                }
            }
        }
    }
}

#[test]
fn derivatives_and_batches_match_their_operations() {
    for &(name, body) in BODIES {
        for length in [1, 3, 16, 65] {
            let t = [1, 2, 3]
                .map(|seed| numbers(DType::F32, &[length], seed))
                .to_vec();
            let f = move |t: &Values| {
                let s = Tensor::from(0.5_f32);
                let step = |i: &Tensor, state: Values| {
                    let next = body(i, &state[0], &state[1], &t[2], &s);
                    next.iter().map(Tensor::sin).collect()
                };
                repeat(0, 3, step, t[..2].to_vec())
            };
            let loss = move |t: &Values| {
                let results = f(t);
                results[0].sum() + results[1].sum() * 2.0
            };
            let more = |x: &Tensor| Tensor::stack(&[x.clone(), x * 0.5, x.reverse([0])], 0);
            let batch: Values = t.iter().map(more).collect();
            let slopes = move |t: Values| grad(loss)(&t).leaves().to_vec();
            let what = format!("{name}, {length} elements");
            let check = |compiled: Jit<Values, Values>, t: &Values| {
                let expected = debug_nans(|| compiled(t.clone()));
                assert_same_bits(&what, &compiled(t.clone()), &expected);
            };
            check(jit(slopes), &t);
            check(
                jit(move |t: Values| vmap(move |t: Values| f(&t))(t)),
                &batch,
            );
            check(jit(move |t: Values| vmap(slopes)(t)), &batch);
        }
    }
}

/// A tensor with a zero of each sign, with infinities and with NaN.
fn special(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let special = [-0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let count = shape.iter().product::<usize>();
    let which = numbers(DType::I32, &[count], seed).to_vec::<i32>();
    let elements = noise(DType::F64, &[count], seed + 1)
        .to_vec::<f64>()
        .into_iter()
        .zip(which);
    let elements: Vec<f64> = elements
        .map(|(x, k)| *special.get(k.unsigned_abs() as usize % 23).unwrap_or(&x))
        .collect();
    Tensor::new(shape, elements).convert(dtype)
}

#[test]
fn pairs_of_arithmetic_operations_keep_special_numbers() {
    let apply = |way: usize, x: &Tensor, y: &Tensor| match way {
        0 => x + y,
        1 => x - y,
        _ => x * y,
    };
    let lengths = [1, 1, 2, 3, 4, 1, 4, 16, 5, 64, 17].into_iter();
    for shape in lengths
        .zip([1, 3, 2, 5, 4, 17, 16, 4, 13, 64, 241])
        .map(<[usize; 2]>::from)
    {
        let [rows, columns] = shape;
        let of_operands: [&[usize]; 5] = [&[columns], &[rows, 1], &[], &[1, columns], &[1, 1]];
        let shapes = [&shape[..]]
            .into_iter()
            .chain(of_operands)
            .chain([&shape[..]]);
        let inputs = shapes
            .zip(0..)
            .map(|(shape, seed)| special(DType::F32, shape, seed));
        let inputs: Values = inputs.collect();
        for turn in 0..7 {
            let f = move |t: &[Tensor]| {
                let [a, b, c] = [turn, turn + 3, turn * 2 + 5].map(|at| &t[at % 7]);
                let mut results = Vec::new();
                for way in 0..9 {
                    let (inner, outer) = (way / 3, way % 3);
                    let waiting = apply(inner, a, b);
                    results.push(apply(outer, &waiting, c));
                    results.push(apply(outer, c, &apply(inner, b, a)));
                    // A result with another shape, a result that is read twice, and one that is returned, too.
                    let flat = apply(inner, &t[0], a).reshape([columns, rows]);
                    results.push(apply(outer, &flat, &t[6].reshape([columns, rows])));
                    results.push(apply(outer, &flat.t(), &t[2].t().reshape([rows, 1])));
                    let twice = apply(inner, c, a);
                    results.push(apply(outer, &twice, &twice));
                    results.push(twice);
                }
                results
            };
            check(&format!("{shape:?}, {turn}"), f, &inputs);
            let looped = move |t: &[Tensor]| {
                let outside = t.to_vec();
                let step = move |_: &Tensor, state: Values| {
                    f(&[state, outside[1..].to_vec()].concat())
                        .into_iter()
                        .filter(|x| x.shape() == [rows, columns])
                        .skip(4)
                        .take(1)
                        .collect()
                };
                repeat(turn, 2, step, t[..1].to_vec())
            };
            check(&format!("loop, {shape:?}, {turn}"), looped, &inputs);
        }
    }
}

#[test]
fn windows_of_several_axes_match_slices() {
    for (dtype, kind) in [DType::F32, DType::BF16, DType::I64, DType::Bool]
        .into_iter()
        .zip(0..)
    {
        let (x, large) = (numbers(dtype, &[4, 3, 5], 1), numbers(dtype, &[90, 60], 2));
        let f = move |t: &[Tensor]| {
            let step = |i: &Tensor, t: Values| {
                let number = |number: i32| Tensor::from(number);
                let window = t[0].dynamic_slice(&[i.clone(), number(0), 3 - i], [2, 3, 2]);
                let x = t[0].dynamic_update_slice(&window, &[2 - i, number(0), i.clone()]);
                let part = t[1].dynamic_slice(&[i * 40, -i * 7], [3, 2]);
                vec![x, t[1].dynamic_update_slice(&part, &[i * 30, i + 2])]
            };
            repeat(kind, 4, step, t.to_vec())
        };
        check(&format!("{dtype:?}"), f, &[x, large]);
    }
}

#[test]
fn products_match_their_operations() {
    let mut shapes: Vec<[usize; 3]> = (1..=20)
        .flat_map(|rows| {
            (1..=20).map(move |columns| [rows, columns, 1 + (rows * 7 + columns * 3) % 20])
        })
        .collect();
    for (long, few) in [63, 64, 65]
        .into_iter()
        .flat_map(|long| [1, 2, 8, 9].map(|few| (long, few)))
    {
        shapes.extend([[long, few, few], [few, long, few], [few, few, long]]);
        shapes.extend([
            [long, few, long],
            [few, long, long],
            [long, long, few],
            [64, long, 1],
        ]);
    }
    // Around the limits of the kernels, and without elements.
    let [rows, columns, depths] = [
        [30, 8, 8, 7, 1, 1, 1, 1, 4096, 1, 4, 1, 3, 3, 0],
        [30, 8, 8, 73, 511, 512, 513, 4095, 1, 1, 1, 4, 0, 2, 2],
        [1, 8, 9, 1, 1, 1, 1, 1, 1, 4096, 1023, 1025, 2, 0, 2],
    ];
    shapes.extend((0..rows.len()).map(|at| [rows[at], columns[at], depths[at]]));
    for (number, [rows, columns, depth]) in shapes.into_iter().enumerate() {
        let dtype = if number % 4 > 0 {
            DType::F32
        } else {
            DTYPES[number / 4 % 8]
        };
        let make = |shape: &[usize], seed| {
            if number % 5 == 0 && dtype.is_float() {
                special(dtype, shape, seed)
            } else {
                numbers(dtype, shape, seed)
            }
        };
        let inputs = [
            make(&[rows, depth], 1),
            make(&[depth, columns], 2),
            make(&[2, rows, depth], 3),
        ];
        let f = move |t: &[Tensor]| {
            let (a, b, batch) = (t[0].clone(), t[1].clone(), t[2].clone());
            let (a_turned, b_turned) = (a.t(), b.t());
            let step = move |_: &Tensor, state: Values| {
                let (left, right) = (&state[0], &state[1]);
                let products = [
                    left.matmul(&b),
                    a.matmul(right),
                    left.matmul(right),
                    left.matmul(&b_turned.t()),
                    a_turned.t().matmul(right),
                    state[2].t().matmul(right),
                    left.matmul(&state[3].t()),
                    state[2].t().matmul(&state[3].t()),
                ];
                let others = [batch.matmul(right), left.index(ix![..1]).matmul(&b)];
                [left + left, right * 3, &state[2] * 2, &state[3] - 1]
                    .into_iter()
                    .chain(products)
                    .chain(others)
                    .collect()
            };
            let zeros = |shape: &[usize]| Tensor::zeros(dtype, shape);
            let mut state = vec![t[0].clone(), t[1].clone(), t[0].t(), t[1].t()];
            state.extend((0..8).map(|_| zeros(&[rows, columns])));
            state.extend([zeros(&[2, rows, columns]), zeros(&[rows.min(1), columns])]);
            repeat(number, 2, step, state)
        };
        check(
            &format!("{dtype:?}, {rows} rows, {columns} columns, depth {depth}"),
            f,
            &inputs,
        );
    }
}

#[test]
fn reductions_match_their_operations() {
    for (number, length) in [
        0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 70,
    ]
    .into_iter()
    .enumerate()
    {
        for rows in [1, 3, 4, 17, 58] {
            for dtype in [
                DType::F32,
                [DType::I32, DType::U32, DType::F64, DType::BF16, DType::I64][(number + rows) % 5],
            ] {
                let inputs = [
                    special(dtype, &[rows, length], rows as u64),
                    numbers(dtype, &[rows, length], 7),
                    numbers(dtype, &[length, rows], 8),
                    Tensor::full(dtype, [rows, length], -0.0),
                ];
                let f = |t: &[Tensor]| {
                    let reduced = |x: &Tensor, axis: isize| {
                        let mut results = vec![x.sum_axes([axis]), x.prod_axes([axis])];
                        if !x.is_empty() {
                            results.extend([x.max_axes([axis]), x.min_axes([axis])])
                        }
                        results
                    };
                    let all = t
                        .iter()
                        .flat_map(|x| [reduced(x, 0), reduced(&(x * 2), 1)].concat());
                    all.chain([t[0].sum(), t[0].t().sum_axes([0, 1])])
                        .collect::<Values>()
                };
                let what = format!("{dtype:?}, {rows} rows of {length}");
                check(&what, f, &inputs);
                let looped = move |t: &[Tensor]| {
                    let outside = t.to_vec();
                    let step = move |_: &Tensor, state: Values| {
                        [
                            vec![state[0].square()],
                            f(&[&state[..1], &outside[1..]].concat()),
                        ]
                        .concat()
                    };
                    let start = [vec![t[0].clone()], f(t)].concat();
                    repeat(number, 2, step, start)
                };
                check(&what, looped, &inputs);
            }
        }
    }
}
