// The file of a model's kernels in a package: a header of lines, then SPIR-V and native code.
#pragma once
#include <string>

#include "kernels/runtime/module/jit.hpp"

namespace xpu_ops::aoti {

struct KernelFile {
  std::string xpu_ops, torch;  // the versions that made the package
  std::string digest, target;  // of JitModule::find and add
  runtime::JitModule::Bytes spirv, native;
};

// Reads <folder>/<module>.xpu_ops. Throws Error{runtime}, which names the file, where it is missing, damaged or of a
// format that this version does not read.
KernelFile read_kernel_file(const std::string& folder, const std::string& module);

// Refuses the package in a folder that this library did not make, or that another release of torch is needed for.
void check_package(const std::string& folder);

}  // namespace xpu_ops::aoti
