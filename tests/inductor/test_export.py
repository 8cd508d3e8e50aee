"""Packages of torch._inductor.aoti_compile_and_package: right in a process of their own, from Python and from C++."""

from __future__ import annotations

import ast
import copy
import io
import json
import os
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from support import script
from test_compile_models import MODELS, Encoder
from test_compile_quantized import Convolution, Linear
from torch import nn
from torch._inductor import aoti_compile_and_package, aoti_load_package, config

import xpu_ops
from xpu_ops import _paths
from xpu_ops.inductor.aoti import package as package_file

aten = torch.ops.aten
ROOT = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="exporting a model needs g++")


def export(model: nn.Module, args: tuple[Any, ...], path: Path, **options: Any) -> str:
    """The path of a package; the model on xpu, in inference."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), args, **options)
    return str(aoti_compile_and_package(program, package_path=str(path)))


def same(package: str, model: nn.Module, *args: torch.Tensor, **tolerance: float) -> None:
    with torch.no_grad(), xpu_ops.fallback.forbid():
        torch.testing.assert_close(aoti_load_package(package)(*args), model(*args), **tolerance)


class Example(nn.Module):
    """As in examples/aoti/export.py, which the C++ program runs."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)
        self.register_buffer("table", torch.randn(10, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x + self.down(F.gelu(self.up(x))))
        return torch.softmax(y, -1) + self.table[x.long().clamp(0, 9)[:, 0]]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, nn.Module]:
    torch.manual_seed(0)
    model = Example().to("xpu")
    rows = torch.export.Dim("rows", min=1, max=1000)
    x = torch.ones(4, 64, device="xpu")
    folder = tmp_path_factory.mktemp("example")
    return export(model, (x,), folder / "model.pt2", dynamic_shapes=({0: rows},)), model


# ---- values


def test_in_a_fresh_process(example: tuple[str, nn.Module], tmp_path: Path) -> None:
    """No compiler there, and an empty kernel cache: everything comes from the package."""
    package, model = example
    x = torch.randn(7, 64, device="xpu")
    torch.save(x.cpu(), tmp_path / "x.pt")
    script.out(
        f"""
        import torch
        model = torch._inductor.aoti_load_package({package!r})
        x = torch.load({str(tmp_path / "x.pt")!r})
        torch.save(model(x.to("xpu")).cpu(), {str(tmp_path / "y.pt")!r})
        import xpu_ops
        assert not xpu_ops.fallback.counts(), xpu_ops.fallback.counts()
        """,
        XPU_OPS_CACHE_DIR=str(tmp_path / "cache"),
        CXX="/nowhere",
    )
    with torch.no_grad():
        torch.testing.assert_close(torch.load(tmp_path / "y.pt"), model(x).cpu())


def test_sizes_that_only_the_run_knows(example: tuple[str, nn.Module]) -> None:
    package, model = example
    loaded = aoti_load_package(package)
    for rows in (1, 3, 64, 999):
        x = torch.randn(rows, 64, device="xpu")
        with torch.no_grad():
            torch.testing.assert_close(loaded(x), model(x))


def test_on_another_stream(example: tuple[str, nn.Module]) -> None:
    package, model = example
    loaded, x = aoti_load_package(package), torch.randn(5, 64, device="xpu")
    stream = torch.xpu.Stream()
    stream.wait_stream(torch.xpu.current_stream())
    with torch.xpu.stream(stream):
        y = loaded(x)
    stream.synchronize()
    with torch.no_grad():
        torch.testing.assert_close(y, model(x))


def test_loading_runs_no_programs(example: tuple[str, nn.Module]) -> None:
    """Torch looks for the instructions of this processor at each load; the package does not depend on them."""
    package, model = example
    with zipfile.ZipFile(package) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("wrapper_metadata.json"))
        assert "AOTI_CPU_ISA" not in json.loads(archive.read(name))
    printed = script.out(
        f"""
        import subprocess, torch
        import torch._inductor.package
        def refused(*args, **kwargs):
            raise AssertionError(args)
        subprocess.Popen = subprocess.run = subprocess.check_output = refused
        from torch._inductor import cpu_vec_isa
        cpu_vec_isa.pick_vec_isa = refused
        print(torch._inductor.aoti_load_package({package!r})(torch.ones(4, 64, device="xpu")).shape)
        """
    )
    assert printed == "torch.Size([4, 64])"


def test_load_without_torch_compile(example: tuple[str, nn.Module]) -> None:
    """xpu_ops.aoti: no module of torch.compile is imported."""
    package, model = example
    x = torch.randn(7, 64)
    printed = script.out(
        f"""
        import sys, torch, xpu_ops
        model = xpu_ops.aoti.load({package!r})
        assert model.metadata()["xpu_ops"] == xpu_ops.__version__
        y = model(torch.tensor({x.tolist()}, device="xpu"))
        assert "torch._inductor" not in sys.modules and "torch._dynamo" not in sys.modules
        print(y.cpu().tolist())
        """
    )
    with torch.no_grad():
        torch.testing.assert_close(torch.tensor(ast.literal_eval(printed)), model(x.to("xpu")).cpu())


def test_the_arguments_of_a_package(example: tuple[str, nn.Module]) -> None:
    package, model = example
    loaded, x = xpu_ops.aoti.load(package), torch.ones(4, 64, device="xpu")
    with pytest.raises(TypeError, match="of the structure"):
        loaded(x, x)
    with pytest.raises(TypeError, match="keyword arguments"):
        loaded(x, y=x)
    assert "up.weight" in loaded.constant_names()
    with torch.no_grad():
        other = copy.deepcopy(model)
        other.up.weight.mul_(0.5)  # type: ignore[operator]
        loaded.load_constants(other.state_dict())
        torch.testing.assert_close(loaded(x), other(x))
    with pytest.raises(RuntimeError):
        loaded.load_constants({})


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_products_of_groups(dtype: torch.dtype, tmp_path: Path) -> None:
    """Experts of transformers: torch's shapes without data know bf16 alone, and transformers then takes Python."""

    class Groups(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            return F.grouped_mm(x, w, offs=ends).relu()

    x, w = (torch.randn(shape, device="xpu", dtype=dtype) for shape in ((12, 16), (3, 16, 32)))
    ends = torch.tensor([4, 4, 12], device="xpu", dtype=torch.int32)
    same(export(Groups(), (x, w, ends), tmp_path / "m.pt2"), Groups(), x, w, ends)
    with pytest.raises(RuntimeError, match="type"):
        F.grouped_mm(x.to("meta"), w.double().to("meta"), offs=ends.to("meta"))


def test_no_gradient_is_recorded(example: tuple[str, nn.Module]) -> None:
    x = torch.randn(5, 64, device="xpu", requires_grad=True)
    assert not aoti_load_package(example[0])(x).requires_grad


@pytest.mark.slow
def test_index_out_of_range(tmp_path: Path) -> None:
    """The error of a kernel that was compiled into the package."""

    class Lookup(nn.Module):
        def forward(self, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return t[i] * 2

    table, good = torch.randn(5, 3, device="xpu"), torch.tensor([0, 4], device="xpu")
    loaded = aoti_load_package(export(Lookup(), (table, good), tmp_path / "m.pt2"))
    torch.testing.assert_close(loaded(table, good), table[good] * 2)
    with pytest.raises(Exception, match="index out of bounds: 0 <= "):
        loaded(table, torch.tensor([0, 5], device="xpu"))
        torch.xpu.synchronize()


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("perceptron", marks=pytest.mark.slow),
        "encoder",
        pytest.param("convolutions", marks=pytest.mark.slow),
    ],
)
def test_models(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    if dtype == torch.bfloat16 and name == "encoder" and os.environ.get("XPU_OPS_TEST_LEVEL") != "full":
        pytest.skip("the full level has it")
    model = make().eval().to("xpu", dtype)
    x = torch.randn(shape, device="xpu", dtype=dtype)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    same(export(model, (x,), tmp_path / "m.pt2"), model, x, **tolerance)


@pytest.mark.slow
def test_frozen_convolutions(tmp_path: Path) -> None:
    """Folded batch norms, oneDNN's fused convolutions."""
    make, shape = MODELS["convolutions"]
    model, x = make().eval().to("xpu"), torch.randn(shape, device="xpu")
    with config.patch(freezing=True):
        package = export(model, (x,), tmp_path / "m.pt2")
    same(package, model, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(Linear, (5, 24), id="linear"),
        pytest.param(Convolution, (2, 3, 9, 9), id="convolution", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_weights_of_8_bits(make: Callable[[], nn.Module], shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = make().eval(), torch.rand(shape)
    with torch.no_grad():
        expected = model(x)
    with config.patch(freezing=True):
        package = export(model.to("xpu"), (x.to("xpu"),), tmp_path / "m.pt2")
    actual = aoti_load_package(package)(x.to("xpu")).cpu()
    step = 0.03 * expected.abs().max() / expected.std()
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=float(step))


class FewBits(nn.Module):
    """A linear layer by one of ATen's operators for packed weights; the scales are rounded in the graph."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.bits = bits
        packed = torch.randint(0, 256, (128, 128 if bits == 4 else 256), generator=g, dtype=torch.uint8)
        packed = packed.to("xpu")
        self.register_buffer(
            "packed", aten._convert_weight_to_int4pack(packed, 2) if bits == 4 else packed.view(torch.int8)
        )
        self.register_buffer("scales", torch.rand((4, 128, 2) if bits == 4 else (128,), generator=g).to("xpu"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = self.scales.to(x.dtype)
        if self.bits == 4:
            return aten._weight_int4pack_mm(x, self.packed, 64, scales).relu() + 1
        return aten._weight_int8pack_mm(x, self.packed, scales).relu() + 1


@pytest.mark.parametrize("bits", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_weights_of_few_bits(bits: int, tmp_path: Path) -> None:
    model, x = FewBits(bits), torch.randn(4, 256, device="xpu").bfloat16()
    same(package := export(model, (x,), tmp_path / "m.pt2"), model, x)
    (size,) = (z.file_size for z in zipfile.ZipFile(package).infolist() if z.filename.endswith(".so"))
    assert size < 450_000  # the weights of 128 x 256 and the host's code


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_optimized_models(weights: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128, bias=False)).bfloat16().eval()
    model, x = xpu_ops.optimize(net.to("xpu"), weights=weights), torch.randn(4, 256, device="xpu").bfloat16()
    same(export(model, (x,), tmp_path / "m.pt2"), model, x)


@pytest.mark.slow
def test_a_conditional(tmp_path: Path) -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,))

    x = torch.rand(9, device="xpu")
    package = export(Branch(), (x,), tmp_path / "m.pt2")
    for value in (x, -x):
        same(package, Branch(), value)


@pytest.mark.slow
def test_an_operator_without_a_c_function(tmp_path: Path) -> None:
    """Through torch's proxy executor."""

    class Roll(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.vecdot(torch.roll(x, 2, 1), x) + torch.special.zeta(x.abs() + 2, x.abs() + 1)[:, 0]

    x = torch.rand(6, 5, device="xpu")
    same(export(Roll(), (x,), tmp_path / "m.pt2"), Roll(), x)


@pytest.mark.slow
def test_whole_operators_have_c_functions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No call by name through the proxy executor, which boxes its arguments."""

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.cell = nn.GroupNorm(2, 4), nn.GRU(8, 8, batch_first=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.norm(x.view(2, 4, -1, 8))
            return torch.softmax(y, -1), self.cell(x)[0], y.argmax(-1), y.max(2).values

    model, x = Whole().to("xpu"), torch.randn(2, 12, 8, device="xpu")
    same(package := export(model, (x,), tmp_path / "m.pt2"), model, x)
    assert "proxy executor" not in caplog.text
    with zipfile.ZipFile(package) as archive:
        assert not any(n.endswith("wrapper.json") and len(archive.read(n)) > 20 for n in archive.namelist())


@pytest.mark.slow
def test_weights_outside_of_the_package(tmp_path: Path) -> None:
    model, x = Encoder().eval().to("xpu"), torch.randn(2, 9, 64, device="xpu")
    with config.patch({"aot_inductor.package_constants_in_so": False}):
        package = export(model, (x,), tmp_path / "m.pt2")
    loaded = aoti_load_package(package)
    loaded.load_constants(model.state_dict(), check_full_update=True)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), model(x))
        other = copy.deepcopy(model)
        for p in other.parameters():
            p.mul_(0.5)
        loaded.load_constants(other.state_dict(), check_full_update=True)
        torch.testing.assert_close(loaded(x), other(x))


@pytest.mark.slow
def test_on_the_second_device(example: tuple[str, nn.Module]) -> None:
    package, _ = example
    script.out(
        f"""
        import torch
        x = torch.ones(3, 64)
        results = []
        for index in range(2):
            model = torch._inductor.aoti_load_package({package!r}, device_index=index)
            y = model(x.to(f"xpu:{{index}}"))
            assert y.device == torch.device("xpu", index) and torch.xpu.current_device() == 0
            results.append(y.cpu())
        torch.testing.assert_close(*results)
        """,
        XPU_OPS_CPU_DEVICES="2",
    )


# ---- C++


def test_the_program_in_cpp(example: tuple[str, nn.Module], tmp_path: Path) -> None:
    """examples/aoti: no Python in the process."""
    package, model = example
    libraries = _paths.release_dir()
    program = tmp_path / "run_model"
    subprocess.run(
        [
            "make", "-C", str(ROOT / "examples" / "aoti"), f"PROGRAM={program}", f"TORCH={TORCH}", f"XPU_OPS={libraries}",
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    assert "libxpu_ops_torch.so" in linked and "python" not in linked.replace(
        sysconfig.get_path("purelib"), ""
    ).replace(str(libraries), "")
    done = subprocess.run([str(program), package, "3"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        expected = float(model(torch.ones(4, 64, device="xpu")).double().sum())
    assert float(done.stdout.split()[1]) == pytest.approx(expected, rel=1e-4)
    broken = subprocess.run([str(program), str(ROOT / "README.md")], capture_output=True, text=True, timeout=120)
    assert broken.returncode == 1 and broken.stderr


# ---- what is refused


def changed(package: str, path: Path, change: Callable[[str, bytes], bytes | None]) -> str:
    """A package whose files went through a function; None leaves one out."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return str(path)


def without(suffix: str) -> Callable[[str, bytes], bytes | None]:
    return lambda name, content: None if name.endswith(suffix) else content


def replaced(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes | None]:
    return lambda name, content: change(content) if name.endswith(suffix) else content


def line(key: bytes, value: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        head, separator, code = content.partition(b"\n\n")
        lines = [key + b" " + value if text.startswith(key + b" ") else text for text in head.split(b"\n")]
        return b"\n".join(lines) + separator + code

    return change


CHANGES = {
    "made for another torch": (replaced(".xpu_ops", line(b"torch", b"1.7")), "with torch 1.7, and this is torch"),
    "no kernels": (without(".xpu_ops"), "was not made by xpu_ops"),
    "another format": (replaced(".xpu_ops", lambda c: b"xpu_ops-model 9" + c[15:]), "another format"),
    "kernels cut off": (replaced(".xpu_ops", lambda c: c[:-100]), "damaged.*cut off"),
    "kernels without code": (replaced(".xpu_ops", lambda c: c[:60]), "damaged"),
    "kernels empty": (replaced(".xpu_ops", lambda c: b""), "damaged"),
    "a length is no number": (replaced(".xpu_ops", line(b"spirv", b"x")), "damaged.*no number"),
    "a length too large": (replaced(".xpu_ops", line(b"spirv", b"99999999999 0")), "damaged.*cut off"),
    "code changed": (replaced(".xpu_ops", lambda c: c[:-8] + bytes(8)), "damaged.*changed"),
    "library cut off": (replaced(".so", lambda c: c[:2000]), "."),
    "library empty": (replaced(".so", lambda c: b""), "."),
    "library is text": (replaced(".so", lambda c: b"library" * 100), "."),
    "no library": (without(".so"), "."),
    "weights cut off": (replaced(".so", lambda c: c[:-64]), "."),
    "metadata cut off": (replaced("wrapper_metadata.json", lambda c: c[:10]), "."),
    "metadata of another device": (
        replaced("wrapper_metadata.json", lambda c: c.replace(b'"xpu"', b'"mtia"')),
        ".",
    ),
    "nodes cut off": (replaced("wrapper.json", lambda c: c[:10]), "."),
    "weights of another length": (replaced(".so", lambda c: c + bytes(64)), "."),
    "no metadata": (without("_metadata.json"), "."),
    "metadata is no JSON": (replaced("wrapper_metadata.json", lambda c: b"}" * 80), "."),
    "two modules of kernels": (replaced(".xpu_ops", lambda c: c + c), "damaged.*cut off"),
}


# The rest runs with the full level.
SAMPLE = ("made for another torch", "kernels cut off")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.slow) for n in CHANGES])
def test_damaged_and_foreign_packages(name: str, example: tuple[str, nn.Module], tmp_path: Path) -> None:
    """Each in a process of its own: an exception, never a crash. A kernel's code is read by the first run."""
    change, message = CHANGES[name]
    if name == "nodes cut off":
        with zipfile.ZipFile(example[0]) as package:
            if not any(n.endswith("wrapper.json") for n in package.namelist()):
                pytest.skip("this model calls no operator by the proxy executor")
    path = changed(example[0], tmp_path / "m.pt2", change)
    printed = script.out(
        f"""
        import re, torch
        try:
            model = torch._inductor.aoti_load_package({path!r})
            model(torch.ones(4, 64, device="xpu"))
            torch.xpu.synchronize()
        except Exception as error:
            assert re.search({message!r}, str(error), re.S), error
            print("refused")
        """,
        XPU_OPS_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert printed.splitlines()[-1:] == ["refused"]


@pytest.mark.parametrize("size", [0.5, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, 100, 0.99))])
def test_truncated_packages(size: float, example: tuple[str, nn.Module], tmp_path: Path) -> None:
    content = Path(example[0]).read_bytes()
    path = tmp_path / "m.pt2"
    path.write_bytes(content[: int(size) if size >= 1 else int(len(content) * size)])
    printed = script.out(
        f"""
        import torch
        try:
            torch._inductor.aoti_load_package({str(path)!r})
        except Exception as error:
            print("refused")
        """
    )
    assert printed == "refused"


@pytest.mark.slow
def test_a_package_for_the_cpu_stays_one(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
    package = export(model, (x,), tmp_path / "m.pt2")
    with torch.no_grad():
        torch.testing.assert_close(aoti_load_package(package)(x), model(x))


def test_packages_name_their_makers(example: tuple[str, nn.Module]) -> None:
    metadata = aoti_load_package(example[0]).get_metadata()
    assert metadata["xpu_ops"] == xpu_ops.__version__ and metadata["torch"] == torch.__version__


def test_releases_of_torch_do_not_share_a_file_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor's cache is theirs together, and keeps a file whose name it has."""
    name, content = package_file.kernel_file(())
    assert package_file.kernel_file(()) == (name, content)
    monkeypatch.setattr(package_file, "torch_release", lambda: "2.99")
    other, changed = package_file.kernel_file(())
    assert other != name and changed != content and b"torch 2.99" in changed


def test_without_a_compiler(tmp_path: Path) -> None:
    wanted = r"needs a C\+\+ compiler.*install g\+\+"
    with config.patch({"cpp.cxx": ("/nowhere/g++",)}), pytest.raises(Exception, match=wanted):
        export(nn.ReLU(), (torch.ones(3, device="xpu"),), tmp_path / "m.pt2")


def test_an_operator_of_python_is_named(tmp_path: Path) -> None:
    @torch.library.custom_op("xpu_ops_test_export::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(x) + 1

    x = torch.randn(4, device="xpu")
    with pytest.warns(UserWarning, match="xpu_ops_test_export::twice is defined in Python"):
        package = export(Twice(), (x,), tmp_path / "m.pt2")
    torch.testing.assert_close(aoti_load_package(package)(x), x * 2 + 1)


# ---- programs


def test_save_and_load_of_a_program(tmp_path: Path) -> None:
    model, x = Encoder().eval().to("xpu"), torch.randn(2, 9, 64, device="xpu")
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        torch.export.save(program, tmp_path / "p.pt2")
        loaded = torch.export.load(tmp_path / "p.pt2")
        torch.testing.assert_close(loaded.module()(x), model(x))
        lowered = loaded.run_decompositions()
        assert all(p.device.type == "xpu" for p in lowered.state_dict.values())
        torch.testing.assert_close(lowered.module()(x), model(x))
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        buffer.seek(0)
        on_cpu = torch.load(buffer, map_location="cpu")
        assert all(t.device.type == "cpu" for t in on_cpu.values())


def test_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not among the requirements")
    pytest.importorskip("onnxscript", reason="onnxscript is not among the requirements")
    model, x = Encoder().eval(), torch.randn(2, 9, 64)
    graphs = []
    for device in ("cpu", "xpu"):
        path = tmp_path / f"{device}.onnx"
        torch.onnx.export(copy.deepcopy(model).to(device), (x.to(device),), path, dynamo=True)
        graphs.append([node.op_type for node in onnx.load(path).graph.node])
    assert graphs[0] == graphs[1] and "MatMul" in graphs[1]


def test_a_program_moves_between_devices() -> None:
    from torch.export.passes import move_to_device_pass

    model, x = Encoder().eval(), torch.randn(2, 9, 64)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        expected = model(x)
        there = move_to_device_pass(program, "xpu")
        torch.testing.assert_close(there.module()(x.to("xpu")).cpu(), expected, rtol=1e-4, atol=1e-5)
        back = move_to_device_pass(there, "cpu")
        torch.testing.assert_close(back.module()(x), expected)
