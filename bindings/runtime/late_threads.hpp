// Threads that outlive the interpreter.
#pragma once

namespace xpu_ops {

// Before 3.14 Python ends a thread that asks for the interpreter's lock too late by pthread_exit(), which unwinds its
// stack. Destructors that ask for the lock must not be unwound (pybind11's guards, the last reference to a tensor), and
// std::terminate() ends the process. From here on such a thread sleeps until the process ends, as it does from 3.14 on.
// Called at exit with the interpreter's lock.
void keep_late_threads() noexcept;

}  // namespace xpu_ops
