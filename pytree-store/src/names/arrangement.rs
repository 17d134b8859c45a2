//! How the axes of a tensor of the model are ordered in a file.

/// Which axes of a tensor are the axes of attention heads. A file of PyTorch has one axis for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heads {
    /// The tensor has no axes of heads, or the file has them, too.
    Separate,
    /// The first two axes are heads.
    First,
    /// The last two axes are heads.
    Last,
    /// The tensor is a number, which the file has as a list of one.
    Single,
}

/// How the axes of a tensor in the file are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As in the model.
    Same,
    /// `[out, in, kernel…]` in the file, and `[kernel…, in, out]` in the model.
    OutputsFirst,
    /// `[in, out, kernel…]` in the file, and `[kernel…, in, out]` in the model, where the kernel is reversed along
    /// each axis: the transposed convolutions of PyTorch.
    InputsFirst,
}

/// The order of the axes of one tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    /// The lengths of the axes in the model, where the two axes of heads are one.
    joined: Vec<usize>,
    /// For each axis of the file, its position in `joined`.
    permutation: Vec<usize>,
    /// The number of last axes of the file along which the elements are reversed.
    reversed: usize,
    /// The axis of the file along which several layers are one tensor: the axis of the outputs.
    outputs: usize,
}

impl Arrangement {
    /// Returns the arrangement in which file and model are the same.
    pub(crate) fn same(shape: &[usize]) -> Self {
        Self::new(shape, Heads::Separate, Order::Same)
    }

    pub(crate) fn new(shape: &[usize], heads: Heads, order: Order) -> Self {
        let joined: Vec<usize> = match (heads, shape) {
            (Heads::First, [first, second, rest @ ..]) => [&[first * second], rest].concat(),
            (Heads::Last, [rest @ .., second, first]) => [rest, &[first * second]].concat(),
            (Heads::Single, []) => vec![1],
            _ => shape.to_vec(),
        };
        let rank = joined.len();
        let mut permutation: Vec<usize> = (0..rank).collect();
        let mut reversed = 0;
        let mut outputs = rank.saturating_sub(1);
        if rank >= 2 && order != Order::Same {
            // The kernel moves to the end.
            permutation.rotate_right(2);
            if order == Order::OutputsFirst {
                permutation.swap(0, 1);
                outputs = 0;
            } else {
                reversed = rank - 2;
                outputs = 1;
            }
        }
        Self {
            joined,
            permutation,
            reversed,
            outputs,
        }
    }

    /// Returns the shape in the file.
    pub(crate) fn file_shape(&self) -> Vec<usize> {
        let permutation = self.permutation.iter();
        permutation.map(|&axis| self.joined[axis]).collect()
    }

    /// Returns the axis of the file along which several layers are one tensor.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns whether the elements in the file are ordered as in the model.
    pub(crate) fn is_same(&self) -> bool {
        self.reversed == 0 && self.permutation.is_sorted()
    }

    /// Returns the position of the file's first element among the elements of the model, and the distance between
    /// neighbours along each axis of the file.
    pub(crate) fn strides(&self) -> (isize, Vec<isize>) {
        let of_model = row_major(&self.joined);
        let rank = self.permutation.len();
        let mut first = 0;
        let mut strides = Vec::with_capacity(rank);
        for (position, &axis) in self.permutation.iter().enumerate() {
            let stride = of_model[axis];
            if position >= rank - self.reversed {
                first += stride * (self.joined[axis].cast_signed() - 1).max(0);
                strides.push(-stride);
            } else {
                strides.push(stride);
            }
        }
        (first, strides)
    }

    /// Returns the names of the axes in the order of the file. `None` if axes of heads are joined.
    pub(crate) fn file_axes<T: Clone>(&self, axes: &[T]) -> Option<Vec<T>> {
        let permutation = self.permutation.iter();
        let named = permutation.map(|&axis| axes.get(axis).cloned());
        (axes.len() == self.joined.len()).then(|| named.collect())?
    }

    /// Returns the lengths of the axes in the model, where the two axes of heads are one.
    pub(crate) fn joined(&self) -> &[usize] {
        &self.joined
    }

    /// Returns the inverse of [`strides`](Self::strides) for a tensor of the file with the shape `file`, in which this part begins at
    /// `begin` along the axis of the outputs: the position of the model's first element in the file, and the distance between
    /// neighbours along each axis of [`joined`](Self::joined).
    pub(crate) fn strides_in_file(&self, file: &[usize], begin: usize) -> (isize, Vec<isize>) {
        let of_file = row_major(file);
        let rank = self.permutation.len();
        let mut first = of_file[self.outputs] * begin.cast_signed();
        let mut strides = vec![0; rank];
        for (position, &axis) in self.permutation.iter().enumerate() {
            let is_reversed = position >= rank - self.reversed;
            if is_reversed {
                first += of_file[position] * (self.joined[axis].cast_signed() - 1).max(0);
            }
            strides[axis] = if is_reversed {
                -of_file[position]
            } else {
                of_file[position]
            };
        }
        (first, strides)
    }
}

/// Returns the distance between neighbours along each axis of an array in row-major order.
fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1_isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].cast_signed();
    }
    strides
}
