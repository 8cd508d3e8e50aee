"""Executes tests in worker processes and appends what they did to the recording.

A worker is pytest with the plugin of worker.py. One that crashes or takes too long costs the test it was at, which is
recorded as such, and is replaced. What is recorded already is not run again, so a run can be stopped and taken up.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpu_ops._paths import cache_dir

from . import evidence

PIPES = "XPU_OPS_COVERAGE_PIPES"  # for the worker: "<fd to read from>,<fd to write to>"
IMPORTS = "XPU_OPS_COVERAGE_IMPORTS"  # modules to import first, comma-separated: what registers further kernels
COLLECTION_SECONDS = 300.0
FOLDERS = ("ops", "aten")  # of tests/: what compares operators with the CPU


@dataclass
class Options:
    tests: list[Path]  # what to collect: files or folders below a folder with support/compare.py
    path: Path  # the recording
    sample: int = 0  # run this many tests, spread evenly; 0: all
    ops: list[str] = field(default_factory=list)  # run only tests whose id names one of these
    workers: int = 0  # 0: one per core
    timeout: float = 120.0  # seconds a test
    again: bool = False  # forget the recording
    imports: list[str] = field(default_factory=list)  # modules that each worker imports first


class WorkerDied(Exception):
    """A worker ended, or did not answer in time. The message says which."""


class Process:
    """One worker: requests go in by one pipe, JSON lines come out of another."""

    def __init__(self, options: Options, log: Path) -> None:
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()
        env = {
            **{k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
            PIPES: f"{to_child},{from_child}",
            IMPORTS: ",".join(options.imports),
            # Evidence is about the device's kernels, also where small work would run on the calling thread.
            "XPU_OPS_INLINE": os.environ.get("XPU_OPS_INLINE", "0"),
            "PYTHONFAULTHANDLER": "1",
        }
        if options.imports:
            # Modules beside the caller, which is elsewhere than the tests; last, so that they hide nothing.
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), os.getcwd()]))
        # The tests and their plugins are those of the tree: no cache, no xdist, no colours.
        command = [sys.executable, "-m", "pytest", "-q", "--color=no", "--tb=line", "-W", "ignore"]
        command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "xpu_ops.coverage.worker"]
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [*command, *map(str, options.tests)],
            env=env, pass_fds=(to_child, from_child), start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, cwd=options.tests[0].parent,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""

    def receive(self, timeout: float) -> dict[str, Any]:
        """The next message. Raises WorkerDied."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise WorkerDied("timeout")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise WorkerDied("crash")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def send(self, unit: str) -> None:
        try:
            os.write(self._to, unit.encode() + b"\n")
        except BrokenPipeError:
            raise WorkerDied("crash") from None

    def kill(self) -> None:
        """Ends the process and what it started. It is the leader of a session of its own: nobody else's is meant."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self, *, kill: bool = False) -> int:
        """Ends the process once it has answered, or at once; its exit code, negative for a signal."""
        os.close(self._to)
        try:
            if kill:
                self.kill()
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()
        finally:
            os.close(self._from)
            self._log.close()


def choose(units: list[str], options: Options) -> list[str]:
    """The tests to run of those collected."""
    if options.ops:
        names = "|".join(re.escape(op) for op in options.ops)
        # A name stands alone, or behind test_: "add" is in test_values[add.Tensor-f32] but not in [addmm-f32].
        wanted = re.compile(rf"(?<![A-Za-z0-9_])(test_)?({names})(?![A-Za-z0-9_])")
        units = [u for u in units if wanted.search(u.partition("::")[2])]
    if options.sample and options.sample < len(units):
        step = len(units) / options.sample
        units = [units[int(i * step)] for i in range(options.sample)]
    return units


class Run:
    """One execution. `progress(done, total, unit)` is called from worker threads, one at a time."""

    def __init__(self, options: Options, progress: Callable[[int, int, str], None] = lambda *_: None) -> None:
        self.options, self.progress = options, progress
        self.lock = threading.Lock()
        self.pending: deque[str] = deque()
        self.counts: Counter[str] = Counter()
        self.problems: list[dict[str, Any]] = []  # what makes the exit code 1
        self.done = self.total = self.resumed = self.collected = 0
        self.seconds = 0.0
        self.stopped = threading.Event()
        self.running: set[Process] = set()
        self.errors: list[BaseException] = []

    def execute(self) -> None:
        """Raises RuntimeError where it cannot start. KeyboardInterrupt ends the workers and leaves the recording usable."""
        path = self.options.path
        if path.is_relative_to(cache_dir()):
            # Others must not write to it, whatever the umask.
            cache_dir().mkdir(mode=0o755, parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.log = path.with_suffix(".log")
        self.file = path.open("a")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.close()
            raise RuntimeError(f"another run is writing {path}") from None
        with self.file:
            self._execute(path)

    def _execute(self, path: Path) -> None:
        self.log.write_bytes(b"")
        first, units = self._start()
        recorded = self._recorded(path)
        chosen = choose(units, self.options)
        self.collected, self.total = len(units), len(chosen)
        self.pending.extend(u for u in chosen if u not in recorded)
        self.done = self.resumed = self.total - len(self.pending)
        for unit in set(chosen) & set(recorded):
            self._count(recorded[unit])
        workers = self.options.workers or len(os.sched_getaffinity(0))
        threads = [threading.Thread(target=self._serve, args=(first,))]
        threads += [threading.Thread(target=self._serve) for _ in range(min(workers, len(self.pending)) - 1)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.stopped.set()
            for worker in tuple(self.running):
                worker.kill()
            for thread in threads:
                thread.join()
            raise
        finally:
            self.seconds = time.monotonic() - start
        if self.errors:
            raise self.errors[0]

    def _start(self) -> tuple[Process, list[str]]:
        """A worker, and what it collected. Raises RuntimeError."""
        worker = Process(self.options, self.log)
        self.running.add(worker)
        try:
            return worker, worker.receive(COLLECTION_SECONDS)["collected"]
        except WorkerDied as why:
            self._end(worker, kill=True)
            raise RuntimeError(f"the tests cannot be collected ({why}); see {self.log}") from None

    def _end(self, worker: Process, *, kill: bool = False) -> int:
        self.running.discard(worker)
        return worker.stop(kill=kill)

    def _recorded(self, path: Path) -> dict[str, dict[str, Any]]:
        """Units that the recording already holds; it is begun anew where it is stale."""
        key = evidence.current_key(self.options.imports)
        found = None if self.options.again else evidence.Evidence.load(path)
        if found is not None and not found.stale_because(key):
            if not path.read_bytes().endswith(b"\n"):
                self.file.write("\n")
            return found.units
        self.file.truncate(0)
        header = {"schema": evidence.SCHEMA, "key": key, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.file.write(json.dumps(header) + "\n")
        return {}

    def _count(self, result: dict[str, Any]) -> None:
        self.counts[result["outcome"]] += 1
        if result["outcome"] in ("failed", "timeout", "crash"):
            self.problems.append(result)

    def _record(self, result: dict[str, Any]) -> None:
        with self.lock:
            self.file.write(json.dumps(result, separators=(",", ":")) + "\n")
            self.file.flush()
            self._count(result)
            self.done += 1
            self.progress(self.done, self.total, result["unit"])

    def _next(self) -> str | None:
        with self.lock:
            return self.pending.popleft() if self.pending and not self.stopped.is_set() else None

    def _serve(self, worker: Process | None = None) -> None:
        try:
            self._work(worker)
        except BaseException as error:  # handed to the thread that waits
            if not self.stopped.is_set():
                self.errors.append(error)
            self.stopped.set()

    def _work(self, worker: Process | None) -> None:
        while (unit := self._next()) is not None:
            if worker is None:
                worker, _ = self._start()
            start = time.monotonic()
            try:
                worker.send(unit)
                self._record(worker.receive(self.options.timeout))
            except WorkerDied as why:
                code = self._end(worker, kill=True)
                worker = None
                if self.stopped.is_set():  # ended by us: the test is to be run again
                    return
                outcome = str(why)
                message = f"no answer in {self.options.timeout:.0f} s" if outcome == "timeout" else f"exit code {code}"
                seconds = round(time.monotonic() - start, 3)
                self._record({"unit": unit, "outcome": outcome, "seconds": seconds, "message": message, "windows": []})
        if worker is not None:
            self._end(worker)
