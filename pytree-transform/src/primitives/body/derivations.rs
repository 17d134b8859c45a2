//! The functions that transformations derive from a recorded function. Each function is derived once and cached:
//! - the batched function
//! - the JVP
//! - the known part, which does not depend on the tangents, and the part that is linear in the tangents
//! - the transpose
//! - the function under a condition
use std::sync::Arc;

use pytree_base::bug::{expect_next, pairs};
use pytree_kernels::base::dtype::{AbstractArray, DType};

use super::recorded::{Batched, Pushed, Transposed};
use crate::base::error::or_panic;
use crate::primitives::body::masks::{chosen, in_places};
use crate::primitives::body::recorded::{Body, Derivative, Linearized};
use crate::primitives::body::tape::{linearize, transpose_jaxpr};
use crate::primitives::create;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::INPUTS;
use crate::tensor::primitive::{BatchAxis, Linear};
use crate::tensor::stage::stage;
use crate::tensor::trace::{Interpreter, Trace, under};

/// Returns whether `force` marks a position. Positions beyond the end of `force` are not marked.
fn forced(force: &[bool], position: usize) -> bool {
    force.get(position).copied().unwrap_or(false)
}

impl Body {
    /// Returns the function batched along the given axis of each input. `None` means that the input is not batched. An
    /// output that `force` marks always gets a batch axis.
    pub(crate) fn batched(
        &self,
        axes: &[Option<usize>],
        batch: &BatchAxis,
        force: &[bool],
    ) -> Arc<Batched> {
        let key = (axes.to_vec(), batch.clone(), force.to_vec());
        self.derivations
            .batched
            .get(key, |_| match &self.derivative {
                Derivative::Given(given) => given.batched(self, axes, batch, force),
                derivative => self.batch(axes, batch, force, derivative.clone()),
            })
    }

    /// Derives the batched function. `derivative` says how the derivative of the batched function is computed.
    pub(crate) fn batch(
        &self,
        axes: &[Option<usize>],
        batch: &BatchAxis,
        force: &[bool],
        derivative: Derivative,
    ) -> Batched {
        let infos: Vec<AbstractArray> = pairs(self.input_infos(), axes, INPUTS)
            .map(|(mut info, axis)| {
                if let Some(axis) = axis {
                    info.shape.insert(*axis, batch.size);
                }
                info
            })
            .collect();
        let (jaxpr, _, mapped) = stage(self.recorder, &infos, |tensors| {
            let trace = Trace::begin(Interpreter::Batch(batch.clone()));
            let inputs: Vec<Tensor> = pairs(tensors, axes, INPUTS)
                .map(|(tensor, axis)| match axis {
                    Some(axis) => trace.batched(tensor, *axis),
                    None => tensor,
                })
                .collect();
            let results = self.jaxpr.apply(&inputs);
            let unbatched: Vec<_> = results
                .iter()
                .map(|result| or_panic(trace.unbatched(result)))
                .collect();
            drop(trace);
            let mapped: Vec<bool> = unbatched
                .iter()
                .enumerate()
                .map(|(position, (_, axis))| axis.is_some() || forced(force, position))
                .collect();
            let results = unbatched
                .into_iter()
                .zip(&mapped)
                .map(|((value, axis), mapped)| {
                    if *mapped {
                        or_panic(batch_axis_first(&value, axis, batch.size))
                    } else {
                        value
                    }
                })
                .collect();
            (results, mapped)
        });
        Batched {
            body: self.derived_with(jaxpr, derivative),
            mapped,
        }
    }

    /// Returns the JVP of the function with respect to the inputs that `active` marks. An output that `force` marks
    /// always gets a tangent.
    pub(crate) fn pushed(&self, active: &[bool], force: &[bool]) -> Arc<Pushed> {
        self.derivations
            .pushed
            .get((active.to_vec(), force.to_vec()), |_| {
                let mut infos = self.input_infos();
                let of_tangents: Vec<AbstractArray> = chosen(&infos, active).cloned().collect();
                infos.extend(of_tangents);
                let (jaxpr, _, has_tangent) = stage(self.recorder, &infos, |mut tensors| {
                    let mut tangents = tensors.split_off(active.len()).into_iter();
                    if let Derivative::Given(given) = &self.derivative {
                        return given.push(self, &tensors, tangents.collect(), active);
                    }
                    let trace = Trace::begin(Interpreter::Jvp);
                    let duals: Vec<Tensor> = pairs(tensors, active, INPUTS)
                        .map(|(primal, &active)| {
                            if active {
                                let expected = "a tangent for each active input";
                                trace.dual(primal, Some(expect_next(&mut tangents, expected)))
                            } else {
                                primal
                            }
                        })
                        .collect();
                    let results = self.jaxpr.apply(&duals);
                    let (mut values, tangents): (Vec<Tensor>, Vec<Option<Tensor>>) = results
                        .iter()
                        .map(|result| or_panic(trace.undual(result)))
                        .unzip();
                    drop(trace);
                    let tangents: Vec<Option<Tensor>> = tangents
                        .into_iter()
                        .enumerate()
                        .map(|(position, tangent)| {
                            let zeros = || create::zeros_like(&values[position]);
                            tangent.or_else(|| forced(force, position).then(zeros))
                        })
                        .collect();
                    let has_tangent: Vec<bool> = tangents.iter().map(Option::is_some).collect();
                    values.extend(tangents.into_iter().flatten());
                    (values, has_tangent)
                });
                Pushed {
                    body: self.derived(jaxpr),
                    has_tangent,
                }
            })
    }

    /// Returns the function split into a known part and a linear part. The known part does not depend on the tangents
    /// of the `active` inputs, and the linear part is linear in these tangents. An output that `force` marks always
    /// gets a tangent.
    pub(crate) fn linearized(&self, active: &[bool], force: &[bool]) -> Arc<Linearized> {
        let key = (active.to_vec(), force.to_vec());
        self.derivations
            .linearized
            .get(key, |_| match &self.derivative {
                Derivative::Recorded => self.split(active, force),
                Derivative::Recomputed(policy) => policy.recomputed(&self.split(active, force)),
                Derivative::Given(given) => given.linearized(self, active),
            })
    }

    /// Returns the function whose first input is a bool, and which calls the host only if this condition is true. If `is_input` is
    /// false, the function has no such input, and never calls the host.
    pub(crate) fn under_condition(&self, is_input: bool) -> Arc<Self> {
        let derive = |_: &bool| {
            let condition = is_input.then(|| AbstractArray::new(DType::Bool, []));
            let infos: Vec<_> = condition.into_iter().chain(self.input_infos()).collect();
            let (jaxpr, _, ()) = stage(self.recorder, &infos, |mut tensors| {
                let inputs = tensors.split_off(usize::from(is_input));
                (under(tensors.first(), || self.jaxpr.apply(&inputs)), ())
            });
            self.derived_with(jaxpr, self.derivative.under_condition(is_input))
        };
        Arc::clone(&self.derivations.under_condition.get(is_input, derive))
    }

    /// Returns the function for a batch of which some examples do not reach it. If it may call the host, its first input is the
    /// condition of an example; see [`under_condition`](Self::under_condition).
    pub(crate) fn partial(&self) -> Arc<Self> {
        let derive = |(): &()| {
            let conditional = self.may_call_host.then(|| self.under_condition(true));
            let body = conditional.as_deref().unwrap_or(self);
            let (jaxpr, derivative) = (body.jaxpr.clone(), body.derivative.clone());
            let label = self.label.clone();
            Self::build(self.recorder, label, jaxpr, derivative, self.compile, true)
        };
        Arc::clone(&self.derivations.partial.get((), derive))
    }

    fn split(&self, active: &[bool], force: &[bool]) -> Linearized {
        let (known, _, (linear, outputs, has_tangent)) =
            stage(self.recorder, &self.input_infos(), |tensors| {
                let (mut primals, mut tape, ()) =
                    linearize(&tensors, active, |inputs| (self.jaxpr.apply(&inputs), ()));
                for (position, primal) in primals.iter().enumerate() {
                    if forced(force, position) {
                        tape.force(position, primal.info());
                    }
                }
                let has_tangent: Vec<bool> = tape.outputs.iter().map(Option::is_some).collect();
                let outputs = primals.len();
                let (linear, residuals) = tape.into_jaxpr();
                primals.extend(residuals);
                (primals, (linear, outputs, has_tangent))
            });
        let known = self.derived(known);
        Linearized::new(known, self.derived(linear), outputs, has_tangent)
    }

    /// Returns the transpose, which computes the cotangents of the unknown inputs. `has_cotangent` marks the outputs
    /// that have a cotangent. The transpose adds the cotangents of the inputs that `has_sum` marks to sums of cotangents.
    pub(crate) fn transposed(
        &self,
        unknown: &[bool],
        has_cotangent: &[bool],
        force: &[bool],
        has_sum: &[bool],
    ) -> Arc<Transposed> {
        let key = [unknown, has_cotangent, force, has_sum].map(<[bool]>::to_vec);
        self.derivations.transposed.get(key, |_| {
            let inputs = self.input_infos();
            let is_known: Vec<bool> = unknown.iter().map(|unknown| !unknown).collect();
            let results: Vec<AbstractArray> = self.jaxpr.output_infos().cloned().collect();
            let with_sum = inputs.iter().enumerate();
            let with_sum = with_sum.filter(|&(position, _)| forced(has_sum, position));
            let infos: Vec<AbstractArray> = chosen(&inputs, &is_known)
                .chain(chosen(&results, has_cotangent))
                .chain(with_sum.map(|(_, info)| info))
                .cloned()
                .collect();
            let (jaxpr, _, has_cotangent) = stage(self.recorder, &infos, |mut tensors| {
                let sums =
                    tensors.split_off(infos.len() - has_sum.iter().filter(|it| **it).count());
                let sums = in_places(sums, has_sum);
                let mut tensors = tensors.into_iter();
                let operands: Vec<Linear> = pairs(&inputs, unknown, INPUTS)
                    .map(|(info, &unknown)| {
                        if unknown {
                            Linear::Unknown(info.clone())
                        } else {
                            Linear::Known(expect_next(&mut tensors, "a value for each known input"))
                        }
                    })
                    .collect();
                let cotangents = in_places(tensors, has_cotangent);
                let results = transpose_jaxpr(&self.jaxpr, &operands, &cotangents, sums);
                let wanted: Vec<Option<Tensor>> = results
                    .into_iter()
                    .zip(inputs.iter().zip(unknown))
                    .filter(|(_, (_, unknown))| **unknown)
                    .enumerate()
                    .map(|(position, (result, (info, _)))| {
                        let zeros = || create::zeros(info);
                        result.or_else(|| forced(force, position).then(zeros))
                    })
                    .collect();
                let has = wanted.iter().map(Option::is_some).collect::<Vec<bool>>();
                (wanted.into_iter().flatten().collect(), has)
            });
            Transposed {
                body: self.derived(jaxpr),
                has_cotangent,
            }
        })
    }
}
