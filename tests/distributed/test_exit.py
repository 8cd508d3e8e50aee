"""Processes that end without destroy_process_group: with the exit code of the program, and in time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support import exits, ranks

GROUP = """
group(60)
x = torch.ones(1 << 18, device="xpu")
dist.all_reduce(x)
a = torch.randn(700, 700, device="xpu")
"""
# With work of the device, of the engine and of Python on its way.
BUSY = """
def callback(future):
    return sum(range(20_000)) and future.value()
for _ in range(6):
    a = a @ a * 0.01
    y = x + a[0, 0] * 0
    dist.all_reduce(y, async_op=True).get_future().then(callback)
"""
WAYS = {
    "nothing on its way": "",
    "kernels and collectives": "dist.all_reduce(x + (a @ a @ a)[0, 0], async_op=True)",
    "callbacks": BUSY,
    "callbacks and an exception": BUSY + "raise ValueError('the end')",
    "a group destroyed under its callbacks": BUSY.replace("(callback)", "(lambda f, g=dist.group.WORLD: callback(f))")
    + "dist.destroy_process_group()",
}
ROUNDS = 4 if os.environ.get("XPU_OPS_TEST_LEVEL") == "full" else 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_exit(tmp_path: Path, way: str, count: int) -> None:
    for attempt in range(ROUNDS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        processes = ranks.start_code(folder, GROUP + WAYS[way], ranks=count)
        for process in processes:
            _, error = process.communicate(timeout=120)
            raises = "exception" in way
            assert process.returncode == raises and ("ValueError: the end" in error) == raises, error[-3000:]
            assert "terminate" not in error, error[-3000:]


@pytest.mark.slow
def test_exit_beside_busy_processes() -> None:
    """Both endings; tests/support/exits.py runs 200."""
    with exits.busy(3):
        assert [line for number in range(2) for line in exits.run(number)] == []


@pytest.mark.parametrize(
    ("ending", "code", "soon"),
    [("raise ValueError('the end')", 1, 15), pytest.param("sys.exit(3)", 3, 40, marks=pytest.mark.slow)],
)
def test_a_collective_that_nobody_joins(tmp_path: Path, ending: str, code: int, soon: float) -> None:
    """After an exception it is given up in two seconds, else after its timeout; its callbacks run with the error."""
    body = f"""
        group(12)
        x = torch.ones(1 << 18, device="xpu")
        dist.all_reduce(x)
        if rank:
            time.sleep(60)
        print("alone", flush=True)
        dist.all_reduce(x, async_op=True).get_future().add_done_callback(lambda f: print("called", flush=True))
        {ending}
    """
    first, second = ranks.start_code(tmp_path, body)
    assert first.stdout is not None and first.stdout.readline() == "alone\n"
    begin = time.monotonic()
    out, error = first.communicate(timeout=90)
    took = time.monotonic() - begin
    second.kill()
    second.communicate()
    assert first.returncode == code and took < soon, (took, error[-3000:])
    assert out == "called\n" and "terminate" not in error
    assert code == 1 or took > 10


def test_python_memory_that_the_engine_frees_last(tmp_path: Path) -> None:
    """The process waits for it: a thread that asks for the interpreter's lock later would be unwound, and abort."""
    body = """
        import xpu_ops
        class Memory(bytearray):
            def __del__(self):
                time.sleep(1)
                print("freed", flush=True)
        group(60)
        x = torch.ones(64, device="xpu")
        dist.all_reduce(x)
        if rank == 1:
            time.sleep(2)
            dist.all_reduce(x)
        else:
            memory = torch.frombuffer(Memory(256), dtype=torch.float32)
            shared = xpu_ops.as_xpu(memory) if xpu_ops._C.host_accessible(0) else memory.to("xpu")
            del memory
            dist.all_reduce(shared, async_op=True)
            del shared
    """
    outs = []
    for process in ranks.start_code(tmp_path, body):
        out, error = process.communicate(timeout=120)
        assert (process.returncode, error) == (0, ""), error[-3000:]
        outs.append(out)
    assert outs == ["freed\n", ""]


@pytest.mark.parametrize("discrete", ["0", "1"])
def test_a_forked_child_does_not_wait(tmp_path: Path, discrete: str) -> None:
    """The other rank joins the collective once the child has ended. With memory of its own a device has a thread for it."""
    ended = str(tmp_path / "ended")
    body = f"""
        group(60)
        x = torch.ones(1 << 18, device="xpu")
        dist.all_reduce(x)
        while rank and not os.path.exists({ended!r}):
            time.sleep(0.05)
        work = dist.all_reduce(x, async_op=True)
        if rank == 0 and (child := os.fork()) == 0:
            sys.exit(7)
        if rank == 0:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            open({ended!r}, "w").close()
        work.wait()
    """
    first, second = ranks.start_code(tmp_path, body, XPU_OPS_DISCRETE=discrete)
    out, error = first.communicate(timeout=90)
    second.communicate(timeout=90)
    assert (first.returncode, second.returncode) == (0, 0), error[-3000:]
    assert out == "7\n"
