//! The order of the axes of a convolution's input, kernel and result.

use pytree_kernels::base::shape::AxisList;
use pytree_kernels::loops::convolution::{Axes, DimensionNumbers};

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
#[doc(alias = "lax.ConvDimensionNumbers")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConvDimensionNumbers {
    /// Input `NHWC`, kernel `HWIO`, result `NHWC`, with any number of spatial axes. This is the default of Flax and of
    /// this crate.
    #[default]
    ChannelsLast,
    /// Input `NCHW`, kernel `OIHW`, result `NCHW`, with any number of spatial axes. This is the default of `jax.lax`.
    ChannelsFirst,
    /// One letter for each axis. N is the batch axis, C the features, I the input features and O the output features.
    /// Every other letter names a spatial axis, over which windows slide.
    Letters {
        /// The letters of the input, for instance `NHWC`.
        input: String,
        /// The letters of the kernel, for instance `HWIO`.
        kernel: String,
        /// The letters of the result, for instance `NHWC`.
        result: String,
    },
}

/// For input, kernel and result, the positions of the axes, listed in the canonical order. The canonical order is
/// batch, space, features. For the kernel, the canonical order is space, input features, output features.
pub(super) struct Orders {
    pub(super) input: AxisList,
    pub(super) kernel: AxisList,
    pub(super) result: AxisList,
}

impl Orders {
    /// Returns the dimension numbers of the primitive.
    pub(super) fn dimension_numbers(&self) -> DimensionNumbers {
        let outside = |order: &AxisList| Axes {
            outer: order[0],
            features: order[order.len() - 1],
            space: AxisList::from_slice(&order[1..order.len() - 1]),
        };
        let space = self.kernel.len() - 2;
        DimensionNumbers {
            input: outside(&self.input),
            kernel: Axes {
                outer: self.kernel[space + 1],
                features: self.kernel[space],
                space: AxisList::from_slice(&self.kernel[..space]),
            },
            result: outside(&self.result),
        }
    }
}

impl ConvDimensionNumbers {
    /// Creates the order from letters as in JAX, for instance `("NHWC", "HWIO", "NHWC")`. The order of the spatial axes
    /// is the order of their letters in the kernel.
    #[must_use]
    pub fn letters(input: &str, kernel: &str, result: &str) -> Self {
        Self::Letters {
            input: input.to_owned(),
            kernel: kernel.to_owned(),
            result: result.to_owned(),
        }
    }

    /// Returns, for each tensor, the positions of its axes, listed in the canonical order. Returns an error for a
    /// mistake in the letters.
    pub(super) fn orders(&self, space: usize) -> Result<Orders, Mistake> {
        match self {
            Self::ChannelsLast => {
                let all: AxisList = (0..space + 2).collect();
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
                let input: AxisList = last(1);
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

/// Looks up each letter of `before`, `sliding` and `behind`, in this order. Returns the positions of the letters in
/// `letters`.
fn order(
    letters: &str,
    before: &[char],
    sliding: &[char],
    behind: &[char],
    rank: usize,
) -> Result<AxisList, Mistake> {
    let wanted = [before, sliding, behind].concat();
    let found: Vec<char> = letters.chars().collect();
    let places: Option<AxisList> = wanted
        .iter()
        .map(|letter| found.iter().position(|other| other == letter))
        .collect();
    let distinct = |places: &AxisList| (0..rank).all(|axis| places.contains(&axis));
    places
        .filter(|places| found.len() == rank && wanted.len() == rank && distinct(places))
        .ok_or_else(|| {
            let wanted: String = wanted.into_iter().collect();
            Mistake::new(
                format!("the letters \"{letters}\" do not name each of the {rank} axes once"),
                format!(
                    "use the letters of \"{wanted}\" in any order: N is the batch, C the \
                     features, I and O the kernel's input and output features"
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_must_name_each_axis_once() {
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
