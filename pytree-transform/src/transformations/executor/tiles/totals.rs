//! Reductions over rows: what a pass adds its tiles to.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use super::{Float, fold_row};
use crate::array::Array;
use crate::dtype::AbstractArray;
use crate::primitive::Fold;

/// Rows added up, by blocks of rows, so that rounding errors stay small.
struct Accumulator<F> {
    fold: Fold,
    block: Vec<F>,
    total: Vec<F>,
    rows: usize,
}

/// The reductions over rows of a pass.
pub(in crate::transformations::executor) struct Totals<F>(Vec<Accumulator<F>>);

impl<F: Float> Totals<F> {
    pub(in crate::transformations::executor) fn new(
        totals: impl Iterator<Item = (Fold, usize)>,
    ) -> Self {
        let accumulators = totals.map(|(fold, period)| Accumulator {
            fold,
            block: vec![F::start(fold); period],
            total: vec![F::start(fold); period],
            rows: 0,
        });
        Self(accumulators.collect())
    }

    /// Adds a tile that begins at an element.
    #[inline(always)]
    pub(in crate::transformations::executor) fn add(
        &mut self,
        total: usize,
        tile: &[F],
        at: usize,
    ) {
        let accumulator = &mut self.0[total];
        match accumulator.fold {
            Fold::Sum => accumulator.add(tile, at, Fold::Sum),
            Fold::Max => accumulator.add(tile, at, Fold::Max),
            Fold::Min => accumulator.add(tile, at, Fold::Min),
        }
    }

    pub(in crate::transformations::executor) fn merge(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.close_block();
            combine_rows(&mut own.total, &other.block, own.fold);
            combine_rows(&mut own.total, &other.total, own.fold);
        }
    }

    pub(in crate::transformations::executor) fn into_arrays<'i>(
        self,
        infos: impl Iterator<Item = &'i AbstractArray>,
    ) -> impl Iterator<Item = Array> {
        self.0
            .into_iter()
            .zip(infos)
            .map(|(mut accumulator, info)| {
                accumulator.close_block();
                Array::new(&info.shape, accumulator.total)
            })
    }
}

impl<F: Float> Accumulator<F> {
    #[inline(always)]
    fn add(&mut self, tile: &[F], at: usize, fold: Fold) {
        const BLOCK: usize = 64;
        let period = self.block.len();
        if period == 1 {
            self.block[0] = F::combine(fold, self.block[0], fold_row(tile, fold));
            self.rows += 1;
        } else {
            let (mut done, mut column) = (0, at % period);
            while done < tile.len() {
                let run = (period - column).min(tile.len() - done);
                combine_rows(
                    &mut self.block[column..column + run],
                    &tile[done..done + run],
                    fold,
                );
                done += run;
                column = 0;
                self.rows += 1;
            }
        }
        if self.rows >= BLOCK {
            self.close_block();
        }
    }

    #[inline(always)]
    fn close_block(&mut self) {
        combine_rows(&mut self.total, &self.block, self.fold);
        self.block.fill(F::start(self.fold));
        self.rows = 0;
    }
}

#[inline(always)]
fn combine_rows<F: Float>(total: &mut [F], row: &[F], fold: Fold) {
    for (total, &element) in total.iter_mut().zip(row) {
        *total = F::combine(fold, *total, element);
    }
}
