"""What a file that isn't text is, told from its first bytes."""

import struct
from dataclasses import dataclass

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"PK\3\4", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-executable"),
    (b"\xcf\xfa\xed\xfe", "application/x-executable"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"\0asm", "application/wasm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A media type, and width and height where an image tells them early."""

    media_type: str
    pixels: tuple[int, int] | None = None


def is_document(sample: bytes) -> bool:
    """Whether the file is not to be shown as text although its first bytes may look like it."""
    return sample.startswith(b"%PDF-")


def kind_of(sample: bytes) -> Kind:
    """Return what a file that starts with `sample` is."""
    if sample.startswith(b"RIFF") and sample[8:12] in (b"WEBP", b"WAVE"):
        return Kind("image/webp" if sample[8:12] == b"WEBP" else "audio/wav")
    if sample[4:8] == b"ftyp":
        return Kind("image/avif" if sample[8:12] in (b"avif", b"heic") else "video/mp4")
    for signature, media_type in _SIGNATURES:
        if sample.startswith(signature):
            return Kind(media_type, _pixels(media_type, sample))
    return Kind("application/octet-stream")


def _pixels(media_type: str, sample: bytes) -> tuple[int, int] | None:
    if media_type == "image/png" and len(sample) >= 24:
        return struct.unpack(">II", sample[16:24])
    if media_type == "image/gif" and len(sample) >= 10:
        return struct.unpack("<HH", sample[6:10])
    return None
