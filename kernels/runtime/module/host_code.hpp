// Native code of a module for the calling thread: what the CPU device runs, called as a function, with the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace xpu_ops::runtime {

// A kernel of one work-group, as the OpenCL CPU runtime calls it: arguments with a HostRange behind them; the group's
// three numbers and the address of its local memory, which a kernel takes from the stack where that is 0; and an object
// of the runtime, which no kernel of ours reads.
using HostEntry = void (*)(const void* args, const size_t* group, void* runtime);

// Behind the arguments of every call, from the next multiple of eight bytes. The runtime has the range twice, as it was
// asked for and as it runs.
struct HostRange {
  HostRange(uint32_t dims, size_t groups0, size_t local0, size_t groups1, size_t local1);  // the first varies fastest

  size_t dims;
  size_t offset[3]{};
  struct Sizes {
    size_t global[3], local[2][3], groups[3];  // local: of a whole group, of the last one
  };
  Sizes asked;
  void* runtime[2]{};
  Sizes run;
  size_t run_dims;
  void* entries[2]{};
};
static_assert(sizeof(HostRange) == 0x108);

// All groups, one after the other, in their order. `range` is the one behind `args`.
void call_groups(HostEntry entry, const void* args, const HostRange& range);

// A module's code, linked into this process; it stays there.
class HostCode {
 public:
  // Null where the file is not native code of an OpenCL CPU runtime whose calls are known, or needs what is not there.
  static std::unique_ptr<HostCode> load(const std::vector<char>& syclbin);
  HostEntry find(std::string_view kernel) const;  // null: not in the module

 private:
  struct Entry {
    std::string_view name;  // in names_
    HostEntry entry;
  };
  std::vector<char> names_;
  std::vector<Entry> entries_;
};

}  // namespace xpu_ops::runtime
