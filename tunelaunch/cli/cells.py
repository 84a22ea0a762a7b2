"""Words for cells and arguments: tactics, times, sizes, ages; the same in every command."""

from __future__ import annotations

import argparse
import json
import re
from datetime import datetime, timezone
from typing import Any

NONE = "-"
_AGES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def tactic_words(tactic: Any) -> str:
    """A tactic on one line; -1 is ``default``."""
    if type(tactic) is int and tactic == -1:
        return "default"
    return NONE if tactic is None else json.dumps(tactic, separators=(",", ":"), ensure_ascii=True)


def tactic_from(text: str) -> Any:
    """The tactic that somebody typed: ``7``, ``default``, ``[[128,16],true]``, or the same as Python writes it.

    Raises :class:`argparse.ArgumentTypeError`.
    """
    if text.strip() == "default":
        return -1
    plain = text.replace("(", "[").replace(")", "]").replace("True", "true").replace("False", "false")
    plain = re.sub(r",\s*\]", "]", plain).replace("None", "null").replace("'", '"')
    try:
        return json.loads(plain)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no tactic; write it as `cache show` does: 7 or [[128,16],true]"
        ) from None


def number(value: Any, digits: int = 1) -> str:
    """A number that a file holds, or a dash for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NONE
    return f"{value:.{digits}f}"


def percent(value: Any) -> str:
    """Like :func:`number`, with a sign."""
    return NONE if number(value) == NONE else f"{value:+.1f}%"


def text(value: Any) -> str:
    """``value`` if it is a text that is not empty, else a dash."""
    return value if isinstance(value, str) and value else NONE


def size_words(size: int) -> str:
    """Bytes, rounded: ``512``, ``1.5K``, ``20.0M``."""
    value, unit = float(size), ""
    for unit in ("", "K", "M", "G", "T"):
        if value < 1024 or unit == "T":
            break
        value /= 1024
    return f"{value:.1f}{unit}" if unit else str(size)


def age_words(seconds: float) -> str:
    """A duration in its largest whole unit: ``40s``, ``5m``, ``3h``, ``12d``."""
    seconds = max(0.0, seconds)
    unit = next((u for u in ("d", "h", "m") if seconds >= _AGES[u]), "s")
    return f"{int(seconds // _AGES[unit])}{unit}"


def time_words(seconds: float) -> str:
    """A time in UTC, to the second; a dash for what no calendar has."""
    try:
        return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return NONE


def age_from(given: str) -> float:
    """Seconds in ``30d``, ``12h``, ``90m``, ``2w``, ``45s``; raises :class:`argparse.ArgumentTypeError`."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhdw])", given.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{given!r} is no age; write 30d, 12h, 90m or 2w")
    return float(match[1]) * _AGES[match[2]]


def size_from(given: str) -> int:
    """Bytes in ``500M``, ``1.5G``, ``10K``, ``2048`` (units of 1024); raises :class:`argparse.ArgumentTypeError`."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)(?:i?B)?", given.strip().upper().replace("IB", "B"))
    if match is None:
        raise argparse.ArgumentTypeError(f"{given!r} is no size; write 500M, 1.5G or a number of bytes")
    return int(float(match[1]) * _SIZES[match[2]])
