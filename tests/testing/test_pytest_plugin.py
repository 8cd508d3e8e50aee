"""`pytest --xpu`: each run is a process of its own, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

# Runs on the CPU in every build: PYTORCH_XPU_FALLBACK_OP sends it there.
FALLS_BACK = "aten::erfinv"
USES_DEVICE = "import torch\nx = torch.ones(3, device='xpu')\n"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs choose their modes, whatever this suite runs under."""
    for name in ("DISCRETE", "POLICY", "REDZONE", "POISON", "CPU_DEVICES", "EMULATE", "INLINE"):
        monkeypatch.delenv(f"XPU_OPS_{name}", raising=False)
    for name in (
        "TRANSFORMERS_TEST_DEVICE",
        "DIFFUSERS_TEST_DEVICE",
        "PYTORCH_TESTING_DEVICE_ONLY_FOR",
        "PYTEST_ADDOPTS",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    def start(source: str, *options: str, **environment: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, timeout=180)

    return start


def test_without_the_option_nothing_is_imported_or_set(run) -> None:
    result = run(
        """
        import os, sys
        import pytest

        @pytest.mark.xpu_known_difference(reason="counts with --xpu alone")
        @pytest.mark.xpu_allow_fallback
        def test_nothing_heavy():
            assert not {"torch", "numpy", "xpu_ops"} & set(sys.modules)
            assert "xpu_ops_pytest" in sys.modules
            assert "TRANSFORMERS_TEST_DEVICE" not in os.environ
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= xpu =*")


def test_the_plugin_imports_pytest_alone() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import xpu_ops_pytest; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['xpu_ops_pytest']"


def test_a_fallback_fails_where_nobody_allows_it(run) -> None:
    result = run(
        USES_DEVICE
        + """
import pytest

def falls_back():
    return torch.erfinv(x)

def test_refused():
    falls_back()

@pytest.mark.xpu_allow_fallback
def test_all_allowed():
    falls_back()

@pytest.mark.xpu_allow_fallback("aten::erfinv")
def test_one_allowed():
    falls_back()

@pytest.mark.xpu_allow_fallback("aten::erf")
def test_another_allowed():
    falls_back()

def test_native():
    assert (x + 1).sum() == 6

def test_off_the_device():
    pass
""",
        "--xpu",
        PYTORCH_XPU_FALLBACK_OP=FALLS_BACK,
    )
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*ran on the CPU, without a kernel for xpu: aten::erfinv (1)*"])
    result.stdout.fnmatch_lines(
        [
            "*= xpu =*",
            "xpu:0: *GiB",
            "mode: default*",
            "tests: * used the device, 1 did not",
            "fallbacks*: 4 calls of 1 operators",
        ]
    )
    result.stdout.fnmatch_lines(["  aten::erfinv: 4 in 4 tests"])


def test_fallbacks_outside_of_a_call_are_seen(run) -> None:
    """In a fixture's end they fail, in a file's import they are listed."""
    result = run(
        USES_DEVICE
        + """
import pytest

y = torch.erfinv(x)

@pytest.fixture
def late():
    yield
    torch.erfinv(x)

def test_ends_on_the_cpu(late):
    pass

@pytest.mark.xpu_allow_fallback
def test_allowed(late):
    pass

def test_falls_back_once(late):
    torch.erfinv(x)

def test_forgets_what_it_took():
    torch.ones(3, device="xpu")
    torch.xpu.reset_accumulated_memory_stats()
""",
        "--xpu",
        PYTORCH_XPU_FALLBACK_OP=FALLS_BACK,
    )
    result.assert_outcomes(passed=3, errors=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "tests: 4 used the device, 0 did not",
            "outside of tests, as in the import of a file: aten::erfinv: 1 on the CPU",
            "fallbacks to the CPU: 4 calls of 1 operators",
        ]
    )


@pytest.mark.slow
def test_a_fallback_is_allowed_for_a_suite(run, pytester: pytest.Pytester) -> None:
    source = USES_DEVICE + "def test_it():\n    torch.erfinv(x)\n"
    run(source, "--xpu", "--xpu-allow-fallback", "erfinv", PYTORCH_XPU_FALLBACK_OP=FALLS_BACK).assert_outcomes(passed=1)
    pytester.makeini("[pytest]\nxpu_allow_fallback = aten::erfinv\n")
    result = run(source, "--xpu", PYTORCH_XPU_FALLBACK_OP=FALLS_BACK)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  aten::erfinv: 1 in 1 tests, allowed"])


def test_a_known_difference_fails_once_it_passes(run, pytester: pytest.Pytester) -> None:
    listed = pytester.makefile(".txt", differences="# by id\n*::test_listed_*: seen on the CPU device\n")
    result = run(
        USES_DEVICE
        + """
import pytest

@pytest.mark.xpu_known_difference(reason="differs")
def test_differs():
    assert x.sum() == 4

@pytest.mark.xpu_known_difference(reason="no longer differs")
def test_mended():
    assert x.sum() == 3

@pytest.mark.parametrize("n", [3, 4])
def test_listed_in_a_file(n):
    assert x.sum() == n
""",
        "--xpu",
        "--xpu-known-differences",
        str(listed),
    )
    result.assert_outcomes(xfailed=2, failed=2)
    result.stdout.fnmatch_lines(["*XPASS(strict)*no longer differs*"])


def test_known_differences_are_found_from_a_subfolder(pytester: pytest.Pytester, monkeypatch) -> None:
    """As options of the configuration file are given there, too."""
    pytester.makeini("[pytest]\naddopts = --xpu-known-differences known.txt\n")
    pytester.makefile(".txt", known="part/test_it.py::test_differs: seen on the CPU device\n")
    folder = pytester.mkdir("part")
    (folder / "test_it.py").write_text("def test_differs():\n    raise ValueError\n")
    monkeypatch.chdir(folder)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--xpu", timeout=180).assert_outcomes(xfailed=1)


@pytest.mark.parametrize("options", [("--xpu",), ("--xpu", "-n", "1")], ids=["alone", "xdist"])
def test_a_marker_that_cannot_be_fails_its_test(run, options: tuple[str, ...]) -> None:
    result = run(
        USES_DEVICE
        + """
import pytest

@pytest.mark.xpu_allow_fallback(["erfinv", "histc"])
def test_list():
    torch.erfinv(x)

@pytest.mark.xpu_allow_fallback(operator="histc")
def test_keyword():
    torch.erfinv(x)

@pytest.mark.xpu_known_difference
def test_no_reason():
    pass

def test_next():
    pass
""",
        *options,
        "-rfE",
        PYTORCH_XPU_FALLBACK_OP=FALLS_BACK,
        COLUMNS="200",
    )
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "*test_list*takes names of operators, such as 'aten::histc', got *erfinv*histc*",
            "*test_keyword*takes names of operators, such as 'aten::histc', got operator='histc'",
            "*test_no_reason*xpu_known_difference needs a reason",
        ]
    )


def test_strict_mode_is_set_before_a_conftest_looks(run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import torch\nCOUNT = torch.xpu.device_count()\nBLOCK = torch.empty(1000, device='xpu')\n")
    result = run(
        """
        import os
        import pytest, torch
        import conftest
        import xpu_ops

        FIRST = []

        def test_modes(two_xpu_devices):
            assert conftest.COUNT == 2
            assert conftest.BLOCK.isnan().all()
            with pytest.raises(RuntimeError):
                xpu_ops.as_cpu(torch.ones(2, device=two_xpu_devices[1]))

        @pytest.mark.parametrize("n", [1, 2])
        def test_each_test_draws_the_same(n, xpu_device):
            FIRST.append(torch.rand(3, device=xpu_device).tolist() + torch.rand(3).tolist())
            assert FIRST[-1] == FIRST[0]
        """,
        "--xpu-strict",
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["xpu:1: *", "mode: memory of its own, plans of a GPU (gpu), red zones, poisoned memory"]
    )


def test_an_error_of_any_device_is_that_of_its_test(run) -> None:
    result = run(
        """
        import torch

        def read_past_the_end(device):
            return torch.ones(3, device=device)[torch.tensor([5], device=device)]

        def test_fails():
            read_past_the_end("xpu:1")
            raise AssertionError("of its own")

        def test_reads():
            read_past_the_end("xpu:0")
            read_past_the_end("xpu:1")

        def test_next():
            assert torch.ones(3, device="xpu:1").sum() == 3
            assert torch.ones(3, device="xpu:0").sum() == 3
        """,
        "--xpu-strict",
    )
    result.assert_outcomes(passed=1, failed=2, errors=1)


def test_modes_that_come_too_late_are_refused(run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(early="import torch\nCOUNT = torch.empty(1, device='xpu').numel()\n")
    pytester.syspathinsert()
    source = "def test_it():\n    pass\n"
    result = run(source, "-p", "early", "--xpu-strict")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*the device was used before XPU_OPS_DISCRETE=1 * XPU_OPS_CPU_DEVICES=2 could be set*"]
    )
    run(source, "-p", "early", "--xpu").assert_outcomes(passed=1)


@pytest.mark.slow
def test_strict_mode_keeps_the_order_of_the_files(
    run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(randomly="def pytest_collection_modifyitems(items):\n    items.reverse()\n")
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    source = "RAN = []\ndef test_first():\n    assert not RAN\n    RAN.append(1)\ndef test_second():\n    assert RAN\n"
    run(source, "-p", "randomly", "--xpu").assert_outcomes(passed=1, failed=1)
    run(source, "-p", "randomly", "--xpu-strict").assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_variable_that_is_set_counts_more(run) -> None:
    source = "import torch\ndef test_count():\n    assert torch.xpu.device_count() == 3\n"
    run(source, "--xpu-strict", XPU_OPS_CPU_DEVICES="3").assert_outcomes(passed=1)


@pytest.mark.slow
def test_workers_of_xdist_report_what_they_ran(run) -> None:
    source = (
        USES_DEVICE + "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n):\n    torch.erfinv(x)\n"
    )
    options = ("-n", "2", "--xpu-strict", "--xpu-allow-fallback", "all")
    result = run(source, *options, PYTORCH_XPU_FALLBACK_OP=FALLS_BACK)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["tests: 6 used the device, 0 did not", "*: 6 calls of 1 operators"])


@pytest.mark.slow
def test_suites_that_ask_for_their_device_get_it(run) -> None:
    result = run(
        """
        import unittest
        import torch
        from torch.testing._internal.common_device_type import instantiate_device_type_tests
        from torch.testing._internal.common_utils import TestCase

        class TestDevice(TestCase):
            def test_type(self, device):
                self.assertEqual(torch.ones(1, device=device).device.type, "xpu")

        instantiate_device_type_tests(TestDevice, globals(), allow_xpu=True)

        class TestAccelerator(unittest.TestCase):
            @unittest.skipUnless(torch.xpu.is_available(), "needs an XPU")
            def test_accelerator(self):
                assert torch.accelerator.current_accelerator().type == "xpu"
        """,
        "--xpu",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_fixtures_skip_where_there_is_no_device(run) -> None:
    source = (
        "def test_one(xpu_device):\n    assert xpu_device.type == 'xpu'\ndef test_two(two_xpu_devices):\n    pass\n"
    )
    run(source, "--xpu", "-rs").assert_outcomes(passed=1, skipped=1)
    result = run(source, "-rs", XPU_OPS_DEVICE_MAPPING="gpu")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*run pytest with --xpu*"])


def test_a_number_of_devices_means_xpu(run) -> None:
    source = "def test_it(two_xpu_devices):\n    assert [d.index for d in two_xpu_devices] == [0, 1]\n"
    result = run(source, "--xpu-devices", "2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= xpu =*", "xpu:1: *GiB"])


def test_no_device_is_an_error(run) -> None:
    result = run("def test_it():\n    pass\n", "--xpu", XPU_OPS_DEVICE_MAPPING="gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*torch finds no xpu device*xpu-ops doctor*"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--xpu-emulate", "rtx"), "*XPU_OPS_EMULATE is 'rtx', expected one of a770, b580, max1550.*"),
        (("--xpu-emulate", ""), "*--xpu-emulate: expected the name of a GPU, got ''*"),
        (("--xpu", "--xpu-devices", "0"), "*--xpu-devices: expected a number of devices from 1 on, got '0'*"),
        (("--xpu", "--xpu-devices=-1"), "*--xpu-devices: expected a number of devices from 1 on, got '-1'*"),
        (("--xpu", "--xpu-known-differences", "none.txt"), "*--xpu-known-differences: none.txt: *No such file*"),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_words(run, options: tuple[str, ...], said: str) -> None:
    result = run("def test_it():\n    pass\n", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_write_past_a_block_is_an_error_of_its_test(run) -> None:
    result = run(
        """
        import ctypes
        import torch

        def test_writes_past_its_block():
            x = torch.ones(10, device="xpu")
            torch.xpu.synchronize()
            ctypes.memset(x.data_ptr() + 42, 7, 3)

        def test_next():
            assert torch.ones(10, device="xpu").sum() == 10
        """,
        "--xpu-strict",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*bytes 2 to 4 behind the end of a block of 40 bytes were written to*"])


def test_an_emulated_gpu_refuses_what_the_gpu_refuses(run) -> None:
    result = run(
        """
        import pytest, torch

        def test_limits():
            assert torch.xpu.get_device_name() == "Intel(R) Arc(TM) A770 Graphics"
            assert not torch.xpu.get_device_capability()["has_fp64"]
            with pytest.raises(RuntimeError, match="Required aspect fp64 is not supported on the device"):
                torch.ones(3, dtype=torch.float64, device="xpu").sin()
        """,
        "--xpu-emulate",
        "Arc A770",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["mode: emulates (Arc A770)"])
