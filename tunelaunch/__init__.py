"""tunelaunch: ``python -m sglang.launch_server`` with a proven, persisted table of FlashInfer tactics."""

__version__ = "0.1.0"
