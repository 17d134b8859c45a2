//! Every `try_` function of tensors under every limit of memory, from none on: it returns an error or its result, and its operands
//! keep their bits.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pytree::control::{cond, while_loop};
use pytree::convolution::{Convolution, Padding};
use pytree::extend::{Primitive, try_apply};
use pytree::indexing::TakeMode;
use pytree::linalg::{self, Triangular};
use pytree::padding::PadMode;
use pytree::pooling::Pooling;
use pytree::prelude::*;
use pytree::{AbstractArray, TensorError, make_jaxpr, try_einsum};

use crate::counting::within;

/// The bytes of the operands, and the least that is refused.
const OPERAND: usize = 1 << 20;

/// The operands: matrices of 512 rows and columns, if no name says otherwise.
struct Given {
    x: Tensor,
    y: Tensor,
    ints: Tensor,
    mask: Tensor,
    halves: Tensor,
    /// Numbers below 512, as many as rows.
    rows: Tensor,
    vector: Tensor,
    /// 8 columns.
    thin: Tensor,
    /// One channel of 262144 numbers.
    channel: Tensor,
    /// 1024 matrices of 16 rows and columns, and their lower triangles.
    matrices: Tensor,
}

impl Given {
    fn new() -> Self {
        let x = Tensor::arange(DType::F32, 512 * 512).reshape([512, 512]) + 1.0;
        let square = Tensor::eye(DType::F32, 16) * 3.0 + 0.5;
        Self {
            y: &x * 0.5,
            ints: x.convert(DType::I32),
            mask: x.greater(100.0).reshape([512, 512]),
            halves: Tensor::ones(DType::BF16, [1024, 1024]),
            rows: Tensor::arange(DType::I32, 512),
            thin: Tensor::ones(DType::F32, [512, 8]),
            vector: Tensor::arange(DType::F32, 512 * 512),
            channel: x.reshape([-1, 1]),
            matrices: square.broadcast_to([1024, 16, 16]),
            x,
        }
    }

    fn all(&self) -> [&Tensor; 10] {
        let Self {
            x,
            y,
            ints,
            mask,
            halves,
            rows,
            vector,
            thin,
            channel,
            matrices,
        } = self;
        [
            x, y, ints, mask, halves, rows, vector, thin, channel, matrices,
        ]
    }
}

type Case = (&'static str, Box<dyn Fn(&Given) -> Result<(), TensorError>>);

fn case<R>(
    name: &'static str,
    function: impl Fn(&Given) -> Result<R, TensorError> + 'static,
) -> Case {
    (name, Box::new(move |given| function(given).map(drop)))
}

/// Functions that make no array on the host, or only for devices and meshes.
#[rustfmt::skip]
const EXEMPT: [&str; 16] = [
    "bytes::try_bytes", "device_put::try_device_put", "engine::try_to_stablehlo", "handle::try_device", "handle::try_item",
    "handle::try_new", "handle::try_to_host", "lowering::try_to_stablehlo", "process_data::try_tensor_from_process_data",
    "shard::try_shard", "shards::try_put_like", "shards::try_read", "shards::try_refilled", "shards::try_shards", "shards::try_tensor_from_callback", "wait::try_wait",
];

/// Elementwise functions, and functions that move elements.
#[rustfmt::skip]
fn elements() -> Vec<Case> {
    vec![
        case("pairs::try_add", |it| it.x.try_add(&it.y)),
        case("pairs::try_add", |it| it.halves.try_add(&it.halves)),
        case("pairs::try_add", |it| it.x.try_add(Tensor::ones(DType::F32, [512, 1]))),
        case("pairs::try_subtract", |it| it.x.try_subtract(&it.y)),
        case("pairs::try_multiply", |it| it.x.try_multiply(2.0)),
        case("pairs::try_rem", |it| it.x.try_rem(&it.y)),
        case("pairs::try_pow", |it| it.x.try_pow(&it.y)),
        case("pairs::try_atan2", |it| it.x.try_atan2(&it.y)),
        case("pairs::try_logaddexp", |it| it.halves.try_logaddexp(&it.halves)),
        case("pairs::try_maximum", |it| it.x.try_maximum(&it.y)),
        case("pairs::try_minimum", |it| it.x.try_minimum(&it.y)),
        case("pairs::try_equal", |it| it.halves.try_equal(&it.halves)),
        case("pairs::try_not_equal", |it| it.halves.try_not_equal(&it.halves)),
        case("pairs::try_less", |it| it.halves.try_less(&it.halves)),
        case("pairs::try_less_equal", |it| it.halves.try_less_equal(&it.halves)),
        case("pairs::try_greater", |it| it.halves.try_greater(&it.halves)),
        case("pairs::try_greater_equal", |it| it.halves.try_greater_equal(&it.halves)),
        case("pairs::try_bit_xor", |it| it.ints.try_bit_xor(&it.ints)),
        case("pairs::try_shift_left", |it| it.ints.try_shift_left(1)),
        case("pairs::try_shift_right", |it| it.ints.try_shift_right(1)),
        case("pairs::try_shift_right_arithmetic", |it| it.ints.try_shift_right_arithmetic(1)),
        case("pairs::try_divide", |it| it.x.try_divide(&it.y)),
        case("pairs::try_floor_divide", |it| it.x.try_floor_divide(&it.y)),
        case("pairs::try_floor_divide", |it| it.ints.try_floor_divide(&it.ints)),
        case("pairs::try_remainder", |it| it.x.try_remainder(&it.y)),
        case("pairs::try_hypot", |it| it.x.try_hypot(&it.y)),
        case("pairs::try_heaviside", |it| it.x.try_heaviside(0.5)),
        case("pairs::try_clamp", |it| it.x.try_clamp(0.0, 1.0)),
        case("pairs::try_select", |it| it.mask.try_select(&it.x, &it.y)),
        case("padding::try_pad", |it| it.x.try_pad(0.0, [(1, 1), (2, 0)])),
        case("padding::try_reverse", |it| it.x.try_reverse([0])),
        case("modes::try_pad_mode", |it| it.x.try_pad_mode(PadMode::Reflect, [(3, 1), (0, 2)])),
        case("modes::try_pad_mode", |it| it.x.try_pad_mode(PadMode::Mean, [(3, 1), (0, 2)])),
        case("modes::try_pad_mode", |it| it.x.try_pad_mode(PadMode::Median, [(3, 1), (0, 2)])),
        case("repeats::try_roll", |it| it.x.try_roll(3, 0)),
        case("repeats::try_repeat", |it| it.x.try_repeat(2, 0)),
        case("repeats::try_split", |it| it.halves.try_split(2, 0)),
        case("repeats::try_array_split", |it| it.halves.try_array_split(2, 1)),
        case("repeats::try_split_at", |it| it.halves.try_split_at([512], 1)),
        case("repeats::try_swap_axes", |it| it.x.try_swap_axes(0, 1)),
        case("repeats::try_meshgrid", |it| Tensor::try_meshgrid(&[&it.rows, &it.rows])),
        case("reshape::try_reshape", |it| it.x.try_reshape([-1])),
        case("shape::try_transpose", |it| it.x.try_transpose([1, 0])),
        case("shape::try_move_axis", |it| it.x.try_move_axis(0, 1)),
        case("shape::try_expand_dims", |it| it.x.try_expand_dims(0)),
        case("shape::try_squeeze", |it| it.channel.try_squeeze(1)),
        case("shape::try_broadcast_to", |it| it.rows.try_broadcast_to([512, 512])),
        case("shape::try_stack", |it| Tensor::try_stack(&[&it.x, &it.y], 1)),
        case("shape::try_concatenate", |it| Tensor::try_concatenate(&[&it.x, &it.y], 1)),
        case("diagonals::try_tril", |it| it.x.try_tril(0)),
        case("diagonals::try_triu", |it| it.ints.try_triu(0)),
        case("diagonals::try_diagonal", |it| it.x.try_reshape([1, 512, 512])?.try_diagonal(0, 1, 2)),
        case("diagonals::try_trace", |it| it.x.try_trace()),
        case("diagonals::try_diag", |it| it.rows.try_diag(1)),
        case("indexing::try_index", |it| it.halves.try_index(ix![.., 1..1000])),
        case("indexing::try_take", |it| it.x.try_take(&it.rows, 1)),
        case("take_modes::try_take_mode", |it| it.x.try_take_mode(&it.rows, 0, TakeMode::Fill(f64::NAN))),
        case("take_modes::try_take_mode", |it| it.x.try_take_mode(&it.rows, 1, TakeMode::Wrap)),
        case("dynamic::try_dynamic_slice", |it| it.halves.try_dynamic_slice(&[Tensor::from(1), Tensor::from(2)], [1000, 1000])),
        case("dynamic::try_dynamic_update_slice", |it| it.x.try_dynamic_update_slice(&Tensor::ones(DType::F32, [2, 2]), &[Tensor::from(1), Tensor::from(2)])),
        case("update::try_get", |it| it.x.at_indices(&it.rows, 0).try_get()),
        case("update::try_get", |it| it.halves.at(ix![.., 1..1000]).try_get()),
        case("update::try_set", |it| it.x.at(ix![1..3]).try_set(2.0)),
        case("update::try_set", |it| it.x.at_indices(&it.rows, 0).try_set(&it.y)),
        case("update::try_add", |it| it.x.at(ix![1..]).try_add(2.0)),
        case("update::try_add", |it| it.x.at_indices(&it.rows, 1).try_add(&it.y)),
        case("update::try_multiply", |it| it.x.at_indices(&it.rows, 0).try_multiply(&it.y)),
        case("update::try_multiply", |it| it.x.at(ix![.., 1..]).try_multiply(3.0)),
        case("update::try_min", |it| it.x.at_indices(&it.rows, 1).try_min(&it.y)),
        case("update::try_max", |it| it.x.at(ix![1..]).try_max(2.0)),
        case("segments::try_segment_sum", |it| it.x.try_segment_sum(&it.rows, 512)),
        case("segments::try_segment_prod", |it| it.x.try_segment_prod(&it.rows, 600)),
        case("segments::try_segment_max", |it| it.x.try_segment_max(&it.rows, 512)),
        case("segments::try_segment_min", |it| it.ints.try_segment_min(&it.rows, 512)),
        case("handle::try_to_vec", |it| it.x.try_to_vec::<f32>()),
        case("nested::try_from_nested", |_| Tensor::try_from_nested(vec![vec![1.0_f32; 512]; 512])),
    ]
}

/// Reductions, scans, sorts, products and windows.
#[rustfmt::skip]
fn folds() -> Vec<Case> {
    vec![
        case("reduce::try_sum", |it| it.x.try_sum()),
        case("reduce::try_sum_axes", |it| it.x.reshape([1, -1]).try_sum_axes([0])),
        case("reduce::try_sum_keep", |it| it.channel.try_sum_keep([1])),
        case("reduce::try_mean", |it| it.x.try_mean()),
        case("reduce::try_mean_axes", |it| it.channel.try_mean_axes([1])),
        case("reduce::try_mean_keep", |it| it.halves.reshape([1, -1]).try_mean_keep([0])),
        case("reduce::try_max", |it| it.x.try_max()),
        case("reduce::try_max_axes", |it| it.channel.try_max_axes([1])),
        case("reduce::try_max_keep", |it| it.vector.reshape([1, -1]).try_max_keep([0])),
        case("extrema::try_min", |it| it.x.try_min()),
        case("extrema::try_min_axes", |it| it.channel.try_min_axes([1])),
        case("extrema::try_min_keep", |it| it.channel.try_min_keep([1])),
        case("extrema::try_prod", |it| it.x.try_prod()),
        case("extrema::try_prod_axes", |it| it.channel.try_prod_axes([1])),
        case("extrema::try_prod_keep", |it| it.channel.try_prod_keep([1])),
        case("extrema::try_argmax", |it| it.channel.try_argmax(1)),
        case("extrema::try_argmax_keep", |it| it.halves.reshape([-1, 1]).try_argmax_keep(1)),
        case("extrema::try_argmin", |it| it.vector.reshape([1, -1]).try_argmin(0)),
        case("extrema::try_argmin_keep", |it| it.channel.try_argmin_keep(1)),
        case("logic::try_all", |it| it.halves.try_all()),
        case("logic::try_all_axes", |it| it.halves.reshape([-1, 1]).try_all_axes([1])),
        case("logic::try_all_keep", |it| it.halves.reshape([1, -1]).try_all_keep([0])),
        case("logic::try_any", |it| it.halves.try_any()),
        case("logic::try_any_axes", |it| it.halves.reshape([-1, 1]).try_any_axes([1])),
        case("logic::try_any_keep", |it| it.halves.reshape([1, -1]).try_any_keep([0])),
        case("logic::try_count_nonzero", |it| it.halves.try_count_nonzero()),
        case("logic::try_count_nonzero_axes", |it| it.channel.try_count_nonzero_axes([1])),
        case("logic::try_count_nonzero_keep", |it| it.vector.reshape([1, -1]).try_count_nonzero_keep([0])),
        case("masked::try_sum_where", |it| it.x.try_sum_where(&it.mask)),
        case("masked::try_mean_where", |it| it.x.try_mean_where(&it.mask)),
        case("masked::try_weighted_mean", |it| it.halves.try_weighted_mean(&it.halves)),
        case("moments::try_variance", |it| it.x.try_variance()),
        case("moments::try_variance_axes", |it| it.channel.try_variance_axes([1])),
        case("moments::try_variance_keep", |it| it.halves.reshape([1, -1]).try_variance_keep([0])),
        case("moments::try_standard_deviation", |it| it.x.try_standard_deviation()),
        case("moments::try_standard_deviation_axes", |it| it.channel.try_standard_deviation_axes([1])),
        case("moments::try_standard_deviation_keep", |it| it.channel.try_standard_deviation_keep([1])),
        case("moments::try_variance_with", |it| it.channel.try_variance_with([1], 1)),
        case("moments::try_standard_deviation_with", |it| it.channel.try_standard_deviation_with([1], 1)),
        case("moments::try_median", |it| it.x.try_median()),
        case("moments::try_median_axes", |it| it.channel.try_median_axes([1])),
        case("moments::try_median_keep", |it| it.vector.reshape([1, -1]).try_median_keep([0])),
        case("norms::try_norm", |it| it.x.try_norm()),
        case("norms::try_norm_axes", |it| it.channel.try_norm_axes([1])),
        case("norms::try_norm_keep", |it| it.channel.try_norm_keep([1])),
        case("norms::try_logsumexp", |it| it.x.try_logsumexp()),
        case("norms::try_logsumexp_axes", |it| it.channel.try_logsumexp_axes([1])),
        case("norms::try_logsumexp_keep", |it| it.channel.try_logsumexp_keep([1])),
        case("cumulative::try_cumsum", |it| it.x.try_cumsum(0)),
        case("cumulative::try_cumprod", |it| it.x.try_cumprod(1)),
        case("cumulative::try_cummax", |it| it.x.try_cummax(1)),
        case("cumulative::try_cummin", |it| it.halves.try_cummin(0)),
        case("cumulative::try_cumlogsumexp", |it| it.x.try_cumlogsumexp(0)),
        case("sorting::try_sort", |it| it.x.try_sort(0)),
        case("sorting::try_sort", |it| it.vector.try_sort(0)),
        case("sorting::try_argsort", |it| it.x.try_argsort(1)),
        case("sorting::try_argsort", |it| it.vector.try_argsort(0)),
        case("sorting::try_top_k", |it| it.halves.try_top_k(600)),
        case("sorting::try_top_k", |it| it.vector.try_top_k(262_144)),
        case("sorting::try_take_along_axis", |it| it.x.try_take_along_axis(&it.ints, 1)),
        case("sorting::try_take_along_axis", |it| it.x.try_take_along_axis(&it.ints, 0)),
        case("sorting::try_searchsorted", |it| it.rows.try_searchsorted(&it.ints.reshape([-1]).try_index(ix![..4096])?)),
        case("products::try_matmul", |it| it.thin.try_matmul(&it.thin.t())),
        case("products::try_matmul", |it| it.halves.try_matmul(&it.halves)),
        case("products::try_matmul", |it| it.ints.try_matmul(&it.ints)),
        case("tensor_products::try_dot_general", |it| it.thin.try_dot_general(&it.thin, ([1], [1]), ([], []))),
        case("tensor_products::try_dot_general", |it| it.x.try_dot_general(&it.y, ([], []), ([0, 1], [0, 1]))),
        case("tensor_products::try_tensordot", |it| it.thin.try_tensordot(&it.thin, ([1], [1]))),
        case("tensor_products::try_dot", |it| it.thin.try_dot(&it.thin.t())),
        case("tensor_products::try_outer", |it| it.rows.try_outer(&it.rows)),
        case("tensor_products::try_inner", |it| it.thin.try_inner(&it.thin)),
        case("tensor_products::try_vdot", |it| it.x.try_vdot(&it.y)),
        case("tensor_products::try_kron", |it| it.rows.try_kron(&it.rows)),
        case("einsum::try_einsum", |it| try_einsum("ij,kj->ki", &[&it.thin, &it.thin])),
        case("einsum::try_einsum", |it| try_einsum("ij,ij->ji", &[&it.x, &it.y])),
        case("convolution::try_apply", |it| Convolution::new([1], Padding::Same).try_apply(&it.channel.reshape([1, -1, 1]), &Tensor::ones(DType::F32, [3, 1, 2]))),
        case("convolution::try_apply", |it| Convolution::new([1, 1], Padding::Valid).try_apply(&it.x.reshape([8, 32, 32, 32]), &Tensor::ones(DType::F32, [3, 3, 32, 40]))),
        case("convolution::try_apply_transposed", |it| Convolution::new([2], Padding::Same).try_apply_transposed(&it.channel.reshape([1, -1, 1]), &Tensor::ones(DType::F32, [3, 1, 2]))),
        case("pooling::try_max", |it| Pooling::new([3]).try_max(&it.channel)),
        case("pooling::try_min", |it| Pooling::new([3]).try_min(&it.halves.reshape([-1, 1]))),
        case("pooling::try_sum", |it| Pooling::new([3]).try_sum(&it.channel)),
        case("pooling::try_average", |it| Pooling::new([3]).padding(Padding::Same).try_average(&it.channel)),
    ]
}

#[rustfmt::skip]
fn matrices() -> Vec<Case> {
    vec![
        case("determinants::try_det", |it| linalg::try_det(&it.matrices)),
        case("determinants::try_slogdet", |it| linalg::try_slogdet(&it.matrices)),
        case("factors::try_cholesky", |it| linalg::try_cholesky(&it.matrices)),
        case("factors::try_qr", |it| linalg::try_qr(&it.matrices)),
        case("factors::try_eigh", |it| linalg::try_eigh(&it.matrices)),
        case("factors::try_svd", |it| linalg::try_svd(&it.matrices)),
        case("systems::try_solve", |it| linalg::try_solve(&it.matrices, &it.matrices)),
        case("systems::try_inv", |it| linalg::try_inv(&it.matrices)),
        case("systems::try_triangular_solve", |it| linalg::try_triangular_solve(&it.matrices, &it.matrices, Triangular::lower())),
        case("systems::try_cho_solve", |it| linalg::try_cho_solve(&it.matrices, &it.matrices)),
        case("systems::try_lstsq", |it| linalg::try_lstsq(&it.channel.try_index(ix![..131_072, ..])?, &it.vector.try_index(ix![..131_072])?, None)),
    ]
}

/// Doubles its operand, in place by a compiled function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Twice;

impl Primitive for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let mut sum = operands[0].abs();
        jit_mut(|(sum, x): (&mut Tensor, Tensor)| *sum = x.sort(0) + &*sum)((
            &mut sum,
            operands[0].clone(),
        ));
        vec![sum]
    }
}

/// Compiled and own operations.
#[rustfmt::skip]
fn programs() -> Vec<Case> {
    let jaxpr = |given: &Given| make_jaxpr(|(x, y): (Tensor, Tensor)| (&x * &y, x.sin() + y.cos()))((given.x.clone(), given.y.clone()));
    vec![
        case("primitive::try_apply", |it| try_apply(&Twice, &[&it.x])),
        case("jaxpr::try_evaluate", move |it| jaxpr(it).try_evaluate(&[it.x.clone(), it.y.clone()])),
    ]
}

/// Adds the names of the functions in a folder that return an error of a tensor.
fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_names(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let file = path.file_stem().unwrap().to_str().unwrap();
        for line in source.lines().filter(|_| source.contains("TensorError")) {
            let mut words = line.split([' ', '(', '<']).filter(|it| !it.is_empty());
            let words = [words.next(), words.next(), words.next(), words.next()];
            let name = match words {
                [Some("pub"), Some("fn"), Some(name), _] => name,
                [Some(_), Some(name), Some("="), _] => name,
                _ => continue,
            };
            if name.starts_with("try_") {
                names.insert(format!("{file}::{name}"));
            }
        }
    }
}

pub(crate) fn operations_return_errors() {
    let given = Given::new();
    let bits = given.all().map(|tensor| tensor.bytes().to_vec());
    let mut missing = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["pytree-transform/src", "pytree-linalg/src"] {
        add_names(&root.join(folder), &mut missing);
    }
    assert!(missing.len() >= 150, "{missing:?}");
    let mut failures = Vec::new();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for (name, call) in [elements(), folds(), matrices(), programs()]
        .iter()
        .flatten()
    {
        missing.remove(*name);
        let mut granted = OPERAND / 2;
        loop {
            let attempt = || catch_unwind(AssertUnwindSafe(|| call(&given)));
            let (outcome, is_refused) = within(granted, attempt);
            let failed = match outcome {
                Ok(Ok(())) if !is_refused => break,
                Ok(Ok(()) | Err(TensorError::TooLarge { .. })) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(panic) => Some(format!("panics: {:?}", panic.downcast_ref::<String>())),
            };
            let failed =
                failed
                    .or((given.all().map(Tensor::bytes) != bits)
                        .then(|| "changes operands".to_owned()));
            if let Some(failed) = failed {
                failures.push(format!("{name} with {granted} bytes: {failed}"));
                break;
            }
            granted += OPERAND;
        }
    }
    std::panic::set_hook(hook);
    missing.retain(|name| !EXEMPT.contains(&&name[..]));
    assert!(missing.is_empty(), "no case has {missing:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

type State = Vec<Tensor>;
type Statement = fn(&mut State, &Tensor);

/// Statements that write, move and share three leaves of a megabyte, and need memory beside them.
const STATEMENTS: [Statement; 9] = [
    |m, x| m[0] = &m[0] * 2.0 + x,
    |m, x| m[1] = m[1].at(ix![..2]).set(x.index(ix![..2])),
    |m, x| m[2] = m[2].maximum(x.matmul(&m[0])),
    |m, _| m.swap(0, 2),
    |m, _| {
        let step = |sum: Tensor, x: Tensor| (&sum + &x, sum * x);
        let zeros = Tensor::zeros(DType::F32, [512]);
        m[1] = scan(step, zeros, m[1].clone()).1;
    },
    |m, x| {
        let is_large = m[2].sum().greater(1.0);
        let both = (m[2].clone(), x.clone());
        m[2] = cond(&is_large, |(m, x)| m.sort(0) + x, |(m, _)| m, both);
    },
    |m, _| m[0] = jit(|m: &Tensor| m.t().cumsum(0) / 3.0)(&m[0]),
    |m, _| {
        let body = |(i, m): (Tensor, Tensor)| (i + 1, m.t() * 0.5);
        m[1] = while_loop(|(i, _)| i.less(3), body, (Tensor::from(0), m[1].clone())).1;
    },
    |m, _| m[2] = Tensor::concatenate(&[&m[0], &m[1]], 0).index(ix![256..768]) + &m[2],
];

/// A compiled step that is refused memory leaves its arguments as they are, at whichever step of the program.
pub(crate) fn steps_keep_arguments() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut lost = Vec::new();
    for chosen in [[0, 3, 6], [1, 4, 7], [2, 5, 8], [8, 3, 0]] {
        let step = jit_mut(move |(m, x): (&mut State, Tensor)| {
            chosen.iter().for_each(|&at| STATEMENTS[at](m, &x));
        });
        let leaf = |scale: f32| Tensor::arange(DType::F32, 512 * 512).reshape([512, 512]) * scale;
        let arguments = || ([1e-6, 2e-6, -1e-6].map(leaf).to_vec(), leaf(3e-6));
        let bits =
            |state: &State| -> Vec<_> { state.iter().map(|it| it.bytes().to_vec()).collect() };
        let (mut expected, x) = arguments();
        step((&mut expected, x));
        let expected = bits(&expected);
        let (mut state, x) = arguments();
        let unchanged = bits(&state);
        for granted in (OPERAND / 2..).step_by(OPERAND) {
            let call = AssertUnwindSafe(|| step((&mut state, x.clone())));
            let (outcome, is_refused) = within(granted, || catch_unwind(call));
            match outcome {
                Ok(()) => {
                    assert!(bits(&state) == expected, "{chosen:?}");
                    break;
                }
                Err(_) if bits(&state) == unchanged => assert!(is_refused, "{chosen:?}"),
                Err(_) => {
                    lost.push(format!("{chosen:?} with {granted} bytes"));
                    break;
                }
            }
        }
    }
    std::panic::set_hook(hook);
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}
