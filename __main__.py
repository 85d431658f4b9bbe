"""The Pulumi program: load the environment that the stack names, render it, apply it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

import pulumi  # noqa: E402

from components import Program, build  # noqa: E402
from local import cluster, images, toolchain  # noqa: E402
from tokenworks.catalog.engines import load_engines  # noqa: E402
from tokenworks.check.apply import refuse  # noqa: E402
from tokenworks.errors import TokenworksError  # noqa: E402
from tokenworks.render import RenderTools, pulumis_share  # noqa: E402
from tokenworks.render.handover import handed_over, releases_of  # noqa: E402
from tokenworks.spec.stacks import load_pulumi_stack  # noqa: E402


def main() -> None:
    """Register every resource of the stack."""
    stack, layers = load_pulumi_stack(ROOT, pulumi.get_stack())
    charts = toolchain.ensure("charts")["charts"]
    releases = releases_of(stack, RenderTools(charts, toolchain.module_dir), os.environ)
    # What was handed over has been checked by who did; plain `pulumi up` is checked here.
    if not handed_over(os.environ):
        refuse(stack, releases, images.local_image_names(), preview=pulumi.runtime.is_dry_run())
    kubeconfig, user = cluster.kubeconfig_path(stack.name), load_engines().engine("vllm").user
    build(Program(stack, layers, pulumis_share(stack, releases), kubeconfig, user))


try:
    main()
except TokenworksError as error:
    pulumi.log.error(str(error))
    sys.exit(32)  # tells the language host that the user has seen the error
