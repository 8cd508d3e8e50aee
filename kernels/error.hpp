// Exceptions of kernels/. bindings/ turn each kind into the torch error a user expects.
#pragma once
#include <stdexcept>
#include <string>

namespace xpu_ops {

enum class ErrorKind { runtime, value, index, out_of_memory, not_implemented };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind(kind) {}
  ErrorKind kind;
};

}  // namespace xpu_ops
