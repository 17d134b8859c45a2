//! A reduction of one group of axes, which threads share.

use crate::base::array::{give_back, reused};
use crate::base::combine::Combine;
use crate::base::dtype::ArrayElement;
use crate::base::fold::PART;
use crate::base::threads::share_rows;
use crate::base::{fold, threads};

/// About how many elements one thread combines in a nanosecond.
pub(super) const PER_NANOSECOND: usize = 8;

/// A reduction over the second of three axes: the length of this axis, and that of the third.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) length: usize,
    pub(crate) inner: usize,
    /// Whether the elements are a block of a longer reduction, whose rows are combined one after the other.
    pub(super) is_block: bool,
}

impl Pass {
    pub(crate) fn new(length: usize, inner: usize) -> Self {
        Self {
            length,
            inner,
            is_block: false,
        }
    }
}

/// Reduces the second of three axes. Threads share the elements of the first axis, or the parts or blocks of its few elements.
pub(crate) fn run<T: ArrayElement, C: Combine<T>>(pass: Pass, elements: &[T], result: &mut [T]) {
    let part = move |elements: &[T], result: &mut [T]| {
        if elements.is_empty() {
            result.fill(C::START);
        } else if pass.inner == 1 {
            fold::rows::<T, C>(result, elements, pass.length);
        } else {
            let Pass {
                length,
                inner,
                is_block,
            } = pass;
            fold::columns::<T, C>(result, elements, (length, inner), is_block);
        }
    };
    let nanoseconds = elements.len() / PER_NANOSECOND;
    if !threads::are_worth(nanoseconds) {
        return part(elements, result);
    }
    let Pass {
        length,
        inner,
        is_block,
    } = pass;
    let size = length * inner;
    let outer = result.len() / inner;
    let most = if inner == 1 {
        PART
    } else {
        fold::block_rows(length)
    };
    if outer < threads::count() && length > most && !is_block {
        let (whole, last) = (length / most, length % most);
        let mut parts = reused(length.div_ceil(most) * inner);
        for (result, elements) in result
            .chunks_exact_mut(inner)
            .zip(elements.chunks_exact(size))
        {
            let (elements, of_last) = elements.split_at(whole * most * inner);
            let (results, result_of_last) = parts.split_at_mut(whole * inner);
            let block = |length| Pass {
                is_block: true,
                ..Pass::new(length, inner)
            };
            run::<T, C>(block(most), elements, results);
            if last > 0 {
                run::<T, C>(block(last), of_last, result_of_last);
            }
            run::<T, C>(Pass::new(parts.len() / inner, inner), &parts, result);
        }
        return give_back(parts);
    }
    let count = outer.div_ceil(threads::count());
    share_rows(nanoseconds, result, inner, count, &|first, result| {
        let end = (first + result.len() / inner) * size;
        part(&elements[first * size..end], result);
    });
}
