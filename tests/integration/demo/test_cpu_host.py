"""The plugin of the CPU host stays out of the way unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

LOOK = """
import sys
from tunelaunch.demo.cpu_host import register
register()
print(sorted({"torch", "sglang"} & set(sys.modules)))
"""


def test_without_its_variable_it_imports_nothing():
    env = {name: value for name, value in os.environ.items() if name != "TUNELAUNCH_CPU_HOST"}
    done = subprocess.run([sys.executable, "-c", LOOK], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_with_it_processes_that_run_no_model_are_left_alone():
    env = os.environ | {"TUNELAUNCH_CPU_HOST": "1"}
    done = subprocess.run([sys.executable, "-c", LOOK], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
