"""A Python language host for the Pulumi CLI, used where the official one is not on PATH.

The CLI talks to a language through a plugin, `pulumi-language-python`, which is
published only with the CLI's own downloads. This one speaks the same gRPC service
(`LanguageRuntime`) on the stubs that the Python SDK carries, runs programs through the
SDK's `pulumi-language-python-exec`, and runs policy packs. What only code generators
need answers UNIMPLEMENTED.
"""

from local.pulumi_host.install import PLUGIN, install, official_host, prepare_home

__all__ = ["PLUGIN", "install", "official_host", "prepare_home"]
