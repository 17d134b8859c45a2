//! Partition by kind, by collection, by a user's collection and by path; merge; index by path.

use pytree::Collection;
use pytree::prelude::*;

#[derive(Collection, Clone, Copy, Debug)]
struct Ema;

#[derive(Module, Clone, Debug, PartialEq)]
struct Norm {
    #[param]
    scale: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
    #[state(Ema)]
    average: Tensor,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Model {
    norms: Vec<Norm>,
    #[state]
    steps: Tensor,
}

fn model() -> Model {
    let norm = |x: f32| Norm {
        scale: Tensor::from(x),
        mean: Tensor::from(x + 1.0),
        average: Tensor::from(x + 2.0),
    };
    Model {
        norms: vec![norm(0.0), norm(10.0)],
        steps: Tensor::from(7_i32),
    }
}

#[test]
fn parts_by_kind_and_collection_merge_again() {
    let whole = model();
    let filters = [
        Filter::param(),
        Filter::state::<BatchStat>(),
        Filter::state::<Ema>(),
        Filter::everything(),
    ];
    let [params, stats, averages, rest] = partition::split(&whole, filters).unwrap();
    assert_eq!(
        (params.len(), stats.len(), averages.len(), rest.len()),
        (2, 2, 2, 1)
    );
    assert_eq!(averages["norms[1].average"].item::<f32>(), 12.0);
    assert_eq!(rest["steps"].item::<i32>(), 7);
    let back: Model = partition::merge([rest, params.clone(), averages, stats.clone()]).unwrap();
    assert_eq!(back, whole);

    let twice = partition::merge([params.clone(), params, stats])
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("norms[0].scale is in more than one part"),
        "{twice}"
    );
}

#[test]
fn parts_by_path_and_their_mistakes() {
    let whole = model();
    let [first, rest] =
        partition::split(&whole, [Filter::path("norms[0]"), Filter::everything()]).unwrap();
    assert_eq!((first.len(), rest.len()), (3, 4));
    assert_eq!(partition::merge([first.clone(), rest]).unwrap(), whole);
    let alone = partition::merge([first.clone()]).unwrap_err().to_string();
    for place in [
        "4 places",
        "norms[1].scale",
        "norms[1].mean",
        "norms[1].average",
        "steps",
    ] {
        assert!(alone.contains(place), "{alone}");
    }
    let misspelt = first.get("norms[0].scales").unwrap_err().to_string();
    assert_eq!(
        misspelt,
        "no leaf at norms[0].scales; did you mean `norms[0].scale`?"
    );
    let left_over = partition::split(&whole, [Filter::param()])
        .unwrap_err()
        .to_string();
    assert!(left_over.contains("steps"), "{left_over}");
}

#[test]
fn a_gradient_is_indexed_by_path() {
    let gradient =
        grad(|m: &Model| &m.norms[0].scale * 3.0 + &m.norms[1].scale * &m.norms[1].mean)(&model());
    assert_eq!(gradient["norms[0].scale"].item::<f32>(), 3.0);
    assert_eq!(gradient["norms[1].scale"].item::<f32>(), 11.0);
}
