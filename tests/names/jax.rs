//! The rows of the tables in `docs/reference/for-jax-users.md`.

mod trees {
    use pytree::prelude::*;
    use pytree::{KeyPath, TreeError};

    #[derive(Pytree, Clone, Debug, PartialEq)]
    struct Point {
        x: f64,
        y: f64,
    }

    #[test]
    fn rows_of_trees() -> Result<(), TreeError> {
        let points = vec![Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }];
        let (leaves, treedef) = tree::flatten::<f64, _>(&points);
        assert_eq!(leaves, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            treedef.to_string(),
            "PyTreeDef([Point { x: *, y: * }, Point { x: *, y: * }])"
        );
        assert_eq!(
            (
                treedef.num_leaves(),
                treedef.num_nodes(),
                treedef.children().len()
            ),
            (4, 7, 2)
        );
        assert_eq!(
            tree::unflatten::<Vec<Point>, f64>(&treedef, leaves)?,
            points
        );

        assert_eq!(
            tree::leaves::<f64, _>(&points).len(),
            tree::any_leaves(&points).len()
        );
        assert_eq!(tree::map(&points, |leaf: &f64| leaf + 1.0)[1].y, 5.0);
        let texts: Tree<String> = tree::map_to(&points, |leaf: &f64| format!("{leaf:.1}"));
        assert_eq!(texts.leaves(), ["1.0", "2.0", "3.0", "4.0"]);
        let sums = tree::map2(&points, &points, |left: &f64, right: &f64| left + right)?;
        assert_eq!(tree::reduce(&sums, 0.0, |sum, leaf: &f64| sum + leaf), 20.0);

        let (path, leaf) = &tree::leaves_with_path::<f64, _>(&points)[3];
        assert_eq!(
            (path.to_string(), path.join("/"), **leaf),
            ("[1].y".into(), "1/y".into(), 4.0)
        );
        assert_eq!("[1].y".parse::<KeyPath>()?, *path);
        let only_x = tree::map_with_path(&points, |path, leaf: &f64| {
            if path.join("/").ends_with('x') {
                *leaf
            } else {
                0.0
            }
        });
        assert_eq!(only_x[1], Point { x: 3.0, y: 0.0 });

        let dynamic = tree!([1, {"a": (2, 3), "b": None}]);
        assert_eq!(
            dynamic.treedef().to_string(),
            "PyTreeDef([*, {'a': (*, *), 'b': None}])"
        );
        assert_eq!(
            tree::structure(&(1, (2, 3), ())).to_string(),
            "PyTreeDef((*, (*, *), ()))"
        );
        Ok(())
    }
}

mod tree_tools {
    use pytree::at;
    use pytree::core::{DynamicModule, TreeDef, shape::NodeKind};
    use pytree::edit;
    use pytree::prelude::*;
    use pytree::{KeyPath, TreeError};

    #[derive(Pytree, Clone, Debug, PartialEq)]
    struct Metrics<T> {
        loss: T,
        norm: T,
    }

    #[test]
    fn rows_of_optree_and_equinox() -> Result<(), TreeError> {
        // Transposes a list of structs to a struct of lists.
        let steps = vec![
            Metrics {
                loss: 1.0,
                norm: 2.0,
            },
            Metrics {
                loss: 3.0,
                norm: 4.0,
            },
        ];
        let outer = tree::structure(&vec![0.0, 0.0]);
        let turned: Metrics<Vec<f64>> = tree::transpose::<_, _, f64>(&steps, &outer, None)?;
        assert_eq!(
            turned,
            Metrics {
                loss: vec![1.0, 3.0],
                norm: vec![2.0, 4.0]
            }
        );

        // Tuples as leaves.
        let dynamic = tree!([(1, 2), {"a": (3, 4)}]);
        let pairs = dynamic.cut(|subtree| subtree.kind() == NodeKind::Tuple);
        assert_eq!(pairs.treedef().to_string(), "PyTreeDef([*, {'a': *}])");
        assert_eq!(pairs.join().treedef(), dynamic.treedef());

        // Every error of a prefix, with its path.
        let prefix = tree!([0, {"b": 0}]);
        let errors = prefix.treedef().prefix_differences(dynamic.treedef());
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].path.to_string(), "[1]");

        // A structure that was read from bytes also fits the typed value.
        let read = TreeDef::from_bytes(&tree::structure(&steps).to_bytes())?;
        assert_eq!(read, tree::structure(&steps));
        let leaves = vec![5.0, 6.0, 7.0, 8.0];
        assert_eq!(
            tree::unflatten::<Vec<Metrics<f64>>, f64>(&read, leaves)?[1].loss,
            7.0
        );

        // A closure selects a place: `&m[1].lost` would not compile.
        let second = at(|m: &Vec<Metrics<f64>>| &m[1].loss);
        assert_eq!(second.path(&steps)?, "[1].loss".parse::<KeyPath>()?);
        assert_eq!(second.replace(&steps, 0.5)?[1].loss, 0.5);
        let doubled = edit::apply(steps.clone(), |step: &mut Metrics<f64>| step.norm *= 2.0);
        assert_eq!(diff(&steps, &doubled).leaves().len(), 2);

        // Fields registered at run time, as in PAX.
        let mut counter: DynamicModule = DynamicModule::new("Counter")?;
        counter.register_state("count", 1)?;
        counter.register_param("bias", 0.0)?;
        assert_eq!(
            tree::structure(&counter).to_string(),
            "PyTreeDef(Counter { count: *, bias: * })"
        );
        assert!(counter.register_param("bias", 1.0).is_err());
        Ok(())
    }
}

mod transformations {
    use pytree::prelude::*;
    use pytree::vjp;

    #[test]
    fn rows_of_transformations() {
        let (x, y) = (Tensor::from(2.0_f32), Tensor::from(3.0_f32));
        let product = jit(|(x, y): (Tensor, Tensor)| &x * &x * y);
        assert_eq!(product((x.clone(), y.clone())).item::<f32>(), 12.0);

        let f = |x: &Tensor| x.powi(3);
        assert_eq!(grad(f)(&x).item::<f32>(), 12.0);
        assert_eq!(grad(grad(f))(&x).item::<f32>(), 12.0);
        assert_eq!(value_and_grad(f)(&x).0.item::<f32>(), 8.0);
        let ((loss, aux), _) = value_and_grad(|x: &Tensor| (x.square(), x + 1.0))(&x);
        assert_eq!((loss.item::<f32>(), aux.item::<f32>()), (4.0, 3.0));
        let (dx, dy) = grad(|(x, y): &(Tensor, Tensor)| x * x * y)(&(x.clone(), y.clone()));
        assert_eq!((dx.item::<f32>(), dy.item::<f32>()), (12.0, 4.0));

        let (_, pullback) = vjp(f, &x);
        assert_eq!(pullback.call(&Tensor::from(1.0_f32)).item::<f32>(), 12.0);
        assert_eq!(jvp(f, &x, &Tensor::from(1.0_f32)).1.item::<f32>(), 12.0);
        assert_eq!(
            hessian(|x: &Tensor| x.powi(3).sum())(&Tensor::from([1.0_f32, 2.0])).shape(),
            [2, 2]
        );

        let scale = vmap(|(factor, x): (Tensor, Tensor)| factor * x.sum()).in_axes((None, 0));
        let rows = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
        assert_eq!(scale((y, rows)).to_vec::<f32>(), [9.0, 21.0]);

        let absolute = jit(|x: Tensor| x.less(0.0).select(&-&x, &x));
        assert_eq!(
            absolute(Tensor::from([-1.0_f32, 2.0])).to_vec::<f32>(),
            [1.0, 2.0]
        );
        println!("{}", absolute.jaxpr(&x));
    }
}

mod inspecting {
    use pytree::debug::{debug_nans, debug_print};
    use pytree::make_jaxpr;
    use pytree::prelude::*;
    use pytree::transform::verify;

    #[test]
    fn jaxprs_print_as_in_jax() {
        fn halved(x: Tensor) -> Tensor {
            x * 0.5
        }

        let x = Tensor::from(3.0_f32);
        let jaxpr = make_jaxpr(|x: Tensor| jit(halved)(x.sin()))(x.clone());
        assert_eq!(
            jaxpr.to_string(),
            "\
{ lambda ; a:f32[]. let
    b:f32[] = sin a
    c:f32[] = jit[
      name=halved
      jaxpr={ lambda ; b:f32[]. let c:f32[] = mul b 0.5:f32[] in (c,) }
    ] b
  in (c,) }"
        );
        assert!(verify(&jaxpr).is_ok());
        for equation in jaxpr.equations() {
            println!("{} at {}", equation.name(), equation.line());
        }

        let f = jit(|x: Tensor| {
            debug_print!("x = {x}");
            x.log() * 1.0
        });
        println!("{}", f.lower(&x)); // without the product, with the print
        debug_nans(|| f(x)); // would name the line of a NaN
    }
}

mod control {
    use pytree::control::{
        ScanOptions, associative_scan, cond, fori_loop, map, scan, scan_with, switch, while_loop,
    };
    use pytree::prelude::*;

    #[test]
    fn rows_of_control_flow() {
        let x = Tensor::from([1.0_f32, -2.0, 3.0]);
        let signed = vmap(|x: Tensor| cond(&x.greater(0.0), |x| x, |x| x * 10.0, x.clone()));
        assert_eq!(signed(x.clone()).to_vec::<f32>(), [1.0, -20.0, 3.0]);
        let chosen = switch(
            &Tensor::from(1),
            &[&|x: Tensor| x, &|x| -x],
            Tensor::from(2.0_f32),
        );
        assert_eq!(chosen.item::<f32>(), -2.0);

        let decayed = |rate: &Tensor| {
            scan(
                |sum, x| (sum * rate + x, ()),
                Tensor::from(0.0_f32),
                x.clone(),
            )
            .0
        };
        let rate = Tensor::from(0.5_f32);
        assert_eq!(
            (
                decayed(&rate).item::<f32>(),
                grad(decayed)(&rate).item::<f32>()
            ),
            (2.25, -1.0)
        );
        let options = ScanOptions::new().length(3);
        let (_, powers) = scan_with(options, |x, ()| (&x * 2.0, x), Tensor::from(1.0_f32), ());
        assert_eq!(powers.to_vec::<f32>(), [1.0, 2.0, 4.0]);
        let halvings = while_loop(
            |(_, x)| x.greater(1.0),
            |(n, x)| (n + 1, x / 2.0),
            (Tensor::from(0), Tensor::from(9.0_f32)),
        );
        assert_eq!(halvings.0.item::<i32>(), 4);
        assert_eq!(
            fori_loop(1, 5, |i, product| product * i, Tensor::from(1)).item::<i32>(),
            24
        );
        assert_eq!(map(|x| &x * &x, x.clone()).to_vec::<f32>(), [1.0, 4.0, 9.0]);
        assert_eq!(
            associative_scan(|a, b| a * b, x).to_vec::<f32>(),
            [1.0, -2.0, -6.0]
        );
    }
}

mod derivatives {
    use pytree::prelude::*;
    use pytree::{custom_jvp, custom_vjp, eval_shape, jacfwd, linearize, remat, saved_residuals};

    #[test]
    fn rows_of_custom_derivatives() {
        let x = Tensor::from([0.5_f32, 3.0]);
        let softplus = custom_jvp(
            |x: &Tensor| x.exp().log1p(),
            |x, tangent| (x.exp().log1p(), tangent * x.sigmoid()),
        );
        assert_eq!(grad(&softplus)(&Tensor::from(100.0_f32)).item::<f32>(), 1.0);
        let clipped = custom_vjp(
            |x: &Tensor| x.clone(),
            |x| (x.clone(), ()),
            |(), g| g.clip(-1.0, 1.0),
        );
        assert_eq!(
            grad(|x: &Tensor| clipped(x).square().sum())(&x).to_vec::<f32>(),
            [1.0, 1.0]
        );

        let deep = |x: &Tensor| x.sin().sin().sin();
        assert_eq!(
            (
                saved_residuals(deep, &x).len(),
                saved_residuals(remat(deep), &x).len()
            ),
            (3, 1)
        );
        assert_eq!(
            jacfwd(|x: &Tensor| x.square())(&x).to_vec::<f32>(),
            [1.0, 0.0, 0.0, 6.0]
        );
        assert_eq!(
            linearize(|x: &Tensor| x.square(), &x)
                .1
                .call(&x)
                .to_vec::<f32>(),
            [0.5, 18.0]
        );
        assert_eq!(
            eval_shape(|x: &Tensor| x.sum(), &x).leaves()[0].to_string(),
            "f32[]"
        );
    }
}

mod tensors {
    use pytree::convolution::{Convolution, Padding};
    use pytree::nn::{gelu_exact, relu6};
    use pytree::prelude::*;
    use pytree::{einsum, pooling::Pooling};

    #[test]
    fn rows_of_tensors() {
        let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
        assert_eq!(
            (x.shape(), x.dtype(), x.rank(), x.len()),
            (&[2, 2][..], DType::F32, 2, 4)
        );
        assert_eq!(x.matmul(&x).to_vec::<f32>(), [7.0, 10.0, 15.0, 22.0]);
        assert_eq!((2.0 * &x - &x + -&x).sum().item::<f32>(), 0.0);
        let mut total = x.clone();
        total += &x;
        total *= 0.5;
        assert_eq!(
            (&total, format!("{:.2}", total.mean())),
            (&x, "2.50".to_owned())
        );
        assert_eq!(Tensor::from(vec![vec![1.0_f32, 2.0], vec![3.0, 4.0]]), x);
        assert_eq!(x.less(2.5).to_vec::<bool>(), [true, true, false, false]);
        assert_eq!(x.equal(&x).to_vec::<bool>(), [true; 4]);
        assert_eq!(
            x.maximum(2.0).clip(0.0, 3.0).to_vec::<f32>(),
            [2.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(x.sum_axes([0]).to_vec::<f32>(), [4.0, 6.0]);
        assert_eq!(x.mean_keep(-1).shape(), [2, 1]);
        assert_eq!(x.expand_dims([0, -1]).shape(), [1, 2, 2, 1]);
        assert_eq!(x.argmax(-1).to_vec::<i32>(), [1, 1]);
        assert_eq!(
            x.t().reshape([4]).expand_dims(1).squeeze(1).to_vec::<f32>(),
            [1.0, 3.0, 2.0, 4.0]
        );
        assert_eq!(Tensor::stack(&[x.clone(), x.clone()], 0).shape(), [2, 2, 2]);
        assert_eq!(
            Tensor::concatenate(&[x.clone(), x.clone()], 0).shape(),
            [4, 2]
        );
        assert_eq!(x.reshape((x.len(), -1)).shape(), [4, 1]);
        assert_eq!(
            x.take(&Tensor::from([1, 0]), 0).to_vec::<f32>(),
            [3.0, 4.0, 1.0, 2.0]
        );
        assert_eq!(x.take(&Tensor::from(-1), 0).to_vec::<f32>(), [3.0, 4.0]);
        assert_eq!(
            Tensor::from([2, 0]).one_hot(3, DType::F32).to_vec::<f32>(),
            [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
        );
        assert_eq!(x.prod_axes([0]).to_vec::<f32>(), [3.0, 8.0]);
        assert_eq!(
            (
                x.greater(1.5).all().item::<bool>(),
                x.argmin(-1).to_vec::<i32>()
            ),
            (false, vec![0, 0])
        );
        assert_eq!(x.cumsum(0).to_vec::<f32>(), [1.0, 2.0, 4.0, 6.0]);
        assert_eq!(x.top_k(1).0.to_vec::<f32>(), [2.0, 4.0]);
        assert_eq!(x.take_along_axis(&x.argsort(0), 0), x.sort(0));
        assert_eq!(
            x.at(ix![1..]).set(0.0).to_vec::<f32>(),
            [1.0, 2.0, 0.0, 0.0]
        );
        assert_eq!(
            x.at_indices(&Tensor::from([0, 0]), 0)
                .add(1.0)
                .to_vec::<f32>(),
            [3.0, 4.0, 3.0, 4.0]
        );
        assert_eq!(
            x.dynamic_slice(&[Tensor::from(1), Tensor::from(0)], [1, 2])
                .to_vec::<f32>(),
            [3.0, 4.0]
        );
        assert_eq!(x.tril(0).trace().item::<f32>(), 5.0);
        assert_eq!(einsum("ij,jk->ik", &[&x, &x]), x.matmul(&x));
        assert_eq!(x.tensordot(&x, (&[1], &[0])), x.matmul(&x));
        let images = Tensor::ones(DType::F32, [8, 28, 28, 3]);
        let kernel = Tensor::ones(DType::F32, [3, 3, 3, 16]);
        assert_eq!(
            Convolution::new([2, 2], Padding::Same)
                .apply(&images, &kernel)
                .shape(),
            [8, 14, 14, 16]
        );
        assert_eq!(
            Pooling::new([2, 2]).strides([2, 2]).max(&images).shape(),
            [8, 14, 14, 3]
        );
        assert_eq!(x.convert(DType::F64).dtype(), DType::F64);
        assert_eq!(x.to_ndarray::<f32>().unwrap().shape(), [2, 2]);
        assert_eq!(Tensor::eye(DType::F32, 2).sum().item::<f32>(), 2.0);
        assert_eq!(Tensor::arange(DType::I32, 3).to_string(), "[0 1 2]");

        let key = Key::new(0);
        assert_eq!(key.split(2).len(), 2);
        assert_ne!(key.fold_in(1), key);
        assert_eq!(key.normal(DType::F32, [2, 3]).shape(), [2, 3]);

        // Elementwise functions.
        let x = Tensor::from([-2.5_f64, 0.5, 2.5]);
        assert_eq!(x.round().to_vec::<f64>(), [-2.0, 0.0, 2.0]);
        assert_eq!(x.round_half_away().to_vec::<f64>(), [-3.0, 1.0, 3.0]);
        assert_eq!(x.floor_divide(2.0).to_vec::<f64>(), [-2.0, 0.0, 1.0]);
        assert_eq!(x.remainder(2.0).to_vec::<f64>(), [1.5, 0.5, 0.5]);
        assert_eq!(x.rem(2.0).to_vec::<f64>(), [-0.5, 0.5, 0.5]);
        let (i, j) = (Tensor::from([7, -7]), Tensor::from([2, 2]));
        assert_eq!(&i / &j, Tensor::from([3, -3]));
        assert_eq!(i.floor_divide(&j), Tensor::from([3, -4]));
        assert_eq!(
            i.convert(DType::F32) / j.convert(DType::F32),
            Tensor::from([3.5_f32, -3.5])
        );
        assert_eq!(relu6(&(&x * 4.0)).to_vec::<f64>(), [0.0, 2.0, 6.0]);
        assert!(
            (gelu_exact(&x) - Activation::GeluExact.apply(&x))
                .abs()
                .max()
                .item::<f64>()
                < 1e-300
        );
        assert_eq!(
            Tensor::from([1.0_f64, 3.0, 5.0])
                .standard_deviation_with([0], 1)
                .item::<f64>(),
            2.0
        );
    }
}

mod modules {
    use pytree::nn::{Mode, eval_where};
    use pytree::prelude::*;
    use pytree::{ModuleType, TreeError, edit};

    #[derive(Module, Clone, Debug, PartialEq)]
    struct Net {
        linear: Linear,
        dropout: Dropout,
        #[state(BatchStat)]
        mean: Tensor,
    }

    #[test]
    fn rows_of_modules() -> Result<(), TreeError> {
        let mut rngs = Rngs::new(0);
        let linear = Linear::new(2, 3, &mut rngs);
        let net = Net {
            linear,
            dropout: Dropout::new(0.5, &mut rngs),
            mean: Tensor::zeros(DType::F32, [3]),
        };
        let names: Vec<&str> = Net::REGISTRY.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["linear", "dropout", "mean"]);

        let filters = [
            Filter::param(),
            Filter::state::<BatchStat>(),
            Filter::everything(),
        ];
        let [params, stats, keys] = partition::split(&net, filters)?;
        assert_eq!((params.len(), stats.len(), keys.len()), (2, 1, 2));
        assert_eq!(partition::filter(&net, &Filter::param()), params);
        let halved = params.map(|leaf: &Tensor| leaf / 2.0);
        assert_eq!(
            partition::replace(&net, &halved)?.linear.bias,
            net.linear.bias
        );
        assert_eq!(partition::merge([keys, params, stats])?, net);

        let mut quiet = eval(&net);
        let x = Tensor::ones(DType::F32, [4, 3]);
        assert_eq!(quiet.dropout.forward(&x), x);
        assert_eq!(train(&quiet), net);
        assert_eq!(eval_where(&net, &Filter::path("dropout")), quiet);
        assert!(edit::set_static(&net, &Filter::path("linear"), Mode::Eval).is_err()); // nothing to set there
        Ok(())
    }
}

mod graphs {
    use pytree::control::{cond, scan};
    use pytree::prelude::*;
    use pytree::{Dictionary, nodes};

    #[test]
    fn rows_of_graphs() {
        #[derive(Module, Clone, Debug)]
        struct Counter {
            #[param]
            weight: Tensor,
            #[state]
            count: Ref<Tensor>,
        }

        let count = Ref::new(Tensor::from(0));
        let one = Counter {
            weight: Tensor::from(2.0_f32),
            count: count.clone(),
        };
        let both = vec![
            one.clone(),
            Counter {
                weight: Tensor::from(3.0_f32),
                ..one
            },
        ];

        // As `nnx.scan` with a model: the model is the carry, and each step sees the writes of the step before.
        let xs = Tensor::from([1.0_f32, 2.0, 3.0]);
        let (both, ys) = scan(
            |both: Vec<Counter>, x| {
                both[0].count.update(|count| count + 1);
                let y = x * &both[0].weight * &both[1].weight;
                (both, y)
            },
            both,
            xs,
        );
        assert_eq!(
            (ys.to_vec::<f32>(), count.get().item::<i32>()),
            (vec![6.0, 12.0, 18.0], 3)
        );
        assert!(both[1].count.same(&count));

        // As `nnx.cond`: branches may write to different references.
        let is_large = Tensor::from(true);
        cond(
            &is_large,
            |count: Ref<Tensor>| count.update(|count| count * 10),
            |_| (),
            count.clone(),
        );
        assert_eq!(count.get().item::<i32>(), 30);

        let copy = nodes::copy(&both);
        assert!(copy[0].count.same(&copy[1].count) && !copy[0].count.same(&count));
        assert_eq!(Dictionary::flatten(&copy).entries().len(), 7); // each node, and each of its places
    }
}
