"""Recorded facts, and the process that is asked, with stand-ins for libraries that fail."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from doctorkit import GB10, H200, PRO, environment, host, is_valid, save

from tunelaunch.doctor import asking, recorded
from tunelaunch.doctor.asking import ask
from tunelaunch.errors import IdentityError

STAND_IN = '''
"""Stands in for a library that does not come back from its import."""
import os, pathlib, time
pathlib.Path(os.environ["MARK"]).write_text(str(os.getpid()))
{then}
'''


def test_facts_come_back_as_they_were_written(tmp_path: Path) -> None:
    made = host(PRO, GB10, H200)
    read = recorded.load(save(tmp_path / "facts.json", made))
    is_valid(made.to_json(), "facts")
    assert read.to_json() == made.to_json()
    assert [known.environment.id for known in read.devices if known.environment] == [
        environment(card).id for card in (PRO, GB10, H200)
    ]


def test_a_forged_environment_id_is_computed_again(tmp_path: Path) -> None:
    data = host(PRO).to_json()
    data["devices"][0]["environment"]["id"] = "0" * 12
    (device,) = recorded.from_json(data, "x").devices
    assert device.environment is not None
    assert device.environment.id == environment(PRO).id


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"schema": "tunelaunch/facts/9"}', "[" * 10_000])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(IdentityError):
        recorded.load(tmp_path / "facts.json")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Environment in which ``sglang`` is a stand-in; the caller writes it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(asking, "_NEEDED", {"sglang": ()})
    return {**os.environ, "PYTHONPATH": str(tmp_path), "MARK": str(tmp_path / "mark"), "TUNELAUNCH_LAUNCH": "L1"}


def test_a_process_that_hangs_is_given_up_and_ended(tmp_path: Path, library: dict[str, str]) -> None:
    (tmp_path / "sglang.py").write_text(STAND_IN.format(then="time.sleep(600)"))
    answer = ask(["sglang"], timeout_s=3.0, environ=library)
    assert answer.data == {}
    assert "no answer within 3 s" in answer.problems[0]
    pid = int((tmp_path / "mark").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_dies_is_told_with_its_last_line(tmp_path: Path, library: dict[str, str]) -> None:
    then = "import sys; print('CUDA is on fire', file=sys.stderr); sys.stderr.flush(); os._exit(9)"
    (tmp_path / "sglang.py").write_text(STAND_IN.format(then=then))
    answer = ask(["sglang"], timeout_s=60.0, environ=library)
    assert "exit 9: CUDA is on fire" in answer.problems[0]


def test_a_library_that_cannot_be_imported_is_a_problem_not_an_error(tmp_path: Path, library: dict[str, str]) -> None:
    then = "print('noise on stdout'); assert 'TUNELAUNCH_LAUNCH' not in os.environ; raise ImportError('libcuda.so.1')"
    (tmp_path / "sglang.py").write_text(STAND_IN.format(then=then))
    answer = ask(["sglang"], timeout_s=60.0, environ=library)
    assert answer.problems == ("SGLang: ImportError: libcuda.so.1",)


def test_what_is_not_installed_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_NEEDED", {"environment": ("no_such_library",)})
    answer = ask(["environment"])
    assert answer.data == {}
    assert answer.problems == (f"no_such_library not installed in {sys.prefix}",)
