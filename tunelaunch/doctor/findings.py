"""A finding: one thing that is wrong, odd or not known, why it matters and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """In the order in which findings are shown."""

    BLOCKING = "blocking"
    """The start fails, or what it computes is wrong."""
    WARNING = "warning"
    """The start works, but slower, less safely, or without tunelaunch."""
    NOTE = "note"
    UNKNOWN = "unknown"
    """It could not be found out here."""


@dataclass(frozen=True)
class Finding:
    """One finding. ``id`` is stable, for scripts; ``do`` may be empty where nothing need be done; ``link`` is public."""

    id: str
    severity: Severity
    what: str
    why: str = ""
    do: str = ""
    link: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """All fields; ``severity`` is its word."""
        return {
            "id": self.id,
            "severity": self.severity.value,
            "what": self.what,
            "why": self.why,
            "do": self.do,
            "link": self.link,
        }


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first; those of one severity as they were found."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def is_blocked(findings: Iterable[Finding]) -> bool:
    """Whether a start would fail."""
    return any(finding.severity is Severity.BLOCKING for finding in findings)


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many of each severity."""
    found = [finding.severity for finding in findings]
    return {severity.value: found.count(severity) for severity in Severity}
