//! Writes the parts of one process to a file, one part in memory at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use pytree_core::{ElementType, LeafError};
use safetensors::tensor::Dtype;

use crate::elements::bytes::little_endian;
use crate::files::{Locked, Unfinished};
use crate::format::file::io_error;
use crate::format::metadata::quoted;
use crate::report::error::CheckpointError;
use crate::shards::part::{BLOCK, BLOCKS_KEY, PARTS_KEY, PartPlace, block_checksum, to_json};

/// The number of bytes that are written at a time.
const WRITTEN: usize = 1 << 16;

/// Returns the elements of a part as [`ArrayLeaf::bytes`](pytree_core::ArrayLeaf::bytes) does, and calls the function with them.
pub type ReadPart<'l> =
    dyn Fn(&mut dyn FnMut(&[u8]) -> Result<(), LeafError>) -> Result<(), LeafError> + 'l;

/// A part that this process writes.
pub(crate) struct OwnPart<'l> {
    /// The name in the file.
    pub(crate) name: String,
    pub(crate) element: ElementType,
    /// The dtype in the file.
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The place of the part in its tensor, or `None` if the part is the whole tensor.
    pub(crate) place: Option<PartPlace>,
    /// Reads the elements.
    pub(crate) read: Box<ReadPart<'l>>,
}

impl OwnPart<'_> {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * (self.dtype.bitsize() / 8)
    }
}

/// Writes the file of one process. While the result exists, no other save removes the file.
pub(crate) fn write_file(
    mut file: Unfinished,
    mut parts: Vec<OwnPart<'_>>,
    others: &BTreeMap<String, String>,
) -> Result<Locked, CheckpointError> {
    // Longer elements first, so that each tensor begins at a multiple of its element's length.
    parts.sort_by(|left, right| {
        let by_length = right.dtype.bitsize().cmp(&left.dtype.bitsize());
        by_length.then_with(|| left.name.cmp(&right.name))
    });
    let path = file.target().to_owned();
    let failed = io_error("write", &path);
    // The checksums are known when the parts are written. Their texts have the same lengths as those of zeros.
    let zeros = |part: &OwnPart<'_>| vec![block_checksum(&[]); part.bytes().div_ceil(BLOCK)];
    let placeholder = header(&parts, &parts.iter().map(zeros).collect::<Vec<_>>(), others);
    let mut checksums = Vec::with_capacity(parts.len());
    let mut writer = BufWriter::new(file.file());
    writer.write_all(&placeholder).map_err(failed)?;
    for part in &parts {
        checksums.push(write_part(part, &mut writer, failed)?);
    }
    let known = header(&parts, &checksums, others);
    writer.flush().map_err(failed)?;
    writer.seek(SeekFrom::Start(0)).map_err(failed)?;
    writer.write_all(&known).map_err(failed)?;
    writer.flush().map_err(failed)?;
    drop(writer);
    file.finish().map_err(failed)
}

/// Writes the elements of a part, and returns the checksums of its blocks.
fn write_part(
    part: &OwnPart<'_>,
    writer: &mut impl Write,
    failed: impl Fn(io::Error) -> CheckpointError,
) -> Result<Vec<String>, CheckpointError> {
    let mut checksums = Vec::with_capacity(part.bytes().div_ceil(BLOCK));
    let mut block: Vec<u8> = Vec::with_capacity(BLOCK.min(part.bytes()));
    let read = (part.read)(&mut |elements| {
        for mut piece in little_endian(elements.into(), part.element).chunks(WRITTEN) {
            writer.write_all(piece).map_err(&failed)?;
            while !piece.is_empty() {
                let (now, later) = piece.split_at(piece.len().min(BLOCK - block.len()));
                block.extend_from_slice(now);
                if block.len() == BLOCK {
                    checksums.push(block_checksum(&block));
                    block.clear();
                }
                piece = later;
            }
        }
        Ok(())
    });
    read.map_err(|error| match error.downcast::<CheckpointError>() {
        Ok(error) => *error,
        Err(source) => CheckpointError::Value {
            name: part.name.clone(),
            source,
        },
    })?;
    if !block.is_empty() {
        checksums.push(block_checksum(&block));
    }
    Ok(checksums)
}

/// Returns the bytes before the elements: the length of the header, and the header.
fn header(
    parts: &[OwnPart<'_>],
    checksums: &[Vec<String>],
    others: &BTreeMap<String, String>,
) -> Vec<u8> {
    let blocks = parts.iter().zip(checksums);
    let blocks: Vec<String> = blocks
        .map(|(part, own)| format!("{}:{}", quoted(&part.name), quoted(&own.join(" "))))
        .collect();
    let mut metadata = others.clone();
    metadata.insert(BLOCKS_KEY.to_owned(), format!("{{{}}}", blocks.join(",")));
    let places = parts.iter();
    let mut places = places
        .filter_map(|part| Some((part.name.as_str(), part.place.as_ref()?)))
        .peekable();
    if places.peek().is_some() {
        metadata.insert(PARTS_KEY.to_owned(), to_json(places));
    }
    let entries = metadata.iter();
    let entries: Vec<String> = entries
        .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)))
        .collect();
    let mut text = format!("{{\"__metadata__\":{{{}}}", entries.join(","));
    let mut begin = 0;
    for part in parts {
        let end = begin + part.bytes();
        let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
        // Writing into a `String` cannot fail.
        let _ = write!(
            text,
            ",{name}:{{\"dtype\":\"{dtype:?}\",\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}"
        );
        begin = end;
    }
    text.push('}');
    // The elements begin at a multiple of eight bytes.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}
