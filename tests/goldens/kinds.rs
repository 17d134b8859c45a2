//! Collections with parents are selected as Flax NNX selects subclasses of variables.

use pytree::core::LeafKind;
use pytree::kind::{BatchStat, Cache, Param};
use pytree::prelude::*;
use pytree::{Collection, Filter};

use crate::goldens::files::read;
use crate::goldens::state::in_our_words;

#[derive(Collection)]
#[collection(parent = Param)]
struct LoRAParam;

#[derive(Collection)]
#[collection(parent = LoRAParam)]
struct ScaledLoRAParam;

#[derive(Collection)]
#[collection(parent = BatchStat)]
struct Average;

#[derive(Collection)]
#[collection(parent = Average)]
struct SlowAverage;

#[derive(Module, Clone, Debug)]
struct Model {
    #[state(Average)]
    average: Tensor,
    #[state(Cache)]
    cache: Tensor,
    #[param(LoRAParam)]
    down: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
    #[param(ScaledLoRAParam)]
    scale: Tensor,
    #[state(SlowAverage)]
    slow: Tensor,
    #[param]
    weight: Tensor,
}

fn model() -> Model {
    let value = |position: f32| Tensor::from([position, position]);
    Model {
        average: value(4.0),
        cache: value(6.0),
        down: value(1.0),
        mean: value(3.0),
        scale: value(2.0),
        slow: value(5.0),
        weight: value(0.0),
    }
}

#[test]
fn collections_are_selected_with_descendants() {
    fn filter<C: Collection>() -> (&'static str, LeafKind, Filter) {
        (C::NAME, LeafKind::of::<C>(), Filter::collection::<C>())
    }
    let file = read("kinds.json");
    let filters = [
        filter::<Param>(),
        filter::<LoRAParam>(),
        filter::<ScaledLoRAParam>(),
        filter::<BatchStat>(),
        filter::<Average>(),
        filter::<SlowAverage>(),
        filter::<Cache>(),
    ];
    let selected = file["selected"].as_object().unwrap();
    assert_eq!(selected.len(), filters.len());
    for (name, kind, filter) in filters {
        let part = partition::filter(&model(), &filter);
        let found: Vec<String> = part
            .iter_with_path()
            .map(|(path, _)| path.to_string())
            .collect();
        let expected: Vec<&str> = selected[name]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(found, expected, "{name}");

        let parent = file["parents"][name].as_str().unwrap();
        match kind.collection().parent() {
            Some(found) => assert_eq!(found.name(), parent),
            None => assert!(["Param", "Variable"].contains(&parent), "{name}: {parent}"),
        }
    }
}

#[test]
fn state_shows_own_name_of_collection() {
    let file = read("kinds.json");
    let expected = in_our_words(file["text"].as_str().unwrap());
    let state = partition::filter(&model(), &Filter::everything());
    assert_eq!(state.state().to_string(), expected);
}
