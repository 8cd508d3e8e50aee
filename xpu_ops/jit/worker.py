"""The device compiler as a process: it may crash or hang, the library must not."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import tempfile
import threading
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from xpu_ops import _autoload
from xpu_ops._paths import package_dir
from xpu_ops.block.printer import WARM_UP

PRELUDE = "kernels/sycl/source/generated.hpp"
IDLE_SECONDS = 180.0  # a worker holds 200 MB
DEFAULT_TIMEOUT = 600.0


class CompileError(RuntimeError):
    """Raised where a kernel does not compile; the message holds the compiler's text with the lines of the source.

    Source: the diagnostics of libsycl-jit.
    """


class _Died(Exception):
    """The worker went away without an answer."""


def include_dir() -> Path:
    """The folder with the headers of device code."""
    return package_dir() / "include"


def options() -> list[str]:
    """The compiler's arguments. The headers of the system are not looked at, those of SYCL neither."""
    include = include_dir()
    return [
        "-std=c++20",
        "-O2",
        "-fsycl-device-code-split=off",
        "-fno-strict-bool=nonzero",  # a bool of a tensor may be any byte
        "-nostdinc",
        f"-I{include / 'kernels' / 'sycl' / 'shim'}",
        "-iquote",
        str(include),
    ]


def compiler_version() -> str:
    """The versions that generated code depends on."""
    return " ".join(f"{name}={metadata.version(name)}" for name in ("intel-sycl-rt", "intel-opencl-rt"))


def _timeout() -> float:
    text = os.environ.get("XPU_OPS_JIT_TIMEOUT", "")
    try:
        return float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        raise ValueError(f"XPU_OPS_JIT_TIMEOUT must be a number of seconds, not {text!r}") from None


def _environment() -> dict[str, str]:
    """The compiler links for the CPU, whatever else the machine has, and finds the libraries where this process did."""
    env = dict(os.environ)
    dirs = [str(d) for d in _autoload._library_dirs()]
    env["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu"
    extension: Any = _autoload.load()
    if target := extension.name_driver_target():  # code of another would be refused here
        env["CL_CONFIG_CPU_TARGET_ARCH"] = target
    env["LD_LIBRARY_PATH"] = os.pathsep.join([*dirs, *filter(None, [env.get("LD_LIBRARY_PATH")])])
    malloc = next((p for d in dirs if (p := Path(d) / "libtbbmalloc_proxy.so.2").exists()), None)
    if malloc is not None:  # the compiler spends a fifth less time with it
        env["LD_PRELOAD"] = " ".join(filter(None, [str(malloc), env.get("LD_PRELOAD")]))
    return env


def _program() -> Path:
    path = package_dir() / "kernelc"
    if not path.exists():
        raise CompileError(
            f"xpu_ops: the kernel compiler {path} is missing; the installation is incomplete. Reinstall xpu_ops, or run "
            "`make build` in a source tree."
        )
    return path


class _Process:
    """One running worker. Not thread-safe."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(_program()), f"--preamble={PRELUDE}", *options()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for this process; the worker ends when its input does
        )
        self._pending = b""

    def ask(self, source: Path, prefix: Path, timeout: float) -> dict[str, Any]:
        """Compile a file.

        Raises _Died where the worker ends, CompileError where it takes longer than `timeout` seconds.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{source}\t{prefix}\n".encode())
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._line(timeout))
        except (BrokenPipeError, ValueError) as error:
            raise _Died(self._last_words()) from error
        return answer

    def _line(self, timeout: float) -> bytes:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([fd], [], [], timeout)
            if not ready:
                self.kill()
                raise CompileError(
                    f"xpu_ops: the kernel compiler did not answer in {timeout:g} s and was ended; "
                    "XPU_OPS_JIT_TIMEOUT sets the limit."
                )
            data = os.read(fd, 1 << 16)
            if not data:
                raise _Died(self._last_words())
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _last_words(self) -> str:
        self.kill()
        self._errors.seek(0)
        tail = self._errors.read()[-2000:].decode(errors="replace").strip()
        return f"exit code {self._process.returncode}" + (f": {tail}" if tail else "")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid


class Worker:
    """Compiles one source after the other in a process that is started when needed and again when it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._idle: threading.Timer | None = None
        atexit.register(self.stop)
        os.register_at_fork(after_in_child=self._forget)

    def start(self) -> None:
        """Start the process in the background and let it parse the common header."""
        if self._process is None:
            threading.Thread(target=self._warm_up, daemon=True, name="xpu_ops kernel compiler").start()

    def _warm_up(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="xpu_ops-") as folder:
                path = Path(folder) / "warm_up.cpp"
                path.write_text(WARM_UP)
                self.compile(path, Path(folder) / "warm_up")
        except (OSError, RuntimeError):
            pass  # the first kernel that is wanted will say what is wrong

    def compile(self, source: Path, prefix: Path) -> dict[str, Any]:
        """Compile `source`; writes PREFIX.spv.syclbin and PREFIX.native.syclbin and returns kernelc's record.

        Raises:
            CompileError: where the source has an error, the compiler crashes twice or takes too long.
        """
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            answer = self._ask_twice(source, prefix)
            self._idle = threading.Timer(IDLE_SECONDS, self.stop)
            self._idle.daemon = True
            self._idle.start()
        return answer

    def _ask_twice(self, source: Path, prefix: Path) -> dict[str, Any]:
        for attempt in (1, 2):
            if self._process is None:
                self._process = _Process()
            try:
                return self._process.ask(source, prefix, _timeout())
            except _Died as death:
                self._process = None
                if attempt == 2:
                    raise CompileError(
                        f"xpu_ops: the kernel compiler crashed twice on this source ({death})."
                    ) from death
            except BaseException as error:
                # An interrupt, say: the answer that is still to come would be taken for that of the next source.
                if not isinstance(error, CompileError):
                    self._process.kill()
                self._process = None
                raise
        raise AssertionError

    def _forget(self) -> None:
        """In a forked child: the process, and a lock that some thread may have held, belong to the parent."""
        self._lock, self._process, self._idle = threading.Lock(), None, None

    def stop(self) -> None:
        """End the process; the next source starts another."""
        with self._lock:
            process, self._process = self._process, None
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
        if process is not None:
            process.close()

    @property
    def pid(self) -> int | None:
        """Of the running process, None where there is none."""
        return self._process.pid if self._process is not None else None


WORKER = Worker()
