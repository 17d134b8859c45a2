//! Random programs of tensors of all dtypes: compiled, they have the bits of the eager operations. So do their derivatives and
//! batched programs.
//!
//! `random_programs.txt` lists the seeds. `PYTREE_FUZZ_SECONDS`, by default 2, limits the time. `PYTREE_FUZZ_SEED` runs one seed.
//! `PYTREE_FUZZ_FROM` runs new seeds, from this one on: `.ci/nightly programs` does so. Add each seed that fails to the list.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use pytree::{DType, Tensor, grad, jit, vmap};

use crate::laws::close::assert_same_bits;
use crate::laws::programs::noise;

/// Lengths at which kernels change, and around them, and degenerate ones.
const LENGTHS: &[usize] = &[
    1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513,
    700, 1025,
];

/// The greatest number of elements of a value, and of multiplications of a product.
const MOST_ELEMENTS: usize = 1 << 13;
const MOST_MULTIPLICATIONS: usize = 1 << 19;

/// Random choices of a seed (Steele et al., "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone)]
struct Choices(u64);

impl Choices {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// A tensor of random numbers of any dtype.
fn numbers(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let floats = noise(DType::F64, shape, seed);
    match dtype {
        DType::Bool => floats.greater(0.0),
        _ if dtype.is_float() => floats.convert(dtype),
        _ => (floats * 40.0).convert(dtype),
    }
}

/// The inputs of a program: matrices, vectors and a number, whose lengths fit one another.
fn inputs(seed: u64) -> Vec<Tensor> {
    let mut choices = Choices(seed);
    let dtype = choices.pick(DType::ALL);
    let mut lengths = [0; 3].map(|_| choices.pick(LENGTHS));
    while lengths[0] * lengths[1] > MOST_ELEMENTS || lengths[1] * lengths[2] > MOST_ELEMENTS {
        let longest = (0..3).max_by_key(|&place| lengths[place]).unwrap_or(0);
        lengths[longest] = lengths[longest].div_ceil(2);
    }
    let [rows, columns, depth] = lengths;
    let shapes: [&[usize]; 7] = [
        &[rows, columns],
        &[columns],
        &[rows, 1],
        &[],
        &[columns, depth],
        &[depth, columns],
        &[rows, columns],
    ];
    let of_shape = |shape: &&[usize]| {
        let dtype = if choices.one_in(5) {
            choices.pick(DType::ALL)
        } else {
            dtype
        };
        let mut input = numbers(dtype, shape, choices.bits());
        if dtype.is_float() && choices.one_in(12) {
            // Some elements are infinite or NaN.
            input = input
                .greater(1.5)
                .select(&input / Tensor::zeros_like(&input), &input);
        }
        input
    };
    shapes.iter().map(of_shape).collect()
}

/// The values of a program, and whether a later step has used them.
struct Values {
    choices: Choices,
    values: Vec<Tensor>,
    used: Vec<bool>,
}

/// Runs the program of a seed, and returns the values that no step used.
fn run(seed: u64, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut values = Values {
        choices: Choices(!seed),
        values: inputs.to_vec(),
        used: vec![true; inputs.len()],
    };
    let steps = 2 + values.choices.below(10);
    for _ in 0..steps {
        let x = values.take();
        let value = values.step(&x);
        let value = if value.len() > MOST_ELEMENTS || value.rank() > 4 {
            x
        } else {
            value
        };
        values.values.push(value);
        values.used.push(false);
    }
    let pairs = values.values.into_iter().zip(values.used);
    pairs
        .filter(|(_, used)| !used)
        .map(|(value, _)| value)
        .collect()
}

impl Values {
    fn take(&mut self) -> Tensor {
        let place = self.choices.below(self.values.len());
        self.used[place] = true;
        self.values[place].clone()
    }

    /// A value of a dtype.
    fn take_as(&mut self, dtype: DType) -> Tensor {
        self.take().convert(dtype)
    }

    fn axis(&mut self, x: &Tensor) -> isize {
        self.choices.below(x.rank().max(1)) as isize
    }

    fn step(&mut self, x: &Tensor) -> Tensor {
        match self.choices.below(18) {
            0..=2 => self.unary(x),
            3..=6 => self.binary(x),
            7 => self.choose(x),
            8 => x.convert(self.choices.pick(DType::ALL)),
            9 | 10 => self.reduce(x),
            11..=13 => self.product(x),
            14 | 15 => self.reorder(x),
            16 => self.part(x),
            _ => jit(|x: Tensor| &x + &x)(x.convert(DType::F32)),
        }
    }

    fn unary(&mut self, x: &Tensor) -> Tensor {
        let way = self.choices.below(14);
        if x.dtype() == DType::Bool {
            return !x;
        }
        if x.dtype().is_integer() {
            return match way {
                0..=4 => -x,
                5..=8 => x.square(),
                _ => !x,
            };
        }
        match way {
            0 => x.exp(),
            1 => x.log(),
            2 => x.sin(),
            3 => x.tanh(),
            4 => x.sqrt(),
            5 => x.sigmoid(),
            6 => x.square(),
            7 => x.abs(),
            8 => x.sign(),
            9 => x.relu(),
            10 => x.powi(3),
            11 => x.erf_inv(),
            12 => x.clip(-0.5, 1.0),
            _ => -x,
        }
    }

    fn binary(&mut self, x: &Tensor) -> Tensor {
        let y = &self.take_as(x.dtype());
        let way = self.choices.below(6);
        let result = match way {
            0 => x.try_add(y),
            1 => x.try_subtract(y),
            2 => x.try_multiply(y),
            3 => x.try_divide(y),
            4 => x.try_maximum(y),
            _ => x.try_minimum(y),
        };
        result.unwrap_or_else(|_| x.clone())
    }

    fn choose(&mut self, x: &Tensor) -> Tensor {
        let (y, z) = (self.take_as(x.dtype()), self.take_as(x.dtype()));
        let Ok(condition) = x.try_less(&y) else {
            return x.clone();
        };
        condition.try_select(x, &z).unwrap_or(condition)
    }

    fn reduce(&mut self, x: &Tensor) -> Tensor {
        let axis = self.axis(x);
        if x.rank() == 0 || x.dtype() == DType::Bool {
            return x.clone();
        }
        match self.choices.below(7) {
            0 => x.sum_axes([axis]),
            1 => x.max_axes([axis]),
            2 => x.min_axes([axis]),
            3 => x.argmax(axis),
            4 if x.dtype().is_float() => x.mean_axes([axis]),
            5 => x.cumsum(axis),
            _ => x.sum(),
        }
    }

    /// A product of the value with another one, transposed so that they fit.
    fn product(&mut self, x: &Tensor) -> Tensor {
        if x.rank() == 0 || x.dtype() == DType::Bool {
            return x.clone();
        }
        let x = match x.rank() {
            1 => x.clone(),
            _ if self.choices.one_in(2) => x.swap_axes(-1, -2),
            _ => x.clone(),
        };
        let depth = x.shape()[x.rank() - 1];
        let fitting = |y: &Tensor| match *y.shape() {
            [.., before, _] if before == depth => Some(y.clone()),
            [.., _, last] if last == depth => Some(y.swap_axes(-1, -2)),
            [length] if length == depth => Some(y.clone()),
            _ => None,
        };
        let y = self.take_as(x.dtype());
        let y = fitting(&y).unwrap_or_else(|| match x.rank() {
            1 => x.clone(),
            _ => x.swap_axes(-1, -2),
        });
        if x.len() * (y.len() / depth) > MOST_MULTIPLICATIONS {
            return x;
        }
        x.try_matmul(&y).unwrap_or(x)
    }

    fn reorder(&mut self, x: &Tensor) -> Tensor {
        let axis = self.axis(x);
        match self.choices.below(6) {
            0 => x.t(),
            1 if x.rank() > 1 => x.move_axis(axis, 0),
            2 => x.flatten(),
            3 => x.expand_dims(axis),
            4 if x.rank() > 0 => x.reverse([axis]),
            5 => x.broadcast_to([&[2], x.shape()].concat()),
            _ => x.t(),
        }
    }

    fn part(&mut self, x: &Tensor) -> Tensor {
        let axis = self.axis(x);
        if x.rank() == 0 {
            return x.expand_dims(0);
        }
        match self.choices.below(4) {
            0 => x.take(&Tensor::from([0, 0]), axis),
            1 => x.sort(axis),
            2 => Tensor::concatenate(&[x.clone(), x.clone()], axis),
            _ => {
                let mut padding = vec![(0, 0, 0); x.rank()];
                padding[axis as usize] = (1, -1, 0);
                x.pad(Tensor::zeros(x.dtype(), []), padding)
            }
        }
    }
}

/// Asserts that tensors have the same bits. All NaNs count as one.
fn assert_same(what: &str, found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len(), "{what}: the number of results");
    for (found, expected) in found.iter().zip(expected) {
        if expected.dtype().is_float() {
            assert_same_bits(
                what,
                std::slice::from_ref(found),
                std::slice::from_ref(expected),
            );
        } else {
            assert_eq!(found, expected, "{what}");
        }
    }
}

/// The gradient of a sum of the results, by the inputs that are floats.
fn slopes(seed: u64, inputs: &[Tensor]) -> Vec<Tensor> {
    let is_float = |x: &&Tensor| x.dtype().is_float();
    let floats: Vec<Tensor> = inputs.iter().filter(is_float).cloned().collect();
    let loss = |floats: &Vec<Tensor>| {
        let mut floats = floats.iter().cloned();
        let whole = inputs.iter().map(|input| match input.dtype().is_float() {
            true => floats.next().unwrap(),
            false => input.clone(),
        });
        let results = run(seed, &whole.collect::<Vec<_>>());
        let terms = results
            .iter()
            .filter(is_float)
            .map(|x| x.convert(DType::F32).sum());
        terms.fold(Tensor::from(0.0_f32), |sum, term| sum + term)
    };
    grad(loss)(&floats).leaves().to_vec()
}

fn check(seed: u64) {
    let inputs = inputs(seed);
    let compiled = jit(move |inputs: Vec<Tensor>| run(seed, &inputs));
    assert_same("jit", &compiled(inputs.clone()), &run(seed, &inputs));
    match seed % 4 {
        0 => {
            let compiled = jit(move |inputs: Vec<Tensor>| slopes(seed, &inputs));
            assert_same(
                "jit of grad",
                &compiled(inputs.clone()),
                &slopes(seed, &inputs),
            );
        }
        1 => {
            let batch: Vec<Tensor> = inputs.iter().map(|x| Tensor::stack(&[x, x], 0)).collect();
            let each =
                move |batch: Vec<Tensor>| vmap(|inputs: Vec<Tensor>| run(seed, &inputs))(batch);
            assert_same("jit of vmap", &jit(each)(batch.clone()), &each(batch));
        }
        _ => {}
    }
}

/// The seeds of the list: each line is a seed, or a range of seeds.
fn listed() -> impl Iterator<Item = u64> {
    let lines = include_str!("random_programs.txt").lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).flat_map(|line| {
        let (first, end) = line.split_once("..").unwrap_or((line, ""));
        let first: u64 = first.parse().expect("a seed");
        first..end.parse().unwrap_or(first + 1)
    })
}

#[test]
fn random_programs_have_the_bits_of_eager_operations() {
    let variable = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seconds = variable("PYTREE_FUZZ_SECONDS").unwrap_or(2);
    let seeds: Box<dyn Iterator<Item = u64>> =
        match (variable("PYTREE_FUZZ_SEED"), variable("PYTREE_FUZZ_FROM")) {
            (Some(seed), _) => Box::new(std::iter::once(seed)),
            (None, Some(first)) => Box::new(first..),
            (None, None) => Box::new(listed()),
        };
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut count, mut failed) = (0, Vec::new());
    for seed in seeds {
        if catch_unwind(AssertUnwindSafe(|| check(seed))).is_err() {
            eprintln!("failed seed: {seed}");
            failed.push(seed);
        }
        count += 1;
        if count >= 8 && Instant::now() > end {
            break;
        }
    }
    eprintln!("{count} programs");
    assert!(
        failed.is_empty(),
        "these seeds fail: {failed:?}; run one by PYTREE_FUZZ_SEED={} cargo test -p pytree-tests --test all random_programs",
        failed[0]
    );
}
