"""The releases of torch: what pip is told of them, and which folder of the package serves which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import torch_release
from xpu_ops import _built, _paths


def test_what_a_wheel_requires() -> None:
    assert torch_release.requirement(["2.13"]) == "torch>=2.13,<2.14"
    assert torch_release.requirement(["2.13", "2.14", "2.15"]) == "torch>=2.13,<2.16"


def test_every_release_has_the_version_that_it_is_built_with() -> None:
    settings = torch_release.settings()
    assert [torch_release.series_of(version) for version in settings["patches"]] == settings["torch"]
    assert list(_built.RELEASES) == settings["torch"]
    assert _paths.torch_release() not in [torch_release.series_of(version) for version in torch_release.others()]


def test_releases_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch2.15", "torch2.9", "torch2.13", "modules"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(_paths, "package_dir", lambda: tmp_path)
    assert _paths.built_releases() == ["2.9", "2.13", "2.15"]


def test_the_release_that_is_imported_is_built() -> None:
    assert _paths.torch_release() in _paths.built_releases()
    assert (_paths.release_dir() / "manifest.json").is_file()
