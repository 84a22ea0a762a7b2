"""tunelaunch's own options: their names, their values, and the variables they fall back to.

Guarantees: an option given on the command line wins over its ``TUNELAUNCH_*`` variable; an empty variable counts as not
set; a wrong value on the command line is a usage error, while a wrong value in a variable is named, ignored and never
stops a start. Nothing heavy is imported, so that ``tunelaunch --help`` answers at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tunelaunch import contract
from tunelaunch.errors import UsageError

PREFIX = "--tunelaunch-"


@dataclass(frozen=True)
class Own:
    """Own options of one start. ``None`` means not given; :func:`fill` replaces every ``None``."""

    retune: bool | None = None
    cache: str | None = None
    mode: str | None = None
    strict: bool | None = None
    min_gain: float | None = None
    """Percent by which a tuned choice must beat the default in the whole op."""
    effort: str | None = None
    tag: str | None = None
    verify: str | None = None
    max_error: str | None = None
    """Relative error against default that a choice may have: ``FROBENIUS`` or ``FROBENIUS,WORST_ROW``."""
    remote: str | None = None


@dataclass(frozen=True)
class Option:
    """One own option: its exact token, the field of :class:`Own` it sets and the variable behind it."""

    token: str
    field: str
    variable: str
    metavar: str | None
    choices: tuple[str, ...] = ()

    @property
    def is_flag(self) -> bool:
        """Whether the option takes no value."""
        return self.metavar is None


OPTIONS: tuple[Option, ...] = (
    Option("--retune", "retune", contract.RETUNE, None),
    Option(PREFIX + "cache", "cache", contract.CACHE_DIR, "DIR"),
    Option(PREFIX + "mode", "mode", contract.MODE, "MODE", ("off", "readonly", "auto")),
    Option(PREFIX + "strict", "strict", contract.STRICT, None),
    Option(PREFIX + "min-gain", "min_gain", contract.MIN_GAIN, "PERCENT"),
    Option(PREFIX + "effort", "effort", contract.EFFORT, "EFFORT", ("quick", "normal", "thorough")),
    Option(PREFIX + "tag", "tag", contract.TAG, "TEXT"),
    Option(PREFIX + "verify", "verify", contract.VERIFY, "WHICH", ("off", "new", "all")),
    Option(PREFIX + "max-error", "max_error", contract.MAX_ERROR, "E[,ROW]"),
    Option(PREFIX + "remote", "remote", contract.REMOTE, "URL"),
)

BY_TOKEN: Mapping[str, Option] = {option.token: option for option in OPTIONS}

VARIABLES: tuple[str, ...] = (contract.LAUNCH, contract.RUN_DIR, contract.DISABLE, *(o.variable for o in OPTIONS))
"""Every variable of the contract. A hand-over first clears them all, so that nothing stale wakes the plugin up."""


def parse_value(option: Option, text: str) -> str | float:
    """The value of ``option`` in ``text``; raises :class:`UsageError` when it is not one."""
    if option.choices:
        if text not in option.choices:
            raise UsageError(f"{option.token}: {text!r} is not one of {', '.join(option.choices)}")
        return text
    if option.field == "min_gain":
        return _percent(option, text)
    if option.field == "max_error":
        try:
            contract.error_limits(text)
        except ValueError as wrong:
            raise UsageError(f"{option.token}: {wrong}, such as 0.02 or 0.02,0.1") from wrong
    if option.field == "cache" and not text:
        raise UsageError(f"{option.token}: the directory is empty; give one, or leave the option out")
    return text


def fill(own: Own, environ: Mapping[str, str]) -> tuple[Own, tuple[str, ...]]:
    """``own`` with every gap filled, first from its variable, then from the default; and what had to be ignored.

    ``cache`` stays ``None`` when neither names a directory: the default depends on the host.
    """
    values: dict[str, object] = {}
    ignored: list[str] = []
    for option in OPTIONS:
        given = getattr(own, option.field)
        values[option.field] = _from_variable(option, environ, ignored) if given is None else given
    return dataclasses.replace(own, **values), tuple(ignored)  # type: ignore[arg-type]


_DEFAULTS: Mapping[str, object] = {
    "retune": False,
    "cache": None,
    "mode": "auto",
    "strict": False,
    "min_gain": 3.0,
    "effort": "normal",
    "tag": "",
    "verify": "new",
    "max_error": "",
    "remote": "",
}


def _from_variable(option: Option, environ: Mapping[str, str], ignored: list[str]) -> object:
    text = environ.get(option.variable)
    if option.is_flag:
        return contract.is_true(text)
    default = _DEFAULTS[option.field]
    if not text:
        return default
    try:
        return parse_value(option, text)
    except UsageError as wrong:
        ignored.append(f"{option.variable} is ignored ({wrong}); {default} is used")
        return default


def _percent(option: Option, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1000:
        raise UsageError(f"{option.token}: {text!r} is not a number of percent between 0 and 1000")
    return value
