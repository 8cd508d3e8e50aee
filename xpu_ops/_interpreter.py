"""Refuses subinterpreters, in which neither torch nor the extension works: stock torch hangs there or ends the process."""

from __future__ import annotations

_REFUSAL = "xpu_ops cannot be imported in a subinterpreter, nor can torch. Use threads or processes."

try:
    import ctypes
except ImportError as error:  # from Python 3.12 on it is refused there itself
    raise ImportError(_REFUSAL) from error


def refuse_subinterpreter() -> None:
    """Raise ImportError in any interpreter but the main one of the process."""
    of_thread, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    of_thread.restype = main.restype = ctypes.c_void_p
    if of_thread() != main():
        raise ImportError(_REFUSAL)


refuse_subinterpreter()
