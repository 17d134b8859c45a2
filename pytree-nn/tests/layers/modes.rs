//! Modes and other static fields set by choice.

use pytree_core::{Filter, Module, Shared, edit};
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
    assert_eq!((net.blocks[0].norm.epsilon, net.head.rate), (1e-5, 0.5));
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
