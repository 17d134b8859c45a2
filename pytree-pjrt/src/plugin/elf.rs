//! The length of a shared library in the format ELF, as its header describes it.
//!
//! The layout is that of the "System V Application Binary Interface", chapters 4 and 5, for files of 64 bits with the least
//! significant byte first. Other files are left to the system.

use std::io::{Read, Seek, SeekFrom};

/// The length of the header of a file.
const HEADER: usize = 64;

/// A table of headers: of segments, which the system maps, or of sections.
struct Table {
    begin: u64,
    entry: u16,
    count: u16,
}

/// Returns the first position after all segments and after the table of sections, which usually is the last part of a file.
/// Returns `None` if the file is not in this format, or ends before its table of segments.
pub(super) fn end(file: &mut (impl Read + Seek)) -> Option<u64> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let segments = Table::new(&header, 32, 54)?;
    let sections = Table::new(&header, 40, 58)?;
    let mut end = segments.end().max(sections.end());
    file.seek(SeekFrom::Start(segments.begin)).ok()?;
    let mut segment = vec![0; usize::from(segments.entry)];
    for _ in 0..segments.count {
        if file.read_exact(&mut segment).is_err() {
            break;
        }
        let (begin, length) = (long(&segment, 8)?, long(&segment, 32)?);
        end = end.max(begin.saturating_add(length));
    }
    Some(end)
}

impl Table {
    /// Reads where a table is. `begin` and `entry` are the positions of these numbers in the header of the file.
    fn new(header: &[u8], begin: usize, entry: usize) -> Option<Self> {
        Some(Self {
            begin: long(header, begin)?,
            entry: short(header, entry)?,
            count: short(header, entry + 2)?,
        })
    }

    fn end(&self) -> u64 {
        let length = u64::from(self.entry) * u64::from(self.count);
        self.begin.saturating_add(length)
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let number = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*number))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let number = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*number))
}
