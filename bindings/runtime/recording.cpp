// _C.while_recorded(function): functions that torch calls around every compiled graph and that only a profiler needs.
#include <ATen/record_function.h>
#include <pybind11/pybind11.h>

#include <memory>

#include "bindings/runtime/callable.hpp"
#include "bindings/runtime/module.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

struct WhileRecorded {
  static constexpr const char* kType = "xpu_ops._C.WhileRecorded";
  static constexpr const char* kDoc =
      "The function itself while a profiler records, or with what it gave then. None else, without a frame of Python.";
  py::object function;
};

PyObject* call_recorded(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const bool needed = PyVectorcall_NARGS(nargsf) ? args[0] != Py_None : at::hasCallbacks();
  if (!needed) Py_RETURN_NONE;
  return PyObject_Vectorcall(Callable<WhileRecorded>::of(self).function.ptr(), args, nargsf, kwnames);
}

}  // namespace

void bind_recording(py::module_& m) {
  m.def("while_recorded", [](py::object function) {
    return Callable<WhileRecorded>::make(call_recorded,
                                         std::make_unique<WhileRecorded>(WhileRecorded{std::move(function)}));
  });
}

}  // namespace xpu_ops
