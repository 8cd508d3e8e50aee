// _C.compiled_call(function, ...): the call of a compiled function, with the state around it that torch._dynamo keeps
// in a frame of Python and five objects.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "bindings/runtime/callable.hpp"
#include "bindings/runtime/module.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

struct CompiledCall {
  static constexpr const char* kType = "xpu_ops._C.CompiledCall";
  static constexpr const char* kDoc =
      "Calls a function while Dynamo's callback is set, and leaves layers, dispatch keys and callback as they were.";
  py::object function;
  py::object callback, region;       // that are set for the call
  py::object set_frame, set_region;  // set them and return those before
  py::object layers, undo_layers;    // depth of functorch's stack, and back to a depth
};

// Whether functorch's stack has a layer.
bool has_layers() { return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode); }

py::object called(const py::object& function, const py::object& argument) {
  auto result = py::reinterpret_steal<py::object>(PyObject_CallOneArg(function.ptr(), argument.ptr()));
  if (!result) throw py::error_already_set();
  return result;
}

PyObject* call_compiled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const CompiledCall& s = Callable<CompiledCall>::of(self);
    const py::object region = called(s.set_region, s.region), frame = called(s.set_frame, s.callback);
    const py::object layers = has_layers() ? s.layers() : py::object();
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    PyObject* const result = PyObject_Vectorcall(s.function.ptr(), args, nargsf, kwnames);
    const py::error_scope error;  // kept over what follows
    called(s.set_frame, frame);
    if (layers || has_layers()) called(s.undo_layers, layers ? layers : py::int_(0));
    c10::impl::_force_tls_local_dispatch_key_set(keys);
    called(s.set_region, region);
    return result;
  });
}

}  // namespace

void bind_compiled_call(py::module_& m) {
  m.def(
      "compiled_call",
      [](py::object function, py::object callback, py::object region, py::object set_frame, py::object set_region,
         py::object layers, py::object undo_layers) {
        auto state = std::make_unique<CompiledCall>(std::move(function), std::move(callback), std::move(region),
                                                    std::move(set_frame), std::move(set_region), std::move(layers),
                                                    std::move(undo_layers));
        return Callable<CompiledCall>::make(call_compiled, std::move(state));
      },
      py::kw_only(), py::arg("function"), py::arg("callback"), py::arg("region"), py::arg("set_frame"),
      py::arg("set_region"), py::arg("layers"), py::arg("undo_layers"));
}

}  // namespace xpu_ops
