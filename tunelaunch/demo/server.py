"""One server process of the demo: start it, wait until it answers, ask it, stop it.

Guarantees: waiting ends by a condition or by a deadline; :meth:`Server.stop` ends this process and its own process
group and nothing else, politely first; a server that did not come up is a :class:`DemoError` that names its log.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunelaunch.errors import TunelaunchError

_POLL_SECONDS = 0.5
_PROGRESS_SECONDS = 5.0
_STOP_SECONDS = 60.0
_CHILDREN_SECONDS = 10.0
_WIDTH = 110

# A proxy from the environment must not be asked for this machine's own port.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DemoError(TunelaunchError):
    """The demo did not show what it set out to show; ``log`` is the log of the server concerned."""

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason)
        self.log = log


class Server:
    """A running server in a process group of its own, its output in ``log``."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, port: int, log: Path) -> None:
        self.log = log
        self.port = port
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                list(command),
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._group = self._process.pid

    def wait_ready(self, seconds: float, say: Callable[[str], None]) -> float:
        """Seconds until /health answered; raises :class:`DemoError` if the process ends or ``seconds`` pass first."""
        start = spoken = time.monotonic()
        while not self._healthy():
            now = time.monotonic()
            if now - start > seconds:
                raise DemoError(f"the server did not answer /health within {seconds:.0f} s", self.log)
            if now - spoken >= _PROGRESS_SECONDS:
                say(f"  {now - start:4.0f} s  {_last_line(self.log)}")
                spoken = now
            code = self._ended_within(_POLL_SECONDS)
            if code is not None:
                raise DemoError(f"the server ended with {_code_words(code)} before it was ready", self.log)
        return time.monotonic() - start

    def generate(self, input_ids: Sequence[int], tokens: int, seconds: float = 120.0) -> list[int]:
        """The ids that the server continues ``input_ids`` with, greedily; raises :class:`DemoError` if it does not."""
        asked = {
            "input_ids": list(input_ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/generate",
            data=json.dumps(asked).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with _OPENER.open(request, timeout=seconds) as answer:
                return [int(token) for token in json.load(answer)["output_ids"]]
        except (OSError, ValueError, KeyError, TypeError) as why:
            raise DemoError(f"/generate failed: {type(why).__name__}: {why}", self.log) from why

    def stop(self, say: Callable[[str], None]) -> None:
        """End the server: SIGTERM, up to a minute for it to finish, then SIGKILL to its process group (said)."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._ended_within(_STOP_SECONDS)
                wait_for(lambda: not self._group_exists(), _CHILDREN_SECONDS)
        finally:
            # Also when a second Ctrl-C cuts the wait short: nothing may be left behind.
            if self._group_exists():
                say("the server, or a child of it, did not end in time after SIGTERM: killing its process group")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._group, signal.SIGKILL)
            self._process.wait()

    def _group_exists(self) -> bool:
        self._process.poll()
        try:
            os.killpg(self._group, 0)
        except ProcessLookupError:
            return False
        return True

    def _healthy(self) -> bool:
        try:
            with _OPENER.open(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError, ValueError):
            return False

    def _ended_within(self, seconds: float) -> int | None:
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None


@contextlib.contextmanager
def running(
    command: Sequence[str], environ: Mapping[str, str], *, port: int, log: Path, say: Callable[[str], None]
) -> Iterator[Server]:
    """A server that is stopped on every way out of the block."""
    server = Server(command, environ, port=port, log=log)
    try:
        yield server
    finally:
        server.stop(say)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(look: Callable[[], Any], seconds: float) -> Any:
    """The first true result of ``look``, or its last one after ``seconds``."""
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def log_tail(log: Path, lines: int = 30) -> list[str]:
    """The last ``lines`` lines of a log, each cut to a readable width."""
    try:
        text = log.read_bytes()[-65536:].decode("utf-8", "replace")
    except OSError:
        return []
    # Progress bars rewrite their line with carriage returns; the last state is the one that counts.
    kept = [line.rsplit("\r", 1)[-1].rstrip() for line in text.split("\n")]
    return [line[: 2 * _WIDTH] for line in kept if line][-lines:]


def _last_line(log: Path) -> str:
    # An indented line continues another one (a warning's source, a traceback) and says nothing alone.
    told = [line for line in log_tail(log) if not line[0].isspace()]
    return told[-1][:_WIDTH] if told else "(no output yet)"


def _code_words(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
