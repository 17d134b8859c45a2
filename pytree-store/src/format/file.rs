//! Reads safetensors files tensor by tensor, so that a file is never in memory as a whole.
//!
//! [`StoredFile::open`] reads the header and compares the lengths that it has with the length of the file. Later the
//! numbers of each tensor are read at their offset, in pieces of a few kilobytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

#[cfg(feature = "npz")]
use pytree_core::ArrayInfo;
use safetensors::tensor::{Metadata as Header, TensorInfo};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::files;
use crate::format::metadata::{Digest, Metadata, VERSION};
use crate::format::other_format::{HEAD, other_format};
#[cfg(feature = "npz")]
use crate::format::{
    bytes::{Stored, savable},
    other_format::NPZ,
};
#[cfg(feature = "npz")]
use crate::numpy::npz;
use crate::report::error::CheckpointError;

/// The number of bytes before the header, which are the length of the header.
const LENGTH: usize = size_of::<u64>();

/// The maximum length of a header. The format has the same limit.
pub(crate) const MAX_HEADER: u64 = 100_000_000;

/// The path of a checkpoint that is in memory, in errors.
pub(crate) const IN_MEMORY: &str = "the bytes in memory";

/// The number of bytes that are read at a time, unless a row of a tensor is longer.
pub(crate) const PIECE: usize = 1 << 16;

/// A safetensors file whose header was read and whose length is right. Its content may be in memory.
#[derive(Debug)]
pub(crate) struct StoredFile<'b> {
    path: PathBuf,
    content: Content<'b>,
    header: Header,
    /// The position of the first number in the file.
    begin: u64,
    /// The checksum of the text of the header.
    header_checksum: String,
}

/// The content of a file.
#[derive(Debug)]
enum Content<'b> {
    File(File),
    Bytes(Cursor<Cow<'b, [u8]>>),
}

impl Content<'_> {
    /// Reads bytes from a position on.
    fn read_at(&mut self, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => {
                file.seek(SeekFrom::Start(position))?;
                file.read_exact(bytes)
            }
            Self::Bytes(content) => {
                content.set_position(position);
                content.read_exact(bytes)
            }
        }
    }
}

impl StoredFile<'_> {
    pub(crate) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let failed = io_error("read", path);
        let file = files::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        match Self::read_header(path, Content::File(file), length) {
            #[cfg(feature = "npz")]
            Err(CheckpointError::OtherFormat { found: NPZ, .. }) => Self::of_npz(path),
            opened => opened,
        }
    }

    /// Reads an archive of NumPy, whose arrays are in memory then.
    #[cfg(feature = "npz")]
    fn of_npz(path: &Path) -> Result<Self, CheckpointError> {
        let (mut arrays, mut reserved) = (BTreeMap::new(), None);
        npz::read(path, None, &mut |name, array| {
            let info = ArrayInfo::from(array.info());
            let mut bytes = vec![0; info.bytes()];
            array.read(&mut bytes)?;
            match savable(name, name, info.element) {
                Ok(dtype) => {
                    let stored = Stored::of_bytes(info.element, dtype, info.shape, bytes.into());
                    arrays.insert(name.to_owned(), stored);
                }
                Err(error) => reserved = Some(error),
            }
            Ok(())
        })?;
        if let Some(error) = reserved {
            return Err(error);
        }
        let bytes =
            safetensors::serialize(arrays, None).map_err(|error| CheckpointError::Format {
                path: path.to_owned(),
                problem: error.to_string(),
            })?;
        let length = bytes.len() as u64;
        Self::read_header(path, Content::Bytes(Cursor::new(bytes.into())), length)
    }
}

impl<'b> StoredFile<'b> {
    /// Reads the header of a file that is in memory.
    pub(crate) fn of_bytes(bytes: &'b [u8]) -> Result<Self, CheckpointError> {
        let content = Content::Bytes(Cursor::new(bytes.into()));
        Self::read_header(Path::new(IN_MEMORY), content, bytes.len() as u64)
    }

    fn read_header(
        path: &Path,
        mut content: Content<'b>,
        found: u64,
    ) -> Result<Self, CheckpointError> {
        let failed = io_error("read", path);
        let format = |problem: &str| CheckpointError::Format {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let length = |expected: u64| CheckpointError::Length {
            path: path.to_owned(),
            expected: usize::try_from(expected).unwrap_or(usize::MAX),
            found: usize::try_from(found).unwrap_or(usize::MAX),
        };
        let mut head = vec![0; usize::try_from(found).unwrap_or(HEAD).min(HEAD)];
        content.read_at(0, &mut head).map_err(failed)?;
        let header = head
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // A safetensors header begins with a brace. In a file of another format, its length is meaningless.
        if head.get(LENGTH) != Some(&b'{') {
            return Err(match other_format(&head) {
                Some((found, fix)) => CheckpointError::OtherFormat {
                    path: path.to_owned(),
                    found,
                    fix,
                },
                None if head.len() < LENGTH => format("the file is shorter than eight bytes"),
                None => format("its header does not begin with a brace"),
            });
        }
        let begin = header.saturating_add(LENGTH as u64);
        if begin > found {
            return Err(length(begin));
        }
        if header > MAX_HEADER {
            return Err(format("its header is longer than 100 megabytes"));
        }
        let mut text = vec![0; usize::try_from(header).unwrap_or(usize::MAX)];
        content.read_at(LENGTH as u64, &mut text).map_err(failed)?;
        let header_checksum = format!("{:032x}", xxh3_128(&text));
        // This also checks that the offsets fit the shapes, and that the tensors are without gaps.
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| format(&format!("its header is invalid: {error}")))?;
        let end = begin.saturating_add(header.data_len() as u64);
        if end != found {
            return Err(length(end));
        }
        Ok(Self {
            path: path.to_owned(),
            content,
            header,
            begin,
            header_checksum,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the dtype, the shape and the place of each tensor by its name.
    pub(crate) fn tensors(&self) -> BTreeMap<String, TensorInfo> {
        let tensors = self.header.tensors().into_iter();
        tensors.map(|(name, info)| (name, info.clone())).collect()
    }

    /// Returns the length of the file in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.begin.saturating_add(self.header.data_len() as u64)
    }

    /// Returns the XXH3-128 of the text of the header, in hexadecimal digits.
    pub(crate) fn header_checksum(&self) -> &str {
        &self.header_checksum
    }

    /// Reads bytes, which begin `offset` bytes after the first number.
    pub(crate) fn read_at(
        &mut self,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), CheckpointError> {
        let at = self.begin.saturating_add(offset as u64);
        let read = self.content.read_at(at, bytes);
        read.map_err(io_error("read", &self.path))
    }

    /// Returns an entry of the metadata.
    pub(crate) fn entry(&self, key: &str) -> Option<&str> {
        let entries = self.header.metadata().as_ref()?;
        entries.get(key).map(String::as_str)
    }

    /// Returns the metadata after a check of the version, but without a check of the checksum.
    pub(crate) fn metadata(&self) -> Result<Metadata, CheckpointError> {
        // Files of other programs have no metadata.
        let entries = self.header.metadata().clone().unwrap_or_default();
        Metadata::of(&self.path, entries.into_iter().collect(), VERSION)
    }

    /// Reads the bytes of a tensor in pieces, whose lengths are multiples of `unit` bytes.
    pub(crate) fn read(
        &mut self,
        info: &TensorInfo,
        unit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CheckpointError> {
        let (start, end) = info.data_offsets;
        let piece = (PIECE / unit.max(1)).max(1) * unit.max(1);
        let mut buffer = vec![0; piece.min(end - start)];
        let mut rest = end - start;
        while rest > 0 {
            let piece = &mut buffer[..piece.min(rest)];
            self.read_at(end - rest, piece)?;
            each(piece);
            rest -= piece.len();
        }
        Ok(())
    }

    /// Returns a hash of the bytes of a tensor.
    pub(crate) fn hash(&mut self, name: &str) -> Result<u128, CheckpointError> {
        let mut hash = Xxh3::new();
        if let Some(info) = self.header.info(name).cloned() {
            self.read(&info, 1, &mut |bytes| hash.update(bytes))?;
        }
        Ok(hash.digest128())
    }

    /// Reads all tensors in the order of their names and compares the checksum. `each` receives the name and the
    /// description of each tensor and a reader of its bytes, and may leave the bytes unread.
    pub(crate) fn read_all(
        &mut self,
        metadata: &Metadata,
        each: &mut dyn FnMut(&str, &TensorInfo, &mut Bytes<'_, '_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let tensors = self.tensors();
        let mut digest = metadata.has_checksum().then(|| Digest::new(tensors.len()));
        for (name, info) in &tensors {
            let (start, end) = info.data_offsets;
            if let Some(digest) = &mut digest {
                digest.tensor(name, info.dtype, &info.shape, end - start);
            }
            let mut bytes = Bytes {
                file: self,
                info,
                digest: digest.as_mut(),
                is_read: false,
            };
            each(name, info, &mut bytes)?;
            if !bytes.is_read && bytes.digest.is_some() {
                bytes.read(1, &mut |_| ())?;
            }
        }
        match digest {
            Some(digest) => metadata.compare(&self.path, digest),
            None => Ok(()),
        }
    }
}

/// The bytes of one tensor. The checksum covers the first time that they are read.
pub(crate) struct Bytes<'f, 'b> {
    file: &'f mut StoredFile<'b>,
    info: &'f TensorInfo,
    digest: Option<&'f mut Digest>,
    is_read: bool,
}

impl Bytes<'_, '_> {
    /// Reads all bytes to memory of the same length.
    pub(crate) fn read_into(&mut self, into: &mut [u8]) -> Result<(), CheckpointError> {
        let is_first = !std::mem::replace(&mut self.is_read, true);
        self.file.read_at(self.info.data_offsets.0, into)?;
        if let (Some(digest), true) = (&mut self.digest, is_first) {
            digest.data(into);
        }
        Ok(())
    }

    /// Reads the bytes in pieces, whose lengths are multiples of `unit` bytes.
    pub(crate) fn read(
        &mut self,
        unit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CheckpointError> {
        let is_first = !std::mem::replace(&mut self.is_read, true);
        let digest = &mut self.digest;
        self.file.read(self.info, unit, &mut |piece| {
            if let (Some(digest), true) = (&mut *digest, is_first) {
                digest.data(piece);
            }
            each(piece);
        })
    }
}

/// Returns the function that makes an error of the operating system an error of a checkpoint.
pub(crate) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> CheckpointError + Copy {
    move |source| CheckpointError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
