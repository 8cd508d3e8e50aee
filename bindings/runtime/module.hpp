// The parts of the Python module.
#pragma once
#include <pybind11/pybind11.h>

#include "kernels/runtime/device/device.hpp"

namespace xpu_ops {

void bind_memory(pybind11::module_& m);         // _xpu_* functions of torch.xpu.memory, MemPool
void bind_graph(pybind11::module_& m);          // XPUGraph
void bind_jit(pybind11::module_& m);            // JitModule, JitKernel: kernels compiled at run time
void bind_recording(pybind11::module_& m);      // functions that only a profiler needs
void bind_compiled_call(pybind11::module_& m);  // CompiledCall: what Dynamo does around a compiled function
void bind_triton(pybind11::module_& m);         // TritonKernel, TritonLauncher
void bind_onednn(pybind11::module_& m);         // the _onednn submodule behind xpu_ops.onednn
void bind_onemkl(pybind11::module_& m);         // the _onemkl submodule behind xpu_ops.onemkl
void bind_distributed(pybind11::module_& m);    // ProcessGroupXCCL

// A device index from Python, where -1 is the current device.
inline int checked(int device) { return device < 0 ? runtime::current_device() : device; }

}  // namespace xpu_ops
