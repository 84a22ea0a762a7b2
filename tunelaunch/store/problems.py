"""What went wrong with a file, as a value: the store reports faults, it does not raise them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault of one file. ``str(problem)`` is the single line for the log and the report.

    ``why`` says what is wrong (saved versus current where two values disagree), ``action`` what was done about it.
    ``code`` is the ``errno`` behind it, if there is one.
    """

    path: str
    why: str
    action: str
    code: int | None = None

    def __str__(self) -> str:
        # File names may hold anything; a report line may not.
        return " ".join(f"{self.path}: {self.why}; {self.action}".split())


class Refused(Exception):
    """Internal: a change of a file cannot be made. Carries the problem; never leaves the store."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def reason(error: BaseException) -> str:
    """The short text of an error, without the path (the problem carries it)."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
