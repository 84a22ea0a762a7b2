"""What is known to be wrong for a card, a backend and a release: data in ``advisories.json``, matched here.

Guarantees: an advisory is shown only where every condition that can be judged holds; one with a condition that cannot be
judged (the backend is chosen later, the release is unknown) is shown as unknown if it would be serious; past its
expiry it is a note that says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tunelaunch.doctor.findings import Finding, Severity

FILE = Path(__file__).with_name("advisories.json")
UNSETTLED = frozenset({None, "", "auto"})
"""Raw values that SGLang replaces when it resolves its arguments."""


@dataclass(frozen=True)
class Advisory:
    """One entry; ``applies`` has lists of allowed values, version ranges such as ``>=0.6.16,<0.6.18``, or booleans."""

    id: str
    severity: Severity
    text: str
    why: str
    instead: str
    expires: date
    applies: Mapping[str, Any]
    link: str | None = None
    silent: bool = False
    """Nothing is said where a condition cannot be judged yet: it would be said of nearly every start."""


@dataclass(frozen=True)
class Target:
    """What an advisory is matched against; ``None`` is unknown. ``raw`` are SGLang's arguments before it resolves them."""

    sm: str | None = None
    sglang: str | None = None
    flashinfer: str | None = None
    raw: Mapping[str, Any] | None = None


def load(path: Path = FILE) -> tuple[Advisory, ...]:
    """The advisories of this release of tunelaunch."""
    entries = json.loads(path.read_text(encoding="utf-8"))["advisories"]
    return tuple(
        Advisory(
            id=entry["id"],
            severity=Severity(entry["severity"]),
            text=entry["text"],
            why=entry["why"],
            instead=entry["instead"],
            expires=date.fromisoformat(entry["expires"]),
            applies=entry["applies"],
            link=entry["link"],
            silent=entry.get("when_open") == "silent",
        )
        for entry in entries
    )


def advise(advisories: Sequence[Advisory], target: Target, today: date) -> Iterator[Finding]:
    """The advisories that concern ``target``."""
    for advisory in advisories:
        answers = {name: _holds(name, wanted, target) for name, wanted in advisory.applies.items()}
        if False in answers.values():
            continue
        open_ones = [name for name, answer in answers.items() if answer is None]
        mild = advisory.silent or advisory.severity is Severity.NOTE
        if open_ones and (mild or answers.get("sm") is None):
            continue
        yield _finding(advisory, open_ones, today)


def _finding(advisory: Advisory, open_ones: Sequence[str], today: date) -> Finding:
    severity, text = advisory.severity, advisory.text
    if today > advisory.expires:
        severity, text = Severity.NOTE, f"{text} (recorded until {advisory.expires}; look whether it still holds)"
    if open_ones:
        severity = Severity.UNKNOWN
        text = f"{text}; whether that concerns this start is open ({'; '.join(_open(advisory, n) for n in open_ones)})"
    instead = f"use instead: {advisory.instead}" if advisory.instead.startswith("--") else advisory.instead
    return Finding(f"advisory.{advisory.id}", severity, text, advisory.why, instead, advisory.link)


def _open(advisory: Advisory, name: str) -> str:
    wanted = advisory.applies[name]
    words = " or ".join(wanted) if isinstance(wanted, list) else str(wanted)
    return f"if {name.replace('_', ' ')} is {words}"


def _holds(name: str, wanted: Any, target: Target) -> bool | None:
    """Whether one condition holds; ``None`` where that cannot be judged."""
    if name == "sm":
        return None if target.sm is None else target.sm in wanted
    if name in ("sglang", "flashinfer"):
        version = target.sglang if name == "sglang" else target.flashinfer
        return None if version is None else in_range(version, wanted)
    if target.raw is None:
        return None
    if name == "several_ranks":
        sizes = [target.raw.get(size) for size in ("tp_size", "ep_size", "dp_size")]
        return any(isinstance(size, int) and size > 1 for size in sizes) is wanted
    value = target.raw.get(name)
    if value in UNSETTLED and not (value == "auto" and "auto" in wanted):
        return None
    return value in wanted


def in_range(version: str, wanted: str) -> bool | None:
    """Whether ``version`` meets every part of ``wanted`` (``>=0.6.16,<0.6.18``); ``None`` if it is no version."""
    have = version_key(version)
    if have is None:
        return None
    checks = {">=": lambda a, b: a >= b, "<": lambda a, b: a < b}
    for part in wanted.split(","):
        match = re.fullmatch(r"(>=|<)(\S+)", part.strip())
        limit = version_key(match[2]) if match else None
        if match is None or limit is None:
            raise ValueError(f"{wanted!r} is no version range")
        if not checks[match[1]](have, limit):
            return False
    return True


def version_key(version: str) -> tuple[int, ...] | None:
    """A version as it sorts: three numbers and the post release; pre-releases and local parts are not told apart."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.?post(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else None
