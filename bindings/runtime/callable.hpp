// Objects that Python calls without pybind11, for launches of kernels compiled while the process runs.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/errors.hpp"

namespace xpu_ops {

// Python exceptions for whatever fn throws.
template <class Fn> PyObject* guarded(Fn&& fn) {
  HANDLE_TH_ERRORS
  return translate(std::forward<Fn>(fn));
  END_HANDLE_TH_ERRORS
}

// The bits of an integer in the range of int64 or uint64. Python's TypeError or OverflowError for others.
inline uint64_t integer_field(PyObject* arg) {
  const long long v = PyLong_AsLongLong(arg);
  if (v != -1 || !PyErr_Occurred()) return static_cast<uint64_t>(v);
  PyErr_Clear();
  const unsigned long long u = PyLong_AsUnsignedLongLong(arg);
  if (PyErr_Occurred()) throw python_error();
  return u;
}

inline uint64_t float_field(char letter, double v) {
  return letter == 'f' ? std::bit_cast<uint32_t>(static_cast<float>(v)) : std::bit_cast<uint64_t>(v);
}

// A Python object that owns a State, which names its type: kType and kDoc.
template <class State> struct Callable {
  PyObject_HEAD vectorcallfunc vectorcall;
  State* state;

  static const State& of(PyObject* self) { return *reinterpret_cast<Callable*>(self)->state; }

  static pybind11::object make(vectorcallfunc call, std::unique_ptr<State> state) {
    auto* object = PyObject_New(Callable, type());
    if (!object) throw pybind11::error_already_set();
    object->vectorcall = call;
    object->state = state.release();
    return pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(object));
  }

 private:
  static void dealloc(PyObject* self) {
    delete reinterpret_cast<Callable*>(self)->state;
    Py_TYPE(self)->tp_free(self);
  }

  static PyTypeObject* type() {
    static PyTypeObject type = [] {
      PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
      t.tp_name = State::kType;
      t.tp_doc = State::kDoc;
      t.tp_basicsize = sizeof(Callable);
      t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
      t.tp_vectorcall_offset = offsetof(Callable, vectorcall);
      t.tp_call = PyVectorcall_Call;
      t.tp_dealloc = dealloc;
      return t;
    }();
    static const int ready = PyType_Ready(&type);
    if (ready < 0) throw pybind11::error_already_set();
    return &type;
  }
};

}  // namespace xpu_ops
