//! "Module & Pytree" of Flax NNX: plain containers and modules, shared nodes, gradients of intermediates.
//!
//! What the document checks when a program runs, the compiler checks here: the mistakes of its section on
//! attribute checks are in `tests/ui`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use pytree::Partition;
use pytree::core::__derive_0_1::field::{Fallback, Probe};
use pytree::core::shape::{Field, NodeShape};
use pytree::core::{StaticRef, Unflattener, Visitor};
use pytree::kind::{Intermediate, Perturbation};
use pytree::prelude::*;
use pytree::{AnyLeaf, PytreeOf, TreeError, nodes};
use pytree::{DynamicModule, Leaf};

use crate::seeds::nnx_tour::{Blocks, Model, ModelPart, train_step};
use crate::seeds::printed::{Printed, listed};

/// The first module of the document.
#[derive(Module, Clone, Debug)]
struct Weights {
    #[param]
    kernel: Tensor,
    #[r#static]
    din: usize,
    #[r#static]
    dout: usize,
}

impl Weights {
    fn new(din: usize, dout: usize, rngs: &mut Rngs) -> Self {
        Self {
            kernel: rngs.normal(DType::F32, [din, dout]),
            din,
            dout,
        }
    }
}

#[test]
fn module_is_argument_of_compiled_function() {
    let mut out = Printed::default();
    let mut rngs = Rngs::new(0);
    let weights = Weights::new(2, 3, &mut rngs);
    assert_eq!((weights.din, weights.dout), (2, 3));
    let forward = jit(|(weights, x): (Weights, Tensor)| x.matmul(&weights.kernel));
    let y = forward((weights, rngs.uniform(DType::F32, [5, 2])));
    out.say(format_args!("y.shape = {:?}", y.shape()));
    out.expect("y.shape = [5, 3]");
}

#[test]
fn none_is_node_and_not_leaf() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let pytree = tree!([{"a": 1}, {"b": 2, "c": (3, 4), "d": None}]);
    let (leaves, treedef) = tree::flatten_any(&pytree);
    out.say(format_args!("leaves = {}", listed(&leaves)));
    out.say(format_args!("treedef = {treedef}"));
    let new_leaves: Vec<i32> = leaves
        .iter()
        .filter_map(|leaf| leaf.downcast_ref::<i32>().map(|x| x * 10))
        .collect();
    let new_pytree: Tree<i32> = tree::unflatten(&treedef, new_leaves)?;
    out.say(format_args!("old pytree = {pytree}"));
    out.say(format_args!("new pytree = {new_pytree}"));
    out.expect(
        "
        leaves = [1, 2, 3, 4]
        treedef = PyTreeDef([{'a': *}, {'b': *, 'c': (*, *), 'd': None}])
        old pytree = [{'a': 1}, {'b': 2, 'c': (3, 4), 'd': None}]
        new pytree = [{'a': 10}, {'b': 20, 'c': (30, 40), 'd': None}]
        ",
    );
    Ok(())
}

/// Registered by hand: two children and a static value.
#[derive(Clone, Debug)]
struct Foo {
    a: i32,
    b: i32,
    c: &'static str,
}

impl Foo {
    const SHAPE: &'static NodeShape =
        &NodeShape::of_struct::<Self>("Foo", &[Field::plain("a"), Field::plain("b")], &["c"]);
}

impl Pytree for Foo {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 2);
        visitor.aux(StaticRef::new(&self.c));
        self.a.visit(visitor);
        self.b.visit(visitor);
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 2)?;
        Ok(Self {
            c: source.aux()?,
            a: i32::unflatten(source)?,
            b: i32::unflatten(source)?,
        })
    }
}
impl PytreeOf<i32> for Foo {}

#[test]
fn static_value_is_in_the_treedef() {
    let mut out = Printed::default();
    let foo = Foo {
        a: 1,
        b: 2,
        c: "hi",
    };
    let (leaves, treedef) = tree::flatten::<i32, _>(&foo);
    out.say(format_args!("leaves = {leaves:?}"));
    out.say(format_args!("treedef = {treedef}"));
    out.expect(
        "
        leaves = [1, 2]
        treedef = PyTreeDef(Foo { a: *, b: *, c = 'hi' })
        ",
    );
}

/// Prints the path and value of each leaf.
fn pytree_structure<T: Pytree>(out: &mut Printed, title: &str, pytree: &T) {
    out.say(format_args!("{title}:"));
    for (path, value) in Tree::of(pytree).iter_with_path() {
        out.say(format_args!(" - pytree.{path} = {value:?}"));
    }
}

#[derive(Pytree, Clone, Debug)]
struct Affine {
    #[r#static]
    din: usize,
    #[r#static]
    dout: usize,
    w: Tensor,
    b: Tensor,
}

#[derive(Pytree, Clone, Debug)]
struct Layers {
    #[r#static]
    num_layers: usize,
    layers: Vec<Affine>,
}

/// The document has the module twice, with every attribute marked and with those marked that have to be. Here what
/// is static has to be, and what is data has not.
#[test]
fn derived_pytree_lists_leaves_with_paths() {
    let mut out = Printed::default();
    let affine = |din, dout| Affine {
        din,
        dout,
        w: Tensor::ones(DType::F32, [din, dout]),
        b: Tensor::zeros(DType::F32, [dout]),
    };
    let pytree = Layers {
        num_layers: 2,
        layers: (0..2).map(|_| affine(1, 1)).collect(),
    };
    assert_eq!(pytree.layers.len(), pytree.num_layers);
    assert_eq!((pytree.layers[0].din, pytree.layers[0].dout), (1, 1));
    pytree_structure(&mut out, "pytree structure", &pytree);
    // Fields come in declaration order, in NNX in that of their names.
    out.expect(
        "
        pytree structure:
         - pytree.layers[0].w = Tensor([[1.]], dtype=f32)
         - pytree.layers[0].b = Tensor([0.], dtype=f32)
         - pytree.layers[1].w = Tensor([[1.]], dtype=f32)
         - pytree.layers[1].b = Tensor([0.], dtype=f32)
        ",
    );
}

/// Prints whether each type can be data of a module, a leaf or a module or a container of one of them, and
/// whether it can be static.
macro_rules! say_what_is_data {
    ($out:ident: $($type:ty),* $(,)?) => {$({
        let data = <Probe<$type>>::IS_STATE || <Probe<$type>>::IS_MODULE;
        let is_comparable = <Probe<$type>>::IS_VALUE || <Probe<$type>>::IS_DEBUG;
        let is_static = is_comparable && !<Probe<$type>>::HOLDS_ARRAYS && !<Probe<$type>>::IS_MODULE;
        $out.say(format_args!("{}: data = {data}, static = {is_static}", stringify!($type)));
    })*};
}

#[test]
fn field_type_decides_whether_it_is_data() {
    let mut out = Printed::default();
    say_what_is_data!(out: Tensor, Ref<Tensor>, Rngs, String, fn(&Tensor) -> Tensor, i32, Vec<Tensor>, Vec<String>);
    // A number can be either, so a field of one needs an attribute; in NNX it is static unasked. A list of
    // arrays is data; in NNX it is static unasked, which is an error as soon as it is found.
    out.expect(
        "
        Tensor: data = true, static = false
        Ref<Tensor>: data = true, static = false
        Rngs: data = true, static = false
        String: data = false, static = true
        fn(&Tensor) -> Tensor: data = false, static = true
        i32: data = true, static = true
        Vec<Tensor>: data = true, static = false
        Vec<String>: data = false, static = true
        ",
    );
}

/// Data of all sorts: a number, an integer, a list and what may be missing.
#[derive(Pytree, Clone, Debug)]
struct Bar {
    bias: Option<Tensor>,
    ls: Vec<Tensor>,
    x: f64,
    y: i32,
}

#[test]
fn plain_container_holds_mixed_leaves() {
    let mut out = Printed::default();
    let pytree = Bar {
        bias: Some(Tensor::from(0.0_f32)),
        ls: (0..3).map(Tensor::from).collect(),
        x: 1.0,
        y: 42,
    };
    pytree_structure(&mut out, "pytree structure", &pytree);
    let without = Bar {
        bias: None,
        ..pytree
    };
    pytree_structure(&mut out, "without bias", &without);
    out.expect(
        "
        pytree structure:
         - pytree.bias = Tensor(0., dtype=f32)
         - pytree.ls[0] = Tensor(0, dtype=i32)
         - pytree.ls[1] = Tensor(1, dtype=i32)
         - pytree.ls[2] = Tensor(2, dtype=i32)
         - pytree.x = 1.0
         - pytree.y = 42
        without bias:
         - pytree.ls[0] = Tensor(0, dtype=i32)
         - pytree.ls[1] = Tensor(1, dtype=i32)
         - pytree.ls[2] = Tensor(2, dtype=i32)
         - pytree.x = 1.0
         - pytree.y = 42
        ",
    );
}

/// The first of the document's data classes.
#[derive(Pytree, Clone, Debug)]
struct Item {
    i: i32,
    x: Tensor,
    #[r#static]
    a: i32,
    #[r#static]
    s: String,
}

/// A container of them, with shapes that are static.
#[derive(Pytree, Clone, Debug)]
struct Items {
    ls: Vec<Item>,
    #[r#static]
    shapes: Vec<usize>,
}

#[test]
fn a_data_class_is_a_struct() {
    let mut out = Printed::default();
    let item = |i: i32| Item {
        i,
        x: Tensor::from(42 * i),
        a: i,
        s: "hi".to_owned(),
    };
    let pytree = Items {
        ls: (0..2).map(item).collect(),
        shapes: vec![8, 16, 32],
    };
    pytree_structure(&mut out, "pytree structure", &pytree);
    out.say(tree::structure(&pytree));
    out.expect(
        "
        pytree structure:
         - pytree.ls[0].i = 0
         - pytree.ls[0].x = Tensor(0, dtype=i32)
         - pytree.ls[1].i = 1
         - pytree.ls[1].x = Tensor(42, dtype=i32)
        PyTreeDef(Items { ls: [Item { i: *, x: *, a = 0, s = 'hi' }, Item { i: *, x: *, a = 1, s = 'hi' }], shapes = [8, 16, 32] })
        ",
    );
}

/// The data class whose fields say by their metadata what they are.
#[derive(Pytree, Clone, Debug)]
struct Marked {
    a: i32,
    #[r#static]
    b: String,
}

#[test]
fn field_of_data_class_is_marked_static() {
    let mut out = Printed::default();
    let pytree = Marked {
        a: 10,
        b: "hello".to_owned(),
    };
    pytree_structure(&mut out, "dataclass pytree structure", &pytree);
    out.expect(
        "
        dataclass pytree structure:
         - pytree.a = 10
        ",
    );
    assert_eq!(pytree.b, "hello");
}

/// Of a struct, the compiler knows what a field is, and an assignment does not change it: a text in a field of type
/// `Tensor` does not compile. Where fields are known when the program runs, they can change what they are.
#[test]
#[allow(
    clippy::approx_constant,
    reason = "the number that the document prints"
)]
fn registered_field_status_can_change() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut pytree: DynamicModule = DynamicModule::new("Foo")?;
    pytree.register_subtree("a", Tensor::from(1.0_f32))?;
    pytree.register_static("b", "Hello, world!")?;
    pytree.register_subtree("c", 3.14)?;
    pytree_structure(&mut out, "original", &pytree);

    pytree.set("a", "🤔")?;
    pytree.unregister("b")?;
    pytree.register_subtree("b", 42)?;
    pytree.unregister("c")?;
    pytree.register_static("c", 0.5)?;
    pytree_structure(&mut out, "updated", &pytree);
    out.expect(
        r#"
        original:
         - pytree.a = Tensor(1., dtype=f32)
         - pytree.c = 3.14
        updated:
         - pytree.a = "🤔"
         - pytree.b = 42
        "#,
    );
    assert_eq!(pytree.get_static::<f64>("c")?.to_string(), "0.5");
    Ok(())
}

// The document's attribute checks, in its order, are mistakes that do not compile:
// an array that is given to a static attribute, `tests/ui/wrong_kind/static_tensor.rs`;
// an array that is assigned to one that was static, `tests/ui/use/tensor_in_static_field.rs`;
// arrays in a list that is static, `tests/ui/wrong_kind/static_tensors.rs`;
// marks inside of other structures, `tests/ui/attribute/inside_of_a_type.rs`.

/// The model of the document that counts.
#[derive(Module, Clone, Debug)]
struct Counting {
    #[state]
    count: Ref<Tensor>,
}

/// A write to a captured plain field does not compile: `tests/ui/use/captured_module_mutation.rs`.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn captured_model_is_not_written() {
    let mut out = Printed::default();
    let foo = Counting {
        count: Ref::new(Tensor::from(0)),
    };
    let captured = foo.clone();
    let increment = vmap(move |n: Tensor| {
        captured.count.update(|count| count + 1);
        n
    });
    let error = catch_unwind(AssertUnwindSafe(|| {
        increment(Tensor::arange(DType::I32, 5))
    }));
    let error = error.expect_err("it panics").downcast::<String>();
    out.say(format_args!("Error: {}", error.expect("it says why")));
    out.expect(
        "Error: cannot write a reference inside of `vmap` if the reference was created outside: traced values would leak out of the transformation; pass the reference as part of the argument, so that its final value is written back",
    );
    assert_eq!(foo.count.get(), Tensor::from(0));
}

#[derive(Pytree, Clone, Debug)]
struct Held {
    x: Tensor,
}

#[derive(Pytree, Clone, Debug)]
struct Parent {
    left: Shared<Held>,
    right: Shared<Held>,
}

impl Parent {
    fn new() -> Self {
        let left = Shared::new(Held {
            x: Tensor::from(1.0_f32),
        });
        Self {
            right: left.clone(),
            left,
        }
    }

    fn is_shared(&self) -> bool {
        self.left.same(&self.right)
    }
}

/// Tells what is shared inside of a compiled function.
fn say_inside(out: &Arc<Mutex<Printed>>, m: &Parent) {
    let mut out = out.lock().expect("no test panicked that holds it");
    out.say(format_args!(
        "Inside: m.left is m.right = {}",
        m.is_shared()
    ));
}

/// The lines that were printed before, inside and after.
fn printed(out: &Arc<Mutex<Printed>>) -> Printed {
    std::mem::take(&mut *out.lock().expect("no test panicked that holds it"))
}

/// `jax.jit` sees a tree, which has a copy at each place. Here that is a function on trees; `jit` is further below.
#[test]
fn only_graph_functions_keep_sharing() {
    let mut out = Printed::default();
    let m = Parent::new();
    out.say(format_args!(
        "Before: m.left is m.right = {}",
        m.is_shared()
    ));
    let inside = Arc::new(Mutex::new(Printed::default()));
    let print = Arc::clone(&inside);
    let f = jit(move |m: Parent| {
        say_inside(&print, &m);
        m
    });
    let m = f(tree::map(&m, Tensor::clone));
    out.append(printed(&inside));
    out.say(format_args!("After: m.left is m.right = {}", m.is_shared()));
    out.expect(
        "
        Before: m.left is m.right = true
        Inside: m.left is m.right = false
        After: m.left is m.right = false
        ",
    );
    let m = Parent::new();
    assert!(graph::map(&m, Tensor::clone).is_shared());
    assert_eq!(tree::leaves::<Tensor, _>(&m).len(), 2);
    assert_eq!(graph::leaves::<Tensor, _>(&m).len(), 1);
}

#[test]
fn duplicates_are_lists_of_paths() {
    let mut out = Printed::default();
    let m = Parent::new();
    let duplicates = nodes::find_duplicates(&m);
    out.say(format_args!(
        "nnx.find_duplicates(m) = {duplicates} # not a tree"
    ));
    out.expect("nnx.find_duplicates(m) = [[('left',), ('right',)]] # not a tree");
}

#[test]
fn split_state_has_shared_leaf_once() -> Result<(), TreeError> {
    let out = Arc::new(Mutex::new(Printed::default()));
    let say = |text: fmt::Arguments<'_>| {
        out.lock()
            .expect("no test panicked that holds it")
            .say(text);
    };
    let mut m = Parent::new();
    say(format_args!(
        "Before: m.left is m.right = {}",
        m.is_shared()
    ));
    let [state] = partition::split(&m, [Filter::everything()])?;
    let print = Arc::clone(&out);
    let f = jit(move |state: Partition<Parent, Tensor>| {
        let m = partition::merge([state]).expect("a whole was split");
        say_inside(&print, &m);
        partition::filter(&m, &Filter::everything())
    });
    let state: Partition<Parent, Tensor> = f(state);
    partition::update(&mut m, &state)?;
    say(format_args!("After: m.left is m.right = {}", m.is_shared()));
    say(format_args!("state = {}", state.state())); // deduplicated state
    printed(&out).expect(
        "
        Before: m.left is m.right = true
        Inside: m.left is m.right = true
        After: m.left is m.right = true
        state = State({
          'left': {
            'x': Tensor(1., dtype=f32)
          }
        })
        ",
    );
    // What is changed inside is at both places.
    let twice = state.map(|x| x * 2.0);
    partition::update(&mut m, &twice)?;
    assert!(m.is_shared());
    assert_eq!(m.right.x, Tensor::from(2.0_f32));
    Ok(())
}

#[test]
fn transformations_keep_sharing() {
    let out = Arc::new(Mutex::new(Printed::default()));
    let say = |text: fmt::Arguments<'_>| {
        out.lock()
            .expect("no test panicked that holds it")
            .say(text);
    };
    let m = Parent::new();
    say(format_args!(
        "Before: m.left is m.right = {}",
        m.is_shared()
    ));
    let print = Arc::clone(&out);
    let f = jit(move |m: Parent| {
        say_inside(&print, &m);
        m
    });
    let m = f(m);
    say(format_args!("After: m.left is m.right = {}", m.is_shared()));
    printed(&out).expect(
        "
        Before: m.left is m.right = true
        Inside: m.left is m.right = true
        After: m.left is m.right = true
        ",
    );
}

/// What the document makes by `pytree=False`, and once more, as the last of its programs, by `nnx.Object`.
#[derive(Pytree, Clone, Debug)]
struct Lists {
    a: Vec<Tensor>,
    b: Tensor,
}

/// A model in a reference is changed where it is, inside of a transformation too.
#[test]
fn compiled_function_writes_model_in_reference() {
    let mut out = Printed::default();
    let foo = Ref::new(Lists {
        a: vec![Tensor::from(1), Tensor::from(2)],
        b: Tensor::from(3),
    });
    let double = jit(|foo: Ref<Lists>| foo.update(|foo| tree::map(&foo, |x: &Tensor| x * 2)));
    double(foo.clone());
    let state = partition::filter(&foo, &Filter::everything());
    out.say(format_args!("nnx.state(foo) = {}", state.state()));
    out.expect(
        "
        nnx.state(foo) = State({
          'a': {
            0: Tensor(2, dtype=i32),
            1: Tensor(4, dtype=i32)
          },
          'b': Tensor(6, dtype=i32)
        })
        ",
    );
}

/// A type that is to be no pytree derives none of it; as a leaf it stays whole.
#[derive(Leaf, Clone, Debug)]
struct Whole {
    a: Vec<Tensor>,
    b: Tensor,
}

#[test]
fn type_that_opts_out_is_leaf() {
    let foo = Whole {
        a: vec![Tensor::from(1), Tensor::from(2)],
        b: Tensor::from(3),
    };
    let mut out = Printed::default();
    let is_leaf = tree::all_leaves([&foo]);
    out.say(format_args!("jax.tree_util.all_leaves([foo]) = {is_leaf}"));
    out.expect("jax.tree_util.all_leaves([foo]) = true");
    let leaves: Vec<AnyLeaf> = tree::flatten_any(&foo).0;
    let back = leaves[0].downcast_ref::<Whole>().expect("the leaf is it");
    assert_eq!(back.a, foo.a);
    assert_eq!(back.b, foo.b);
}

#[derive(Module, Clone, Debug)]
struct SowingBlock {
    #[param]
    scale: Tensor,
    #[state(Intermediate)]
    y_mean: Option<(Tensor,)>,
}

#[derive(Module, Clone, Debug)]
struct Sowing {
    blocks: Vec<SowingBlock>,
}

#[test]
fn what_a_pass_has_sown_is_popped() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let means = [4.659_754e-6_f32, 0.000_259_33, 0.055_619_22];
    let blocks = means.map(|mean| SowingBlock {
        scale: Tensor::from(1.0_f32),
        y_mean: Some((Tensor::from(mean),)),
    });
    let mut model = Sowing {
        blocks: blocks.to_vec(),
    };
    let intermediates = partition::pop(&mut model, &Filter::state::<Intermediate>())?;
    out.say(intermediates.state());
    assert!(model.blocks.iter().all(|block| block.y_mean.is_none()));
    out.expect(
        "
        State({
          'blocks': {
            0: {
              'y_mean': Intermediate( # 1 (4 B)
                value=(Tensor(4.659754e-06, dtype=f32),)
              )
            },
            1: {
              'y_mean': Intermediate( # 1 (4 B)
                value=(Tensor(0.00025933, dtype=f32),)
              )
            },
            2: {
              'y_mean': Intermediate( # 1 (4 B)
                value=(Tensor(0.05561922, dtype=f32),)
              )
            }
          }
        })
        ",
    );
    Ok(())
}

/// What the document's program prints, from the first block to the last; of the second it prints 0.00025933.
const Y_MEANS: [f32; 3] = [4.659_754e-6, 0.000_259_331_1, 0.055_619_22];

#[test]
fn what_a_forward_pass_sows_is_popped() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut model = Blocks::new(3, 20, &mut Rngs::new(0));
    let bare = tree::structure(&model);
    let x = Tensor::ones(DType::F32, [10, 20]);
    model.forward(&x);
    let intermediates: Partition<_, Tensor> =
        partition::pop(&mut model, &Filter::state::<Intermediate>())?;
    assert_eq!(tree::structure(&model), bare);
    out.say(intermediates.state());
    let y_means = intermediates.leaves();
    let block = |block: usize| {
        format!(
            "    {block}: {{\n      'y_mean': Intermediate( # 1 (4 B)\n        value=({:?},)\n      )\n    }}",
            y_means[block]
        )
    };
    let blocks = [block(0), block(1), block(2)].join(",\n");
    out.expect(&format!("State({{\n  'blocks': {{\n{blocks}\n  }}\n}})"));

    // All rows are the same, so that what the first block normalises is nothing but the rounding of a mean.
    for (found, expected) in y_means.iter().zip(Y_MEANS) {
        assert_close(found, &[expected]);
    }
    Ok(())
}

/// That figures are those of the document, but for the rounding of sums that are added in another order.
#[track_caller]
fn assert_close(found: &Tensor, expected: &[f32]) {
    let found = found.to_vec::<f32>();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-6 * expected.abs(),
            "found {found}, expected {expected}"
        );
    }
}

#[test]
fn gradient_of_intermediate_is_that_of_perturbation() {
    let mut rngs = Rngs::new(0);
    let mut model = Model::new(&mut rngs);
    let mut optimizer = Optimizer::new(&model, sgd(1e-1));
    let x = rngs.uniform(DType::F32, [1, 2]);
    let y = rngs.uniform(DType::F32, [1, 4]);
    let _ = model.forward(&x); // makes the zeros
    let zeros: ModelPart = partition::filter(&model, &Filter::state::<Perturbation>());
    let mut out = Printed::default();
    out.say(zeros.state());
    out.expect(
        "
        State({
          'xgrad': Perturbation( # 3 (12 B)
            value=Tensor([[0., 0., 0.]], dtype=f32)
          )
        })
        ",
    );

    let train_step = jit(train_step);
    let expected = [
        (0.732_651_1, [-0.430_146, -0.143_566_01, 0.293_563_3]),
        (0.650_391_34, [-0.385_355_68, -0.117_450_65, 0.244_415_27]),
    ];
    for (expected_loss, expected_gradient) in expected {
        let (loss, gradient);
        (model, optimizer, loss, gradient) = train_step((model, optimizer, x.clone(), y.clone()));
        assert_close(&loss, &[expected_loss]);
        assert_close(&gradient["xgrad"], &expected_gradient);
        assert_eq!(gradient.len(), 1);
    }
    assert_eq!(train_step.traces(), 1);
}
