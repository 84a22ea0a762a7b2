"""Which table: a device and an environment, as directory names. What they mean is computed elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_ENVIRONMENT = re.compile(r"[0-9a-f]{12}")
RESERVED = frozenset({"reports"})
"""Directory names beside the devices."""


@dataclass(frozen=True)
class TableId:
    """Identity of a table: device slug (safe as a directory name) and environment id (12 hex).

    Raises :class:`ValueError` for anything that could not be a directory of ours, such as ``../x``.
    """

    device: str
    environment: str

    def __post_init__(self) -> None:
        if not is_device(self.device):
            raise ValueError(f"not a device slug: {self.device!r}")
        if not is_environment(self.environment):
            raise ValueError(f"not an environment id (12 hex digits): {self.environment!r}")

    def __str__(self) -> str:
        return f"{self.device}/{self.environment}"


def is_device(name: str) -> bool:
    """Whether ``name`` can be a device directory."""
    return _DEVICE.fullmatch(name) is not None and name not in RESERVED


def is_environment(name: str) -> bool:
    """Whether ``name`` can be an environment directory."""
    return _ENVIRONMENT.fullmatch(name) is not None
