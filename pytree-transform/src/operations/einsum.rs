//! Einstein summation: sums of products of tensors. A letter for each axis describes the sums.
//!
//! `dot_general` sums over each letter that two operands have and the result lacks. With more than two operands, each
//! step replaces two operands by their product. Each step selects the two operands whose replacement saves the most
//! memory.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{AxisList, Shape};
use smallvec::SmallVec;

use crate::base::error::{Mistake, TensorError, called};
use crate::operations::diagonals::diagonal_of_last;
use crate::operations::einsum_letters::{Label, Letters};
use crate::primitives::dot::dot_general;
use crate::primitives::reduce::sum;
use crate::primitives::shape::{reshape, transpose};
use crate::tensor::Tensor;

/// Returns the sum of products that `subscripts` describes, like `jnp.einsum`.
///
/// - Sums over the letters that the result lacks.
/// - An axis of length 1 broadcasts against axes with the same letter.
/// - A letter that occurs twice in one operand selects the diagonal.
/// - `...` matches all axes without a letter. These axes broadcast.
/// - Without `->`, the result has the letters that occur once, in alphabetical order.
///
/// # Panics
/// Panics if the letters do not match the operands, or if the dtypes differ.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, einsum};
/// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// let y = Tensor::from([1.0, 10.0]);
/// assert_eq!(einsum("ij,j->i", &[&x, &y]), Tensor::from([21.0, 43.0]));
/// assert_eq!(einsum("ij->ji", &[&x]), x.t());
/// assert_eq!(einsum("ii", &[&x]), Tensor::from(5.0));
/// assert_eq!(einsum("...j,jk,k->...", &[&x, &x, &y]), Tensor::from([107.0, 235.0]));
/// ```
#[doc(alias("jnp.einsum", "torch.einsum"))]
#[must_use]
#[panicking_twin(einsum, Shape | DType)]
pub fn try_einsum(subscripts: &str, operands: &[&Tensor]) -> Result<Tensor, TensorError> {
    let _called = called("einsum");
    let found: SmallVec<[&AbstractArray; 4]> =
        operands.iter().map(|operand| operand.info()).collect();
    let refused = |mistakes| {
        let Mistake { problem, fix } = Mistake::joined(mistakes);
        let problem = format!("in \"{subscripts}\" {problem}");
        Mistake { problem, fix }.error("einsum", &found)
    };
    if operands
        .windows(2)
        .any(|pair| pair[0].dtype() != pair[1].dtype())
    {
        return Err(TensorError::dtype(
            "einsum",
            &found,
            "the same element type in all tensors",
        ));
    }
    let ranks: Vec<usize> = operands.iter().map(|operand| operand.rank()).collect();
    let letters = Letters::parse(subscripts, &ranks).map_err(refused)?;
    let shapes: Vec<&[usize]> = operands.iter().map(|operand| operand.shape()).collect();
    let mistakes = letters.mismatches(&shapes);
    if !mistakes.is_empty() {
        return Err(refused(mistakes));
    }
    let mut terms = Vec::with_capacity(operands.len());
    for (operand, labels) in operands.iter().zip(&letters.operands) {
        let term = Term {
            tensor: (*operand).clone(),
            labels: labels.clone(),
        };
        let repeats =
            |label: Label, length: usize| length == 1 && letters.is_longer(&shapes, label);
        terms.push(term.without_repeats(repeats)?.on_diagonals()?);
    }
    contract(terms, &letters.result)
}

/// A tensor of an einsum, with a label for each axis.
#[derive(Clone, Debug)]
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Term {
    fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    fn axes(&self, labels: &[Label]) -> AxisList {
        let places = labels.iter().filter_map(|label| {
            let same = |other: &Label| other == label;
            self.labels.iter().position(same)
        });
        places.collect()
    }

    /// Removes the axes for which `repeats` returns true. These axes have length 1 and only broadcast against axes of
    /// other operands, so the product has the same elements without them.
    #[track_caller]
    fn without_repeats(self, repeats: impl Fn(Label, usize) -> bool) -> Result<Self, TensorError> {
        let axes = self.labels.iter().zip(self.tensor.shape());
        let kept: Vec<(Label, usize)> = axes
            .map(|(&label, &length)| (label, length))
            .filter(|&(label, length)| !repeats(label, length))
            .collect();
        let (labels, shape): (Vec<Label>, Shape) = kept.into_iter().unzip();
        let tensor = reshape(&self.tensor, &shape)?;
        Ok(Self { tensor, labels })
    }

    /// Replaces axes that have the same label by their diagonal.
    #[track_caller]
    fn on_diagonals(mut self) -> Result<Self, TensorError> {
        let twice = |labels: &[Label]| {
            (0..labels.len()).find_map(|first| {
                let after = &labels[first + 1..];
                let found = after.iter().position(|&label| label == labels[first]);
                found.map(|place| (first, first + 1 + place))
            })
        };
        while let Some((first, second)) = twice(&self.labels) {
            let rest = (0..self.labels.len()).filter(|axis| ![first, second].contains(axis));
            let order: AxisList = rest.chain([first, second]).collect();
            let moved = transpose(&self.tensor, &order)?;
            let mut labels: Vec<Label> = order.iter().map(|&axis| self.labels[axis]).collect();
            labels.pop();
            self = Self {
                tensor: diagonal_of_last(&moved, 0)?,
                labels,
            };
        }
        Ok(self)
    }

    /// Sums over all axes whose label is not `wanted`.
    #[track_caller]
    fn summed(self, wanted: impl Fn(Label) -> bool) -> Result<Self, TensorError> {
        let places = 0..self.labels.len();
        let axes: AxisList = places.filter(|&axis| !wanted(self.labels[axis])).collect();
        let tensor = sum(&self.tensor, &axes)?;
        let labels = self.labels.into_iter().filter(|&label| wanted(label));
        Ok(Self {
            tensor,
            labels: labels.collect(),
        })
    }

    /// Returns the product of two terms. Sums over the shared labels that are not `wanted`.
    #[track_caller]
    fn product(&self, other: &Self, wanted: impl Fn(Label) -> bool) -> Result<Self, TensorError> {
        let shared = self
            .labels
            .iter()
            .copied()
            .filter(|&label| other.has(label));
        let (batch, contract): (Vec<Label>, Vec<Label>) = shared.partition(|&label| wanted(label));
        let tensor = dot_general(
            &self.tensor,
            &other.tensor,
            (&self.axes(&contract), &other.axes(&contract)),
            (&self.axes(&batch), &other.axes(&batch)),
        )?;
        let free = |term: &Self, beside: &Self| -> Vec<Label> {
            let own = term.labels.iter().copied();
            own.filter(|&label| !beside.has(label)).collect()
        };
        let labels = [batch, free(self, other), free(other, self)].concat();
        Ok(Self { tensor, labels })
    }

    /// Returns the number of elements of the [product](Self::product) with `other`.
    fn size_with(&self, other: &Self, wanted: impl Fn(Label) -> bool) -> usize {
        let own = self.labels.iter().zip(self.tensor.shape());
        let others = other.labels.iter().zip(other.tensor.shape());
        own.filter(|(label, _)| !other.has(**label) || wanted(**label))
            .chain(others.filter(|(label, _)| !self.has(**label)))
            .fold(1, |size, (_, &length)| size.saturating_mul(length))
    }
}

/// Returns the product of all terms. `result` has the labels of the axes of the product.
#[track_caller]
fn contract(mut terms: Vec<Term>, result: &[Label]) -> Result<Tensor, TensorError> {
    for place in 0..terms.len() {
        let term = terms[place].clone();
        let wanted = |label: Label| {
            let mut others = (0..terms.len()).filter(|&other| other != place);
            result.contains(&label) || others.any(|other| terms[other].has(label))
        };
        terms[place] = term.summed(wanted)?;
    }
    while let Some((left, right)) = best_pair(&terms, result) {
        let second = terms.remove(right);
        let first = terms.remove(left);
        let wanted =
            |label: Label| result.contains(&label) || terms.iter().any(|term| term.has(label));
        let product = first.product(&second, wanted)?;
        terms.insert(left, product);
    }
    let Some(last) = terms.pop() else {
        return Err(TensorError::shape(
            "einsum",
            &[],
            "there are no operands",
            "pass at least one operand",
        ));
    };
    transpose(&last.tensor, &last.axes(result))
}

/// Returns the pair of terms whose product saves the most memory: the size of the product minus the sizes of both terms
/// is least. If several pairs are equally good, returns the first of them.
fn best_pair(terms: &[Term], result: &[Label]) -> Option<(usize, usize)> {
    let pairs =
        (0..terms.len()).flat_map(|left| (left + 1..terms.len()).map(move |right| (left, right)));
    pairs.min_by_key(|&(left, right)| {
        let wanted = |label: Label| {
            let mut others = (0..terms.len()).filter(|other| ![left, right].contains(other));
            result.contains(&label) || others.any(|other| terms[other].has(label))
        };
        let size = |term: &Term| i128::try_from(term.tensor.len()).unwrap_or(i128::MAX);
        let product = terms[left].size_with(&terms[right], wanted);
        i128::try_from(product).unwrap_or(i128::MAX) - size(&terms[left]) - size(&terms[right])
    })
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;
    use crate::primitives::shape::tests::rule_checks::{assert_close, noise};

    #[test]
    fn error_lists_all_mistakes() {
        let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
        let (x, y) = (zeros(&[2, 3]), zeros(&[4, 5]));
        let error = try_einsum("ij,ji->", &[&x, &y]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot einsum f32[2,3] and f32[4,5]: in \"ij,ji->\" i has the lengths 2 and 5; j has the lengths 3 and 4; \
             use the same letter only for axes of equal length or of length 1"
        );
        for (subscripts, problem, fix) in [
            (
                "ij->i",
                "1 operands are described, but 2 were passed",
                "with `,`",
            ),
            (
                "ijk,ij->i",
                "operand 0 has 2 axes, but 3 letters",
                "one letter",
            ),
            (
                "i,kl->i",
                "operand 0 has 2 axes, but 1 letters",
                "or write `...`",
            ),
            (
                "ij,kl->m",
                "the result has m, which no operand has",
                "letters of the operands",
            ),
            ("ij,kl->ii", "the result has i twice", "different letter"),
            ("i1,kl->i", "'1' is not a letter", "a to z"),
            ("i1,k->i", "operand 1 has 2 axes, but 1 letters", "a to z"),
            (
                "...ijk,kl->i",
                "operand 0 has 2 axes, but 3 letters",
                "one letter",
            ),
            ("i...j...,kl->i", "two ellipses", "at most once"),
        ] {
            let error = try_einsum(subscripts, &[&x, &y]).unwrap_err().to_string();
            assert!(error.contains(problem), "{subscripts}: {error}");
            assert!(error.contains(fix), "{subscripts}: {error}");
        }
        assert!(try_einsum("", &[]).is_err());
        assert!(try_einsum("i,i", &[&x, &zeros(&[])]).is_err());
        assert!(try_einsum("ij,ij", &[&x, &Tensor::zeros(DType::F64, [2, 3])]).is_err());
    }

    #[test]
    fn smallest_product_is_computed_first() {
        let shapes: [&[usize]; 3] = [&[1, 50], &[50, 50], &[50, 1]];
        let tensors = shapes.map(|shape| noise(shape, 1));
        let terms: Vec<Term> = tensors
            .iter()
            .zip([['a', 'b'], ['b', 'c'], ['c', 'd']])
            .map(|(tensor, labels)| Term {
                tensor: tensor.clone(),
                labels: labels.map(Label::Letter).to_vec(),
            })
            .collect();
        let result = [Label::Letter('a'), Label::Letter('d')];
        assert_eq!(best_pair(&terms, &result), Some((0, 1)));
        let found = einsum("ab,bc,cd->ad", &tensors.each_ref());
        let expected = tensors[0].matmul(&tensors[1]).matmul(&tensors[2]);
        assert_close(&found, &expected, 1e-13);
    }
}
