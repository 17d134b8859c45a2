//! Tree operations of burn's modules on the trees A1 to A3 of `benches/trees.rs`. The nearest operations have the names of ours:
//! a visitor that collects tensors flattens, and a mapper that gets each parameter and returns it maps the identity.

use std::hint::black_box;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::support;

#[derive(Module, Debug)]
struct Lin {
    w: Param<Tensor<1>>,
    b: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct A1 {
    l0: Lin,
    l1: Lin,
    l2: Lin,
}

#[derive(Module, Debug)]
struct Attention {
    qkv: Lin,
    proj: Lin,
}

#[derive(Module, Debug)]
struct Feed {
    fc: Lin,
    proj: Lin,
}

#[derive(Module, Debug)]
struct Block {
    ln1: Lin,
    attn: Attention,
    ln2: Lin,
    mlp: Feed,
}

#[derive(Module, Debug)]
struct A2 {
    wte: Param<Tensor<1>>,
    wpe: Param<Tensor<1>>,
    h: Vec<Block>,
    lnf: Lin,
}

#[derive(Module, Debug)]
struct A3 {
    layers: Vec<Lin>,
}

/// Counts the parameters.
struct Count(usize);

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        black_box(parameter);
        self.0 += 1;
    }
}

/// Collects the parameters, all of which have one axis.
struct Collect(Vec<Tensor<1>>);

impl ModuleVisitor for Collect {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        self.0.push(parameter.val().reshape([1]));
    }
}

/// Collects the paths of the parameters.
#[derive(Default)]
struct Paths {
    path: Vec<String>,
    found: Vec<String>,
}

impl ModuleVisitor for Paths {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        black_box(parameter);
        self.found.push(self.path.join("."));
    }
}

struct Identity;

impl ModuleMapper for Identity {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = parameter.consume();
        Param::from_mapped_value(id, value, mapper)
    }
}

fn of_tree<M: Module>(name: &str, model: M) {
    let mut count = Count(0);
    model.visit(&mut count);
    let leaves = count.0 as f64;
    let report = |operation: &str, unit: &str, value: f64| {
        support::report(["A", name, operation, "burn"], unit, value, value);
    };
    report("leaves", "", leaves);
    let mut moved = Some(model.clone());
    let mut timed: Vec<(&str, Box<dyn FnMut() + '_>)> = vec![
        (
            "flatten to handles",
            Box::new(|| {
                let mut collect = Collect(Vec::new());
                model.visit(&mut collect);
                black_box(collect.0);
            }),
        ),
        (
            "flatten with path",
            Box::new(|| {
                let mut paths = Paths::default();
                model.visit(&mut paths);
                black_box(paths.found);
            }),
        ),
        (
            "map identity",
            Box::new(|| moved = moved.take().map(|model| model.map(&mut Identity))),
        ),
    ];
    let times = support::medians(&mut timed);
    for ((operation, _), time) in timed.iter().zip(times) {
        report(operation, "ns a leaf", time / leaves);
    }
}

pub fn measure() {
    let device = Device::flex();
    let leaf = || Param::from_data(TensorData::new(vec![0.5_f32], [1]), &device);
    let lin = || Lin {
        w: leaf(),
        b: leaf(),
    };
    let block = || Block {
        ln1: lin(),
        attn: Attention {
            qkv: lin(),
            proj: lin(),
        },
        ln2: lin(),
        mlp: Feed {
            fc: lin(),
            proj: lin(),
        },
    };
    of_tree(
        "A1",
        A1 {
            l0: lin(),
            l1: lin(),
            l2: lin(),
        },
    );
    let h = (0..12).map(|_| block()).collect();
    of_tree(
        "A2",
        A2 {
            wte: leaf(),
            wpe: leaf(),
            h,
            lnf: lin(),
        },
    );
    of_tree(
        "A3",
        A3 {
            layers: (0..1000).map(|_| lin()).collect(),
        },
    );
}
