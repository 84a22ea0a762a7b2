"""JSON from strangers: bounded before it is parsed, and with one meaning only.

Guarantees: :func:`decode` raises :class:`ShareError` with a reason and nothing else, whatever the bytes are; the value it
returns holds integers of 64 bits at most, finite numbers, no object with a key twice, and bounded depth and count.
"""

from __future__ import annotations

import json
import math
from typing import Any

from tunelaunch.errors import ShareError
from tunelaunch.store.jsontext import MAX_DEPTH, too_deep

MAX_BYTES = 32 * 1024 * 1024
MAX_VALUES = 4_000_000
"""Values in one document, by a count of what separates them: a list of empty lists takes 20 times its text in memory."""
MAX_INTEGER = 2**63 - 1
_LONGEST_INTEGER = 20


def decode(raw: bytes, what: str) -> Any:
    """The JSON value in ``raw``; ``what`` names the document in a refusal."""
    if len(raw) > MAX_BYTES:
        raise ShareError(f"{what} has {len(raw)} bytes; {MAX_BYTES} is the limit")
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        raise ShareError(f"{what} holds more than {MAX_VALUES} values")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        raise ShareError(f"{what} is not UTF-8 text") from None
    except RecursionError:
        raise ShareError(f"{what} is nested too deeply") from None
    except MemoryError:
        raise ShareError(f"{what} is too large for the memory of this process") from None
    except ValueError as error:
        raise ShareError(f"{what} is not JSON that is accepted here ({error})"[:400]) from None
    if too_deep(value, MAX_DEPTH):
        raise ShareError(f"{what} is nested too deeply")
    return value


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or not -MAX_INTEGER <= (value := int(text)) <= MAX_INTEGER:
        raise ValueError(f"the number {text[:24]}{'...' if len(text) > 24 else ''} is too large")
    return value


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:24]} is too large")
    return value


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made
