"""In a process that tunelaunch did not start, the plugin does nothing, and imports nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOOK = """
import os, sys
before = set(sys.modules)
from tunelaunch.ranks.plugin import register
register()
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("variables", [{}, {"TUNELAUNCH_LAUNCH": "", "TUNELAUNCH_CACHE_DIR": "/x"}])
def test_without_a_launch_the_plugin_imports_nothing(variables: dict[str, str]) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TUNELAUNCH_")} | variables
    done = subprocess.run([sys.executable, "-c", LOOK], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str(["__future__", "tunelaunch", "tunelaunch.ranks", "tunelaunch.ranks.plugin"])
