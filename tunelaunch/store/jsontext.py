"""JSON in and out, bounded and canonical.

Guarantees: :func:`encode` gives equal bytes for equal content (sorted keys, indent 1, ASCII, trailing newline) and
never writes ``NaN``; :func:`decode` raises only :class:`ValueError`, whatever the bytes are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 64
"""Nesting that a file of ours may have. Python's parser accepts more than our own recursion would survive."""


def encode(value: Any) -> bytes:
    """Canonical bytes of ``value``, which is made JSON-safe first (see :func:`jsonable`)."""
    text = json.dumps(jsonable(value), sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False)
    return f"{text}\n".encode("ascii")


def decode(raw: bytes) -> Any:
    """The value in ``raw``. Raises :class:`ValueError` with a short reason for anything that is not bounded JSON."""
    if not raw.strip(b" \t\r\n\0"):
        raise ValueError("empty")
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except MemoryError:
        raise ValueError("too large for the memory of this process") from None
    except ValueError as error:
        raise ValueError(f"not JSON, or cut off ({error})") from None
    if too_deep(value, MAX_DEPTH):
        raise ValueError("nested too deeply")
    return value


def too_deep(value: Any, limit: int) -> bool:
    """Whether containers nest more than ``limit`` levels in ``value``; itself free of recursion."""
    level = [value]
    for _ in range(limit + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def jsonable(value: Any) -> Any:
    """A copy of ``value`` that JSON can hold: tuples become lists, keys text, NaN and infinity null, the rest text."""
    plain: Any
    if value is None or isinstance(value, (bool, str)):
        plain = value
    elif isinstance(value, int):
        plain = int(value)  # an IntEnum would otherwise be written by its name
    elif isinstance(value, float):
        plain = float(value) if math.isfinite(value) else None
    elif isinstance(value, Mapping):
        plain = {str(name): jsonable(item) for name, item in value.items()}
    elif isinstance(value, (list, tuple)):
        plain = [jsonable(item) for item in value]
    elif isinstance(value, (set, frozenset)):
        plain = sorted((jsonable(item) for item in value), key=repr)
    else:
        plain = str(value)
    return plain


def _children(item: Any) -> Any:
    if isinstance(item, Mapping):
        return item.values()
    return item if isinstance(item, (list, tuple)) else ()
