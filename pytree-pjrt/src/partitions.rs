//! The shardings that XLA has chosen, read from a compiled program. The C interface has no function that returns them.

use std::collections::HashMap;

use pytree_transform::device::{PartitionSpec, Sharding, SpecAxis};

use crate::element::ArrayInfo;
use crate::proto::{Fields, Value};
use crate::signature::Signature;

/// What one device of a mesh receives and returns.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// The type of each parameter: the part that one device holds.
    pub(crate) parameters: Vec<ArrayInfo>,
    /// The sharding of each result. `None` if axes of the mesh cannot describe it.
    pub(crate) results: Vec<Option<Sharding>>,
}

/// The name and the length of each axis of a mesh.
pub(crate) type Axes<'m> = &'m [(String, usize)];

impl Partitions {
    /// Reads the shardings from a compiled program with `results` results; see [`Signature::decode`]. Returns `None` if the
    /// program has another format or is malformed.
    ///
    /// The field numbers are from `xla/service/hlo.proto` and `xla/xla_data.proto`.
    pub(crate) fn decode(
        (format, bytes): (&str, &[u8]),
        mesh: Axes<'_>,
        results: &[usize],
    ) -> Option<Self> {
        let parameters = Signature::decode(format, bytes)?.parameters;
        let module = match format {
            // HloModuleProtoWithConfig.hlo_module
            "hlo_with_config" => field(Fields::new(bytes), 1)?.fields(),
            _ => Fields::new(bytes),
        };
        // HloModuleProto.spmd_output_sharding
        let sharding = field(module, 12)?.fields();
        let all: Vec<Fields<'_>> = match field(sharding.clone(), 1) {
            // OpSharding.type is TUPLE: OpSharding.tuple_shardings has an entry for each result.
            Some(Value::Int(TUPLE)) => repeated(sharding, 5)?,
            _ => vec![sharding],
        };
        if all.len() != results.len() {
            return None;
        }
        let known = Meshes::default();
        let results = all.into_iter().zip(results);
        let results = results.map(|(sharding, &rank)| known.sharding(sharding, mesh, rank));
        Some(Self {
            parameters,
            results: results.collect(),
        })
    }
}

/// The values of OpSharding.type.
const REPLICATED: u64 = 0;
const TUPLE: u64 = 2;
const TILED: u64 = 3;

/// The most shardings that are compared with a division into tiles.
const MOST_CANDIDATES: usize = 1 << 16;

/// The parts of each device along each axis of a tensor, and the sharding that has these parts.
type Known = HashMap<Vec<Vec<usize>>, Option<Sharding>>;

/// The shardings that were found for divisions into tiles.
#[derive(Default)]
struct Meshes(std::cell::RefCell<Known>);

impl Meshes {
    /// Reads an `OpSharding` of a result with `rank` axes.
    fn sharding(&self, sharding: Fields<'_>, mesh: Axes<'_>, rank: usize) -> Option<Sharding> {
        // OpSharding.named_sharding
        if let Some(named) = field(sharding.clone(), 14) {
            return Sharding::of_spec(mesh, &named_spec(named.fields())?);
        }
        let kind = match field(sharding.clone(), 1) {
            Some(Value::Int(kind)) => kind,
            _ => REPLICATED,
        };
        match kind {
            REPLICATED => Sharding::of_spec(mesh, &PartitionSpec::default()),
            TILED => {
                let positions = tile_positions(sharding, mesh, rank)?;
                let mut known = self.0.borrow_mut();
                let found = known.entry(positions);
                let search = |positions: &Vec<Vec<usize>>| with_positions(positions, mesh, rank);
                found.or_insert_with_key(search).clone()
            }
            _ => None,
        }
    }
}

/// Reads a `NamedShardingProto`: for each axis of a tensor, the axes of the mesh that divide it.
fn named_spec(named: Fields<'_>) -> Option<PartitionSpec> {
    // NamedShardingProto.mesh, MeshProto.axes, MeshAxis.name
    let axes = field(named.clone(), 2).map_or(Some(Vec::new()), |mesh| repeated(mesh.fields(), 1));
    let name = |axis: Fields<'_>| match field(axis, 1)? {
        Value::Bytes(name) => String::from_utf8(name.to_vec()).ok(),
        Value::Int(_) | Value::Fixed => None,
    };
    let names: Vec<String> = axes?.into_iter().map(name).collect::<Option<_>>()?;
    // NamedShardingProto.dim_shardings, DimensionSharding.axes
    let mut spec = Vec::new();
    for dimension in repeated(named, 3)? {
        let mut along = Vec::new();
        for axis in repeated(dimension, 1)? {
            // AxisRef.sub_axis_info: a part of an axis of the mesh.
            if field(axis.clone(), 2).is_some() {
                return None;
            }
            // AxisRef.mesh_axis_index
            let index = match field(axis, 1) {
                Some(Value::Int(index)) => usize::try_from(index).ok()?,
                _ => 0,
            };
            along.push(AsRef::<str>::as_ref(names.get(index)?).into());
        }
        spec.push(SpecAxis::Along(along.into()));
    }
    Some(spec.into())
}

/// Returns the position of each device's tile along each axis of a tensor.
fn tile_positions(sharding: Fields<'_>, mesh: Axes<'_>, rank: usize) -> Option<Vec<Vec<usize>>> {
    let count: usize = mesh.iter().map(|(_, length)| length).product();
    // OpSharding.tile_assignment_dimensions. Further axes after those of the tensor hold equal tiles.
    let tiles = numbers(sharding.clone(), 3)?;
    let is_valid = tiles.len() >= rank && product(&tiles) == Some(count);
    // OpSharding.tile_assignment_devices, or iota_reshape_dims and iota_transpose_perm.
    let listed = numbers(sharding.clone(), 4)?;
    let devices = if listed.is_empty() {
        let (shape, order) = (numbers(sharding.clone(), 9)?, numbers(sharding, 10)?);
        transposed_iota(count, &shape, &order)?
    } else {
        listed
    };
    if !is_valid || devices.len() != count {
        return None;
    }
    let mut positions = vec![vec![0; rank]; count];
    for (tile, device) in devices.into_iter().enumerate() {
        let own = positions.get_mut(device)?;
        let mut rest = tile;
        for (axis, length) in tiles.iter().enumerate().rev() {
            if axis < rank {
                own[axis] = rest % length;
            }
            rest /= length;
        }
    }
    Some(positions)
}

/// Returns the product of lengths, or `None` if it overflows.
fn product(lengths: &[usize]) -> Option<usize> {
    lengths
        .iter()
        .try_fold(1_usize, |product, &length| product.checked_mul(length))
}

/// Returns the numbers from 0 to `count` - 1 of an array in row-major order, read after a transposition.
fn transposed_iota(count: usize, shape: &[usize], order: &[usize]) -> Option<Vec<usize>> {
    if product(shape) != Some(count) {
        return None;
    }
    let order: Vec<usize> = match order {
        [] => (0..shape.len()).collect(),
        order => order.to_vec(),
    };
    let lengths: Vec<usize> = order
        .iter()
        .map(|&axis| shape.get(axis).copied())
        .collect::<Option<_>>()?;
    let number = |position: usize| {
        let mut rest = position;
        let mut places = vec![0; shape.len()];
        for (&axis, length) in order.iter().zip(&lengths).rev() {
            places[axis] = rest % length;
            rest /= length;
        }
        let places = places.iter().zip(shape);
        places.fold(0, |number, (place, length)| number * length + place)
    };
    let is_permutation = (0..shape.len()).all(|axis| order.contains(&axis));
    is_permutation.then(|| (0..count).map(number).collect())
}

/// Returns the sharding in which each device has its tile at the given positions, or `None` if there is none.
fn with_positions(positions: &[Vec<usize>], mesh: Axes<'_>, rank: usize) -> Option<Sharding> {
    let fits = |sharding: &Sharding| {
        positions.iter().enumerate().all(|(device, own)| {
            let axes = own.iter().enumerate();
            axes.into_iter()
                .all(|(axis, &at)| sharding.position(device, axis) == at)
        })
    };
    let mut candidates: Vec<Vec<Vec<&str>>> = vec![vec![Vec::new(); rank]];
    for (name, length) in mesh {
        if *length == 1 {
            continue;
        }
        let mut next = candidates.clone();
        for candidate in &candidates {
            for axis in 0..rank {
                for place in 0..=candidate[axis].len() {
                    let mut with = candidate.clone();
                    with[axis].insert(place, name);
                    next.push(with);
                }
            }
        }
        if next.len() > MOST_CANDIDATES {
            return None;
        }
        candidates = next;
    }
    candidates.into_iter().find_map(|candidate| {
        let along = candidate.into_iter().map(|names| {
            let names = names.into_iter().map(Into::into);
            SpecAxis::Along(names.collect())
        });
        Sharding::of_spec(mesh, &along.collect()).filter(fits)
    })
}

/// Returns the value of a field that is not repeated.
fn field(fields: Fields<'_>, number: u64) -> Option<Value<'_>> {
    let mut fields = fields.flatten();
    fields
        .find(|(found, _)| *found == number)
        .map(|(_, value)| value)
}

/// Returns the messages of a repeated field.
fn repeated(fields: Fields<'_>, number: u64) -> Option<Vec<Fields<'_>>> {
    let mut all = Vec::new();
    for field in fields {
        let (found, value) = field?;
        if found == number {
            all.push(value.fields());
        }
    }
    Some(all)
}

/// Returns the integers of a repeated field.
fn numbers(fields: Fields<'_>, number: u64) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for field in fields {
        let (found, value) = field?;
        if found == number {
            value.extend_ints(&mut all)?;
        }
    }
    all.into_iter()
        .map(|number| usize::try_from(number).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Writer;

    /// The parts and the messages of JAX. `tests/golden/shardings.py` prints them.
    const GOLDEN: &str = include_str!("../tests/golden/shardings.json");

    fn mesh() -> Vec<(String, usize)> {
        [("a", 2), ("b", 3), ("c", 2)]
            .map(|(name, length)| (name.to_owned(), length))
            .into()
    }

    fn bytes(hexadecimal: &serde_json::Value) -> Vec<u8> {
        let text = hexadecimal.as_str().unwrap();
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }

    fn spec(value: &serde_json::Value) -> PartitionSpec {
        let names: Vec<Vec<String>> = serde_json::from_value(value.clone()).unwrap();
        let along = names.iter().map(|names| {
            let names = names.iter().map(|name| name.as_str().into());
            SpecAxis::Along(names.collect())
        });
        along.collect()
    }

    /// Both forms of messages describe a sharding with the parts of JAX.
    #[test]
    fn shardings_are_those_of_jax() {
        let golden: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 9);
        for case in cases {
            let expected = Sharding::of_spec(&mesh(), &spec(&case["spec"])).unwrap();
            let starts: Vec<[usize; 2]> = serde_json::from_value(case["starts"].clone()).unwrap();
            for (device, start) in starts.into_iter().enumerate() {
                let part = [12, 24].iter().enumerate();
                let own = part.map(|(axis, length)| {
                    expected.position(device, axis) * length / expected.parts(axis)
                });
                assert_eq!(own.collect::<Vec<_>>(), start, "{expected:?} on {device}");
            }
            for form in ["tiles", "named"] {
                let message = bytes(&case[form]);
                let found = Meshes::default().sharding(Fields::new(&message), &mesh(), 2);
                assert_eq!(found.as_ref(), Some(&expected), "{form}");
            }
        }
    }

    #[test]
    fn half_of_an_axis_is_not_described() {
        let whole = [("a".to_owned(), 4)];
        // Two tiles on the devices [0, 1] and [2, 3] are half of the axis.
        let mut tiles = Writer::default();
        tiles
            .int(1, 3)
            .packed(3, &[2, 2])
            .int(6, 1)
            .packed(4, &[0, 1, 2, 3]);
        let message = tiles.finish();
        assert_eq!(
            Meshes::default().sharding(Fields::new(&message), &whole, 1),
            None
        );
        // As devices of two axes, they are the first axis.
        let pairs = [("a".to_owned(), 2), ("b".to_owned(), 2)];
        let found = Meshes::default().sharding(Fields::new(&message), &pairs, 1);
        assert_eq!(found.unwrap().spec(), "a".into());
    }

    #[test]
    fn malformed_messages_have_no_sharding() {
        let golden: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
        for case in golden["cases"].as_array().unwrap() {
            for form in ["tiles", "named"] {
                let message = bytes(&case[form]);
                for end in 0..message.len() {
                    let _ = Meshes::default().sharding(Fields::new(&message[..end]), &mesh(), 2);
                    let mut damaged = message.clone();
                    damaged[end] ^= 0x55;
                    let _ = Meshes::default().sharding(Fields::new(&damaged), &mesh(), 2);
                }
            }
        }
        assert!(Partitions::decode(("mlir", &[]), &mesh(), &[2]).is_none());
    }
}
