//! Typical mistakes of shapes in a model with named axes: each message shows the user's own names.

use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Dense {
    #[param("in out")]
    weight: Tensor,
    #[param("out")]
    bias: Tensor,
}

impl Dense {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            weight: ones(&[inputs, outputs]),
            bias: ones(&[outputs]),
        }
    }

    #[shapes(x = "batch in", return = "batch out")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight) + &self.bias
    }

    #[shapes(x = "batch in", return = "batch out")]
    fn summed_over_the_batch(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight).sum_axes([0])
    }

    #[shapes(x = "batch in")]
    fn by_the_transpose(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight.t()) + &self.bias
    }
}

#[derive(Module, Clone, Debug)]
struct Net {
    first: Dense,
    second: Dense,
    #[param("classes")]
    offset: Tensor,
}

impl Net {
    #[shapes(x = "batch _", return = "batch classes")]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.second.forward(&self.first.forward(x).relu()) + &self.offset
    }
}

#[derive(Module, Clone, Debug)]
struct Scaled {
    linear: Linear,
    #[param("features")]
    scale: Tensor,
}

impl Scaled {
    #[shapes(x = "batch features")]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.linear.forward(&(x * &self.scale))
    }
}

#[derive(Module, Clone, Debug)]
struct Norm {
    #[param("features")]
    scale: Tensor,
    #[state(BatchStat, "features")]
    mean: Tensor,
}

impl Norm {
    #[shapes(x = "batch features", return = "batch features")]
    fn mean_over_the_features(&mut self, x: &Tensor) -> Tensor {
        self.mean = x.mean_axes([1]);
        (x - &self.mean) * &self.scale
    }
}

#[derive(Module, Clone, Debug)]
struct Embedding {
    #[param("vocabulary features")]
    table: Tensor,
}

impl Embedding {
    #[shapes(tokens = "i32[batch time]", return = "batch time features")]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        self.table.take(tokens, 0)
    }

    #[shapes(tokens = "i32[batch time]", return = "batch time features")]
    fn by_one_hot_of_the_features(&self, tokens: &Tensor) -> Tensor {
        let hot = tokens.one_hot(self.table.shape()[1], DType::F32);
        hot.matmul(&self.table)
    }
}

#[derive(Module, Clone, Debug)]
struct Heads {
    #[param("features heads*head_dim")]
    query: Tensor,
    #[param("heads*head_dim features")]
    output: Tensor,
    #[r#static]
    heads: usize,
    #[r#static]
    head_dim: usize,
}

impl Heads {
    #[shapes(x = "batch features", return = "batch features")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.query).matmul(&self.output)
    }
}

#[shapes(prediction = "batch", target = "batch", return = "f32[]")]
fn loss(prediction: &Tensor, target: &Tensor) -> Tensor {
    mse(prediction, target)
}

#[derive(Pytree, Clone)]
struct Batch {
    #[pytree("batch features")]
    x: Tensor,
    #[pytree("batch")]
    y: Tensor,
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(DType::F32, shape)
}

/// A mistake: its description, the action that panics because of it, and the axis names that the message shows.
type Mistake = (&'static str, Box<dyn FnOnce()>, &'static [&'static str]);

fn mistake<R>(
    what: &'static str,
    action: impl FnOnce() -> R + 'static,
    names: &'static [&'static str],
) -> Mistake {
    (what, Box::new(|| drop(action())), names)
}

fn mistakes() -> Vec<Mistake> {
    let dense = || Dense::new(4, 3);
    let net = |hidden, classes| Net {
        first: Dense::new(4, 16),
        second: Dense::new(hidden, 3),
        offset: ones(&[classes]),
    };
    let norm = |mean: &[usize]| Norm {
        scale: ones(&[4]),
        mean: ones(mean),
    };
    let embedding = || Embedding {
        table: ones(&[10, 6]),
    };
    let scaled = |inputs| Scaled {
        linear: Linear::new(inputs, 3, &mut Rngs::new(0)),
        scale: ones(&[4]),
    };
    let x = |shape: &[usize]| ones(shape);
    vec![
        mistake(
            "wrong width",
            move || dense().forward(&x(&[8, 5])),
            &["batch in", "in = 4"],
        ),
        mistake(
            "transposed input",
            move || dense().forward(&x(&[4, 8])),
            &["in = 4"],
        ),
        mistake("no batch", move || dense().forward(&x(&[4])), &["batch in"]),
        mistake(
            "an extra axis",
            move || dense().forward(&x(&[2, 8, 4])),
            &["batch in"],
        ),
        mistake(
            "a weight in the order of PyTorch",
            move || {
                Dense {
                    weight: ones(&[3, 4]),
                    ..dense()
                }
                .forward(&x(&[8, 4]))
            },
            &["in out", "out = 4", "transpose weight"],
        ),
        mistake(
            "a bias with two axes",
            move || {
                Dense {
                    bias: ones(&[1, 3]),
                    ..dense()
                }
                .forward(&x(&[8, 4]))
            },
            &["[out]", "out = 3"],
        ),
        mistake(
            "layers that do not fit",
            move || net(8, 3).forward(&x(&[2, 4])),
            &["in = 8"],
        ),
        mistake(
            "a wrong number of classes",
            move || net(16, 2).forward(&x(&[8, 4])),
            &["classes = 2"],
        ),
        mistake(
            "a sum over the batch",
            move || dense().summed_over_the_batch(&x(&[8, 4])),
            &["batch out", "batch = 8"],
        ),
        mistake(
            "a transposed weight in a product",
            move || dense().by_the_transpose(&x(&[8, 4])),
            &["in = 4 (from weight)", "out = 3 (from weight)"],
        ),
        mistake(
            "a layer of the library of another width",
            move || scaled(5).forward(&x(&[8, 4])),
            &["features = 4 (from scale)"],
        ),
        mistake(
            "a mean over the wrong axis",
            move || norm(&[4]).mean_over_the_features(&x(&[8, 4])),
            &["features = 4", "batch = 8"],
        ),
        mistake(
            "a statistic with a kept axis",
            move || norm(&[1, 4]).mean_over_the_features(&x(&[8, 4])),
            &["[features]"],
        ),
        mistake(
            "tokens of floats",
            move || embedding().forward(&x(&[2, 3])),
            &["i32[batch time]"],
        ),
        mistake(
            "tokens without a batch",
            move || embedding().forward(&Tensor::from([1, 2])),
            &["batch time"],
        ),
        mistake(
            "one-hot vectors of the wrong length",
            move || embedding().by_one_hot_of_the_features(&Tensor::from([[1, 2]])),
            &["vocabulary = 10", "features = 6"],
        ),
        mistake(
            "a target with an extra axis",
            move || loss(&x(&[8]), &x(&[8, 1])),
            &["[batch]"],
        ),
        mistake(
            "a prediction with an extra axis",
            move || loss(&x(&[8, 1]), &x(&[8])),
            &["[batch]"],
        ),
        mistake(
            "a forgotten `vmap`",
            move || stack(&vec![dense(); 5], 0).forward(&x(&[8, 4])),
            &["[in out]", "`vmap`"],
        ),
        mistake(
            "a wrong axis of `vmap`",
            move || {
                let batched = vmap(|(dense, x): (Dense, Tensor)| dense.forward(&x));
                batched.in_axes((None, 1))((dense(), x(&[5, 4, 8])))
            },
            &["batch in", "in = 4", "axis 1 (length 4) of f32[5,4,8]"],
        ),
        mistake(
            "a static field that differs from the weights",
            move || {
                Heads {
                    query: ones(&[6, 16]),
                    output: ones(&[16, 6]),
                    heads: 4,
                    head_dim: 2,
                }
                .forward(&x(&[8, 6]))
            },
            &["heads is 4, expected 8", "heads*head_dim"],
        ),
        mistake(
            "the shape of a batch under `vmap`",
            move || {
                let batched = vmap(|(dense, x): (Dense, Tensor)| dense.forward(&x));
                batched.in_axes((None, 0))((dense(), x(&[8, 4])))
            },
            &[
                "batch in",
                "`vmap`, which removed axis 0 (length 8) of f32[8,4]",
            ],
        ),
        mistake(
            "the shape of a batch in a derivative under `vmap`",
            move || {
                let gradient = grad(|x: &Tensor| dense().forward(x).sum());
                vmap(move |x: Tensor| gradient(&x))(x(&[8, 4]))
            },
            &[
                "batch in",
                "`vmap`, which removed axis 0 (length 8) of f32[8,4]",
            ],
        ),
        mistake(
            "a wrong width in a compiled function",
            move || jit(|(dense, x): (Dense, Tensor)| dense.forward(&x))((dense(), x(&[8, 5]))),
            &["in = 4"],
        ),
        mistake(
            "a wrong width in a derivative",
            move || grad(move |dense: &Dense| dense.forward(&x(&[8, 5])).sum())(&dense()),
            &["in = 4"],
        ),
        mistake(
            "a batch of another number of labels",
            move || {
                Batch {
                    x: x(&[8, 4]),
                    y: x(&[7]),
                }
                .check_shapes()
                .map_err(|error| panic!("{error}"))
            },
            &["batch = 8"],
        ),
    ]
}

#[test]
fn typical_mistakes_show_the_names_of_the_user() {
    let all = mistakes();
    assert!(all.len() >= 20);
    let mut silent = Vec::new();
    for (what, action, names) in all {
        let message = panic_message(action);
        if !names.iter().all(|name| message.contains(name)) {
            silent.push(format!("{what}: {message}"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
