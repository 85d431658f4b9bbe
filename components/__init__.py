"""Pulumi components, one concern a file: what an environment consists of.

They take rendered objects and typed arguments, and read neither files nor configuration.
"""

from components.cluster import ClusterArgs, cluster_of
from components.environment import Environment, EnvironmentArgs
from components.model import served_names
from components.program import Program, build

__all__ = [
    "ClusterArgs",
    "Environment",
    "EnvironmentArgs",
    "Program",
    "build",
    "cluster_of",
    "served_names",
]
