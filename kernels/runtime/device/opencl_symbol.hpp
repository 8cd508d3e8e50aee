// Functions of OpenCL beside SYCL's.
#pragma once
#include <dlfcn.h>

namespace xpu_ops::runtime {

// Of the library that SYCL has loaded for its OpenCL devices, so that its objects mean the same; null where none is.
template <class F>
F* opencl_symbol(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

}  // namespace xpu_ops::runtime
