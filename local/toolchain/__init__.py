"""The toolchain: every program Tokenworks runs, pinned once and built or found on demand."""

from local.toolchain.build import cache_dir, ensure, ensure_debian, find, module_dir
from local.toolchain.pins import pins

__all__ = ["cache_dir", "ensure", "ensure_debian", "find", "module_dir", "pins"]
