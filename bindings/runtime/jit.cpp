// _C.JitModule and _C.JitKernel: kernels compiled while the process runs, and their launch from Python without
// pybind11. A kernel takes one struct of 8-byte fields. Its signature has one letter per argument of the call: p
// pointer (a tensor, or None for null), i integer, f float, d double.
#include <ATen/ops/empty_strided.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <bit>
#include <map>
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

using runtime::JitModule;

struct Kernel {
  static constexpr const char* kType = "xpu_ops._C.JitKernel";
  static constexpr const char* kDoc =
      "A compiled kernel; kernel(groups, *arguments) launches it on the current stream.";
  std::shared_ptr<JitModule> module;  // outlives the kernel
  std::unique_ptr<sycl::kernel> kernel;
  runtime::HostFunction* here = nullptr;
  std::string name, signature;
  std::vector<uint64_t> bound;  // fields behind those of the call
  size_t local = 0;
  bool reports = false;  // may write the device's error record
};

[[noreturn]] void wrong_type(const Kernel& s, size_t index, const char* expected, PyObject* found) {
  C10_THROW_ERROR(TypeError,
                  c10::str(s.name, ": argument ", index, " must be ", expected, ", not ", Py_TYPE(found)->tp_name));
}

// `bytes`: of the tensors so far.
uint64_t pointer(const Kernel& s, size_t index, PyObject* arg, int64_t& bytes) {
  if (arg == Py_None) return 0;
  if (!THPVariable_Check(arg)) wrong_type(s, index, "a tensor", arg);
  const at::Tensor& t = THPVariable_Unpack(arg);
  bytes += aten::bytes_of(t);
  const auto address = std::bit_cast<uint64_t>(t.mutable_data_ptr());
  // A kernel that finds an index out of range reads element 0 instead, of an empty tensor the error record.
  return address == 0 && s.reports ? s.bound.front() : address;
}

uint64_t integer(const Kernel& s, size_t index, PyObject* arg) {
  if (!PyIndex_Check(arg)) wrong_type(s, index, "an integer", arg);
  return integer_field(arg);
}

double float_value(const Kernel& s, size_t index, PyObject* arg) {
  const double v = PyFloat_AsDouble(arg);
  if (v == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    wrong_type(s, index, "a number", arg);
  }
  return v;
}

uint64_t field(const Kernel& s, size_t index, PyObject* arg, int64_t& bytes) {
  switch (s.signature[index]) {
    case 'p': return pointer(s, index, arg, bytes);
    case 'i': return integer(s, index, arg);
    default: return float_field(s.signature[index], float_value(s, index, arg));
  }
}

// kernel(groups, *arguments), on the current stream of its device.
PyObject* call_kernel(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Kernel& s = Callable<Kernel>::of(self);
    const size_t n = static_cast<size_t>(PyVectorcall_NARGS(nargsf)), fields = s.signature.size();
    TORCH_CHECK_TYPE(n == fields + 1 && !(kwnames && PyTuple_GET_SIZE(kwnames)), s.name,
                     ": expected the number of work-groups and ", fields, " arguments, got ", n);
    const long long groups = PyLong_AsLongLong(args[0]);
    if (groups == -1 && PyErr_Occurred()) throw python_error();
    if (groups <= 0) Py_RETURN_NONE;
    uint64_t values[runtime::kMaxFields];
    int64_t bytes = 0;
    for (size_t i = 0; i < fields; ++i) values[i] = field(s, i, args[i + 1], bytes);
    std::copy(s.bound.begin(), s.bound.end(), values + fields);
    {
      py::gil_scoped_release no_gil;
      runtime::Queue& queue = runtime::current_queue(s.module->device());
      const runtime::CallSize size(bytes);
      runtime::launch_packed(queue, s.name.c_str(), *s.kernel, s.here, static_cast<size_t>(groups), s.local, values,
                             fields + s.bound.size());
      if (s.reports) runtime::check_kernel_errors(queue);
    }
    Py_RETURN_NONE;
  });
}

// `messages`: texts of assertions, for a kernel that may write the error record.
py::object make_jit_kernel(const std::shared_ptr<JitModule>& module, const std::string& name, size_t local,
                           const std::string& signature, const std::vector<std::string>& messages) {
  const size_t bound = messages.empty() ? 0 : messages.size() + 1;
  TORCH_CHECK_VALUE(signature.size() + bound <= runtime::kMaxFields, name, ": a kernel takes at most ",
                    runtime::kMaxFields, " arguments, got ", signature.size() + bound);
  TORCH_CHECK_VALUE(signature.find_first_not_of("pifd") == std::string::npos, name,
                    ": unknown letter in the signature ", signature);
  auto state = std::make_unique<Kernel>();
  state->module = module;
  state->kernel = translate([&] { return module->kernel(name); });
  state->here = module->here(name);
  state->name = name;
  state->signature = signature;
  state->local = local;
  if (!messages.empty()) {
    state->reports = true;
    state->bound = translate([&] { return runtime::error_fields(module->device(), messages); });
  }
  return Callable<Kernel>::make(call_kernel, std::move(state));
}

JitModule::Bytes to_bytes(const py::bytes& data) {
  const std::string_view v = data;
  return {v.begin(), v.end()};
}

void read_ints(PyObject* tuple, c10::SmallVector<int64_t, 6>& out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) out.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  if (PyErr_Occurred()) throw python_error();
}

// As torch._C._dynamo.guards._empty_strided_xpu of a build with XPU: sizes and strides as tuples, a dtype.
PyObject* empty_strided_xpu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(n == 3 && PyTuple_Check(args[0]) && PyTuple_Check(args[1]) && THPDtype_Check(args[2]),
                     "_empty_strided_xpu expects a tuple of sizes, a tuple of strides and a dtype");
    c10::SmallVector<int64_t, 6> sizes, strides;
    read_ints(args[0], sizes);
    read_ints(args[1], strides);
    const auto dtype = reinterpret_cast<THPDtype*>(args[2])->scalar_type;
    return THPVariable_Wrap(at::empty_strided(sizes, strides, at::TensorOptions().dtype(dtype).device(at::kXPU)));
  });
}

bool has_layout(const at::Tensor& t, PyObject* sizes, PyObject* strides) {
  if (t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  const Py_ssize_t dims = t.dim();
  if (PyTuple_GET_SIZE(sizes) != dims || PyTuple_GET_SIZE(strides) != dims) return false;
  for (Py_ssize_t i = 0; i < dims; ++i) {
    const int64_t size = t.sizes()[i];
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)) != size) return false;
    if (size > 1 && PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)) != t.strides()[i]) return false;
  }
  return true;
}

// As torch._C._dynamo.guards.assert_size_stride, which makes a stream for its message first, at ten times the cost.
// A tensor that does not fit goes to it.
PyObject* assert_size_stride(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n >= 3 && THPVariable_Check(args[0]) && PyTuple_CheckExact(args[1]) && PyTuple_CheckExact(args[2]) &&
        has_layout(THPVariable_Unpack(args[0]), args[1], args[2]))
      Py_RETURN_NONE;
    PyErr_Clear();
    const py::object upstream = py::module_::import("torch._C._dynamo.guards").attr("assert_size_stride");
    return PyObject_Vectorcall(upstream.ptr(), args, static_cast<size_t>(n), nullptr);
  });
}

// `with scope:` makes its device the current one, as torch.xpu._DeviceGuard does in Python. One object serves every
// thread and every depth: the devices to go back to lie on a stack of the thread.
struct DeviceScope {
  PyObject_HEAD int device;

  static c10::SmallVector<int, 8>& before() {
    thread_local c10::SmallVector<int, 8> devices;
    return devices;
  }
  static PyObject* enter(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
      before().push_back(runtime::exchange_device(reinterpret_cast<DeviceScope*>(self)->device));
      Py_RETURN_NONE;
    });
  }
  static PyObject* exit(PyObject*, PyObject* const*, Py_ssize_t) {
    return guarded([&]() -> PyObject* {
      runtime::exchange_device(before().pop_back_val());
      Py_RETURN_FALSE;
    });
  }
  static PyTypeObject* type() {
    static PyMethodDef methods[] = {
        {"__enter__", enter, METH_NOARGS, nullptr},
        {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(exit)), METH_FASTCALL, nullptr},
        {nullptr, nullptr, 0, nullptr}};
    static PyTypeObject type = [] {
      PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
      t.tp_name = "xpu_ops._C.DeviceScope";
      t.tp_doc = "Makes a device the current one within a with statement.";
      t.tp_basicsize = sizeof(DeviceScope);
      t.tp_flags = Py_TPFLAGS_DEFAULT;
      t.tp_methods = methods;
      t.tp_dealloc = [](PyObject* self) { Py_TYPE(self)->tp_free(self); };
      return t;
    }();
    static const int ready = PyType_Ready(&type);
    if (ready < 0) throw py::error_already_set();
    return &type;
  }
  static py::object make(int device) {
    auto* scope = PyObject_New(DeviceScope, type());
    if (!scope) throw py::error_already_set();
    scope->device = checked(device);
    return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(scope));
  }
};

// The detour is how CPython's own modules cast METH_FASTCALL functions.
PyMethodDef empty_strided_def = {
    "_empty_strided_xpu", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty_strided_xpu)), METH_FASTCALL,
    "_empty_strided_xpu(size: tuple, stride: tuple, dtype: torch.dtype) -> Tensor\n\n"
    "Empty tensor on the current XPU device."};
PyMethodDef assert_size_stride_def = {
    "assert_size_stride", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(assert_size_stride)),
    METH_FASTCALL,
    "assert_size_stride(item: Tensor, size: tuple, stride: tuple, op_name: str = None) -> None\n\n"
    "Raises AssertionError where a tensor has another layout."};

}  // namespace

void bind_jit(py::module_& m) {
  py::class_<JitModule, std::shared_ptr<JitModule>>(m, "JitModule")
      .def_static(
          "find", [](const std::string& digest, int device) { return JitModule::find(digest, checked(device)); },
          py::call_guard<py::gil_scoped_release>())
      .def_static("add",
                  [](const std::string& digest, int device, const py::bytes& spirv, const py::bytes& native,
                     const std::string& target) {
                    const JitModule::Bytes portable = to_bytes(spirv), code = to_bytes(native);
                    py::gil_scoped_release no_gil;
                    return JitModule::add(digest, checked(device), portable, code, target);
                  })
      .def("kernel", &make_jit_kernel, py::arg("name"), py::arg("local"), py::arg("signature"),
           py::arg("messages") = std::vector<std::string>{});
  m.def("device_scope", &DeviceScope::make, py::arg("device"));
  m.def("jit_stats", [] {
    const runtime::JitStats s = runtime::jit_stats();
    return std::map<std::string, int64_t>{{"cached", s.cached}, {"linked", s.linked}, {"added", s.added}};
  });
  m.attr("assert_size_stride") = py::reinterpret_steal<py::object>(PyCFunction_New(&assert_size_stride_def, nullptr));
  m.attr("_empty_strided_xpu") = py::reinterpret_steal<py::object>(PyCFunction_New(&empty_strided_def, nullptr));
}

}  // namespace xpu_ops
