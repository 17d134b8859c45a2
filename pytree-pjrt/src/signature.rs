//! The parameters of a compiled program. The C interface has no function that returns the parameters.

use crate::element::{ArrayInfo, ElementType};
use crate::proto::{Fields, Value};

/// The parameters of a program.
#[derive(Debug, PartialEq)]
pub(crate) struct Signature {
    /// The type of each parameter.
    pub(crate) parameters: Vec<ArrayInfo>,
    /// For each parameter, whether the program can use the memory of the parameter.
    pub(crate) donatable: Vec<bool>,
    /// For each parameter, whether the program stores a result in the memory of the parameter if the parameter is
    /// donated.
    pub(crate) aliased: Vec<bool>,
}

impl Signature {
    /// Reads the signature from a compiled program. `format` names the message: an `HloModuleProto` or an
    /// `HloModuleProtoWithConfig`. Returns `None` for other formats, and if a parameter is not an array of a supported
    /// type.
    ///
    /// The field numbers are from `xla/service/hlo.proto` and `xla/xla_data.proto`.
    pub(crate) fn decode(format: &str, bytes: &[u8]) -> Option<Self> {
        match format {
            "hlo" => Self::of_module(Fields::new(bytes)),
            "hlo_with_config" => {
                // HloModuleProtoWithConfig.hlo_module
                let module = find(Fields::new(bytes), 1)?;
                Self::of_module(module.fields())
            }
            _ => None,
        }
    }

    fn of_module(module: Fields<'_>) -> Option<Self> {
        let mut parameters = Vec::new();
        // HloModuleProto.host_program_shape
        for field in find(module.clone(), 4)?.fields() {
            // ProgramShapeProto.parameters
            if let (1, shape) = field? {
                parameters.push(array_info(shape)?);
            }
        }
        let mut donatable = vec![false; parameters.len()];
        let mut aliased = donatable.clone();
        for field in module {
            match field? {
                // HloModuleProto.input_output_alias holds HloInputOutputAliasProto.entries with the field
                // parameter_number.
                (8, aliases) => {
                    mark(aliases, 2, &mut donatable)?;
                    mark(aliases, 2, &mut aliased)?;
                }
                // HloModuleProto.buffer_donor holds HloBufferDonorProto.entries with the field parameter_number.
                (18, donors) => mark(donors, 1, &mut donatable)?,
                _ => {}
            }
        }
        Some(Self {
            parameters,
            donatable,
            aliased,
        })
    }
}

/// Returns the value of a field that is not repeated.
fn find(fields: Fields<'_>, number: u64) -> Option<Value<'_>> {
    for field in fields {
        let (found, value) = field?;
        if found == number {
            return Some(value);
        }
    }
    None
}

/// Reads a `ShapeProto`.
fn array_info(shape: Value<'_>) -> Option<ArrayInfo> {
    let (mut element, mut dims) = (None, Vec::new());
    for field in shape.fields() {
        match field? {
            // ShapeProto.element_type
            (2, Value::Int(number)) => element = ElementType::from_xla(number),
            // ShapeProto.dimensions
            (3, lengths) => lengths.extend_ints(&mut dims)?,
            _ => {}
        }
    }
    let dims: Option<Vec<usize>> = dims
        .into_iter()
        .map(|length| usize::try_from(length).ok())
        .collect();
    Some(ArrayInfo {
        element: element?,
        shape: dims?,
    })
}

/// Marks parameters. Each entry of the message names a parameter in the field `field_of_parameter`. An entry without
/// this field names parameter 0.
fn mark(message: Value<'_>, field_of_parameter: u64, donatable: &mut [bool]) -> Option<()> {
    for field in message.fields() {
        if let (1, entry) = field? {
            let parameter = match find(entry.fields(), field_of_parameter) {
                Some(Value::Int(number)) => usize::try_from(number).ok()?,
                _ => 0,
            };
            *donatable.get_mut(parameter)? = true;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Writer;

    fn module() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.message(4, |program| {
            for (element, dims) in [(11, &[2, 3][..]), (4, &[])] {
                program.message(1, |shape| {
                    shape.int(2, element).packed(3, dims);
                });
            }
        });
        writer.message(8, |aliases| {
            aliases.message(1, |entry| {
                entry.int(2, 1);
            });
        });
        writer.finish()
    }

    #[test]
    fn parameters_and_aliases_are_read() {
        let signature = Signature::decode("hlo", &module()).unwrap();
        let parameters: Vec<String> = signature
            .parameters
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(parameters, ["f32[2,3]", "i32[]"]);
        assert_eq!(signature.donatable, [false, true]);
        assert_eq!(signature.aliased, [false, true]);
    }

    #[test]
    fn unknown_or_malformed_program_has_none() {
        let module = module();
        assert_eq!(Signature::decode("mlir", &module), None);
        for end in 0..module.len() - 1 {
            let _ = Signature::decode("hlo", &module[..end]);
        }
        let complex = [0x22, 4, 0x0a, 2, 0x10, 15];
        assert_eq!(Signature::decode("hlo", &complex), None);
    }
}
