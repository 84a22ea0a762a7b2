"""Recorded facts of a host (``tunelaunch/facts/1``): what ``why`` and ``doctor`` need to answer for it elsewhere.

Guarantees: :func:`load` raises only :class:`IdentityError`, with a reason; facts of a newer writer are ignored; a GPU's
serial identity (UUID) is not written, since it says nothing about tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.errors import IdentityError

SCHEMA = "tunelaunch/facts/1"


@dataclass(frozen=True)
class Library:
    """One host library. ``missing``: names that tunelaunch needs and this release lacks, ``None`` when not probed."""

    version: str | None = None
    missing: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "missing": None if self.missing is None else list(self.missing)}

    @classmethod
    def from_json(cls, data: object) -> Library:
        given = data if isinstance(data, Mapping) else {}
        missing, version = given.get("missing"), given.get("version")
        return cls(
            version if isinstance(version, str) and version else None,
            tuple(str(name) for name in missing) if isinstance(missing, list) else None,
        )


@dataclass(frozen=True)
class Known:
    """One GPU: its facts, its environment (``None``: it could not be computed) and its state (:mod:`.cards`)."""

    device: DeviceFacts
    environment: Environment | None = None
    state: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "device": replace(self.device, uuid=None).to_json(),
            "environment": None if self.environment is None else self.environment.to_json(),
            "state": dict(self.state),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Known:
        device, environment, state = data.get("device"), data.get("environment"), data.get("state")
        return cls(
            DeviceFacts.from_json(device if isinstance(device, Mapping) else {}),
            Environment.from_json(environment) if isinstance(environment, Mapping) else None,
            state if isinstance(state, Mapping) else {},
        )


@dataclass(frozen=True)
class HostFacts:
    """What is known about a host. ``source`` says where from; ``problems`` what could not be found out and why."""

    devices: tuple[Known, ...] = ()
    sglang: Library = Library()
    flashinfer: Library = Library()
    torch: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    source: str = "this host"
    written: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The document that ``doctor --save-facts`` writes."""
        return {
            "schema": SCHEMA,
            "written": dict(self.written),
            "devices": [known.to_json() for known in self.devices],
            "sglang": self.sglang.to_json(),
            "flashinfer": self.flashinfer.to_json(),
            "torch": dict(self.torch),
            "problems": list(self.problems),
        }


def from_json(data: Mapping[str, Any], source: str) -> HostFacts:
    """The facts in ``data``. Raises :class:`IdentityError` when it is no such document."""
    if data.get("schema") != SCHEMA:
        raise IdentityError(
            f"{source} has schema {data.get('schema')!r}, this version reads {SCHEMA!r}; "
            "write it with: tunelaunch doctor --save-facts FILE"
        )
    devices, torch, problems = data.get("devices"), data.get("torch"), data.get("problems")
    if not isinstance(devices, list) or not all(isinstance(device, Mapping) for device in devices):
        raise IdentityError(f'{source} has no list "devices" of objects')
    written = data.get("written")
    return HostFacts(
        devices=tuple(Known.from_json(device) for device in devices),
        sglang=Library.from_json(data.get("sglang")),
        flashinfer=Library.from_json(data.get("flashinfer")),
        torch=torch if isinstance(torch, Mapping) else {},
        problems=tuple(str(problem) for problem in problems) if isinstance(problems, list) else (),
        source=source,
        written=written if isinstance(written, Mapping) else {},
    )


def load(path: Path) -> HostFacts:
    """The facts in the file at ``path``; raises :class:`IdentityError`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as why:
        raise IdentityError(f"facts: {path} cannot be read ({why})") from why
    if not isinstance(data, Mapping):
        raise IdentityError(f"facts: {path} holds no JSON object; write it with: tunelaunch doctor --save-facts FILE")
    return from_json(data, f"facts file {path}")
