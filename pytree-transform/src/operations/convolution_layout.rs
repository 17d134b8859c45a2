//! The order of the axes of a convolution's input, kernel and result.

use crate::base::dtype::Shape;
use crate::base::error::Mistake;

/// The order of the axes of a convolution's input, kernel and result.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor};
/// use pytree_transform::convolution::{ConvDimensionNumbers, Convolution, Padding};
/// let x = Tensor::ones(DType::F32, [8, 3, 28, 28]);
/// let kernel = Tensor::ones(DType::F32, [16, 3, 5, 5]);
/// let first = Convolution::new([1, 1], Padding::Valid).dimension_numbers(ConvDimensionNumbers::ChannelsFirst);
/// assert_eq!(first.apply(&x, &kernel).shape(), [8, 16, 24, 24]);
/// let letters = ConvDimensionNumbers::letters("NCHW", "HWIO", "NHWC");
/// let mixed = Convolution::new([1, 1], Padding::Valid).dimension_numbers(letters);
/// assert_eq!(mixed.apply(&x, &kernel.transpose([2, 3, 1, 0])).shape(), [8, 24, 24, 16]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConvDimensionNumbers {
    /// `NHWC`, `HWIO`, `NHWC`, with as many axes between as there are: Flax's default, and ours.
    #[default]
    ChannelsLast,
    /// `NCHW`, `OIHW`, `NCHW`: the default of `jax.lax`.
    ChannelsFirst,
    /// A letter for each axis; what is neither N, C, I nor O stands for an axis that windows slide over.
    Letters {
        /// Of the input, for instance `NHWC`.
        input: String,
        /// Of the kernel, for instance `HWIO`.
        kernel: String,
        /// Of the result, for instance `NHWC`.
        result: String,
    },
}

/// For each of the three, its axes in our order: batch, space, features; space, in, out.
pub(super) struct Orders {
    pub(super) input: Shape,
    pub(super) kernel: Shape,
    pub(super) result: Shape,
}

impl ConvDimensionNumbers {
    /// The order by letters, as in JAX: `("NHWC", "HWIO", "NHWC")`. The axes that windows slide over are in the
    /// order of the kernel's letters.
    #[must_use]
    pub fn letters(input: &str, kernel: &str, result: &str) -> Self {
        Self::Letters {
            input: input.to_owned(),
            kernel: kernel.to_owned(),
            result: result.to_owned(),
        }
    }

    /// The axes of each in our order; what is wrong with the letters otherwise.
    pub(super) fn orders(&self, space: usize) -> Result<Orders, Mistake> {
        match self {
            Self::ChannelsLast => {
                let all: Shape = (0..space + 2).collect();
                Ok(Orders {
                    input: all.clone(),
                    kernel: all.clone(),
                    result: all,
                })
            }
            Self::ChannelsFirst => {
                let last = |axis| {
                    std::iter::once(0)
                        .chain(2..space + 2)
                        .chain([axis])
                        .collect()
                };
                let input: Shape = last(1);
                Ok(Orders {
                    kernel: (2..space + 2).chain([1, 0]).collect(),
                    result: input.clone(),
                    input,
                })
            }
            Self::Letters {
                input,
                kernel,
                result,
            } => {
                let sliding: Vec<char> = kernel
                    .chars()
                    .filter(|letter| !"IO".contains(*letter))
                    .collect();
                let outer = |letters: &str| order(letters, &['N'], &sliding, &['C'], space + 2);
                Ok(Orders {
                    input: outer(input)?,
                    kernel: order(kernel, &[], &sliding, &['I', 'O'], space + 2)?,
                    result: outer(result)?,
                })
            }
        }
    }
}

/// Where each of the wanted letters is.
fn order(
    letters: &str,
    before: &[char],
    sliding: &[char],
    behind: &[char],
    rank: usize,
) -> Result<Shape, Mistake> {
    let wanted = [before, sliding, behind].concat();
    let found: Vec<char> = letters.chars().collect();
    let places: Option<Shape> = wanted
        .iter()
        .map(|letter| found.iter().position(|other| other == letter))
        .collect();
    let distinct = |places: &Shape| (0..rank).all(|axis| places.contains(&axis));
    places
        .filter(|places| found.len() == rank && wanted.len() == rank && distinct(places))
        .ok_or_else(|| {
            let wanted: String = wanted.into_iter().collect();
            Mistake::new(
                format!("the letters \"{letters}\" are not those of {rank} axes"),
                format!(
                    "give \"{wanted}\" in some order: N is the batch, C the features, I and O those of the kernel"
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_name_each_axis_once() {
        let orders =
            |input, kernel, result| ConvDimensionNumbers::letters(input, kernel, result).orders(2);
        let known = orders("NCHW", "OIHW", "NCHW").unwrap();
        let first = ConvDimensionNumbers::ChannelsFirst.orders(2).unwrap();
        assert_eq!((&known.input, &known.kernel), (&first.input, &first.kernel));
        assert_eq!(known.result, first.result);
        for (input, kernel, result) in [
            ("NHC", "HWIO", "NHWC"),
            ("NHHC", "HWIO", "NHWC"),
            ("NHWC", "HHIO", "NHWC"),
            ("NHWC", "HWIO", "NXWC"),
            ("NHWC", "HWO", "NHWC"),
        ] {
            assert!(orders(input, kernel, result).is_err());
        }
    }
}
