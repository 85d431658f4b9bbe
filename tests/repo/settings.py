"""Who reads the stack's settings (`pulumi config`) in clear: a secret among them would be written
wherever its value goes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

VARIABLES = ("PULUMI_CONFIG", "PULUMI_CONFIG_SECRET_KEYS")
FUNCTIONS = ("get_config", "get_config_env", "get_config_secret_keys_env")


def clear_reads(source: str) -> list[int]:
    """Lines that read settings otherwise than by `get_secret` and `require_secret`, or may.

    A `Config` that is handed on counts: what becomes of it is not seen here.
    """
    if "pulumi" not in source.lower():
        return []
    tree = ast.parse(source)
    holders = set(_holders(tree))
    guarded = {id(node.value) for node in ast.walk(tree) if _guarded(node)}
    # The language host, which hands them to the program.
    written = {
        id(node.slice)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    found: list[int] = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text in VARIABLES and id(node) not in written:
                found.append(node.lineno)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in FUNCTIONS:
                found.append(node.lineno)
            case ast.Call() if _config(node.func) and id(node) not in guarded:
                # Bound to a name: each use of the name is judged instead.
                if not any(node is value for value, _ in _bound(tree)):
                    found.append(node.lineno)
            case ast.Name(id=name, ctx=ast.Load()) if name in holders and id(node) not in guarded:
                found.append(node.lineno)
            case _:
                pass
    return sorted(found)


def _config(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="Config") | ast.Attribute(attr="Config"):
            return True
        case _:
            return False


def _guarded(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and "secret" in node.attr


def _bound(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Calls of `Config`, each with a name that it is bound to."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if _config(
                value.func
            ):
                yield value, name
            case _:
                pass


def _holders(tree: ast.AST) -> Iterator[str]:
    return (name for _, name in _bound(tree))
