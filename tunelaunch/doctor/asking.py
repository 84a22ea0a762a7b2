"""Ask a process of its own, for at most so many seconds: torch, SGLang and FlashInfer cost too much for a command line.

Guarantees: returns in time; the process and its children are ended; the plugin stays asleep in it; what could not be
answered comes with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunelaunch import contract

DEFAULT_TIMEOUT_S = 180.0
"""Seconds; imports take 5 s on a fast host, 40 s on a busy one with a cold disk."""

_NEEDED = {"environment": ("torch", "flashinfer"), "sglang": ("sglang",)}


@dataclass(frozen=True)
class Answer:
    """What the process said (:mod:`tunelaunch.doctor.facts`); ``problems`` has what it could not."""

    data: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def ask(
    parts: Sequence[str],
    arguments: Sequence[str] = (),
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    environ: Mapping[str, str] | None = None,
) -> Answer:
    """The answer to ``parts`` for SGLang's ``arguments``; a part whose libraries are not installed is not asked."""
    missing = {part: [name for name in _NEEDED[part] if importlib.util.find_spec(name) is None] for part in parts}
    problems = [f"{', '.join(names)} not installed in {sys.prefix}" for names in missing.values() if names]
    wanted = [part for part in parts if not missing[part]]
    if not wanted:
        return Answer({}, tuple(problems))
    env = dict(os.environ if environ is None else environ)
    for name in (contract.LAUNCH, contract.RUN_DIR):
        env.pop(name, None)
    home = str(Path(__file__).resolve().parents[2])
    env["PYTHONPATH"] = os.pathsep.join([*filter(None, [env.get("PYTHONPATH")]), home])
    command = [sys.executable, "-m", "tunelaunch.doctor.facts", *wanted, "--", *arguments]
    data, problem = _run(command, env, timeout_s)
    problems += [problem] if problem else []
    problems += [str(line) for line in data.pop("problems", [])]
    return Answer(data, tuple(problems))


def _run(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> tuple[dict[str, Any], str | None]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as why:
        return {}, f"SGLang and FlashInfer could not be asked ({why.strerror})"
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {}, f"SGLang and FlashInfer gave no answer within {timeout_s:g} s (--timeout SECONDS allows more)"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    try:
        data = json.loads(out)
    except ValueError:
        last = [line for line in err.splitlines() if line.strip()][-1:]
        return {}, f"SGLang and FlashInfer could not be asked (exit {process.returncode}: {' '.join(last)[:300]})"
    return (data, None) if isinstance(data, dict) else ({}, "SGLang and FlashInfer gave no usable answer")
