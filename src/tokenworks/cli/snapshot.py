"""`python -m tokenworks.cli.snapshot ENV`: an environment as data, by the code of this checkout.

`pr` runs it in the files of another commit, whose charts and code may be others.
"""

from __future__ import annotations

import sys

from tokenworks.cli.context import render_tools, root
from tokenworks.review.snapshot import Tools, take


def snapshot_tools() -> Tools:
    """What snapshots need of this machine, built or fetched when absent."""
    from local.images import local_image_names  # noqa: PLC0415
    from local.toolchain import cache_dir, ensure, module_dir  # noqa: PLC0415
    from tokenworks.check.environment import CheckTools  # noqa: PLC0415

    check = CheckTools(
        ensure("kubeconform")["kubeconform"],
        module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3",
        cache_dir() / "schemas",
    )
    return Tools(render_tools(), check, frozenset(local_image_names()))


if __name__ == "__main__":
    print(take(root(), sys.argv[1], snapshot_tools()).to_json())
