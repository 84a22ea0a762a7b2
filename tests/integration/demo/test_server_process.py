"""Starting, waiting for and stopping a server process, with small real processes."""

from __future__ import annotations

import os
import sys

import pytest

from tunelaunch.demo.server import DemoError, free_port, log_tail, running

HEALTHY = """
import http.server, json, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply({"output_ids": asked["input_ids"][:asked["sampling_params"]["max_new_tokens"]]})
    def reply(self, value):
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(value).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


@pytest.fixture
def start(tmp_path):
    def begin(code, say=lambda text: None):
        port = free_port()
        command = [sys.executable, "-c", code, str(port)]
        return running(command, dict(os.environ), port=port, log=tmp_path / "server.log", say=say)

    return begin


def _gone(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_server_that_answers_is_ready_asked_and_gone_afterwards(start):
    with start(HEALTHY) as server:
        assert server.wait_ready(30, lambda text: None) < 30
        assert server.generate([5, 6, 7], 2) == [5, 6]
        group = server._group
    assert _gone(group)


def test_a_server_that_dies_is_named_with_its_exit_code_and_log(start):
    with pytest.raises(DemoError, match="exit code 7") as caught, start("print('why'); raise SystemExit(7)") as server:
        server.wait_ready(30, lambda text: None)
    assert log_tail(caught.value.log) == ["why"]


def test_a_server_that_never_answers_ends_at_the_deadline(start):
    with pytest.raises(DemoError, match="did not answer"), start("import signal; signal.pause()") as server:
        server.wait_ready(1, lambda text: None)
    assert _gone(server._group)


def test_a_block_that_fails_still_stops_the_server(start):
    with pytest.raises(KeyboardInterrupt), start(HEALTHY) as server:
        server.wait_ready(30, lambda text: None)
        raise KeyboardInterrupt
    assert _gone(server._group)


def test_children_that_outlive_the_server_are_killed_and_that_is_said(start, monkeypatch):
    monkeypatch.setattr("tunelaunch.demo.server._CHILDREN_SECONDS", 0.5)
    stubborn = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
sys.argv[1:] = [sys.argv[1]]
{HEALTHY}"""
    said = []
    with start(stubborn, said.append) as server:
        server.wait_ready(30, lambda text: None)
    assert any("killing its process group" in text for text in said)
