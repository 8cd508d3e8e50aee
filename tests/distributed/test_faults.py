"""A rank ends, is late or leaves: the others see an error that names it, soon, and no process that stays."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support import ranks


def kill_in_all_reduce(
    tmp_path: Path, *, count: int, victim: int, elements: int, seconds: int, pause: float, **env: str
) -> tuple[list[subprocess.Popen[str]], list[str], float]:
    """The processes, what they wrote to stderr, and how long they went on after `victim` was killed in its second all_reduce."""
    body = f"""
        group({seconds})
        x = torch.ones({elements}, device="xpu")
        dist.all_reduce(x)
        print("together", flush=True)
        if rank == {victim}:
            time.sleep(60)
        dist.all_reduce(x)
    """
    processes = ranks.start_code(tmp_path, body, ranks=count, **env)
    for p in processes:
        assert p.stdout is not None and p.stdout.readline() == "together\n"
    time.sleep(pause)
    processes[victim].send_signal(signal.SIGKILL)
    begin = time.monotonic()
    errors = [p.communicate(timeout=90)[1] for p in processes]
    return processes, errors, time.monotonic() - begin


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    """Rank 1 is killed while rank 0 waits for it in an all_reduce."""
    (here, there), errors, took = kill_in_all_reduce(tmp_path, count=2, victim=1, elements=1000, seconds=60, pause=0.5)
    assert here.returncode == 1 and took < 20
    last = errors[0][errors[0].rindex("DistBackendError") :]
    assert "[rank 0] xccl: ALLREDUCE number 2 of Float[1000] failed after" in last
    assert f"Ended: rank 1 (process {there.pid} of " in last


@pytest.mark.slow
def test_a_killed_rank_of_four_is_named_by_all_others(tmp_path: Path) -> None:
    processes, errors, took = kill_in_all_reduce(
        tmp_path, count=4, victim=2, elements=100_000, seconds=40, pause=1, OMP_NUM_THREADS="1"
    )
    assert took < 60
    assert [p.returncode for p in processes] == [1, 1, -signal.SIGKILL, 1]
    for rank in (0, 1, 3):
        last = errors[rank][errors[rank].rindex("DistBackendError") :]
        assert f"[rank {rank}] xccl: ALLREDUCE number 2 of Float[100000] failed after" in last
        # A rank that has seen the error may have ended by then, too.
        assert re.search(rf"Ended: .*rank 2 \(process {processes[2].pid} of ", last), last


CALLS = {
    "recv": "dist.recv(x, 1)",
    "send": "[dist.send(x, 1) for _ in range(50)]",
    "irecv": "dist.irecv(x, 1).wait()",
    "batch": "[w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, x + 1, 1)])]",
    "a send after its end": "[(time.sleep(2), dist.send(x[:4].clone(), 1)) for _ in range(2)]",
    "recv from any": "dist.recv(x)",
    "in a group": "dist.recv(x, 2, group=two)",
    "broadcast": "dist.broadcast(x, 1)",
    "sparse all_reduce": "dist.all_reduce(torch.eye(4).to_sparse().to('xpu'))",
}


@pytest.mark.parametrize(
    "call", [pytest.param(c, marks=[pytest.mark.slow] * (c not in ("recv", "send"))) for c in CALLS]
)
def test_the_error_of_a_call_names_the_killed_rank(tmp_path: Path, call: str) -> None:
    """Sends, receives and what else ends another way than an all_reduce."""
    count = 3 if call == "in a group" else 2
    body = f"""
        group(10)
        x = torch.ones(1 << 20, device="xpu")
        dist.all_reduce(x)
        two = dist.new_group([0, ranks - 1], timeout=timedelta(seconds=10))
        print("together", flush=True)
        if rank:
            time.sleep(60)
        {CALLS[call]}
    """
    processes = ranks.start_code(tmp_path, body, ranks=count)
    for p in processes:
        assert p.stdout is not None and p.stdout.readline() == "together\n"
    begin = time.monotonic()
    for p in processes[1:]:
        p.send_signal(signal.SIGKILL)
    error = processes[0].communicate(timeout=90)[1]
    assert processes[0].returncode == 1 and time.monotonic() - begin < 40
    last = error[error.rindex("DistBackendError") :]
    victim = count - 1
    assert last.startswith("DistBackendError: [rank 0] xccl: ") and "ms (timeout 10000 ms)" in last
    assert f"Ended: rank {victim} (process {processes[victim].pid} of " in last
    if call in ("recv", "irecv", "send", "in a group"):
        assert f"{'SEND to' if call == 'send' else 'RECV from'} rank {victim} of Float[1048576]" in last


@pytest.mark.parametrize("backend", ["xccl", pytest.param("gloo", marks=pytest.mark.slow)])
def test_mismatches_raise_in_detail_mode(tmp_path: Path, backend: str) -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: both ranks raise for another shape, dtype or collective, and go on afterwards."""
    body = """
        group(30)
        def ones(*size, **options):
            return torch.ones(*size, device="xpu", **options)
        def attempt(call):
            try:
                call()
                print("no error", flush=True)
            except RuntimeError as e:
                print("Detected mismatch between collectives on ranks" in str(e), flush=True)
        attempt(lambda: dist.all_reduce(ones(3 + rank)))
        attempt(lambda: dist.all_reduce(ones(3, dtype=[torch.float32, torch.int32][rank])))
        attempt(lambda: dist.all_gather_into_tensor(ones(2 * (3 + rank)), ones(3 + rank)))
        attempt(lambda: dist.all_reduce(ones(3)) if rank else dist.broadcast(ones(3), 0))
        x = ones(3)
        dist.all_reduce(x)
        print(x.tolist(), flush=True)
    """
    processes = ranks.start_code(tmp_path, body, backend=backend, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    out = [p.communicate(timeout=120) for p in processes]
    assert [o[0].splitlines() for o in out] == [["True"] * 4 + ["[2.0, 2.0, 2.0]"]] * 2, out


def test_timeout_abort_and_destroy(tmp_path: Path) -> None:
    """A late rank is named with rank, number, collective and timeout; an abort wakes who waits; a group ends for good."""
    body = """
        import threading
        group(30)
        x = torch.ones(8, device="xpu")
        quick = dist.new_group(timeout=timedelta(seconds=1))
        slow = dist.new_group(timeout=timedelta(seconds=8))
        dist.all_reduce(x)
        if rank == 0:
            try:
                dist.all_reduce(x, group=quick)
            except dist.DistBackendError as e:
                print(str(e).splitlines()[0], flush=True)
            work = dist.all_reduce(x, group=slow, async_op=True)
            try:
                work.wait(timedelta(milliseconds=200))
            except dist.DistBackendError as e:
                print("wait", "200 ms" in str(e), work.is_completed(), flush=True)
            threading.Timer(0.5, slow._get_backend(torch.device("xpu")).abort).start()
            begin = time.monotonic()
            try:
                work.wait()
            except dist.DistBackendError as e:
                print("abort", "it was aborted" in str(e), time.monotonic() - begin < 4, flush=True)
            try:
                dist.all_reduce(x, group=slow)
            except RuntimeError as e:
                print(str(e).splitlines()[0], flush=True)
        time.sleep(0 if rank == 0 else 4)
        world = dist.group.WORLD
        dist.barrier()
        if rank == 0:
            del work
        dist.destroy_process_group()
        try:
            world._get_backend(torch.device("xpu")).allreduce([x])
        except RuntimeError as e:
            print(str(e).splitlines()[0], flush=True)
    """
    processes = ranks.start_code(tmp_path, body)
    out = [p.communicate(timeout=120) for p in processes]
    assert [p.returncode for p in processes] == [0, 0], out
    lines = out[0][0].splitlines()
    assert lines[0].startswith("[rank 0] xccl: ALLREDUCE number 1 of Float[8] failed after")
    assert "(timeout 1000 ms)" in lines[0] and "No word within 2 s from rank 1 (process " in lines[0]
    assert lines[1:] == [
        "wait True False",
        "abort True True",
        "xccl: the process group was aborted.",
        "xccl: the process group was destroyed.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_groups_leave_nothing_behind(tmp_path: Path, count: int) -> None:
    """Two hundred times a group of one or two processes: neither threads, file descriptors nor memory grow."""
    body = """
        import re
        def state():
            rss = int(re.search("VmRSS:\\s+([0-9]+)", open("/proc/self/status").read())[1])
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), rss
        def once(i):
            dist.init_process_group("xccl", init_method=f"file://{rendezvous}{i}", rank=rank, world_size=ranks)
            x = torch.ones(4, device="xpu")
            stream = torch.xpu.Stream()
            with torch.xpu.stream(stream):
                y = torch.ones(600, 600, device="xpu")
                works = [dist.all_reduce(y @ y, async_op=True), dist.all_reduce(x, async_op=True)]
            [w.wait() for w in works]
            works[1].get_future().then(lambda f: f.value()).wait()
            dist.destroy_process_group()
        for i in range(40):
            once(i)
        before = state()
        for i in range(40, 240):
            once(i)
        after = state()
        print(after[0] <= before[0], after[1] <= before[1], after[2] - before[2] < 30000, before, after)
    """
    processes = ranks.start_code(tmp_path, body, ranks=count)
    out = [p.communicate(timeout=600) for p in processes]
    assert all(o[0].startswith("True True True") for o in out), out
