"""Real SGLang servers for tests: started, asked, stopped, and everything about them written down.

:func:`serve` runs one server from start to end and returns a :class:`Ran`, so that several tests can look at one boot.
Only the GPU is not real (tunelaunch's CPU host); profiles and tactics are counted by the host, not by tunelaunch.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import evidence
import psutil
from evidence import GEMM1, GEMM2

from tunelaunch.demo.machine import Setup
from tunelaunch.demo.server import free_port, log_tail, wait_for

NAN, SCALED, SLOW = (GEMM1, 3), (GEMM1, 2), (GEMM2, 6)
"""Tactics that the host spoils in the starts that are about that."""

LAYERS = 2
BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Every bucket up to the 256 tokens of the KV cache, for each of the two ops."""

FLAGS = (
    "--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native",
    "--max-total-tokens", "256", "--max-running-requests", "16", "--chunked-prefill-size", "256",
    "--max-prefill-tokens", "256", "--disable-radix-cache", "--grammar-backend", "none", "--skip-server-warmup",
    "--disable-cuda-graph", "--random-seed", "0",
)  # fmt: skip

PROMPTS: Mapping[int, tuple[int, ...]] = {
    size: tuple(3 + (7 * i) % 250 for i in range(size)) for size in (24, 100, 200)
}
"""Prompts by length in tokens, asked in this order; each is one prefill of that size."""

ANSWER = 8
_READY_SECONDS = 900.0
_END_SECONDS = 120.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
_CLONE_NEWUTS = 0x04000000


@dataclass(frozen=True)
class Host:
    """Another host, as far as root can make one here: a host name (of a UTS namespace) and a user of its own."""

    name: str
    uid: int

    def become(self) -> None:
        """Turn this process, which is about to run the server, into one of that host and user."""
        _child()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWUTS):
            raise OSError(ctypes.get_errno(), "no UTS namespace")
        socket.sethostname(self.name)
        os.setgroups([])
        os.setgid(self.uid)
        os.setuid(self.uid)


@dataclass(frozen=True)
class Ran:
    """One server, from start to end."""

    directory: Path
    seconds: float
    """From the command to the first answer of /health."""
    pid: int
    listener: bool
    """Whether the launched process itself listens on the port."""
    stdin: str
    command: Sequence[str]
    statuses: Mapping[str, int]
    info: Any
    models: Any
    tokens: Sequence[Sequence[int]]
    log: str
    code: int | None
    left: Sequence[int]
    counts: Mapping[int, int] = field(default_factory=dict)
    """Calls of ``AutoTuner._profile_single_kernel`` by rank, as the CPU host counted them."""
    serving: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """{op: {tactic: {tokens: calls}}} for the answers to :data:`PROMPTS`, over all ranks."""
    saved: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """FlashInfer's own saved rows, by rank."""
    reports: Sequence[Mapping[str, Any]] = ()
    receipts: Sequence[Mapping[str, Any]] = ()

    @property
    def report(self) -> Mapping[str, Any]:
        """The only report of this start."""
        [report] = self.reports
        return report

    @property
    def profiles(self) -> int:
        """Profiles over all ranks."""
        return sum(self.counts.values())

    def answered(self, op: str, tokens: int) -> set[int]:
        """The tactics that ran ``op`` for calls of that many tokens while serving."""
        return {int(tactic) for tactic, sizes in self.serving.get(op, {}).items() if str(tokens) in sizes}

    def said(self, text: str) -> list[str]:
        """The lines of the log that contain ``text``."""
        return [line for line in self.log.splitlines() if text in line]


def serve(
    directory: Path,
    model: Path,
    *own: str,
    tunelaunch: bool = True,
    port: int | None = None,
    end: signal.Signals = signal.SIGKILL,
    sglang_cache: Path | None = None,
    flags: Sequence[str] = (),
    mortal: bool = False,
    host: Host | None = None,
    **variables: str,
) -> Ran:
    """Start a server in ``directory`` (made here), ask it everything, end it with ``end``, and say what was seen.

    ``own`` are tunelaunch's options. ``mortal`` takes root's right to ignore file modes away; with ``host``, which needs
    root, the server runs there. SIGKILL goes to the whole process group, for servers whose end is of no interest.
    """
    for name in ("counts", "run"):
        (directory / name).mkdir(parents=True)
    (directory / "stdin").touch()
    port = port or free_port()
    arguments = ["--model-path", str(model), "--port", str(port), *FLAGS, *flags]
    program = ["tunelaunch", *own] if tunelaunch else ["sglang.launch_server"]
    environ = environment(directory, sglang_cache or directory / "sglang-cache") | variables
    log = directory / "server.log"
    if host is not None:
        environ |= {"HOME": str(directory), "USER": host.name, "LOGNAME": host.name}
        _give(directory, host.uid)
    begun = time.monotonic()
    with log.open("wb") as out, (directory / "stdin").open("rb") as stdin:
        process = subprocess.Popen(
            [sys.executable, "-m", *program, *arguments],
            env=environ,
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=host.become if host else _mortal_child if mortal else _child,  # noqa: PLW1509 - no threads are about
        )
    try:
        _wait_ready(process, port, log)
        seconds = time.monotonic() - begun
        seen = _ask(process.pid, port, directory, tunelaunch)
    except BaseException:
        _kill(process)
        raise
    code, left = _end(process, end)
    return Ran(
        directory=directory,
        seconds=seconds,
        pid=process.pid,
        code=code,
        left=left,
        log=log.read_text(encoding="utf-8", errors="replace"),
        counts=evidence.profiles_by_rank(directory / "counts"),
        saved=evidence.saved_rows(directory, sglang_cache or directory / "sglang-cache"),
        receipts=evidence.load(directory.glob("run/tunelaunch-*/*/receipts/rank-*.json")),
        **seen,
    )


def environment(directory: Path, sglang_cache: Path) -> dict[str, str]:
    """The environment of a start: this one without SGLang's and tunelaunch's variables, and without a GPU."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    setup = Setup(gpu=None, flags=(), seconds=_READY_SECONDS)
    return setup.environ(base, counts=directory / "counts", sglang_cache=sglang_cache) | {
        "CUDA_VISIBLE_DEVICES": "",
        "XDG_RUNTIME_DIR": str(directory / "run"),
        "TUNELAUNCH_CACHE_DIR": str(directory / "root"),
    }


# -- while it runs -----------------------------------------------------------------------------------------------------


def get(port: int, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON (or ``None``) of one request; status 0 when nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data=data, headers={"Content-Type": "application/json"}
    )
    try:
        with _OPENER.open(request, timeout=120) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refused:
        return refused.code, None
    except OSError:
        return 0, None


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    wait_for(lambda: process.poll() is not None or get(port, "/health")[0] == 200, _READY_SECONDS)
    if process.poll() is not None or get(port, "/health")[0] != 200:
        raise AssertionError(f"no server (exit code {process.poll()}):\n" + "\n".join(log_tail(log, 60)))


def _ask(pid: int, port: int, directory: Path, tunelaunch: bool) -> dict[str, Any]:
    main = psutil.Process(pid)
    answers = {path: get(port, path) for path in ("/health", "/get_model_info", "/model_info", "/v1/models")}
    sampling = {"temperature": 0, "max_new_tokens": ANSWER, "ignore_eos": True}
    before = evidence.serving(directory / "counts")  # tunelaunch's trials have run the layer as well
    tokens = []
    for prompt in PROMPTS.values():
        status, answer = get(port, "/generate", {"input_ids": prompt, "sampling_params": sampling})
        answers["/generate"] = status, answer
        tokens.append(answer["output_ids"] if answer else [])

    def all_counted() -> evidence.Calls | None:
        calls = evidence.since(before, evidence.serving(directory / "counts"))
        numbers = [evidence.by_tokens(calls, op) for op in (GEMM1, GEMM2)]
        ranks = len(list((directory / "counts").glob("[0-9]*.tactics.json")))
        wanted = dict.fromkeys(PROMPTS, LAYERS * ranks) | {1: LAYERS * ranks * len(PROMPTS) * (ANSWER - 1)}
        return calls if all(n.get(size, 0) >= wanted[size] for n in numbers for size in wanted) else None

    serving = wait_for(all_counted, 20)
    assert serving, "the CPU host did not count every call"
    return {
        "listener": any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in main.net_connections("tcp")),
        "stdin": str(Path(f"/proc/{pid}/fd/0").readlink()),
        "command": main.cmdline(),
        "statuses": {path: status for path, (status, _) in answers.items()},
        "info": answers["/model_info"][1],
        "models": answers["/v1/models"][1],
        "tokens": tokens,
        "serving": serving,
        "reports": evidence.reports(directory, 30.0 if tunelaunch else 0.0),
    }


# -- its end -----------------------------------------------------------------------------------------------------------


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> tuple[int | None, list[int]]:
    """(exit code, processes of its session that are left some seconds later). Nothing is left behind in any case."""
    if how is signal.SIGKILL:
        _kill(process)
        return None, []
    try:
        process.send_signal(how)
        code = process.wait(_END_SECONDS)
        wait_for(lambda: not session_members(process.pid), 15)
        return code, session_members(process.pid)
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    for pid in session_members(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(_END_SECONDS)
    wait_for(lambda: not session_members(process.pid), 15)


def session_members(session: int) -> list[int]:
    """Live processes of a session, whatever group they moved to."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def _give(directory: Path, uid: int) -> None:
    for path in (directory, *directory.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def _child() -> None:
    # A test run in the background may have SIGINT ignored, and every process inherits that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _mortal_child() -> None:
    _child()
    # Without this capability root meets file modes as everybody does. Others do not have it anyway.
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)
