// _C.TritonKernel and _C.TritonLauncher: the launch of kernels lowered from Triton IR, without pybind11. Triton and
// Inductor call launcher(grid x, y, z, stream, kernel, metadata, launch metadata, enter hook, exit hook, *arguments).
// The format has one letter per argument: p pointer, i integer, f float, d double, - one that no kernel sees.
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/callable.hpp"
#include "bindings/runtime/module.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/module/jit.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

constexpr Py_ssize_t kFixed = 9;  // arguments before those of the kernel

struct TritonKernel {
  std::shared_ptr<runtime::JitModule> module;  // outlives the kernel
  std::unique_ptr<sycl::kernel> kernel;
  runtime::HostFunction* here = nullptr;
  std::string name;
  std::vector<uint64_t> bound;  // address of the error record and numbers of texts, behind the arguments
  size_t local = 0;
};

struct Launcher {
  static constexpr const char* kType = "xpu_ops._C.TritonLauncher";
  static constexpr const char* kDoc = "Launches a TritonKernel on the current stream.";
  std::string format;
};

// `bytes`: of the tensors so far; an address says nothing of its size.
uint64_t pointer(Py_ssize_t index, PyObject* arg, int64_t& bytes) {
  if (THPVariable_Check(arg)) {
    const at::Tensor& t = THPVariable_Unpack(arg);
    bytes += aten::bytes_of(t);
    TORCH_CHECK_VALUE(!t.is_cpu() || t.is_pinned(), "Pointer argument (at ", index,
                      ") cannot be accessed from Triton (cpu tensor?)");
    return std::bit_cast<uint64_t>(t.mutable_data_ptr());
  }
  if (arg == Py_None) return 0;
  bytes = runtime::CallSize::kUnknown;
  if (PyLong_Check(arg)) return integer_field(arg);
  static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
  const auto address = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(arg, data_ptr));
  if (!address) {
    PyErr_Clear();
    C10_THROW_ERROR(TypeError, "Pointer argument must be either uint64 or have data_ptr method");
  }
  return integer_field(address.ptr());
}

uint64_t field(char letter, Py_ssize_t index, PyObject* arg, int64_t& bytes) {
  if (letter == 'p') return pointer(index, arg, bytes);
  if (letter == 'i') return integer_field(arg);
  const double v = PyFloat_AsDouble(arg);
  if (v == -1.0 && PyErr_Occurred()) throw python_error();
  return float_field(letter, v);
}

void call_hook(PyObject* hook, PyObject* metadata) {
  if (hook == Py_None) return;
  if (!py::reinterpret_steal<py::object>(PyObject_CallOneArg(hook, metadata))) throw python_error();
}

PyObject* call_launcher(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const std::string& format = Callable<Launcher>::of(self).format;
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    TORCH_CHECK_TYPE(n == kFixed + static_cast<Py_ssize_t>(format.size()) && !(kwnames && PyTuple_GET_SIZE(kwnames)),
                     "a Triton kernel expects ", format.size(), " arguments, got ", n - kFixed);
    const auto& kernel = *py::handle(args[4]).cast<TritonKernel*>();
    uint64_t values[runtime::kMaxFields];
    size_t count = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < format.size(); ++i)
      if (format[i] != '-') values[count++] = field(format[i], static_cast<Py_ssize_t>(i), args[kFixed + i], bytes);
    size_t groups = 1;
    for (int d = 0; d < 3; ++d) {
      values[count] = integer_field(args[d]);
      groups *= static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(values[count++])));
    }
    std::copy(kernel.bound.begin(), kernel.bound.end(), values + count);
    count += kernel.bound.size();
    call_hook(args[7], args[6]);
    if (groups > 0) {
      py::gil_scoped_release no_gil;
      runtime::Queue& queue = runtime::current_queue(kernel.module->device());
      const runtime::CallSize size(bytes);
      runtime::launch_packed(queue, kernel.name.c_str(), *kernel.kernel, kernel.here, groups, kernel.local, values,
                             count);
      if (!kernel.bound.empty()) runtime::check_kernel_errors(queue);
    }
    call_hook(args[8], args[6]);
    Py_RETURN_NONE;
  });
}

py::object make_launcher(const std::string& format) {
  TORCH_CHECK_VALUE(format.find_first_not_of("pifd-") == std::string::npos, "unknown letter in the format ", format);
  TORCH_CHECK_VALUE(format.size() + 16 <= runtime::kMaxFields, "a Triton kernel takes at most ",
                    runtime::kMaxFields - 16, " arguments, got ", format.size());
  return Callable<Launcher>::make(call_launcher, std::make_unique<Launcher>(format));
}

// `messages`: texts of assertions, whose numbers are the last fields, behind the address of the error record. `waits`:
// programs may wait for what the calling thread does next, which therefore launches them.
std::unique_ptr<TritonKernel> make_triton_kernel(const std::shared_ptr<runtime::JitModule>& module,
                                                 const std::string& name, size_t local,
                                                 const std::vector<std::string>& messages, bool waits) {
  TORCH_CHECK_VALUE(messages.size() < 12, name, ": a kernel has at most 11 texts of assertions, got ", messages.size());
  auto kernel = std::make_unique<TritonKernel>();
  kernel->module = module;
  kernel->kernel = translate([&] { return module->kernel(name); });
  if (!waits) kernel->here = module->here(name);
  kernel->name = name;
  kernel->local = local;
  if (!messages.empty()) kernel->bound = translate([&] { return runtime::error_fields(module->device(), messages); });
  return kernel;
}

}  // namespace

void bind_triton(py::module_& m) {
  py::class_<TritonKernel>(m, "TritonKernel")
      .def(py::init(&make_triton_kernel), py::arg("module"), py::arg("name"), py::arg("local"), py::arg("messages"),
           py::arg("waits"))
      .def_readonly("name", &TritonKernel::name);
  m.def("triton_launcher", &make_launcher, py::arg("format"));
}

}  // namespace xpu_ops
