"""What one GPU is: the facts that name it, each of which may be unknown.

Guarantees: a missing fact is ``None``, never a guess; the slug is safe as a directory name and says name, SM and SM
count, so that cards of one SM version never share a directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FAMILIES: Mapping[tuple[int, int], str] = {
    (7, 0): "Volta",
    (7, 5): "Turing",
    (8, 0): "Ampere data center",
    (8, 6): "Ampere RTX",
    (8, 7): "Ampere Orin",
    (8, 9): "Ada",
    (9, 0): "Hopper",
    (10, 0): "Blackwell data center",
    (10, 3): "Blackwell Ultra data center",
    (11, 0): "Blackwell Thor",
    (12, 0): "Blackwell RTX",
    (12, 1): "Blackwell GB10",
}

_MIG_NAME = re.compile(r"^(?P<name>.*\S)\s+MIG\s+(?P<profile>\S+)$")


@dataclass(frozen=True)
class DeviceFacts:
    """One GPU, or one MIG slice of it. ``memory_mib`` is MiB; ``index`` is NVML's (PCI order), or torch's."""

    name: str
    capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_mib: int | None = None
    driver: str | None = None
    mig_profile: str | None = None
    uuid: str | None = None
    index: int | None = None
    power_limit_w: int | None = None
    persistence: bool | None = None

    @property
    def sm(self) -> str:
        """``sm120``; ``sm-unknown`` when the capability is unknown."""
        return "sm-unknown" if self.capability is None else f"sm{self.capability[0]}{self.capability[1]}"

    @property
    def family(self) -> str:
        """``SM120 (Blackwell RTX)``: the SM version and its family in words, where it is a known one."""
        if self.capability is None:
            return "SM unknown"
        words = _FAMILIES.get(self.capability)
        return f"{self.sm.upper()} ({words})" if words else self.sm.upper()

    @property
    def title(self) -> str:
        """The driver's name, and the MIG profile if there is one."""
        return f"{self.name} MIG {self.mig_profile}" if self.mig_profile else self.name

    @property
    def slug(self) -> str:
        """Directory name: ``nvidia-geforce-rtx-5090.sm120.170sm``, plus ``.mig-1g.24gb``; unknown parts left out."""
        parts = [re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:120] or "unknown"]
        parts += [self.sm] if self.capability else []
        parts += [f"{self.sm_count}sm"] if self.sm_count else []
        if self.mig_profile:
            parts.append("mig-" + re.sub(r"[^a-z0-9.]+", "-", self.mig_profile.lower()).strip("-."))
        return ".".join(parts)

    def to_json(self) -> dict[str, object]:
        """A JSON object; ``compute_capability`` is text such as ``12.0``, unknown facts are ``null``."""
        return {
            "name": self.name,
            "compute_capability": None if self.capability is None else "{}.{}".format(*self.capability),
            "sm_count": self.sm_count,
            "memory_mib": self.memory_mib,
            "driver": self.driver,
            "mig_profile": self.mig_profile,
            "uuid": self.uuid,
            "index": self.index,
            "power_limit_w": self.power_limit_w,
            "persistence": self.persistence,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> DeviceFacts:
        """The facts in ``data``; a fact that is absent or of another type is ``None``, other keys are ignored."""
        persistence = data.get("persistence")
        return cls(
            name=_text(data.get("name")) or "unknown",
            capability=parse_capability(data.get("compute_capability")),
            sm_count=_count(data.get("sm_count")),
            memory_mib=_count(data.get("memory_mib")),
            driver=_text(data.get("driver")),
            mig_profile=_text(data.get("mig_profile")),
            uuid=_text(data.get("uuid")),
            index=_count(data.get("index")),
            power_limit_w=_count(data.get("power_limit_w")),
            persistence=persistence if isinstance(persistence, bool) else None,
        )


def parse_capability(value: object) -> tuple[int, int] | None:
    """``"12.0"`` as ``(12, 0)``; ``None`` for anything else."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,2})", value.strip()) if isinstance(value, str) else None
    return (int(match[1]), int(match[2])) if match else None


def split_mig_name(name: str) -> tuple[str, str | None]:
    """``NVIDIA H200 MIG 1g.18gb`` as (``NVIDIA H200``, ``1g.18gb``): drivers and torch append the profile."""
    match = _MIG_NAME.match(name)
    return (match["name"], match["profile"]) if match else (name, None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
