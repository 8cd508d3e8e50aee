"""Devices: enumeration, mapping, properties, current device, errors that say what to do."""

from __future__ import annotations

import pytest
import torch
from support import script
from torch._inductor.runtime.hints import DeviceProperties

import xpu_ops


def test_there_is_a_device():
    assert torch.xpu.is_available()
    assert torch.xpu.device_count() >= 1
    assert torch.xpu.current_device() == 0


def test_properties():
    p = torch.xpu.get_device_properties(0)
    assert p.name == torch.xpu.get_device_name() != ""
    assert p.type in ("cpu", "gpu")
    assert p.total_memory > 1 << 28
    assert p.max_compute_units > 0
    assert p.max_work_group_size >= 64
    assert p.sub_group_sizes
    assert all(s & (s - 1) == 0 for s in p.sub_group_sizes)
    assert isinstance(p.has_fp16, bool)
    assert isinstance(p.has_fp64, bool)
    assert isinstance(p.has_atomic64, bool)
    assert p.driver_version
    assert p.platform_name
    assert p.vendor
    assert len(p.uuid.bytes) == 16
    assert str(p.uuid).replace("-", "") == bytes(p.uuid.bytes).hex()
    assert p.name in repr(p)


def test_counts_that_programs_divide_by():
    """As torch._inductor reads them for a launch; a CPU has neither execution units nor subslices to report."""
    p = torch.xpu.get_device_properties(0)
    assert min(p.gpu_eu_count, p.gpu_subslice_count, p.multi_processor_count) > 0
    if p.type == "cpu":
        assert p.gpu_eu_count == p.gpu_subslice_count == p.multi_processor_count == p.max_compute_units
    hints = DeviceProperties.create(torch.device("xpu", 0))
    assert hints.multi_processor_count == p.multi_processor_count


def test_capability_is_a_plain_dictionary():
    c = torch.xpu.get_device_capability()
    p = torch.xpu.get_device_properties()
    assert c["max_compute_units"] == p.max_compute_units
    assert c["sub_group_sizes"] == p.sub_group_sizes
    assert "uuid" not in c


def test_current_device_contexts():
    with torch.xpu.device(0):
        assert torch.xpu.current_device() == 0
    with torch.xpu.device_of(torch.empty(1, device="xpu")):
        assert torch.xpu.current_device() == 0
    with torch.xpu.device_of(torch.empty(1)):  # not an XPU tensor: no-op
        assert torch.xpu.current_device() == 0
    with torch.device("xpu"):
        assert torch.empty(2).device == torch.device("xpu", 0)
    torch.xpu.set_device(0)
    torch.xpu.set_device("xpu:0")


@pytest.mark.parametrize("index", [7, 15, 100])
def test_index_out_of_range(index):
    n = torch.xpu.device_count()
    with pytest.raises(RuntimeError, match=rf"device index is out of range.*\[0, {n}\), but got {index}"):
        torch.xpu.set_device(index)
    with pytest.raises(RuntimeError, match="out of range"):
        torch.empty(1, device=f"xpu:{index}")
    with pytest.raises(RuntimeError, match="out of range"):
        torch.xpu.get_device_properties(index)
    assert torch.xpu.current_device() == 0


def test_wrong_device_type():
    with pytest.raises(ValueError, match="Expected a xpu device"):
        torch.xpu.set_device("cpu")


def test_peer_access_of_a_device_to_itself():
    assert torch.xpu.can_device_access_peer(0, 0)


def test_mapping_is_readable_and_a_late_call_raises():
    torch.xpu.init()
    assert xpu_ops.device_mapping() in ("auto", "gpu", "cpu", "explicit")
    with pytest.raises(RuntimeError, match="after the devices were first used"):
        xpu_ops.set_device_mapping("cpu")
    with pytest.raises(ValueError, match="Unknown device mapping 'tpu'"):
        xpu_ops.set_device_mapping("tpu")


def test_mapping_cpu_and_explicit():
    code = """
        import torch, xpu_ops
        {}
        print(torch.xpu.device_count(), [torch.xpu.get_device_properties(i).type for i in range(torch.xpu.device_count())])
    """
    assert script.out(code.format("xpu_ops.set_device_mapping('cpu')")) == "1 ['cpu']"
    explicit = script.out(code.format(""), XPU_OPS_DEVICE_MAPPING="explicit")
    assert "'cpu'" in explicit


def test_mapping_without_a_match_says_so():
    done = script.run(
        "import torch; print(torch.xpu.is_available(), torch.xpu.device_count()); torch.empty(1, device='xpu')",
        ONEAPI_DEVICE_SELECTOR="cuda:*",
    )
    assert done.stdout.strip() == "False 0"
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: No XPU devices are available")
    assert "ONEAPI_DEVICE_SELECTOR" in last


def test_bad_mapping_variable():
    done = script.run("import torch; torch.empty(1, device='xpu')", XPU_OPS_DEVICE_MAPPING="nonsense")
    assert done.returncode == 1
    assert "XPU_OPS_DEVICE_MAPPING is 'nonsense', expected auto, gpu, cpu or explicit" in done.stderr


def test_a_subinterpreter_is_refused():
    """Before torch is imported, which would hang there; the main interpreter goes on."""
    inside = (
        "import sys\ntry:\n    import xpu_ops\nexcept ImportError as e:\n    print(e)\nprint('torch' in sys.modules)"
    )
    code = f"""
    import sys
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    interpreters.run_string(interpreters.create(), {inside!r} + "\\nsys.stdout.flush()")
    import torch
    print(torch.ones(2, device="xpu").sum().item())
    """
    lines = script.out(code).splitlines()
    assert lines[0].startswith("xpu_ops cannot be imported in a subinterpreter")
    assert lines[1:] == ["False", "2.0"]


def test_the_driver_starts_without_keeping_its_pages():
    """Its two libraries read 77 MiB of code and constants once, when they are loaded."""
    code = """
import re, torch
torch.xpu.init()
library, kib = "", {}
for line in open("/proc/self/smaps"):
    if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ r-.. \\S+ \\S+ \\S+ *(.*)", line):
        library = mapping[1].rsplit("/")[-1].split(".")[0]
    elif re.match("[0-9a-f]+-", line):
        library = ""
    elif line.startswith("Rss:") and library:
        kib[library] = kib.get(library, 0) + int(line.split()[1])
print(kib.get("libintelocl", 0), kib.get("libcommon_clang", 0))
"""
    driver, compiler = (int(kib) for kib in script.out(code).split())
    assert driver < 20 * 1024  # 41 MiB before
    assert compiler < 10 * 1024  # 5 MiB are relocated and so its own
