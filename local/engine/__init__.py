"""A real engine without a GPU: the CPU build of vLLM and a tiny model, for opt-in tests."""

from local.engine.install import IMAGE, Installed, ensure
from local.engine.parser import parsed

__all__ = ["IMAGE", "Installed", "ensure", "parsed"]
