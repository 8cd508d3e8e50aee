// The native code that the compiler of the CPU device makes.
#pragma once
#include <string_view>
#include <vector>

namespace xpu_ops::runtime {

// A SYCLBIN file without the LLVM IR that the OpenCL CPU runtime keeps beside the machine code. That runtime reads the
// IR whenever it loads the code, which is most of the time of a load, and uses none of it. A file of another form is
// returned as it is; one with native code of a GPU is.
std::vector<char> without_ir(const std::vector<char>& syclbin);

// The runtime's own file within a SYCLBIN file: an ELF file of the OpenCL CPU runtime's. Empty for a file of another
// form.
std::string_view native_image(const std::vector<char>& syclbin);

}  // namespace xpu_ops::runtime
