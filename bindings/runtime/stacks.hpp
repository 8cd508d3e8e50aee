// Stacks of allocations: gathered cheaply, turned into Python's dicts when a snapshot is taken.
#pragma once
#include <pybind11/pybind11.h>

#include <unordered_map>
#include <vector>

#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops {

// Python and TorchScript frames of the caller; the second with C++ frames as well.
runtime::TraceContext gather_python();
runtime::TraceContext gather_all();
// Before a snapshot, under the GIL: frees what dead stacks kept.
void free_dead_stacks();
void install_stacks();

// Stacks are symbolised together, each once.
class Frames {
 public:
  void add(pybind11::dict owner, const char* key, const runtime::TraceContext& context);
  void resolve();

 private:
  struct Wanted {
    pybind11::dict owner;
    const char* key;
    size_t index;
  };
  std::vector<void*> order_;
  std::unordered_map<void*, size_t> index_;
  std::vector<Wanted> wanted_;
};

}  // namespace xpu_ops
