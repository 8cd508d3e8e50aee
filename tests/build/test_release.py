"""Classes of processors and compression of the wheel of `make dist`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools.kernelc import classes
from tools.pack_wheel import pack

MODULES = Path(__file__).resolve().parents[2] / "kernels" / "manifest"


def test_modules_belong_to_families() -> None:
    assert [classes.family(m) for m in ("sort_0110", "sort_fp64", "sort_01_fp64", "rnn", "attention_block")] == [
        "sort", "sort", "sort", "rnn", "attention_block",
    ]  # fmt: skip


def test_a_class_of_some_families() -> None:
    assert classes.serves("skx", "sort_0110") and classes.serves("core-avx2", "attention_0")
    assert classes.serves("sapphirerapids", "attention_01_fp64") and not classes.serves("sapphirerapids", "sort_0110")
    assert not classes.serves("core-avx2", "sort_gpu_01")
    assert classes.serves("sapphirerapids", "sort_0110", whole=True)
    named = {f for families in classes.FAMILIES.values() for f in families}
    assert named <= {p.stem for p in MODULES.glob("*.yaml")}, "no family of the manifest"


def test_a_packed_wheel_has_the_same_files(tmp_path: Path) -> None:
    wheel = tmp_path / "some-1-py3-none-any.whl"
    files = {"a/one.txt": b"x" * 100_000, "a/two.bin": bytes(range(256)) * 50, "empty": b""}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.external_attr = 0o755 << 16
            archive.writestr(info, data)
    before = wheel.stat().st_size
    pack(wheel)
    assert wheel.stat().st_size <= before
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert {i.filename: (archive.read(i), i.external_attr) for i in archive.infolist()} == {
            name: (data, 0o755 << 16) for name, data in files.items()
        }


def test_a_wheel_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bad.whl").write_bytes(b"no zip")
    with pytest.raises(zipfile.BadZipFile):
        pack(tmp_path / "bad.whl")
