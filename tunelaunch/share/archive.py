"""The container of a bundle: a tar archive of the plainest kind, written and read by a few fixed rules.

Guarantees: equal members give equal bytes (no time, owner or mode of this host enters); :func:`unpack` works in memory,
writes nothing, and accepts only what :func:`pack` writes, byte for byte: no links, devices, directories, extended
headers, second copies, or anything after the end. It raises :class:`ShareError` with a reason and nothing else. A bundle
that was compressed with gzip is read too, its size and ratio bounded while it is unpacked.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from tunelaunch.errors import ShareError
from tunelaunch.share.strictjson import MAX_BYTES as MAX_MEMBER_BYTES

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_UNPACKED_BYTES = 128 * 1024 * 1024
MAX_MEMBERS = 1002
MAX_RATIO = 500
"""Of unpacked to packed. Rows are alike: 130 is usual for a large table; zeros reach 1000."""
_RATIO_FREE_BYTES = 4 * 1024 * 1024
_BLOCK = 512
_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"manifest\.json|manifest\.hmac|tables/[0-9a-f]{12}-[0-9a-f]{16}\.json")
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a directory",
    b"6": "a FIFO",
    b"g": "an extended header",
    b"x": "an extended header",
    b"L": "a long-name header",
    b"K": "a long-name header",
    b"S": "a sparse file",
}


def pack(members: Mapping[str, bytes]) -> bytes:
    """``members`` (name to content) as an archive, in their order. Raises :class:`ShareError` for a foreign name."""
    parts = []
    for name, data in members.items():
        parts += [_header(name, len(data)), data, b"\0" * (-len(data) % _BLOCK)]
    return b"".join(parts) + b"\0" * (2 * _BLOCK)


def is_archive(raw: bytes) -> bool:
    """Whether ``raw`` looks like a bundle, compressed or not; decides only how it is read."""
    return raw[:2] == _GZIP or raw[257:262] == b"ustar"


def compress(raw: bytes) -> bytes:
    """``raw`` as a gzip file without time or name. Equal bytes on hosts with the same zlib only."""
    worker = zlib.compressobj(9, zlib.DEFLATED, 31)
    return worker.compress(raw) + worker.flush()


def unpack(raw: bytes) -> dict[str, bytes]:
    """The members of an archive, in its order."""
    if len(raw) > MAX_FILE_BYTES:
        raise ShareError(f"the bundle has {len(raw)} bytes; {MAX_FILE_BYTES} is the limit")
    if raw[:2] == _GZIP:
        raw = _decompress(raw)
    members: dict[str, bytes] = {}
    offset = 0
    while True:
        header = raw[offset : offset + _BLOCK]
        if len(header) < _BLOCK:
            raise ShareError("the bundle is cut off")
        if not any(header):
            break
        name, size = _member(header)
        if name in members:
            raise ShareError(f"the bundle holds {name} twice")
        if len(members) >= MAX_MEMBERS:
            raise ShareError(f"the bundle holds more than {MAX_MEMBERS} members")
        offset += _BLOCK
        end = offset + size
        if end + (-size % _BLOCK) > len(raw):
            raise ShareError(f"the bundle is cut off: {name} claims {size} bytes, {max(0, len(raw) - offset)} are left")
        members[name] = raw[offset:end]
        offset = end + (-size % _BLOCK)
        if any(raw[end:offset]):
            raise ShareError(f"the bundle has bytes behind {name} that belong to nothing")
    if len(raw) - offset != 2 * _BLOCK or any(raw[offset:]):
        raise ShareError("the bundle has no proper end, or bytes behind it")
    return members


def _member(header: bytes) -> tuple[str, int]:
    """Name and size in ``header``, which must be exactly what :func:`pack` would write for them."""
    if header[257:262] != b"ustar":
        raise ShareError("this is no bundle (or a damaged one): a member has no tar header")
    kind = header[156:157]
    name = header[:100].partition(b"\0")[0].decode("utf-8", "replace")
    if kind in _KINDS:
        raise ShareError(f"the bundle holds {_KINDS[kind]} ({name!r}); only plain files are accepted")
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
        raise ShareError(f"the bundle holds {name!r}, a path that leads out of it")
    if not _NAME.fullmatch(name):
        raise ShareError(f"the bundle holds {name[:100]!r}, which belongs to no bundle")
    digits = header[124:135]
    if not re.fullmatch(rb"[0-7]{11}", digits):
        raise ShareError(f"the size of {name} is not readable")
    size = int(digits, 8)
    if size > MAX_MEMBER_BYTES:
        raise ShareError(f"{name} claims {size} bytes; {MAX_MEMBER_BYTES} is the limit")
    if header != _header(name, size):
        raise ShareError(f"the header of {name} was not written by tunelaunch export, or was changed")
    return name, size


def _header(name: str, size: int) -> bytes:
    """A POSIX ustar header. Own code: the standard library's differs between Python releases in unused fields."""
    if not _NAME.fullmatch(name) or not 0 <= size <= MAX_MEMBER_BYTES:
        raise ShareError(f"{name} ({size} bytes) cannot be a member of a bundle")
    fields = [
        name.encode("ascii").ljust(100, b"\0"),
        b"0000644\0",  # mode
        b"0000000\0" * 2,  # owner, group
        b"%011o\0" % size,
        b"00000000000\0",  # time
        b" " * 8,  # checksum, below
        b"0",
        b"\0" * 100,
        b"ustar\x0000",
        b"\0" * 64,
        b"0000000\0" * 2,
        b"\0" * 167,
    ]
    header = b"".join(fields)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def _decompress(raw: bytes) -> bytes:
    worker = zlib.decompressobj(31)
    out = bytearray()
    try:
        data = raw
        while data and not worker.eof:
            out += worker.decompress(data, 1 << 20)
            data = worker.unconsumed_tail
            if len(out) > MAX_UNPACKED_BYTES:
                raise ShareError(f"the bundle unpacks to more than {MAX_UNPACKED_BYTES} bytes")
            if len(out) > max(_RATIO_FREE_BYTES, MAX_RATIO * len(raw)):
                raise ShareError(f"the bundle unpacks to more than {MAX_RATIO} times its size")
    except zlib.error as error:
        raise ShareError(f"the bundle cannot be unpacked ({error})") from None
    if not worker.eof or worker.unused_data:
        raise ShareError("the bundle is cut off, or has bytes behind its end")
    return bytes(out)
