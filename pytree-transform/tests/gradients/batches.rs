//! `vmap` of a function compared with the stack of its results, for all choices of mapped operands and axes.

use pytree_transform::{Axes, Tensor, vmap};

/// The mapped axis of each operand.
pub type Choice = Vec<Option<isize>>;

/// Returns every way to map at least one operand: unmapped, over the first axis, or over the last axis.
pub fn choices(operands: &[Tensor]) -> Vec<Choice> {
    let mut choices = vec![Choice::new()];
    for operand in operands {
        let options = [None, Some(0), Some(-1)];
        let options = if operand.rank() == 0 {
            &options[..2]
        } else {
            &options
        };
        let longer = |choice: &Choice, option| [&choice[..], &[option]].concat();
        let each = |option: &Option<isize>| {
            choices
                .iter()
                .map(|choice| longer(choice, *option))
                .collect::<Vec<_>>()
        };
        choices = options.iter().flat_map(each).collect();
    }
    choices.retain(|choice| choice.iter().any(Option::is_some));
    choices
}

/// Stacks the tensors at each position of the lists. Without an axis, the first tensor is returned.
pub fn stacked(lists: &[Vec<Tensor>], axes: &[Option<isize>]) -> Vec<Tensor> {
    let column = |position: usize| {
        lists
            .iter()
            .map(|list| list[position].clone())
            .collect::<Vec<_>>()
    };
    let stack = |(position, axis): (usize, &Option<isize>)| match axis {
        Some(axis) => Tensor::stack(&column(position), *axis),
        None => lists[0][position].clone(),
    };
    axes.iter().enumerate().map(stack).collect()
}

/// Returns the results of a function for each example. An unmapped operand is that of the first example.
pub fn one_by_one(
    f: &dyn Fn(&[Tensor]) -> Vec<Tensor>,
    examples: &[Vec<Tensor>],
    choice: &Choice,
) -> Vec<Tensor> {
    let of_example = |example: &Vec<Tensor>| {
        let mut operands = example.clone();
        for (operand, (first, axis)) in operands.iter_mut().zip(examples[0].iter().zip(choice)) {
            if axis.is_none() {
                *operand = first.clone();
            }
        }
        f(&operands)
    };
    let results: Vec<Vec<Tensor>> = examples.iter().map(of_example).collect();
    stacked(&results, &vec![Some(0); results[0].len()])
}

/// Applies `vmap` to a function of up to three tensors.
pub fn mapped(
    f: &(dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync),
    batch: &[Tensor],
    choice: &Choice,
) -> Vec<Tensor> {
    let axes = Axes::Tuple(choice.iter().map(|&axis| Axes::All(axis)).collect());
    match batch.to_vec().as_slice() {
        [x] => vmap(|(x,): (Tensor,)| f(&[x])).in_axes(axes)((x.clone(),)),
        [x, y] => {
            let function = |(x, y): (Tensor, Tensor)| f(&[x, y]);
            vmap(function).in_axes(axes)((x.clone(), y.clone()))
        }
        [x, y, z] => {
            let function = |(x, y, z): (Tensor, Tensor, Tensor)| f(&[x, y, z]);
            vmap(function).in_axes(axes)((x.clone(), y.clone(), z.clone()))
        }
        _ => panic!("{} operands", batch.len()),
    }
}
