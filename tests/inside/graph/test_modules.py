"""The path of a module, as Dynamo writes it and as a reader of the script would."""

from __future__ import annotations

import pytest

from minimizer.inside.graph.modules import module_path


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("L['self']._modules['blocks'][7].up", "blocks.7.up"),
        ("L['model'].layers[0]", "layers.0"),
        ("L['args'][0].model.layers[1].mlp", "model.layers.1.mlp"),
        ("L['args'][1]", "1"),
        ("L['self']._orig_mod._modules['up']", "up"),
        ("G['net'].up", "net.up"),
    ],
)
def test_a_path_is_as_the_script_has_it(source: str, path: str) -> None:
    assert module_path(source) == path
