"""Two context managers around FlashInfer's autotuner, which put everything back when they end.

:func:`watching` sees each op that a tuning pass calls: which rows it wants, which it hit, what was profiled and how long
each tactic took (FlashInfer times every candidate and throws the timings away). :func:`forcing` makes chosen ops use
given tactics, to run one layer with two choices. Neither changes what FlashInfer decides, and neither lets a fault of
ours out: the host's own call is always made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.hosts import flashinfer as fi
from tunelaunch.hosts.scope import scope_digest, scope_fields


@dataclass
class Call:
    """One distinct op call of a pass: an op, its scope and the rows it wants.

    ``hit_before`` holds the keys that were covered when the call came; ``chosen`` maps each covered key, after the call,
    to (runner name, tactic as JSON).
    """

    op: str
    scope: str | None
    scope_fields: Mapping[str, Any]
    carries_ranks: bool
    profiles: list[fi.Profile]
    owner: Any
    hit_before: frozenset[str] = frozenset()
    chosen: dict[str, tuple[str, Any]] = field(default_factory=dict)


@dataclass
class Watch:
    """What a tuning pass did.

    ``timings`` holds (runner, tactic, microseconds) for each row that was profiled; ``profiles_run`` counts calls of
    ``AutoTuner._profile_single_kernel``, one for each tactic tried. ``agree`` tells the other ranks whether a call could be
    prepared here and answers whether it could everywhere; where it could not, every rank goes on as if nothing were fed
    (``off``), since ranks that hit or miss differently would wait for each other inside FlashInfer. ``hides`` says
    which (op, key, scope, runner, tactic) are quarantined and not even profiled; ``before`` hears of each row and tactic
    that is about to run.
    """

    cap: int
    feed: Callable[[str, str | None], None]
    owner: Callable[[], Any]
    on_bug: Callable[[BaseException], None]
    calls: dict[tuple[str, str | None, str], Call] = field(default_factory=dict)
    timings: dict[tuple[str, str | None, str], list[tuple[str, Any, float]]] = field(default_factory=dict)
    failed: dict[tuple[str, str | None, str], int] = field(default_factory=dict)
    profiles_run: int = 0
    skipped: int = 0
    hides: Callable[[str, str, str | None, str, Any], bool] = lambda *row: False
    before: Callable[[Mapping[str, Any]], None] = lambda row: None
    agree: Callable[[BaseException | None], bool] = lambda error: error is None
    off: bool = False
    on_profile: Callable[[str, int], None] = lambda op, tokens: None
    _pinned: dict[type, Any] = field(default_factory=dict)
    _last: dict[str, tuple[Any, Call | None]] = field(default_factory=dict)
    _current: Call | None = None
    _config: Any = None
    _inputs: Any = None
    _keys: dict[Any, str] = field(default_factory=dict)

    def before_call(self, op: str, runners: Any, config: Any, inputs: Any) -> Any:
        """:meth:`enter_call` on all ranks or on none. A call like the op's last one is ready already. The config to use."""
        self._current = None
        if self.off:
            return config
        mark = _mark(runners[0], inputs)
        if (last := self._last.get(op)) is not None and last[0] == mark:
            self._current = last[1]
            return getattr(type(runners[0]), "tuning_config", config) if self._pinned.get(type(runners[0])) else config
        used, error = config, None
        try:
            used = self.enter_call(op, runners, config, inputs)
        except Exception as bug:
            error = bug
            self.on_bug(bug)
        if self.agree(error):
            self._last[op] = (mark, self._current)
            return used
        self.off, self._current = True, None
        fi.forget()
        fi.unpin_buckets(runners[0], config)
        return config

    def enter_call(self, op: str, runners: Any, config: Any, inputs: Any) -> Any:
        """Before the host's ``choose_one``: pin the bucket cap, feed the scope, note what is wanted. The config to use."""
        runner = runners[0]
        config = self._pin(runner, config)
        weak = fi.key_is_weak(runner)
        fields = scope_fields(runner, inputs) if weak else {}
        scope = scope_digest(fields) if weak else None
        first = fi.file_key(op, runner, fi.shapes_of(inputs), config, inputs)
        self.feed(op, scope)  # also for a known call: layers of two scopes can take turns
        if (known := self.calls.get((op, scope, first))) is not None:
            self._current = known
            return config
        wanted = fi.profiles(op, runners, config, inputs)
        hits = frozenset(p.key for p in wanted if fi.lookup(op, runners, p, config, inputs) is not None)
        carries = fi.key_carries_ranks(runner, inputs)
        call = Call(op, scope, fields, carries, wanted, self.owner(), hits)
        self.calls[op, scope, first] = self._current = call
        return config

    def leave_call(self, op: str, runners: Any, config: Any, inputs: Any) -> None:
        """After it: note what covers each wanted row now."""
        call = self._current
        if call is None or call.chosen:
            return
        for profile in call.profiles:
            if (found := fi.lookup(op, runners, profile, config, inputs)) is not None:
                call.chosen[profile.key] = found

    def allows(self, runner: Any, inputs: Any, tactic: Any, config: Any) -> bool:
        """Whether a tactic of the current call may run; noted as about to run if so."""
        call = self._current
        if call is None:
            return True
        name, plain, key = type(runner).__name__, fi.plain(tactic), self._key(call, runner, inputs, config)
        if self.hides(call.op, key, call.scope, name, plain):
            self.skipped += 1
            return False
        self.before({"op": call.op, "scope": call.scope, "key": key, "runner": name, "tactic": plain})
        return True

    def timed(self, runner: Any, inputs: Any, tactic: Any, config: Any, milliseconds: float | None) -> None:
        """One tactic of the current call was timed (``None``: it failed)."""
        call = self._current
        if call is None:
            return
        where = (call.op, call.scope, self._key(call, runner, inputs, config))
        if milliseconds is None:
            self.failed[where] = self.failed.get(where, 0) + 1
        else:
            self.timings.setdefault(where, []).append((type(runner).__name__, fi.plain(tactic), milliseconds * 1e3))

    def _key(self, call: Call, runner: Any, inputs: Any, config: Any) -> str:
        shapes = fi.shapes_of(inputs)
        key = self._keys.get((call.op, call.scope, shapes))
        if key is None:
            key = self._keys[call.op, call.scope, shapes] = fi.file_key(call.op, runner, shapes, config, inputs)
            tokens = next((p.tokens for p in call.profiles if p.key == key), None)
            self.on_profile(call.op, tokens or 0)
        return key

    def _pin(self, runner: Any, config: Any) -> Any:
        cls = type(runner)
        if cls not in self._pinned:
            self._pinned[cls] = fi.pin_buckets(runner, self.cap)
        pinned = self._pinned[cls]
        return config if pinned is None else cls.tuning_config


def _mark(runner: Any, inputs: Any) -> Any:
    """What tells two calls of an op apart, read without anything that could fail."""
    plain = (bool, int, float, str)
    own = getattr(runner, "__dict__", {})
    settings = [(k, v) for k, v in own.items() if isinstance(v, plain) or type(v).__name__ == "dtype"]
    shapes = [(tuple(getattr(item, "shape", ())), str(getattr(item, "dtype", ""))) for item in inputs]
    return type(runner).__name__, settings, shapes


class Quarantined(Exception):
    """Raised to FlashInfer in place of a profile that must not run."""


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """Observe every op call and every profiled tactic while the context is open."""
    cls = fi.tuner_class()
    choose, profile = cls.choose_one, cls._profile_single_kernel

    def guarded(function: Callable[..., Any], *args: Any, otherwise: Any = None) -> Any:
        try:
            return function(*args)
        except Exception as bug:
            watch.on_bug(bug)
            return otherwise

    def choose_one(self: Any, custom_op: str, runners: Any, tuning_config: Any, inputs: Any, **kwargs: Any) -> Any:
        skipped = not self.is_tuning_mode or custom_op in getattr(self, "_effective_skip_ops", ())
        if skipped:
            return choose(self, custom_op, runners, tuning_config, inputs, **kwargs)
        config = guarded(watch.before_call, custom_op, runners, tuning_config, inputs, otherwise=tuning_config)
        try:
            return choose(self, custom_op, runners, config, inputs, **kwargs)
        finally:
            guarded(watch.leave_call, custom_op, runners, config, inputs)

    def profile_single_kernel(
        self: Any, runner: Any, inputs: Any, tactic: Any, tuning_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not guarded(watch.allows, runner, inputs, tactic, tuning_config, otherwise=True):
            # FlashInfer takes any exception for a tactic that failed; the ranks of a group skip the same ones.
            raise Quarantined(f"tactic {tactic} is quarantined")
        watch.profiles_run += 1
        try:
            milliseconds = profile(self, runner, inputs, tactic, tuning_config, *args, **kwargs)
        except BaseException:
            guarded(watch.timed, runner, inputs, tactic, tuning_config, None)
            raise
        guarded(watch.timed, runner, inputs, tactic, tuning_config, float(milliseconds))
        return milliseconds

    cls.choose_one, cls._profile_single_kernel = choose_one, profile_single_kernel
    try:
        with _shorter_delay():
            yield watch
    finally:
        cls.choose_one, cls._profile_single_kernel = choose, profile


DELAY_US = 2_000
"""Length of the delay kernel that FlashInfer puts before each timing, to hide ten launches (a fifth of this, at most).

Its own 5,000 us are half of the time that a profile of a decode-sized op takes; the trial times the choices again anyway.
"""


@contextlib.contextmanager
def _shorter_delay() -> Iterator[None]:
    instance = fi.tuner()
    before = getattr(instance, "stream_delay_micro_secs", 0)
    if before <= DELAY_US:
        yield
        return
    instance.stream_delay_micro_secs = DELAY_US
    try:
        yield
    finally:
        instance.stream_delay_micro_secs = before


Choice = tuple[str | None, Any]
"""(runner name or ``None`` for the first, tactic as JSON)."""

DEFAULT: Choice = (None, fi.FORCED_DEFAULT)
"""What FlashInfer runs when nothing was tuned."""


@contextlib.contextmanager
def forcing(choices: Mapping[str, Choice]) -> Iterator[dict[str, int]]:
    """Make each op in ``choices`` run the given tactic; yields how often each was called, to prove that it ran."""
    cls = fi.tuner_class()
    choose = cls.choose_one
    called: dict[str, int] = {}

    def choose_one(self: Any, custom_op: str, runners: Any, tuning_config: Any, inputs: Any, **kwargs: Any) -> Any:
        if custom_op not in choices:
            return choose(self, custom_op, runners, tuning_config, inputs, **kwargs)
        called[custom_op] = called.get(custom_op, 0) + 1
        name, tactic = choices[custom_op]
        runner = next((r for r in runners if name and type(r).__name__ == name), runners[0])
        return runner, fi.native(tactic)

    cls.choose_one = choose_one
    try:
        yield called
    finally:
        cls.choose_one = choose
