"""Recorded device facts: what a card is said to be, read from a JSON file instead of a driver.

For tests, and for questions about a card that this machine does not have. The file is
``{"devices": [{"name": ..., "compute_capability": "12.0", ...}]}``.
"""

from __future__ import annotations

import json
from pathlib import Path

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.errors import IdentityError


def load_recorded(path: Path) -> tuple[DeviceFacts, ...]:
    """All devices of ``path``, in order; raises :class:`IdentityError` when it is not such a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise IdentityError(f"device facts: {path} cannot be read ({why})") from why
    devices = data.get("devices") if isinstance(data, dict) else None
    if not isinstance(devices, list) or not all(isinstance(d, dict) for d in devices):
        raise IdentityError(f'device facts: {path} has no list "devices" of objects')
    return tuple(DeviceFacts.from_json(device) for device in devices)


def recorded(path: Path, name: str) -> DeviceFacts:
    """The device of ``path`` whose driver name is ``name``; raises :class:`IdentityError` when there is none."""
    devices = load_recorded(path)
    for device in devices:
        if device.name == name:
            return device
    raise IdentityError(f"device facts: {path} has no {name!r}; it has {', '.join(d.name for d in devices) or 'none'}")
