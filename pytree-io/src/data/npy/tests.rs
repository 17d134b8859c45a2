#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

/// Returns a file of version 1 with a header and elements.
fn file(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(elements);
    bytes
}

fn message(header: &str, elements: &[u8]) -> String {
    decode(&file(header, elements)).unwrap_err().to_string()
}

#[test]
fn wrong_length_is_reported_before_reading() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }";
    assert_eq!(
        message(header, &[0; 8]),
        "cannot read the array: expected 12000000000000 bytes of elements for f32[1000000000000,3], found 8 bytes; write the file again with `numpy.save`"
    );
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 3), }";
    assert!(message(header, &[]).contains("found 0 bytes"));
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
    assert!(message(header, &[1, 2, 3]).contains("found 3 bytes"));
    // One length is 0, and the others do not fit into memory.
    let huge = usize::MAX;
    let header = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': (0, {huge}), }}");
    assert!(decode(&file(&header, &[])).is_err());
}

#[test]
fn unknown_dtypes_are_named() {
    for descr in ["<u8", "<c8", "|O", "<U3", "|S1", ""] {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (), }}");
        let message = message(&header, &[0; 8]);
        assert!(
            message.contains(&format!("found the dtype `{descr}`")),
            "{message}"
        );
    }
    let header = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (), }";
    assert!(message(header, &[0; 4]).contains("a record with named fields"));
}

#[test]
fn header_is_parsed_strictly() {
    for (header, expected) in [
        ("", "expected `{` in the header, found the end"),
        (
            "{'shape': (-1,)}",
            "expected the length of an axis in the header, found `-1,)}`",
        ),
        (
            "{'fortran_order': 1}",
            "expected `True` or `False` in the header, found `1}`",
        ),
        (
            "{'descr': '|u1'}",
            "expected `fortran_order` in the header, found no such key",
        ),
        ("{'pickle': 1}", "found `pickle`"),
        (
            "{'shape': (1 2)}",
            "expected `)` in the header, found `2)}`",
        ),
        ("{'descr: 1}", "expected a text in quotes in the header"),
    ] {
        let message = message(header, &[]);
        assert!(message.contains(expected), "{header}: {message}");
    }
    let unusual = "{\"shape\":(2L,),'descr':'=i2' , 'fortran_order':False}\n";
    let array = decode(&file(unusual, &1_i16.to_ne_bytes().repeat(2))).unwrap();
    assert_eq!(array, Tensor::from([1_i16, 1]));
}

#[test]
fn long_header_is_refused_without_allocation() {
    let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
    bytes.extend(u32::MAX.to_le_bytes());
    let message = decode(&bytes).unwrap_err().to_string();
    assert!(
        message.contains("at most 65536 bytes, found 4294967295 bytes"),
        "{message}"
    );
    bytes[6] = 4;
    let message = decode(&bytes).unwrap_err().to_string();
    assert!(
        message.contains("version 1, 2 or 3 of the format, found version 4.0"),
        "{message}"
    );
}

#[test]
fn damaged_bytes_are_errors() {
    let array = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let bytes = encode(&array).unwrap();
    assert_eq!(decode(&bytes).unwrap(), array);
    for end in 0..bytes.len() {
        assert!(decode(&bytes[..end]).is_err(), "the first {end} bytes");
    }
    for place in 0..bytes.len() {
        for value in [0, b'\'', b'(', b'9', 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] = value;
            // An element, a space or a letter in the header may differ without being wrong. No damage panics.
            if let Ok(found) = decode(&damaged) {
                assert!(found.len() <= 24, "{place} {value}");
            }
        }
    }
}

#[test]
fn error_names_the_file() {
    let path = std::env::temp_dir().join(format!("pytree-npy-{}.npy", std::process::id()));
    std::fs::write(&path, b"GIF89a a picture").unwrap();
    let message = load(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    let expected = format!(
        "cannot read the array `{}`: expected `\\x93NUMPY` at the beginning, found the bytes `GIF89a`",
        path.display()
    );
    assert!(message.starts_with(&expected), "{message}");
    assert!(
        load(&path)
            .unwrap_err()
            .to_string()
            .starts_with("cannot read the array")
    );
}

#[test]
fn empty_file_directory_and_archive_are_named() {
    let folder = std::env::temp_dir().join(format!("pytree-npy-mistakes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let message = |path: &Path| load(path).unwrap_err().to_string();
    assert_eq!(
        message(&folder),
        format!(
            "cannot read the array `{}`: it is a directory; give the path of one of its `.npy` files",
            folder.display()
        )
    );
    let file = folder.join("x.npz");
    for (bytes, expected) in [
        (
            &b""[..],
            "the file is empty; write it again with `numpy.save`",
        ),
        (
            b"PK\x03\x04\x2d\x00\x00\x00\x00\x00",
            "it is a ZIP archive, such as `numpy.savez` writes; read it with `data::npz::load`",
        ),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let expected = format!("cannot read the array `{}`: {expected}", file.display());
        assert!(message(&file).starts_with(&expected), "{}", message(&file));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
