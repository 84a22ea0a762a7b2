"""What the launcher itself can say about its arguments before SGLang reads the weights: one line a serious advisory.

Only exact tokens are seen here, not abbreviations or a ``--config`` file; ``tunelaunch doctor`` asks SGLang's parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.visible import visible_devices
from tunelaunch.doctor.advisories import Target, advise, load
from tunelaunch.doctor.findings import Severity

_TOKENS = {"--moe-runner-backend": "moe_runner_backend", "--attention-backend": "attention_backend"}


def early_lines(
    devices: Sequence[DeviceFacts], environ: Mapping[str, str], arguments: Sequence[str], today: date | None = None
) -> list[str]:
    """The blocking advisories for those ``devices`` (NVML's order) that CUDA will show, and the backends that are named."""
    raw = _backends(arguments)
    if not raw:
        return []
    found: list[str] = []
    advisories = load()
    shown = visible_devices(devices, environ).devices
    for sm in dict.fromkeys(device.sm for device in shown if device.capability is not None):
        for finding in advise(advisories, Target(sm=sm, raw=raw), today or date.today()):
            if finding.severity is Severity.BLOCKING:
                named = " ".join(f"{token} {raw[name]}" for token, name in _TOKENS.items() if name in raw)
                found.append(f"{named} on {sm.upper()}: {finding.what}; {finding.why}; {finding.do}")
    return list(dict.fromkeys(found))


def _backends(arguments: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for position, token in enumerate(arguments):
        name, equals, value = token.partition("=")
        if name in _TOKENS:
            following = arguments[position + 1] if position + 1 < len(arguments) else ""
            found[_TOKENS[name]] = value if equals else following
    return found
