// Libraries outside torch whose operators have kernels here. Where such a library is installed without a binary that
// loads, the package has its schemas defined.
#pragma once
#include <string>

#include <torch/library.h>

#include "bindings/export.hpp"

namespace xpu_ops::aten {

// Generated, one for each `library:` of the manifest: makes the library known.
struct KnownLibrary { KnownLibrary(const char* name, void (*define)(torch::Library&)); };

// Defines the operators of a library in this process; the second call of a name does nothing. Throws Error{value} for a
// library that the manifest does not know.
XPU_OPS_EXPORT void define_library(const std::string& name);

}  // namespace xpu_ops::aten
