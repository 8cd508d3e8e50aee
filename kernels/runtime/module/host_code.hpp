// Native code of a module for the calling thread: what the CPU device runs, called as a function, with the same bits.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
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

// A kernel, and what its groups have cost here.
class HostFunction {
 public:
  explicit HostFunction(HostEntry entry) : entry_(entry) {}
  // Whether so many groups are expected to end before a launch on all cores would have. Each refusal lowers what is
  // expected a little, so that it is tried again.
  bool pays(size_t groups) {
    const float cost = cost_.load(std::memory_order_relaxed);
    if (cost * static_cast<float>(groups) <= kMost) [[likely]]
      return true;
    cost_.store(cost * (1 - 1.0f / 512), std::memory_order_relaxed);
    return false;
  }
  // All groups, one after the other, in their order. `range` is the one behind `args`.
  void call(const void* args, const HostRange& range);

 private:
  // In cycles of the time stamp counter, some 20 to 30 us (docs/notes/inline.md).
  static constexpr float kMost = 65536;
  HostEntry entry_;
  std::atomic<float> cost_{0};  // of one group, a running mean
};

// A module's code, linked into this process; it stays there.
class HostCode {
 public:
  // Null where the file is not native code of an OpenCL CPU runtime whose calls are known, or needs what is not there.
  static std::unique_ptr<HostCode> load(const std::vector<char>& syclbin);
  HostFunction* find(std::string_view kernel);  // null: not in the module

 private:
  struct Entry {
    Entry(std::string_view n, HostEntry entry) : name(n), function(entry) {}
    std::string name;
    HostFunction function;
  };
  std::deque<Entry> entries_;
};

}  // namespace xpu_ops::runtime
