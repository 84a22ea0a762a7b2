"""Who made it: HMAC-SHA256 with a key that both hosts hold.

Guarantees: comparisons take constant time; with a key, only what is signed with that key is accepted, so that removing a
signature gains nothing; with ``TUNELAUNCH_REQUIRE_SIGNED=1`` nothing is accepted without a key. A signature covers the
kind of thing that is signed: one of a bundle is none of an object of a remote.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunelaunch.contract import KEY_FILE, REQUIRE_SIGNED, is_true
from tunelaunch.errors import ShareError

MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64 * 1024
HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Trust:
    """What is accepted: ``key`` (``None``: anything unsigned, unless ``required``)."""

    key: bytes | None = None
    required: bool = False

    def sign(self, kind: str, data: bytes) -> str | None:
        """64 hex digits over ``data``, or ``None`` without a key. Raises :class:`ShareError` when one is required."""
        if self.key is None:
            if self.required:
                raise ShareError(f"{REQUIRE_SIGNED} is set and there is no key to sign with; give --key-file FILE")
            return None
        return _mac(self.key, kind, data)

    def check(self, kind: str, data: bytes, signature: str | None, what: str) -> bool:
        """Whether ``data`` is signed and was checked. Raises :class:`ShareError` for what is not accepted."""
        if self.key is None:
            if self.required:
                why = "there is no key to check it with; give --key-file FILE" if signature else "it is not signed"
                raise ShareError(f"{what} is refused: {REQUIRE_SIGNED} is set and {why}")
            return False
        if signature is None:
            raise ShareError(f"{what} is not signed, and a key was given; nothing unsigned is accepted then")
        if not HEX.fullmatch(signature) or not hmac.compare_digest(_mac(self.key, kind, data), signature):
            raise ShareError(f"{what} was changed after signing, or signed with another key")
        return True

    def refuse_unsigned(self, what: str) -> None:
        """Raise :class:`ShareError` for a kind of thing that cannot carry a signature, where one is required."""
        if self.required:
            raise ShareError(f"{what} is refused: {REQUIRE_SIGNED} is set and it cannot carry a signature")


def trust_from(environ: Mapping[str, str] | None = None, key_file: str | None = None) -> Trust:
    """What this process accepts: ``key_file``, or ``TUNELAUNCH_KEY_FILE``, and ``TUNELAUNCH_REQUIRE_SIGNED``."""
    env = os.environ if environ is None else environ
    path = key_file or env.get(KEY_FILE)
    return Trust(read_key(Path(path)) if path else None, is_true(env.get(REQUIRE_SIGNED)))


def read_key(path: Path) -> bytes:
    """The key in ``path``, without a newline at its end. Raises :class:`ShareError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise ShareError(f"key file {path} cannot be read ({error.strerror})") from None
    key = data.rstrip(b"\r\n")
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ShareError(
            f"key file {path} holds {len(key)} bytes; a key has {MIN_KEY_BYTES} to {MAX_KEY_BYTES}. "
            "To make one: openssl rand -hex 32 > FILE"
        )
    return key


def _mac(key: bytes, kind: str, data: bytes) -> str:
    return hmac.new(key, kind.encode("ascii") + b"\0" + data, "sha256").hexdigest()
