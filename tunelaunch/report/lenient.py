"""Reading JSON that somebody else wrote: each function returns a value of its type, whatever is there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []


def texts(value: object) -> list[str]:
    """The texts in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []


def text(value: object) -> str | None:
    """``value`` if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def count(value: object) -> int:
    """``value`` if it is a whole number from 0 on, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def whole(value: object) -> int | None:
    """``value`` if it is a whole number from 0 on."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def number(value: object) -> float | None:
    """``value`` as a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None
