//! Values of many leaves: flattened, unflattened, displayed, compared, selected, edited, trained and stored.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use pytree::core::ravel::ravel;
use pytree::kind::OptState;
use pytree::nn::summary;
use pytree::prelude::*;
use pytree::{Dictionary, PytreeOf, nodes};
use pytree::{DynamicModule, Partition, TreeDef, at, edit};

use crate::measure::{Sheet, measure, refused};
use crate::models::{Layer, Layers, Sown, hashed, layers, numbers, sorted};

fn hash(treedef: &TreeDef) -> u64 {
    let mut hasher = DefaultHasher::new();
    treedef.hash(&mut hasher);
    hasher.finish()
}

/// What goes for any value of floats.
fn walk<T: PytreeOf<f32> + Clone + Debug>(sheet: &mut Sheet, name: &str, value: fn(usize) -> T) {
    let of = |what: &str| format!("{name}: {what}");
    let tree_of = move |size| Tree::from_value(&value(size));
    let part_of = move |size| partition::filter(&value(size), &Filter::everything());
    let last = move |size| {
        let paths = tree::structure(&value(size)).leaf_paths();
        paths[paths.len() - 1].clone()
    };
    sheet.add(&of("flatten"), value, |value| {
        graph::flatten::<f32, T>(value)
    });
    sheet.add(&of("unflatten"), tree_of, |tree| {
        tree.to_value::<T>().unwrap()
    });
    sheet.add(&of("paths"), tree_of, |tree| tree.treedef().leaf_paths());
    sheet.add(&of("map"), value, |value| {
        tree::map(value, |leaf: &f32| leaf + 1.0)
    });
    sheet.add(&of("two mapped"), value, |value| {
        tree::map2(value, value, |a: &f32, b: &f32| a + b).unwrap()
    });
    sheet.add(&of("display"), tree_of, |tree| tree.to_string());
    sheet.add(&of("display of the structure"), tree_of, |tree| {
        tree.treedef().to_string()
    });
    sheet.add(&of("display of the state"), part_of, |part| {
        part.state().to_string()
    });
    sheet.add(
        &of("equality"),
        |size| (tree_of(size), tree_of(size)),
        |(a, b)| {
            assert!(a == b);
        },
    );
    sheet.add(&of("hash"), value, |value| hash(&tree::structure(value)));
    sheet.add(&of("content hash"), tree_of, |tree| {
        tree.treedef().content_hash()
    });
    sheet.add(&of("bytes"), tree_of, |tree| {
        TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap()
    });
    sheet.add(
        &of("diff"),
        |size| {
            (
                value(size),
                tree::map(&value(size), |leaf: &f32| leaf + 1.0),
            )
        },
        |(a, b)| diff(a, b).to_string(),
    );
    sheet.add(
        &of("get"),
        |size| (tree_of(size), last(size)),
        |(tree, path)| *tree.get(path).unwrap(),
    );
    sheet.add(
        &of("get in a part"),
        |size| (part_of(size), last(size)),
        |(part, path)| *part.get(path).unwrap(),
    );
    sheet.add(
        &of("insert and remove"),
        |size| (part_of(size), last(size)),
        |(part, path)| {
            let leaf = part.remove(path).unwrap();
            part.insert(path, leaf).unwrap()
        },
    );
    sheet.add(
        &of("split and merge by a path"),
        |size| (value(size), last(size)),
        |(value, path)| {
            let filters = [Filter::path(path.to_string()), Filter::everything()];
            partition::merge(partition::split(value, filters).unwrap()).unwrap()
        },
    );
    sheet.add(&of("merge of what overlaps"), part_of, |part| {
        partition::merge([part.clone(), part.clone()]).unwrap_err()
    });
    sheet.add(
        &of("merge of what lacks leaves"),
        |size| (value(size), last(size)),
        |(value, path)| {
            let part = partition::filter(value, &Filter::path(path.to_string()));
            partition::merge([part]).unwrap_err().to_string()
        },
    );
    sheet.add(&of("parts laid over each other"), part_of, |part| {
        partition::merge_state([part.clone(), part.clone()]).unwrap()
    });
    sheet.add(
        &of("update by a part"),
        |size| (value(size), part_of(size)),
        |(value, part)| {
            partition::update(value, part).unwrap();
        },
    );
    sheet.add(&of("flat state"), part_of, |part| {
        let treedef = part.tree().treedef().clone();
        Partition::<T, f32>::from_flat(&treedef, part.to_flat()).unwrap()
    });
    sheet.add(&of("pure dictionary"), part_of, |part| {
        part.replace_by_pure_dict(&part.to_pure_dict().unwrap())
            .unwrap()
    });
    sheet.add(&of("nested state"), part_of, |part| {
        Tree::nested(part.to_flat()).unwrap()
    });
    sheet.add(&of("without"), part_of, |part| part.without(part));
    sheet.add(&of("dictionary"), value, |value| {
        let dictionary = Dictionary::flatten(value);
        let hash = dictionary.content_hash();
        (
            dictionary.entries().len(),
            hash,
            dictionary.unflatten::<T>().unwrap(),
        )
    });
    sheet.add(&of("all nodes"), value, |value| nodes::iter_graph(value));
    sheet.add(&of("children"), value, |value| nodes::iter_children(value));
    sheet.add(&of("children as trees"), value, |value| {
        graph::flatten_one_level(value)
    });
    sheet.add(&of("nodes of a type"), value, |value| {
        nodes::of_type::<f32>(value)
    });
    sheet.add(&of("copy"), value, |value| nodes::copy(value));
    sheet.add(&of("subtrees"), tree_of, |tree| {
        tree.cut(|subtree| subtree.is_leaf())
    });
    sheet.add(&of("ravel"), value, |value| {
        let (vector, form) = ravel::<f32, _>(value).unwrap();
        form.unravel(&vector).unwrap()
    });
    sheet.add(&of("edits of each leaf"), value, |value| {
        edit::apply(value.clone(), |leaf: &mut f32| *leaf += 1.0)
    });
    sheet.add(&of("edits with paths"), value, |value| {
        edit::apply_with_path(value.clone(), |path, leaf: &mut f32| {
            *leaf += path.keys().len() as f32
        })
    });
    sheet.add(
        &of("replacement at a path"),
        |size| (value(size), last(size).to_string()),
        |(value, path)| edit::replace_at(value, path, 7.0_f32).unwrap(),
    );
    sheet.add(&of("lint"), value, |value| pytree::lint(value));
    sheet.add(&of("prefix"), tree_of, |tree| {
        let treedef = tree.treedef();
        (
            treedef.is_prefix_of(treedef),
            treedef.flatten_up_to(tree).unwrap(),
        )
    });
    sheet.add(&of("composed"), tree_of, |tree| {
        let inner = tree::structure(&vec![0.0_f32; 2]);
        tree.treedef().compose(&inner)
    });
}

#[test]
fn trees_are_linear_in_leaves() {
    measure(|sheet| {
        walk(sheet, "list", numbers);
        walk(sheet, "map", hashed);
        walk(sheet, "sorted map", sorted);
    });
}

#[test]
fn reports_are_linear_in_leaves() {
    measure(|sheet| {
        let other = |size: usize| {
            let other = |number: usize| (format!("other {number}"), number as f32);
            (0..size)
                .map(other)
                .collect::<std::collections::HashMap<_, _>>()
        };
        sheet.add(
            "report: other keys",
            |size| (hashed(size), other(size)),
            |(a, b)| {
                tree::map2(a, b, |a: &f32, b: &f32| a + b)
                    .unwrap_err()
                    .to_string()
            },
        );
        sheet.add(
            "report: diff of other keys",
            |size| (hashed(size), other(size)),
            |(a, b)| diff(a, b).to_string(),
        );
        let nested = |size: usize| {
            let entries = (0..size / 2).map(|number| (number, vec![0.0_f32; 2]));
            entries.collect::<std::collections::HashMap<_, _>>()
        };
        let shorter = |size: usize| {
            let entries = (0..size / 2).map(|number| (number, vec![0.0_f32; 1]));
            entries.collect::<std::collections::HashMap<_, _>>()
        };
        sheet.add(
            "report: other lengths",
            |size| (nested(size), shorter(size)),
            |(a, b)| {
                tree::map2(a, b, |a: &f32, b: &f32| a + b)
                    .unwrap_err()
                    .to_string()
            },
        );
        sheet.add(
            "report: diff of other lengths",
            |size| (nested(size), shorter(size)),
            |(a, b)| diff(a, b).to_string(),
        );
        let wider = |size: usize| {
            let mut layers = layers(size);
            layers.layers.iter_mut().for_each(|layer| layer.width += 1);
            layers
        };
        sheet.add(
            "report: other static values",
            |size| (layers(size), wider(size)),
            |(a, b)| {
                tree::map2(a, b, |a: &Tensor, _: &Tensor| a.clone())
                    .unwrap_err()
                    .to_string()
            },
        );
        sheet.add(
            "report: gradients of other shapes",
            |size| {
                let model = layers(size);
                let optimizer = Optimizer::new(&model, sgd(0.1));
                let wide = tree::map(&model, |_: &Tensor| Tensor::from([1.0_f32, 2.0]));
                let loss = |model: &Layers| {
                    model
                        .layers
                        .iter()
                        .fold(Tensor::from(0.0_f32), |sum, layer| sum + layer.weight.sum())
                };
                let _ = &wide;
                let gradient = grad(loss)(&wide);
                (model, optimizer, gradient)
            },
            |(model, optimizer, gradient)| {
                optimizer
                    .try_update(model, gradient)
                    .unwrap_err()
                    .to_string()
            },
        );
        sheet.add("report: a jvp of other shapes", layers, |layers| {
            let wide = tree::map(layers, |_: &Tensor| Tensor::from([1.0_f32, 2.0]));
            let function = || jvp(|layers: &Layers| layers.clone(), layers, &wide);
            refused(function)
        });
    });
}

/// A file that is removed in the end.
struct File(PathBuf);

impl File {
    fn new() -> Self {
        let name = format!("pytree-scale-{}.safetensors", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

#[test]
fn models_are_linear_in_leaves() {
    measure(|sheet| {
        let loss = |model: &Layers| {
            let terms = model.layers.iter().map(|layer| &layer.weight * 2.0);
            terms.fold(Tensor::from(0.0_f32), |sum, term| sum + term)
        };
        sheet.add("model: split by kind", layers, |layers| {
            let filters = [Filter::param(), Filter::any_state()];
            partition::merge(partition::split(layers, filters).unwrap()).unwrap()
        });
        sheet.add(
            "model: pop",
            |size| vec![1.0_f32; size],
            |list| {
                let mut list = list.clone();
                partition::pop(&mut list, &Filter::everything()).unwrap()
            },
        );
        sheet.add("model: pop from a map", hashed, |map| {
            let mut map = map.clone();
            partition::pop(&mut map, &Filter::everything()).unwrap()
        });
        sheet.add(
            "model: pop from arrays",
            |size| {
                let sown = |number: usize| Sown {
                    all: [vec![number as f32]],
                };
                (0..size).map(sown).collect::<Vec<_>>()
            },
            |list| {
                let mut list = list.clone();
                partition::pop(&mut list, &Filter::any_state()).unwrap()
            },
        );
        sheet.add(
            "model: split by many paths",
            |size| {
                let path = |number: usize| Filter::path(format!("[{number}]"));
                let odd = (1..size).step_by(2);
                let filter = odd.fold(path(0), |all, number| all | path(number));
                (vec![1.0_f32; size], filter)
            },
            |(list, filter)| {
                let filters = [filter.clone(), Filter::everything()];
                partition::split::<_, f32, 2>(list, filters).unwrap()
            },
        );
        sheet.add("model: static values set", layers, |layers| {
            edit::set_static(layers, &Filter::path_contains("width"), 9_usize).unwrap()
        });
        sheet.add("model: layers changed", layers, |layers| {
            edit::apply(layers.clone(), |layer: &mut Layer| layer.width += 1)
        });
        sheet.add("model: a selected layer", layers, |layers| {
            let middle = layers.layers.len() / 2;
            let selector = at(move |model: &Layers| &model.layers[middle]);
            (
                selector.path(layers).unwrap(),
                selector.filter(layers).unwrap(),
                selector.update(layers, Layer::clone).unwrap(),
            )
        });
        sheet.add("model: summary", layers, |layers| {
            summary(layers).to_string()
        });
        sheet.add("model: grad", layers, |layers| grad(loss)(layers));
        sheet.add("model: optimizer", layers, |layers| {
            Optimizer::new(layers, adam(1e-3))
        });
        sheet.add(
            "model: optimizer's update",
            |size| {
                let model = layers(size);
                let gradient = grad(loss)(&model);
                (Optimizer::new(&model, adam(1e-3)), model, gradient)
            },
            |(optimizer, model, gradient)| optimizer.update(model, gradient),
        );
        sheet.add("model: training step, first call", layers, |layers| {
            let step = jit(
                move |(mut model, mut optimizer): (Layers, Optimizer<Layers>)| {
                    let gradient = grad(loss)(&model);
                    optimizer.update(&mut model, &gradient);
                    (model, optimizer)
                },
            );
            let optimizer = Optimizer::new(layers, adam(1e-3));
            step((layers.clone(), optimizer))
        });
        sheet.add("model: optimizer's state", layers, |layers| {
            let optimizer = Optimizer::new(layers, adam(1e-3));
            partition::filter::<_, Tensor>(&optimizer, &Filter::state::<OptState>())
        });
        sheet.add(
            "model: checkpoint saved",
            |size| (layers(size), File::new()),
            |(layers, file)| checkpoint::save(&file.0, layers).unwrap(),
        );
        sheet.add(
            "model: checkpoint loaded",
            |size| {
                let (layers, file) = (layers(size), File::new());
                checkpoint::save(&file.0, &layers).unwrap();
                (layers, file)
            },
            |(layers, file)| {
                (
                    checkpoint::load(&file.0, layers).unwrap(),
                    checkpoint::inspect(&file.0).unwrap(),
                )
            },
        );
    });
}

#[test]
fn dynamic_modules_are_linear_in_fields() {
    measure(|sheet| {
        let names = |size: usize| {
            (0..size)
                .map(|number| format!("field_{number}"))
                .collect::<Vec<_>>()
        };
        let module = move |size: usize| {
            let mut module = DynamicModule::new("Wide").unwrap();
            for name in names(size) {
                module.register_param(&name, 1.0_f32).unwrap();
            }
            module
        };
        sheet.add("module: registered", names, |names| {
            let mut module = DynamicModule::new("Wide").unwrap();
            for name in names {
                module.register_param(name, 1.0_f32).unwrap();
            }
            module
        });
        sheet.add("module: static fields", names, |names| {
            let mut module = DynamicModule::new("Wide").unwrap();
            for name in names {
                module.register_static(name, 1).unwrap();
            }
            module
        });
        sheet.add("module: registered and read", names, |names| {
            let mut module = DynamicModule::new("Wide").unwrap();
            for name in names.iter() {
                module.register_param(name, 1.0_f32).unwrap();
            }
            let read = names.iter().map(|name| module.get(name).unwrap());
            read.map(|field| field.leaves().len()).sum::<usize>()
        });
        sheet.add("module: as a tree", module, |module| module.to_tree());
        sheet.add(
            "module: from a tree",
            |size| module(size).to_tree(),
            |tree| DynamicModule::from_tree(tree.clone()).unwrap(),
        );
        sheet.add("module: flattened and built", module, |module| {
            nodes::copy(module)
        });
        sheet.add("module: frozen", module, |module| module.freeze());
    });
}
