//! Modes and other static fields set by choice.

use pytree_core::{Filter, Module, Ref, Shared, edit};
use pytree_nn::{BatchNorm, Dropout, Linear, Mode, Rngs, eval, eval_where, train, train_where};

#[derive(Module, Clone, Debug, PartialEq)]
struct Block {
    linear: Linear,
    norm: BatchNorm,
    dropout: Dropout,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    blocks: Vec<Block>,
    head: Dropout,
}

fn net() -> Net {
    let mut rngs = Rngs::new(0);
    let mut block = || Block {
        linear: Linear::new(2, 2, &mut rngs),
        norm: BatchNorm::new(2, &mut rngs),
        dropout: Dropout::new(0.5, &mut rngs),
    };
    let blocks = vec![block(), block()];
    Net {
        blocks,
        head: Dropout::new(0.5, &mut rngs),
    }
}

/// Whether each mode is `Eval`: of each block norm and dropout, then of the head.
fn quiet(net: &Net) -> [bool; 5] {
    let [first, second] = &net.blocks[..] else {
        panic!("two blocks")
    };
    let modes = [
        first.norm.mode,
        first.dropout.mode,
        second.norm.mode,
        second.dropout.mode,
        net.head.mode,
    ];
    modes.map(|mode| mode == Mode::Eval)
}

#[test]
fn all_modes_are_set_at_once() {
    assert_eq!(quiet(&net()), [false; 5]);
    assert_eq!(quiet(&eval(&net())), [true; 5]);
    assert_eq!(train(&eval(&net())), net());
}

#[test]
fn modes_are_set_by_path() {
    let net = net();
    let first = eval_where(&net, &Filter::path("blocks[0]"));
    assert_eq!(quiet(&first), [true, true, false, false, false]);
    let norms = eval_where(&net, &Filter::path_contains("norm"));
    assert_eq!(quiet(&norms), [true, false, true, false, false]);
    let one = eval_where(&net, &Filter::path("blocks[1].dropout.mode"));
    assert_eq!(quiet(&one), [false, false, false, true, false]);
    let other = Filter::path("blocks[0]") | Filter::path("head");
    assert_eq!(
        quiet(&eval_where(&net, &other)),
        [true, true, false, false, true]
    );
    assert_eq!(
        quiet(&eval_where(&net, &!other)),
        [false, false, true, true, false]
    );
    assert_eq!(train_where(&first, &Filter::path("blocks[0]")), net);
}

#[test]
fn modes_are_set_by_type_of_layer() {
    let net = edit::apply(net(), |dropout: &mut Dropout| dropout.mode = Mode::Eval);
    assert_eq!(quiet(&net), [false, true, false, true, true]);
}

#[test]
fn static_field_is_set_by_name() {
    let net = edit::set_static(&net(), &Filter::path_contains("momentum"), 0.5).unwrap();
    assert!(net.blocks.iter().all(|block| block.norm.momentum == 0.5));
    assert_eq!(net.blocks[0].norm.epsilon, 1e-5);
    assert_eq!(net.head.rate, 0.5.into());
    let name = Some("batch".to_owned());
    let named = edit::set_static(&net, &Filter::everything(), name.clone()).unwrap();
    assert_eq!(named.blocks[1].norm.axis_name, name);
}

#[test]
fn shared_layer_is_set_once() {
    let dropout = Shared::new(Dropout::new(0.5, &mut Rngs::new(0)));
    let model = (dropout.clone(), vec![dropout]);
    let (first, second) = eval_where(&model, &Filter::path("[0]"));
    assert!(first.same(&second[0]));
    assert_eq!(second[0].mode, Mode::Eval);
    for place in ["[1][0]", "[1]", "[1][0].mode"] {
        let changed = edit::set_static(&model, &Filter::path(place), Mode::Eval).unwrap();
        assert!(changed.0.same(&changed.1[0]));
        assert_eq!(changed.0.mode, Mode::Eval, "{place}");
    }
}

#[test]
fn what_is_set_nowhere_is_an_error() {
    let net = net();
    let message = |filter: Filter| {
        edit::set_static(&net, &filter, Mode::Eval)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        message(Filter::path("blocks[0].linear")),
        "cannot set a static field of type `Mode`: the filter path(blocks[0].linear) selects no static field of that type; static fields have no kind, so select one of these fields by its path: 5 places:
  blocks[0].norm.mode
  blocks[0].dropout.mode
  blocks[1].norm.mode
  blocks[1].dropout.mode
  head.mode"
    );
    assert_eq!(
        message(Filter::path("haed")),
        "no node or leaf at haed; did you mean `head`?"
    );
    assert!(message(!Filter::path("block[0]")).starts_with("no node or leaf at block[0]"));
    assert!(message(Filter::path_contains("mod")).contains("path_contains(mod)"));
    // Filters of leaves select no static field.
    for filter in [
        Filter::param(),
        Filter::leaf_type::<f64>(),
        Filter::predicate(|_, _| true),
        Filter::nothing(),
    ] {
        assert!(message(filter).starts_with("cannot set a static field of type `Mode`"));
    }
    let error = edit::set_static(&net, &Filter::everything(), 'c').unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot set a static field of type `char`: the model has no static field of that type"
    );
}

#[test]
#[should_panic(
    expected = "cannot set a static field of type `Mode`: the filter path_contains(droput) selects no static field"
)]
fn a_misspelt_name_panics() {
    let _ = eval_where(&net(), &Filter::path_contains("droput"));
}

/// A model whose blocks are behind references: the block at two places, and a reference inside a reference.
#[derive(Module, Clone, Debug)]
struct Linked {
    first: Ref<Block>,
    again: Ref<Block>,
    nested: Ref<Vec<Ref<Dropout>>>,
}

#[test]
fn references_are_copied_with_the_model() {
    let [block, other] = <[Block; 2]>::try_from(net().blocks).unwrap();
    let (block, dropout) = (Ref::new(block), Ref::new(other.dropout));
    let model = Linked {
        again: block.clone(),
        first: block,
        nested: Ref::new(vec![dropout]),
    };
    let modes = |model: &Linked| {
        let block = model.first.get();
        let nested = model.nested.get()[0].get();
        [block.norm.mode, block.dropout.mode, nested.mode]
    };
    let everything = Filter::everything();
    let copies: [(&str, Linked, Mode); 5] = [
        ("eval", eval(&model), Mode::Eval),
        ("eval_where", eval_where(&model, &everything), Mode::Eval),
        ("train", train(&eval(&model)), Mode::Train),
        (
            "train_where",
            train_where(&eval(&model), &everything),
            Mode::Train,
        ),
        (
            "set_static",
            edit::set_static(&model, &everything, Mode::Eval).unwrap(),
            Mode::Eval,
        ),
    ];
    for (name, copy, mode) in copies {
        assert_eq!(modes(&copy), [mode; 3], "{name}");
        assert_eq!(
            modes(&model),
            [Mode::Train; 3],
            "{name} changes the original"
        );
        assert!(copy.first.same(&copy.again), "{name} loses sharing");
        assert!(!copy.first.same(&model.first), "{name} shares a reference");
        // Neither reaches the other by a later write.
        copy.first.modify(|block| block.norm.momentum = 0.25);
        assert_eq!(copy.again.get().norm.momentum, 0.25, "{name}");
        assert_eq!(model.first.get().norm.momentum, 0.99, "{name}");
    }
}
