"""The environment contract between the launcher and the plugin inside SGLang's processes.

The launcher writes these variables and then becomes SGLang; every process that SGLang starts inherits them. A variable
given by the user keeps its meaning when the option of the same name is absent. Nothing here imports more than ``os``.

=========================  ============================================================================================
variable                   meaning
=========================  ============================================================================================
TUNELAUNCH_LAUNCH          id of this start; its presence is what wakes the plugin up. Set by the launcher only.
TUNELAUNCH_RUN_DIR         private directory of this start (fed FlashInfer files, receipts). Set by the launcher only.
TUNELAUNCH_CACHE_DIR       cache root, absolute once the launcher has run (``--tunelaunch-cache``).
TUNELAUNCH_RETUNE          ``1``: load nothing, tune all, replace the rows (``--retune``).
TUNELAUNCH_MODE            ``auto`` (default), ``readonly`` (never write) or ``off`` (``--tunelaunch-mode``).
TUNELAUNCH_DISABLE         ``1``: plain SGLang, whatever else is set.
TUNELAUNCH_STRICT          ``1``: named fallbacks become errors before serving (``--tunelaunch-strict``).
TUNELAUNCH_MIN_GAIN        percent by which a tuned choice must beat default in the whole op (``--tunelaunch-min-gain``).
TUNELAUNCH_EFFORT          ``quick``, ``normal`` or ``thorough`` (``--tunelaunch-effort``).
TUNELAUNCH_TAG             free text that separates tables of one device (``--tunelaunch-tag``).
TUNELAUNCH_VERIFY          ``off``, ``new`` (default) or ``all`` (``--tunelaunch-verify``).
TUNELAUNCH_MAX_ERROR       error against default that a choice may have, ``FROBENIUS`` or ``FROBENIUS,WORST_ROW``
                           (``--tunelaunch-max-error``).
TUNELAUNCH_SEEDS           cache directories and bundles, separated as in ``PATH``, that are read below the local table.
TUNELAUNCH_REMOTE          URL from which rows are pulled and to which new ones are pushed (``--tunelaunch-remote``).
TUNELAUNCH_KEY_FILE        file with the key that signs and checks what is shared.
TUNELAUNCH_REQUIRE_SIGNED  ``1``: bundles and remotes without a signature of that key are refused.
=========================  ============================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

LAUNCH = "TUNELAUNCH_LAUNCH"
RUN_DIR = "TUNELAUNCH_RUN_DIR"
CACHE_DIR = "TUNELAUNCH_CACHE_DIR"
RETUNE = "TUNELAUNCH_RETUNE"
MODE = "TUNELAUNCH_MODE"
DISABLE = "TUNELAUNCH_DISABLE"
STRICT = "TUNELAUNCH_STRICT"
MIN_GAIN = "TUNELAUNCH_MIN_GAIN"
EFFORT = "TUNELAUNCH_EFFORT"
TAG = "TUNELAUNCH_TAG"
VERIFY = "TUNELAUNCH_VERIFY"
MAX_ERROR = "TUNELAUNCH_MAX_ERROR"
SEEDS = "TUNELAUNCH_SEEDS"
REMOTE = "TUNELAUNCH_REMOTE"
KEY_FILE = "TUNELAUNCH_KEY_FILE"
REQUIRE_SIGNED = "TUNELAUNCH_REQUIRE_SIGNED"

PLUGIN_NAME = "tunelaunch"
"""Entry-point name of the plugin; it must be in ``SGLANG_PLUGINS`` if the user set that whitelist."""

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True)
class Contract:
    """What one start was asked to do, as every process of it sees it."""

    launch: str
    run_dir: str
    cache_dir: str
    retune: bool = False
    mode: str = "auto"
    strict: bool = False
    min_gain_percent: float = 3.0
    effort: str = "normal"
    tag: str = ""
    verify: str = "new"
    max_error: str = ""
    seeds: tuple[str, ...] = ()
    remote: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Contract | None:
        """The contract of the current start, or ``None`` when tunelaunch did not start this process (or is off)."""
        env = os.environ if environ is None else environ
        if not env.get(LAUNCH) or not env.get(RUN_DIR) or is_true(env.get(DISABLE)) or env.get(MODE) == "off":
            return None
        return cls(
            launch=env[LAUNCH],
            run_dir=env[RUN_DIR],
            cache_dir=env.get(CACHE_DIR, ""),
            retune=is_true(env.get(RETUNE)),
            mode=env.get(MODE) or "auto",
            strict=is_true(env.get(STRICT)),
            min_gain_percent=_number(env.get(MIN_GAIN), 3.0),
            effort=env.get(EFFORT) or "normal",
            tag=env.get(TAG, ""),
            verify=env.get(VERIFY) or "new",
            max_error=env.get(MAX_ERROR, ""),
            seeds=paths_in(env.get(SEEDS)),
            remote=env.get(REMOTE, ""),
        )

    def to_environ(self) -> dict[str, str]:
        """The variables that carry this contract (only those that differ from a default, and the two that wake it)."""
        env = {LAUNCH: self.launch, RUN_DIR: self.run_dir, CACHE_DIR: self.cache_dir, MODE: self.mode}
        env |= {RETUNE: "1"} if self.retune else {}
        env |= {STRICT: "1"} if self.strict else {}
        env |= {MIN_GAIN: repr(self.min_gain_percent), EFFORT: self.effort, TAG: self.tag, VERIFY: self.verify}
        env |= {MAX_ERROR: self.max_error} if self.max_error else {}
        env |= {SEEDS: os.pathsep.join(self.seeds)} if self.seeds else {}
        env |= {REMOTE: self.remote} if self.remote else {}
        return env


def error_limits(text: str) -> tuple[float, float] | None:
    """(relative Frobenius error, error of the worst row) in ``text``, or ``None`` where it is empty.

    One number sets the first; the second is then five times that. Raises :class:`ValueError` for anything else.
    """
    if not text:
        return None
    parts = [float(part) for part in text.split(",")]
    if not 1 <= len(parts) <= 2 or not all(0.0 < part < float("inf") for part in parts):
        raise ValueError(f"{text!r} is not one or two positive numbers")
    return (parts[0], parts[1] if len(parts) == 2 else 5.0 * parts[0])


def paths_in(text: str | None) -> tuple[str, ...]:
    """The paths in a variable that is written like ``PATH``, each once, in order."""
    return tuple(dict.fromkeys(part for part in (text or "").split(os.pathsep) if part))


def is_true(value: str | None) -> bool:
    """Whether a variable's text means yes."""
    return (value or "").strip().lower() in _TRUE


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default
