//! Checks of a convolution and its operands. Each mistake is reported with a matching fix.

use super::Convolution;
use crate::base::error::Mistake;
use crate::operations::convolution_layout::ConvDimensionNumbers;

impl Convolution {
    /// Reports an input or a kernel with a wrong number of axes. The right number is the number of strides plus two:
    /// the spatial axes, and two other axes.
    pub(super) fn wrong_ranks(&self, x: &[usize], kernel: &[usize]) -> Vec<Mistake> {
        let strides = self.strides.len();
        let rank = strides + 2;
        let mut mistakes = Vec::new();
        if x.len() == kernel.len() && x.len() > 2 && x.len() != rank {
            let problem = format!(
                "the input and the kernel have {} spatial axes, but the strides are {:?}",
                x.len() - 2,
                self.strides
            );
            let fix = "give one stride for each spatial axis";
            return vec![Mistake::new(problem, fix)];
        }
        if x.len() != rank {
            let problem = format!(
                "the input has {} axes, expected {rank}: one batch axis, {strides} spatial axes and one feature axis",
                x.len()
            );
            let fix = if x.len() + 1 == rank {
                "add the missing axis with length 1; for a single example write `.expand_dims(0)`"
            } else {
                "reshape the input, or give one stride for each spatial axis"
            };
            mistakes.push(Mistake::new(problem, fix));
        }
        if kernel.len() != rank {
            mistakes.push(Mistake::new(
                format!(
                    "the kernel has {} axes, expected {rank}: {strides} spatial axes, one axis for the input features and one for the output features",
                    kernel.len()
                ),
                "use a kernel with one spatial axis for each stride",
            ));
        }
        mistakes
    }

    /// Returns all mistakes in the configuration and the shapes of the operands. Both shapes have the right number of
    /// axes, in the canonical order (batch, space, features).
    pub(super) fn mistakes(&self, x: &[usize], kernel: &[usize]) -> Vec<Mistake> {
        let axes = self.strides.len();
        let mut mistakes = Vec::new();
        for (what, numbers) in [
            ("strides are", &self.strides),
            ("input dilation is", &self.input_dilation),
            ("kernel dilation is", &self.kernel_dilation),
        ] {
            if numbers.len() != axes || numbers.contains(&0) {
                mistakes.push(Mistake::new(
                    format!("the {what} {numbers:?}, expected {axes} numbers above 0"),
                    "give one number above 0 for each spatial axis",
                ));
            }
        }
        mistakes.extend(self.padding.mistake(axes));
        if kernel[..axes].contains(&0) {
            mistakes.push(Mistake::new(
                "the kernel has an axis of length 0",
                "use a kernel with at least one element along each axis",
            ));
        }
        mistakes.extend(self.wrong_features(x, kernel));
        mistakes
    }

    /// Reports a feature count that does not match the kernel, and a feature or example count that is not a multiple of
    /// the number of groups.
    fn wrong_features(&self, x: &[usize], kernel: &[usize]) -> Vec<Mistake> {
        let axes = self.strides.len();
        let (batch, features) = (x[0], x[axes + 1]);
        let (of_kernel, out) = (kernel[axes], kernel[axes + 1]);
        let (groups, batch_groups) = (self.feature_groups, self.batch_groups);
        if groups == 0 || batch_groups == 0 || (groups > 1 && batch_groups > 1) {
            return vec![Mistake::new(
                format!("there are {groups} feature groups and {batch_groups} batch groups"),
                "set both numbers of groups to at least 1, and at most one of them to more than 1",
            )];
        }
        let mut mistakes = Vec::new();
        if features % groups != 0 {
            mistakes.push(Mistake::new(
                format!(
                    "the {features} input features cannot be divided into {groups} equal groups"
                ),
                "choose a number of groups that divides the number of input features",
            ));
        } else if Some(features) != of_kernel.checked_mul(groups) {
            let of_groups = match groups {
                1 => String::new(),
                _ => format!(" in each of {groups} groups"),
            };
            let channels_first = self.dimension_numbers == ConvDimensionNumbers::ChannelsLast
                && Some(x[1]) == kernel[1].checked_mul(groups);
            let fix = if channels_first {
                "for an input `[batch, features, space…]` set \
                 `.dimension_numbers(ConvDimensionNumbers::ChannelsFirst)`"
                    .to_owned()
            } else {
                format!(
                    "use a kernel with {} input features{of_groups}",
                    features / groups
                )
            };
            mistakes.push(Mistake::new(
                format!(
                    "the input has {features} features, but the kernel has {of_kernel} input features{of_groups}"
                ),
                fix,
            ));
        }
        if out % groups != 0 {
            mistakes.push(Mistake::new(
                format!("the kernel's {out} output features cannot be divided into {groups} equal feature groups"),
                "use a kernel with the same number of output features for each group",
            ));
        }
        if out % batch_groups != 0 || batch % batch_groups != 0 {
            mistakes.push(Mistake::new(
                format!(
                    "the batch of {batch} or the kernel's {out} output features cannot be divided into {batch_groups} \
                     equal batch groups"
                ),
                "choose a number of batch groups that divides both numbers",
            ));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;
    use crate::operations::window_padding::Padding;
    use crate::tensor::Tensor;

    fn zeros(shape: &[usize]) -> Tensor {
        Tensor::zeros(DType::F32, shape)
    }

    #[track_caller]
    fn error(convolution: &Convolution, x: &[usize], kernel: &[usize]) -> String {
        let outcome = convolution.try_apply(&zeros(x), &zeros(kernel));
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn errors_list_all_mistakes_with_fixes() {
        let convolution = Convolution::new([1, 0], Padding::Explicit(vec![(1, 1)]));
        assert_eq!(
            error(&convolution, &[2, 8, 8, 3], &[3, 0, 4, 6]),
            "cannot convolve f32[2,8,8,3] and f32[3,0,4,6]: the strides are [1, 0], expected 2 numbers above 0; the \
             padding [(1, 1)] has 1 pairs, but there are 2 spatial axes; the kernel has an axis of length 0; the input has 3 features, but the \
             kernel has 4 input features; give one number above 0 for each spatial axis; give one pair `(before, \
             after)` for each spatial axis; use a kernel with at least one element along each axis; use a kernel with 3 \
             input features"
        );
        let other = Tensor::zeros(DType::F64, [3, 3, 4, 5]);
        let found = convolution.try_apply(&zeros(&[2, 8, 8, 4]), &other);
        assert!(
            found
                .unwrap_err()
                .to_string()
                .contains("the same element type in both tensors")
        );
    }

    #[test]
    fn missing_axis_and_missing_stride_differ() {
        let plain = Convolution::new([1, 1], Padding::Same);
        for (x, kernel, remedy) in [
            (&[8, 8, 3][..], &[3, 3, 3, 6][..], "`.expand_dims(0)`"),
            (&[3], &[3, 3, 3, 6], "reshape the input"),
            (
                &[2, 8, 8, 3],
                &[3, 3, 6],
                "use a kernel with one spatial axis for each stride",
            ),
            (
                &[2, 8, 3],
                &[3, 3, 6],
                "give one stride for each spatial axis",
            ),
        ] {
            let error = error(&plain, x, kernel);
            assert!(error.contains(remedy), "{error}");
        }
        let both = error(&plain, &[8, 3], &[3, 3, 6]);
        assert!(
            both.contains("the input has 2 axes") && both.contains("the kernel has 3 axes"),
            "{both}"
        );
    }

    #[test]
    fn feature_and_group_errors_name_their_fix() {
        let plain = Convolution::new([1, 1], Padding::Same);
        let grouped = plain.clone().feature_groups(2);
        let of_batch = plain.clone().batch_groups(2);
        let both = grouped.clone().batch_groups(2);
        for (convolution, x, kernel, remedy) in [
            (&plain, [2, 3, 8, 9], [16, 3, 5, 5], "ChannelsFirst"),
            (
                &plain,
                [2, 8, 8, 3],
                [3, 3, 4, 6],
                "a kernel with 3 input features",
            ),
            (
                &grouped,
                [2, 8, 8, 3],
                [3, 3, 1, 6],
                "divides the number of input features",
            ),
            (
                &grouped,
                [2, 8, 8, 4],
                [3, 3, 4, 6],
                "2 input features in each of 2 groups",
            ),
            (
                &grouped,
                [2, 8, 8, 4],
                [3, 3, 2, 5],
                "the same number of output features for each group",
            ),
            (
                &of_batch,
                [3, 8, 8, 4],
                [3, 3, 4, 6],
                "divides both numbers",
            ),
            (
                &both,
                [2, 8, 8, 4],
                [3, 3, 2, 6],
                "at most one of them to more than 1",
            ),
        ] {
            let error = error(convolution, &x, &kernel);
            assert!(error.contains(remedy), "{error}");
        }
    }
}
