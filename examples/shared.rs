//! One value at several key paths. The example changes a list through each of its key paths. Compiled functions keep
//! the list shared, and the functions of `tree::` copy the list. The last part trains shared values.
//!
//! Run it with `cargo run --example shared`. It prints:
//!
//!     # a list at two places
//!     [1, 2, 1, 2] in PyTreeDef({'a': [*, *], 'b': [*, *]})
//!     {'a': [3, 2], 'b': [3, 2]} and {'a': [3, 2], 'b': [1, 2]}
//!     {obj.__class__: <class 'dict'>,
//!     obj[a].__class__: <class 'list'>,
//!     obj[a][0]: 3,
//!     obj[a][1]: 2,
//!     obj[b]: obj[a]}
//!     {'a': [4, 2], 'b': [4, 2]}
//!     # a list that is in itself
//!     [1, 2, [...]]
//!     {obj.__class__: <class 'list'>,
//!     obj[0]: 1,
//!     obj[1]: 2,
//!     obj[2]: obj}
//!     [1, 2, [...]]
//!     # through compiled functions
//!     {'a': [Tensor(1., dtype=f32)], 'b': [Tensor(0., dtype=f32)]}
//!     {'a': [Tensor(1., dtype=f32)], 'b': [Tensor(1., dtype=f32)]}
//!     {'a': [Tensor(2., dtype=f32)], 'b': [Tensor(2., dtype=f32)]}
//!     # references
//!     written at a[0], read at a[1]: 10
//!     written inside, read outside: 50
//!     by hand: Pair { a: [Tensor(10, dtype=i32), alias 0, Tensor(100, dtype=i32)], b: alias 1 }
//!     b: 100
//!     error: cannot write a reference inside of `jit` if the reference was created outside: traced values would leak out of the transformation; pass the reference as part of the argument, so that its final value is written back
//!     # parts, and a step along the gradient
//!     parameters: Pair { a: [Tensor(1., dtype=f32), alias 0, -], b: alias 1 }
//!     the rest: Pair { a: [-, alias 0, Tensor(2., dtype=f32)], b: alias 1 }
//!     merged: Pair { a: [Tensor(1., dtype=f32), alias 0, Tensor(2., dtype=f32)], b: alias 1 }
//!     gradient: Pair { a: [Tensor(4., dtype=f32), alias 0, -], b: alias 1 }
//!     after the step: 0.6

use std::collections::BTreeMap;
use std::fmt;

use pytree::Partition;
use pytree::WeakRef;
use pytree::core::shape::{NodeKind, Shape};
use pytree::core::{Unflattener, Visitor};
use pytree::prelude::*;
use pytree::refs::{deref, reref, update_refs};
use pytree::{Dictionary, TreeError};

/// Named lists. One list may have several names.
pub(crate) type Lists<T> = BTreeMap<&'static str, Ref<Vec<T>>>;

pub(crate) fn at_two_places<T>(list: Vec<T>) -> Lists<T> {
    let list = Ref::new(list);
    BTreeMap::from([("a", list.clone()), ("b", list)])
}

/// Replaces the first item of the list `a`.
pub(crate) fn set_first<T: Clone>(lists: &Lists<T>, value: &T) {
    lists["a"].update(|mut list| {
        list[0] = value.clone();
        list
    });
}

fn lists() -> Result<(), TreeError> {
    println!("# a list at two places");
    let one = at_two_places(vec![1, 2]);
    // The functions of `tree::` copy the list to each key path.
    let (leaves, structure) = tree::flatten::<i32, _>(&one);
    println!("{leaves:?} in {structure}");
    let two: Lists<i32> = tree::unflatten(&structure, leaves)?;
    set_first(&one, &3);
    set_first(&two, &3);
    println!("{} and {}", Tree::of(&one), Tree::of(&two));

    // A flat dictionary lists the later key paths as aliases, so the list stays shared.
    let flat = Dictionary::flatten(&one);
    println!("{flat}");
    let three: Lists<i32> = flat.unflatten()?;
    set_first(&three, &4);
    println!("{}", Tree::of(&three));
    Ok(())
}

/// An item of a list: a number, or the list that contains the item.
#[derive(Clone)]
pub(crate) enum Item {
    Number(i32),
    Around(WeakRef<Vec<Item>>),
}

/// An item adds no node of its own to a tree: the item is visited as its content.
impl Pytree for Item {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        match self {
            Self::Number(number) => number.visit(visitor),
            Self::Around(list) => list.visit(visitor),
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let next = source.peek().map(Shape::kind);
        if next == Some(NodeKind::Leaf) {
            return i32::unflatten(source).map(Self::Number);
        }
        WeakRef::unflatten(source).map(Self::Around)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Around(_) => f.write_str("[...]"),
        }
    }
}

fn cycles() -> Result<(), TreeError> {
    println!("# a list that is in itself");
    let list = Ref::new(vec![Item::Number(1), Item::Number(2)]);
    list.update(|mut items| {
        items.push(Item::Around(list.downgrade()));
        items
    });
    println!("{:?}", list.get());
    let flat = Dictionary::flatten(&list);
    println!("{flat}");
    let back: Ref<Vec<Item>> = flat.unflatten()?;
    println!("{:?}", back.get());
    Ok(())
}

fn compiled() {
    println!("# through compiled functions");
    let add_one = jit(|lists: Lists<Tensor>| {
        let first = &lists["a"].get()[0] + 1.0;
        set_first(&lists, &first);
        lists
    });
    let one = at_two_places(vec![Tensor::from(0.0_f32)]);
    println!("{}", Tree::of(&add_one(tree::map(&one, Tensor::clone))));
    let two = add_one(one);
    println!("{}", Tree::of(&two));
    set_first(&two, &(&two["a"].get()[0] + 1.0));
    println!("{}", Tree::of(&two));
}

/// A list of references, and one more reference. `Pair::of` fills a pair with two references. Each of the two
/// references occurs twice.
#[derive(Pytree, Clone, Debug)]
struct Pair {
    a: Vec<Ref<Tensor>>,
    b: Ref<Tensor>,
}

impl Pair {
    fn of(one: &Ref<Tensor>, two: &Ref<Tensor>) -> Self {
        Self {
            a: vec![one.clone(), one.clone(), two.clone()],
            b: two.clone(),
        }
    }
}

fn references() -> Result<(), TreeError> {
    println!("# references");
    let (one, two) = (Ref::new(Tensor::from(1)), Ref::new(Tensor::from(2)));
    let pair = Pair::of(&one, &two);
    pair.a[0].set(Tensor::from(10));
    println!("written at a[0], read at a[1]: {}", pair.a[1].get());

    // A compiled function accepts references and writes them.
    let write = jit(|pair: Pair| pair.a[2].set(Tensor::from(50)));
    write(pair.clone());
    println!("written inside, read outside: {}", pair.b.get());

    // Alternatively, a compiled function accepts and returns the values of the references. The caller and the function
    // create references from these values.
    let by_hand = jit(|values: Tree<Tensor>| {
        let pair: Pair = reref(&values).expect("the tree is that of a pair");
        pair.a[2].update(|value| value * 2);
        deref(&pair)
    });
    let values = by_hand(deref(&pair));
    println!("by hand: {values}");
    println!("b: {}", reref::<Pair, _>(&values)?.b.get());

    // A compiled function cannot write a captured reference, because a traced value would leak.
    let captured = jit(move |x: Tensor| match one.try_set(x.clone()) {
        Ok(()) => println!("written"),
        Err(error) => println!("error: {error}"),
    });
    captured(Tensor::from(1));
    Ok(())
}

fn training() -> Result<(), TreeError> {
    println!("# parts, and a step along the gradient");
    let one = Ref::param(Tensor::from(1.0_f32));
    let two = Ref::state::<BatchStat>(Tensor::from(2.0_f32));
    let pair = Pair::of(&one, &two);
    let filters = [Filter::param(), Filter::everything()];
    let [params, rest] = partition::split(&pair, filters)?;
    println!("parameters: {params}");
    println!("the rest: {rest}");
    let merged = partition::merge([params, rest.clone()])?;
    println!("merged: {}", deref(&merged));

    let params = partition::filter(&pair, &Filter::param());
    let loss = |params: &Partition<Pair>| {
        let merged = partition::merge([params.clone(), rest.clone()]);
        let pair = merged.expect("the parts are of one pair");
        pair.a[0].get() * pair.a[1].get() * pair.b.get()
    };
    // A value that is used twice has one gradient, the sum over both uses.
    let gradient = grad(loss)(&params);
    println!("gradient: {gradient}");
    update_refs(&pair, &params.map2(&gradient, |w, g| w - 0.1 * g)?)?;
    println!("after the step: {}", one.get());
    Ok(())
}

fn main() -> Result<(), TreeError> {
    lists()?;
    cycles()?;
    compiled();
    references()?;
    training()
}
