//! Recognises what often arrives in place of a safetensors file.

/// The number of bytes at the beginning of a file by which its format is recognised.
pub(crate) const HEAD: usize = 512;

const TORCH: &str = "convert it in Python: `safetensors.torch.save_file(torch.load(path, weights_only=True), \"weights.safetensors\")`";
const NUMPY: &str = "convert it in Python: read its arrays into a dictionary, and write this with `safetensors.numpy.save_file`";
const DOWNLOAD: &str = "download the file itself; an address of Hugging Face has `/resolve/`, where that of the page has `/blob/`, and a file that needs a login is downloaded with `hf download`";

/// What an archive of `numpy.savez` is. With the feature `npz`, a path of one is loaded.
pub(crate) const NPZ: &str = "an `.npz` file of NumPy";
#[cfg(feature = "npz")]
const NPZ_FIX: &str = "write it to a file, and load the file";
#[cfg(not(feature = "npz"))]
const NPZ_FIX: &str = "it is loaded with the feature `npz` of this crate";

/// The first bytes of a format, what the file is, and what the user can do.
const FORMATS: [(&[u8], &str, &str); 16] = [
    (
        b"PK\x03\x04",
        "a ZIP archive, such as a `.pth` or `.pt` file of `torch.save`, or an `.npz` file of NumPy",
        TORCH,
    ),
    (
        b"\x80\x02",
        "a pickle of Python, such as an old `.pth` file of `torch.save`",
        TORCH,
    ),
    (b"\x80\x03", "a pickle of Python", TORCH),
    (b"\x80\x04", "a pickle of Python", TORCH),
    (b"\x80\x05", "a pickle of Python", TORCH),
    (
        b"\x89HDF",
        "an HDF5 file, such as an `.h5` file of Keras",
        NUMPY,
    ),
    (
        b"\x93NUMPY",
        "a `.npy` file of NumPy",
        "read it with `data::npy::load`",
    ),
    (
        b"GGUF",
        "a GGUF file of llama.cpp",
        "use the safetensors files of the same model",
    ),
    (
        b"version https://git-lfs",
        "a pointer of Git LFS, and not the file that it stands for",
        "fetch the file with `git lfs pull`",
    ),
    (
        b"\x1f\x8b",
        "a file that gzip has packed",
        "unpack it with `gunzip`, or `tar xzf` for an archive",
    ),
    (
        b"BZh",
        "a file that bzip2 has packed",
        "unpack it with `bunzip2`",
    ),
    (
        b"\xfd7zXZ",
        "a file that xz has packed",
        "unpack it with `unxz`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "a file that zstd has packed",
        "unpack it with `unzstd`",
    ),
    (b"\xff\xfe", "a text in UTF-16", DOWNLOAD),
    (b"<", "a text such as a web page", DOWNLOAD),
    (
        b"{",
        "a text in JSON, such as a configuration or the error of a server",
        "give the path of the weights; the index of several files has a name that ends with `.index.json`",
    ),
];

/// Returns what a file is that begins with these bytes, and what the user can do. Returns `None` if it is not recognised. The
/// bytes are not those of a safetensors file.
pub(crate) fn other_format(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if head.is_empty() {
        return Some(("an empty file", "copy or download it again"));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(("a TAR archive", "unpack it with `tar xf`"));
    }
    // The name of the first member of a ZIP archive, after 30 bytes.
    if let [b'P', b'K', 3, 4, ..] = head
        && let Some(&[length, 0]) = head.get(26..28)
        && head[..head.len().min(30 + usize::from(length))].ends_with(b".npy")
    {
        return Some((NPZ, NPZ_FIX));
    }
    // A map of MessagePack with a short text as its first key.
    if let [0x81..=0x8f | 0xde, 0xa0..=0xbf | 0xd9, ..] = head {
        return Some((
            "a MessagePack file, such as Flax writes with `flax.serialization`",
            NUMPY,
        ));
    }
    let known = |start: &[u8]| FORMATS.iter().find(|(begin, ..)| start.starts_with(begin));
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let (_, found, fix) = known(head).or_else(|| known(text.trim_ascii_start()))?;
    Some((found, fix))
}
