"""The package's functions are what the package gives, whatever was imported before."""

from __future__ import annotations

import importlib
import pkgutil

from local import cluster


def test_no_module_hides_a_function_of_the_package() -> None:
    modules = {m.name for m in pkgutil.iter_modules(cluster.__path__)}
    for name in sorted(modules):
        importlib.import_module(f"local.cluster.{name}")
    assert modules & set(cluster.__all__) == set()
    assert all(callable(getattr(cluster, n)) or n.isupper() for n in cluster.__all__)
