"""What is handed over is what was rendered; without it the environment is rendered."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.toolchain import module_dir
from tokenworks.render import RenderTools, handover, render
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.load import environment_names, load_stack

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.helm
@pytest.mark.parametrize("name", environment_names(ROOT))
def test_nothing_is_lost_on_the_way(name: str, renderer: Path, tmp_path: Path) -> None:
    stack, tools = load_stack(ROOT, name), RenderTools(renderer, module_dir)
    rendered = render(stack, tools)
    handover.write(rendered, tmp_path / "rendered.json")
    assert handover.releases_of(stack, tools, {}) == rendered
    given = {handover.VARIABLE: str(tmp_path / "rendered.json")}
    assert handover.releases_of(stack, RenderTools(Path("/none"), module_dir), given) == rendered


def test_it_is_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "rendered.json"
    for name in ("one", "two"):
        chart = RemoteChart("c", "https://charts", "c", "1.2.3", "x", {"n": [1, None]})
        release = Release(name, "models", "x", ({"n": 1, "t": "ü"},), ("a", "b"), 12.5, (chart,))
        handover.write([release], file)
        assert handover.read(file) == (release,)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["rendered.json"]
