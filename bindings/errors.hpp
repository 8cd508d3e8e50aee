// Turns what kernels/ throws into the torch error of the same kind. torch makes a RuntimeError of any other
// std::exception that leaves a dispatcher call.
#pragma once
#include <c10/util/Exception.h>

#include <type_traits>
#include <utility>

#include "kernels/error.hpp"

namespace xpu_ops {

[[noreturn]] inline void rethrow(const Error& e) {
  switch (e.kind) {
    case ErrorKind::value: C10_THROW_ERROR(ValueError, e.what());
    case ErrorKind::index: C10_THROW_ERROR(IndexError, e.what());
    case ErrorKind::out_of_memory: C10_THROW_ERROR(OutOfMemoryError, e.what());
    case ErrorKind::not_implemented: C10_THROW_ERROR(NotImplementedError, e.what());
    case ErrorKind::runtime: break;
  }
  C10_THROW_ERROR(Error, e.what());
}

template <class Fn>
inline decltype(auto) translate(Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Error& e) { rethrow(e); }
}

namespace detail {
template <auto fn, class Signature = std::remove_pointer_t<decltype(fn)>>
struct Translated;
template <auto fn, class R, class... Args>
struct Translated<fn, R(Args...)> {
  static R call(Args... args) {
    try {
      return fn(std::forward<Args>(args)...);
    } catch (const Error& e) { rethrow(e); }
  }
};
}  // namespace detail

}  // namespace xpu_ops

// For registrations: m.impl("resize_", XPU_OPS_FN(resize_)). Costs nothing unless the function throws.
#define XPU_OPS_FN(fn) TORCH_FN(::xpu_ops::detail::Translated<&fn>::call)
