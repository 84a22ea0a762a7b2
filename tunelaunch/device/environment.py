"""The environment: everything that gives a tactic id its meaning, and how two of them differ.

Guarantees: the id is a pure function of the decisive fields that have a definite value; a value that is unknown never
enters it, is listed as indeterminate and makes the environment *unproven*. Fields named ``info.*`` (driver, SGLang
version, power limit, host) are recorded and compared, never decisive; every other field is decisive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunelaunch.device.facts import DeviceFacts

Value = str | int | None

EXPECTED = ("gpu_name", "compute_capability", "sm_count", "packages")
"""Fields that every environment must know to be proven."""

OPTIONAL = frozenset({"mig_profile", "measurement_policy", "tag"})
"""Fields for which no value is a definite answer: no MIG slice, a FlashInfer without a policy, no tag."""

INFO = "info."
FLASHINFER = "flashinfer."
_UNKNOWN = frozenset({"", "unknown", "none", "null", "*"})


@dataclass(frozen=True)
class Difference:
    """One field whose value differs. ``decisive``: the tables of the two environments are not shared because of it."""

    field: str
    saved: Value
    current: Value
    decisive: bool


@dataclass(frozen=True)
class Environment:
    """Named values of one process on one device; see the module's text for what the names mean."""

    fields: Mapping[str, Value]

    @classmethod
    def of(
        cls,
        facts: DeviceFacts,
        *,
        flashinfer: Mapping[str, Value],
        packages: str | None,
        measurement_policy: str | None = None,
        tag: str = "",
        info: Mapping[str, Value] | None = None,
    ) -> Environment:
        """The environment of ``facts`` with FlashInfer's metadata (its own field names) and the packages digest."""
        capability = None if facts.capability is None else "{}.{}".format(*facts.capability)
        fields: dict[str, Value] = {
            "gpu_name": facts.name,
            "compute_capability": capability,
            "sm_count": facts.sm_count,
            "mig_profile": facts.mig_profile,
            "packages": packages,
            "measurement_policy": measurement_policy,
            "tag": tag,
        }
        fields |= {FLASHINFER + name: value for name, value in flashinfer.items()}
        fields |= {INFO + name: value for name, value in {"driver": facts.driver, **(info or {})}.items()}
        return cls(fields)

    @property
    def id(self) -> str:
        """12 hex digits over the canonical JSON of the decisive fields that have a definite value."""
        canonical = json.dumps(_definite(self.fields), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:12]

    @property
    def indeterminate(self) -> tuple[str, ...]:
        """Names of decisive fields without a definite value, sorted."""
        names = set(EXPECTED) | {name for name in self.fields if not name.startswith(INFO)}
        if not any(name.startswith(FLASHINFER) for name in self.fields):
            names.add(FLASHINFER + "flashinfer_version")
        return tuple(sorted(name for name in names if not _is_settled(name, self.fields.get(name))))

    @property
    def unproven(self) -> bool:
        """Whether a decisive value is unknown, so that rows made here must be verified again at every start."""
        return bool(self.indeterminate)

    def to_json(self) -> dict[str, object]:
        """``{"id", "fields", "indeterminate"}``, fields in order of their names."""
        return {"id": self.id, "fields": dict(sorted(self.fields.items())), "indeterminate": list(self.indeterminate)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Environment:
        """The environment in ``data``; id and indeterminate are computed again, values of other types are unknown."""
        fields = data.get("fields")
        items = fields.items() if isinstance(fields, Mapping) else ()
        return cls({str(name): value if _is_plain(value) else None for name, value in items})


def differences(saved: Environment, current: Environment) -> list[Difference]:
    """Fields whose values differ, decisive ones first, then by name. Two unknown values do not differ."""
    found = []
    for name in sorted(set(saved.fields) | set(current.fields)):
        before, after = saved.fields.get(name), current.fields.get(name)
        if _text(before) != _text(after):
            found.append(Difference(name, before, after, not name.startswith(INFO)))
    return sorted(found, key=lambda difference: (not difference.decisive, difference.field))


def explain(diffs: Sequence[Difference]) -> str:
    """``diffs`` in words: what keeps the tables apart, then what differs without effect."""
    decisive = [_line(d) for d in diffs if d.decisive]
    recorded = [_line(d) for d in diffs if not d.decisive]
    if not diffs:
        return "same environment: no field differs"
    lines = ["other environment, its rows are not used:" if decisive else "same environment, its rows are used"]
    lines += decisive
    if recorded:
        lines += ["different, but without effect:", *recorded]
    return "\n".join(lines)


def _line(difference: Difference) -> str:
    return f"  {difference.field}: saved {_shown(difference.saved)}, current {_shown(difference.current)}"


def _shown(value: Value) -> str:
    return "unknown" if value is None or value == "" else str(value)


def _definite(fields: Mapping[str, Value]) -> dict[str, str]:
    texts = {name: _text(value) for name, value in fields.items() if not name.startswith(INFO)}
    return {name: text for name, text in texts.items() if text is not None}


def _text(value: Value) -> str | None:
    """The value as it is hashed and compared (188 and "188" are one), or ``None`` when it is not definite."""
    text = "" if value is None else str(value).strip()
    return None if text.lower() in _UNKNOWN else text


def _is_settled(name: str, value: Value) -> bool:
    return _text(value) is not None or (name in OPTIONAL and value in (None, ""))


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)
