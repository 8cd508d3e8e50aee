// _C.compiled_call(function, ...): the call of a compiled function, with the state around it that torch._dynamo keeps
// in a frame of Python and five objects. _C.module_call(...): the call of a compiled module in front of it, which takes
// five more. A function whose only graph is one operator is called itself, for operands like those of earlier calls.
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/runtime/callable.hpp"
#include "bindings/runtime/module.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

// Graphs that Inductor was given in this thread, those of them that are one operator, and how often a traced function
// asked if it is compiled.
struct Graphs { uint64_t all = 0, operators = 0, questions = 0; };
thread_local Graphs graphs;

// An argument of a call: what a tensor is but for its values, or an object's address, of which no reference is kept.
// A function that is called itself is right for any argument, so that a new object at that place does no harm.
class Operand {
 public:
  explicit Operand(PyObject* o) : address_(THPVariable_CheckExact(o) ? nullptr : o) {
    if (address_) return;
    const c10::TensorImpl& t = *THPVariable_Unpack(o).unsafeGetTensorImpl();
    keys_ = t.key_set();
    type_ = t.dtype();
    if (t.has_symbolic_sizes_strides() || t.layout() != at::kStrided) return;
    layout_.assign(t.sizes().begin(), t.sizes().end());
    layout_.insert(layout_.end(), t.strides().begin(), t.strides().end());
    is_known_ = true;
  }

  bool is_tensor_of_xpu() const { return is_known_ && keys_.has_backend(c10::BackendComponent::XPUBit); }

  bool is_like(PyObject* o) const {
    if (address_) return address_ == o;
    if (!is_known_ || !THPVariable_CheckExact(o)) return false;
    const c10::TensorImpl& t = *THPVariable_Unpack(o).unsafeGetTensorImpl();
    if (t.key_set() != keys_ || t.dtype() != type_ || t.has_symbolic_sizes_strides()) return false;
    const auto sizes = t.sizes(), strides = t.strides();
    return 2 * sizes.size() == layout_.size() && std::equal(sizes.begin(), sizes.end(), layout_.begin()) &&
           std::equal(strides.begin(), strides.end(), layout_.begin() + sizes.size());
  }

 private:
  const void* address_;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta type_;
  std::vector<int64_t> layout_;  // sizes, then strides
  bool is_known_ = false;
};

// Whether the function may be called itself: its graphs so far, and the operands of calls that compiled nothing.
class Itself {
 public:
  bool serves(PyObject* const* args, size_t n) const { return calls_ == kAlike && are_like(args, n); }

  // After a call, between whose graphs `before` it was. `asks`: whether the function asks if it is compiled, so that
  // itself it may do other things. Tracing tells of a question wherever it is asked, a search for names of those on
  // ways that were not traced.
  void saw(const Graphs& before, const py::object& asks, PyObject* const* args, size_t n, bool plain) {
    const uint64_t all = graphs.all - before.all, operators = graphs.operators - before.operators;
    const bool asked = graphs.questions != before.questions;
    if (asked || all > 0) {
      is_operator_ =
          !asked && operators == 1 && all == 1 && (is_operator_ || (!has_graphs_ && !asks().is(py::handle(Py_True))));
      has_graphs_ = true;
      calls_ = 0;
    } else if (is_operator_ && plain) {
      if (calls_ == 0 || !are_like(args, n)) {
        operands_.clear();
        for (size_t i = 0; i < n; ++i) operands_.emplace_back(args[i]);
        calls_ = 0;
        if (std::none_of(operands_.begin(), operands_.end(), [](const Operand& o) { return o.is_tensor_of_xpu(); }))
          return;
      }
      ++calls_;
    }
  }

 private:
  static constexpr int kAlike = 2;

  bool are_like(PyObject* const* args, size_t n) const {
    if (n != operands_.size()) return false;
    for (size_t i = 0; i < n; ++i)
      if (!operands_[i].is_like(args[i])) return false;
    return true;
  }

  std::vector<Operand> operands_;
  int calls_ = 0;  // in a row with these operands
  bool is_operator_ = false, has_graphs_ = false;
};

py::object interned(const char* text) { return py::reinterpret_steal<py::object>(PyUnicode_InternFromString(text)); }

// An entry of a table of names that has its value unless something asks for more than the usual way.
struct Usual {
  py::object names, name, value;

  bool holds() const { return PyDict_GetItem(names.ptr(), name.ptr()) == value.ptr(); }
};

struct CompiledCall {
  static constexpr const char* kType = "xpu_ops._C.CompiledCall";
  static constexpr const char* kDoc =
      "Calls a function while Dynamo's callback is set, and leaves layers, dispatch keys and callback as they were.";
  py::object function, whole;        // whole: upstream's way to call it
  py::object callback, region;       // that are set for the call
  py::object set_frame, set_region;  // set them and return those before
  py::object layers, undo_layers;    // depth of functorch's stack, and back to a depth
  py::object undisturbed;            // whether nothing around a call asks for another way than the usual one
  py::object asks;                   // whether the function asks if it is compiled
  Usual stance;
  PyObject* module = nullptr;  // whose call the function is, by torch.nn.Module's methods
  mutable Itself itself;
  mutable bool is_first = true;  // the hooks of a context are for its first call
};

// Torch's classes and variables that a call of a module looks at.
struct Modules {
  py::object optimized;                 // torch._dynamo's OptimizedModule
  py::object whole;                     // its own way to be called
  std::vector<Usual> methods;           // how a module calls its forward()
  py::dict flags, hooks;                // names of torch._dynamo.eval_frame and torch.nn.modules.module
  std::vector<py::object> own, global;  // names of tables of hooks, of a module and in `hooks`
  py::object forward = interned("forward"), running = interned("_in_optimized_module"),
             compiled_impl = interned("_compiled_call_impl"), call_impl = interned("_call_impl"),
             call = interned("_xpu_ops_call");  // a compile_wrapper's attribute: its CompiledCall
};
const Modules* modules = nullptr;  // lives as long as the process

bool are_empty(const std::vector<py::object>& tables, PyObject* names) {
  return std::all_of(tables.begin(), tables.end(), [names](const py::object& name) {
    PyObject* const table = PyDict_GetItem(names, name.ptr());
    return table && PyDict_Check(table) && PyDict_GET_SIZE(table) == 0;
  });
}

// Whether nothing that is for all modules lies between their call and their forward().
bool modules_are_plain() {
  const Modules& m = *modules;
  return are_empty(m.global, m.hooks.ptr()) && !torch::jit::tracer::isTracing() &&
         std::all_of(m.methods.begin(), m.methods.end(), [](const Usual& method) { return method.holds(); });
}

// The same of one with these attributes.
bool is_plain(PyObject* attributes) {
  if (!attributes) return false;
  PyObject* const compiled = PyDict_GetItem(attributes, modules->compiled_impl.ptr());
  return (!compiled || compiled == Py_None) && are_empty(modules->own, attributes);
}

py::object attributes_of(PyObject* module) {
  PyObject* const result = PyObject_GenericGetDict(module, nullptr);
  if (!result) PyErr_Clear();
  return py::reinterpret_steal<py::object>(result);
}

// The module whose call a function is, where its class has no call of its own.
PyObject* module_of(PyObject* function) {
  if (!modules || !PyMethod_Check(function) || PyMethod_GET_FUNCTION(function) != modules->methods[0].value.ptr())
    return nullptr;
  PyObject* const module = PyMethod_GET_SELF(function);
  const py::object impl = py::type::of(module).attr(modules->call_impl);
  return impl.is(modules->methods[1].value) ? module : nullptr;
}

// Calls the function, or the forward() that is all that it calls.
PyObject* call_function(const CompiledCall& s, PyObject* const* args, size_t nargsf, PyObject* kwnames, bool plain) {
  if (!s.module || !plain || !is_plain(attributes_of(s.module).ptr()))
    return PyObject_Vectorcall(s.function.ptr(), args, nargsf, kwnames);
  const auto forward = py::reinterpret_steal<py::object>(PyObject_GetAttr(s.module, modules->forward.ptr()));
  return forward ? PyObject_Vectorcall(forward.ptr(), args, nargsf, kwnames) : nullptr;
}

// Whether functorch's stack has a layer.
bool has_layers() { return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode); }

py::object called(const py::object& function, const py::object& argument) {
  auto result = py::reinterpret_steal<py::object>(PyObject_CallOneArg(function.ptr(), argument.ptr()));
  if (!result) throw py::error_already_set();
  return result;
}

PyObject* usual_call(const CompiledCall& s, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const py::object region = called(s.set_region, s.region), frame = called(s.set_frame, s.callback);
  const py::object layers = has_layers() ? s.layers() : py::object();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  PyObject* const result = call_function(s, args, nargsf, kwnames, s.module && modules_are_plain());
  const py::error_scope error;  // kept over what follows
  called(s.set_frame, frame);
  if (layers || has_layers()) called(s.undo_layers, layers ? layers : py::int_(0));
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  called(s.set_region, region);
  return result;
}

// Where nothing asks for the graph: a stance, a profile or torch.jit.trace. Within other traces no operand is a plain
// tensor of the device.
bool calls_itself(const CompiledCall& s, PyObject* const* args, size_t n, PyObject* kwnames) {
  return !kwnames && s.itself.serves(args, n) && s.stance.holds() && !torch::jit::tracer::isTracing() &&
         !at::hasCallbacks();
}

PyObject* call_compiled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const CompiledCall& s = Callable<CompiledCall>::of(self);
  const size_t n = PyVectorcall_NARGS(nargsf);
  if (calls_itself(s, args, n, kwnames)) return PyObject_Vectorcall(s.function.ptr(), args, nargsf, kwnames);
  return guarded([&]() -> PyObject* {
    const Graphs before = graphs;
    const bool usual = !s.is_first && s.undisturbed().is(py::handle(Py_True));
    s.is_first = false;
    auto result = py::reinterpret_steal<py::object>(usual ? usual_call(s, args, nargsf, kwnames)
                                                          : PyObject_Vectorcall(s.whole.ptr(), args, nargsf, kwnames));
    if (result) s.itself.saw(before, s.asks, args, n, usual && !kwnames);
    return result.release().ptr();
  });
}

// Says for the time of a call that a compiled module runs.
class Running {
 public:
  Running() : before_(modules->flags[modules->running]) { modules->flags[modules->running] = py::bool_(true); }
  ~Running() {
    const py::error_scope error;
    PyDict_SetItem(modules->flags.ptr(), modules->running.ptr(), before_.ptr());
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  py::object before_;
};

// The CompiledCall of a compile_wrapper.
const CompiledCall* compiled_call_of(PyObject* forward) {
  PyObject* const own = PyFunction_Check(forward) ? reinterpret_cast<PyFunctionObject*>(forward)->func_dict : nullptr;
  PyObject* const call = own ? PyDict_GetItem(own, modules->call.ptr()) : nullptr;
  return call ? &Callable<CompiledCall>::of(call) : nullptr;
}

PyObject* call_module(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Modules& m = *modules;
  const py::object attributes = attributes_of(self);
  const auto forward =
      py::reinterpret_borrow<py::object>(attributes ? PyDict_GetItem(attributes.ptr(), m.forward.ptr()) : nullptr);
  if (!forward || Py_TYPE(self) != reinterpret_cast<PyTypeObject*>(m.optimized.ptr()) || !modules_are_plain() ||
      !is_plain(attributes.ptr())) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return PyObject_Vectorcall(m.whole.ptr(), all.data(), n + 1, kwnames);
  }
  if (const CompiledCall* s = compiled_call_of(forward.ptr()); s && calls_itself(*s, args, n, kwnames))
    return call_function(*s, args, n, nullptr, true);
  return guarded([&]() -> PyObject* {
    const Running running;
    return PyObject_Vectorcall(forward.ptr(), args, n, kwnames);
  });
}

PyMethodDef call_module_def = {"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_module)),
                               METH_FASTCALL | METH_KEYWORDS, "Calls the compiled module."};

// A method of OptimizedModule. Gets the class, its own method, torch.nn.Module and the names of two modules of torch.
py::object module_call(py::object optimized, py::object whole, const py::type& module, py::dict flags, py::dict hooks) {
  auto* m = new Modules;
  const py::object names = py::reinterpret_borrow<py::object>(reinterpret_cast<PyTypeObject*>(module.ptr())->tp_dict);
  for (const char* name : {"__call__", "_call_impl"}) m->methods.push_back({names, interned(name), names[name]});
  for (const char* name : {"_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"})
    m->own.push_back(interned(name));
  for (const char* name :
       {"_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_pre_hooks", "_global_forward_hooks",
        "_global_forward_hooks_always_called", "_global_forward_hooks_with_kwargs"})
    m->global.push_back(interned(name));
  m->optimized = std::move(optimized);
  m->whole = std::move(whole);
  m->flags = std::move(flags);
  m->hooks = std::move(hooks);
  modules = m;
  return py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(m->optimized.ptr()), &call_module_def));
}

}  // namespace

void bind_compiled_call(py::module_& m) {
  m.def("count_graph", [](bool is_operator) {
    ++graphs.all;
    graphs.operators += is_operator;
  });
  m.def("count_question", [] { ++graphs.questions; });
  m.def("module_call", module_call, py::arg("optimized"), py::arg("whole"), py::arg("module"), py::arg("flags"),
        py::arg("hooks"));
  m.def(
      "compiled_call",
      [](py::object function, py::object whole, py::object callback, py::object region, py::object set_frame,
         py::object set_region, py::object layers, py::object undo_layers, py::object undisturbed, py::dict flags,
         py::object asks) {
        auto state = std::make_unique<CompiledCall>();
        state->function = std::move(function);
        state->whole = std::move(whole);
        state->callback = std::move(callback);
        state->region = std::move(region);
        state->set_frame = std::move(set_frame);
        state->set_region = std::move(set_region);
        state->layers = std::move(layers);
        state->undo_layers = std::move(undo_layers);
        state->undisturbed = std::move(undisturbed);
        state->stance = {flags, interned("_stance"), flags["_stance"]};
        state->module = module_of(state->function.ptr());
        state->asks = std::move(asks);
        return Callable<CompiledCall>::make(call_compiled, std::move(state));
      },
      py::kw_only(), py::arg("function"), py::arg("whole"), py::arg("callback"), py::arg("region"),
      py::arg("set_frame"), py::arg("set_region"), py::arg("layers"), py::arg("undo_layers"), py::arg("undisturbed"),
      py::arg("flags"), py::arg("asks"));
}

}  // namespace xpu_ops
