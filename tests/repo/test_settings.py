"""Nothing of the program reads a setting of the stack in clear: it may be a secret."""

from __future__ import annotations

import pytest

from tests.repo.settings import clear_reads
from tests.repo.tree import ROOT

ROOMS = ("__main__.py", "components", "local", "policies", "src")


def test_no_setting_is_read_in_clear() -> None:
    """Secrets have Secrets: `tokenSecret` of a model, `credentials` of a registry. A value that
    Pulumi itself must know is read by `pulumi.Config().require_secret`."""
    files = [
        file
        for room in ROOMS
        for file in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
    ]
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        for line in clear_reads(file.read_text())
    ]
    assert found == []
    assert len(files) > 100


@pytest.mark.parametrize(
    "source",
    [
        "pulumi.Config().get('token')",
        "pulumi.Config('hub').require('token')",
        "Config().require_object('token')",
        "c = pulumi.Config()\nx = c.get('token')",
        "c = pulumi.Config()\nx = c['token']",
        "c = Config()\nx = c.require_secret('token')\ny = c.require('token')",
        "c = pulumi.Config()\nshow(c)",
        "show(pulumi.Config())",
        "self.config = pulumi.Config()",
        "pulumi.runtime.get_config('p:token')",
        "from pulumi.runtime.config import get_config_env as g\nget_config_env()",
        "os.environ['PULUMI_CONFIG']",
        "os.environ.get('PULUMI_CONFIG')",
    ],
)
def test_a_reading_in_clear_is_found(source: str) -> None:
    assert clear_reads(f"import pulumi\n{source}") != []


@pytest.mark.parametrize(
    "source",
    [
        "pulumi.Config().require_secret('token')",
        "pulumi.Config('hub').get_secret_object('token')",
        "c = pulumi.Config()\nx = c.get_secret('token')",
        "os.environ['PULUMI_CONFIG_PASSPHRASE']",
        "variables['PULUMI_CONFIG'] = text",
        "config = read()\nx = config.get('token')",
        "plan.config.get('token')",
    ],
)
def test_other_readings_are_left_alone(source: str) -> None:
    assert clear_reads(f"import pulumi\n{source}") == []
    assert clear_reads("Config().get('of another library')") == []
