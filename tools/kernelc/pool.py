"""Feeds modules to kernelc worker processes and outlives their crashes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 300  # for one module; the largest takes seconds


@dataclass
class Result:
    module: str
    ok: bool
    log: str
    kernels: list[str] = field(default_factory=list)
    fp64: bool = False
    compile_ms: int = 0
    link_ms: int = 0
    check_ms: int = 0
    crashed: bool = False


@dataclass(frozen=True)
class Job:
    module: str
    source: Path
    prefix: Path  # where the worker writes; .spv.syclbin and .native.syclbin are appended
    native: bool = True  # false: the native file is left empty


class _Worker:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        # A file, not a pipe: a chatty compiler must not block on a reader that waits for the answer.
        self._stderr = tempfile.TemporaryFile()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
            )
        return self._process

    def run(self, job: Job) -> Result:
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        mark = self._stderr.seek(0, os.SEEK_END)
        timer = threading.Timer(TIMEOUT_S, process.kill)
        timer.start()
        try:
            fields = [str(job.source), str(job.prefix), *([] if job.native else ["portable"])]
            process.stdin.write(("\t".join(fields) + "\n").encode())
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            data = json.loads(line)
            return Result(
                job.module,
                data["ok"],
                data.get("log", "").strip(),
                data.get("kernels", []),
                data.get("fp64", False),
                data.get("compile_ms", 0),
                data.get("link_ms", 0),
                data.get("check_ms", 0),
            )
        code = process.wait()
        self._stderr.seek(mark)
        said = self._stderr.read().decode(errors="replace").strip()[-4000:]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        log = f"{job.source}: the device compiler {how} on this module\n{said}".strip()
        return Result(job.module, False, log, crashed=True)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        self._stderr.close()


def run_all(command: list[str], jobs: list[Job], parallel: int, done: Callable[[Result], None]) -> None:
    """Runs every job, largest source first; `done` is called under a lock as results come."""
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in sorted(jobs, key=lambda j: -j.source.stat().st_size):
        todo.put(job)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def loop() -> None:
        worker = _Worker(command)
        try:
            while not errors:
                try:
                    job = todo.get_nowait()
                except queue.Empty:
                    return
                result = worker.run(job)
                if result.crashed:  # once more in a new process: a module that cannot be compiled crashes again
                    result = worker.run(job)
                with lock:
                    done(result)
        except BaseException as error:  # handed to the caller's thread
            errors.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=loop) for _ in range(min(parallel, len(jobs)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
