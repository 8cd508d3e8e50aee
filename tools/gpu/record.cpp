// Records the kernel launches of a process for a replay on another device: librecord.so, loaded by tools/gpu/record.py.
// The file is a sequence of records: the number of bytes of a line of JSON (u32), the line, and the bytes
// that it names.
//   {"test": name}
//   {"kernel", "digest" (of its source, "" for one compiled ahead of time), "groups", "local", "args": bytes,
//    "blocks": [[address, bytes], ...], "before": [block, ...], "after": [[block, offset, bytes], ...]}
//   {"command": kind, "bytes"}: a copy or a fill
// A launch stands for itself: its arguments, the memory that they reach before it, and the bytes that it changed.
// Blocks keep their addresses, so that a replay finds the pointers to them. A plan is executed on no data: only small
// blocks have bytes, where they first occur, such as tables that were copied from the host.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sycl/sycl.hpp>
#include <CL/cl.h>
#include <sycl/ext/oneapi/experimental/raw_kernel_arg.hpp>
#include <sys/mman.h>

#include "kernels/runtime/device/opencl_symbol.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/profile/recording.hpp"

namespace {

using xpu_ops::runtime::Label;
using xpu_ops::runtime::Launch;

constexpr size_t kAlign = 512;
constexpr size_t kTable = 64 << 10;  // bytes from a pointer on that may hold a table of pointers
constexpr uint32_t kGap = 32;        // unchanged bytes that do not end a piece
constexpr size_t kKeptInPlan = 64 << 10;

// plan executes no kernel; trace does, where the host reads results back, and else is as a plan.
enum class Mode : int { record, plan, trace };

struct Options {
  Mode mode;
  int each;     // launches of a kernel that are kept
  size_t most;  // bytes of memory of one launch
};

struct Block {
  uintptr_t at;
  size_t bytes;
};

// Memory that torch asked for, and what the library allocates beside it: tables, the error record.
class Memory {
 public:
  void* allocate(size_t bytes, sycl::queue& queue, Mode mode) {
    void* p = nullptr;
    if (mode == Mode::plan) {  // never touched but by small copies, so that any size goes
      p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) return nullptr;
    } else {
      p = sycl::aligned_alloc_device(kAlign, bytes, queue);
      if (p && mode == Mode::record) std::memset(p, 0xff, bytes);  // what nobody writes is the same in all recordings
    }
    const std::lock_guard lock(mutex_);
    if (p) blocks_[reinterpret_cast<uintptr_t>(p)] = bytes;
    return p;
  }
  void release(void* p, sycl::queue& queue, Mode mode) {
    size_t bytes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto it = blocks_.find(reinterpret_cast<uintptr_t>(p));
      if (it == blocks_.end()) return;
      bytes = it->second;
      blocks_.erase(it);
    }
    if (mode != Mode::record) return;  // addresses of a plan stay different
    queue.wait();
    sycl::free(p, queue);
  }

  std::optional<Block> find(uintptr_t word, const sycl::queue& queue) const {
    {
      const std::lock_guard lock(mutex_);
      auto it = blocks_.upper_bound(word);
      if (it != blocks_.begin() && word < std::prev(it)->first + std::prev(it)->second)
        return Block{std::prev(it)->first, std::prev(it)->second};
    }
    return word < (uintptr_t{1} << 20) || word >> 47 ? std::nullopt : of_driver(word, queue);
  }

  // The blocks that arguments reach, directly and by tables of pointers.
  std::vector<Block> reached(const void* args, size_t bytes, const sycl::queue& queue) const {
    std::map<uintptr_t, size_t> found;
    std::vector<std::pair<uintptr_t, size_t>> tables;
    const auto look = [&](const char* from, size_t n, bool deeper) {
      for (size_t i = 0; i + sizeof(uintptr_t) <= n; i += sizeof(uintptr_t)) {
        uintptr_t word;
        std::memcpy(&word, from + i, sizeof word);
        const auto block = find(word, queue);
        if (!block) continue;
        found.emplace(block->at, block->bytes);
        const uintptr_t start = (word + 7) & ~uintptr_t{7}, end = block->at + block->bytes;
        if (deeper && start < end) tables.emplace_back(start, std::min(kTable, end - start));
      }
    };
    look(static_cast<const char*>(args), bytes, true);
    for (const auto& [at, n] : tables) look(reinterpret_cast<const char*>(at), n, false);
    std::vector<Block> blocks;
    for (const auto& [at, n] : found) blocks.push_back({at, n});
    return blocks;
  }

 private:
  using Info = cl_int(cl_context, const void*, cl_uint, size_t, void*, size_t*);
  static std::optional<Block> of_driver(uintptr_t word, const sycl::queue& queue) {
    // As of cl_intel_unified_shared_memory.
    constexpr cl_uint kType = 0x419A, kBase = 0x419B, kSize = 0x419C;
    static Info* const info = [&]() -> Info* {
      using Lookup = void*(cl_platform_id, const char*);
      auto* lookup = xpu_ops::runtime::opencl_symbol<Lookup>("clGetExtensionFunctionAddressForPlatform");
      if (!lookup) return nullptr;
      const auto platform = sycl::get_native<sycl::backend::opencl>(queue.get_device().get_platform());
      return reinterpret_cast<Info*>(lookup(platform, "clGetMemAllocInfoINTEL"));
    }();
    if (!info) return std::nullopt;
    static const cl_context context = sycl::get_native<sycl::backend::opencl>(queue.get_context());
    const auto* p = reinterpret_cast<const void*>(word);
    cl_uint type = 0;
    void* base = nullptr;
    size_t bytes = 0;
    constexpr cl_uint kUnknown = 0x4196;
    if (info(context, p, kType, sizeof type, &type, nullptr) || type == kUnknown ||
        info(context, p, kBase, sizeof base, &base, nullptr) || info(context, p, kSize, sizeof bytes, &bytes, nullptr))
      return std::nullopt;
    return Block{reinterpret_cast<uintptr_t>(base), bytes};
  }

  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> blocks_;
};

struct Piece {
  size_t block;
  uint32_t offset, bytes;
};

// The bytes of the blocks that differ from `before`, which has them one behind the other.
std::vector<Piece> changes(const std::vector<Block>& blocks, const std::vector<char>& before) {
  std::vector<Piece> pieces;
  const char* old = before.data();
  for (size_t b = 0; b < blocks.size(); old += blocks[b++].bytes) {
    const char* now = reinterpret_cast<const char*>(blocks[b].at);
    if (std::memcmp(now, old, blocks[b].bytes) == 0) continue;
    for (uint32_t i = 0; i < blocks[b].bytes; ++i) {
      if (now[i] == old[i]) continue;
      Piece* last = pieces.empty() || pieces.back().block != b ? nullptr : &pieces.back();
      if (last && i - (last->offset + last->bytes) <= kGap)
        last->bytes = i + 1 - last->offset;
      else
        pieces.push_back({b, i, 1});
    }
  }
  return pieces;
}

class Recorder : public xpu_ops::runtime::LaunchRecorder {
 public:
  Recorder(const char* path, Options options) : file_(std::fopen(path, "wb")), options_(options) {}
  ~Recorder() override {
    if (file_) std::fclose(file_);
  }
  bool good() const { return file_ != nullptr; }
  void mark(const char* test) {
    const std::lock_guard lock(mutex_);
    put_line("{\"test\": " + quoted(test) + "}");
    seen_.clear();
    std::fflush(file_);
  }
  // Launches that other processes have recorded.
  void count(const char* kernel, int launches) { counts_[kernel] += launches; }

  void compiled(const sycl::kernel& kernel, const std::string& digest) override {
    const std::lock_guard lock(mutex_);
    digests_.insert_or_assign(kernel, digest);
  }

  void launch(const Launch& launch, const std::function<void()>& run) override {
    if (options_.mode == Mode::record) return record(launch, run);
    if (options_.mode == Mode::trace) run();
    const std::lock_guard lock(mutex_);
    launch.queue.wait();
    const std::vector<Block> blocks = memory().reached(launch.args, launch.bytes, launch.queue.get());
    std::vector<size_t> kept;
    for (size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].bytes <= kKeptInPlan && seen_.insert(blocks[b].at).second) kept.push_back(b);
    put_launch(launch, blocks, kept, {});
    put(launch.args, launch.bytes);
    for (const size_t b : kept) put(reinterpret_cast<const void*>(blocks[b].at), blocks[b].bytes);
  }

  bool command(const Label& label) override {
    if (options_.mode == Mode::record) return true;
    const std::lock_guard lock(mutex_);
    put_line("{\"command\": " + std::to_string(static_cast<int>(label.kind)) +
             ", \"bytes\": " + std::to_string(label.bytes) + "}");
    return options_.mode == Mode::trace || label.bytes <= kKeptInPlan;
  }

  static Memory& memory() {
    static auto* const all = new Memory;  // outlives whoever frees last
    return *all;
  }

 private:
  void record(const Launch& launch, const std::function<void()>& run) {
    const std::lock_guard lock(mutex_);
    const std::string key = digest_of(launch) + launch.name;
    if (counts_[key] >= options_.each) return run();
    launch.queue.wait();
    const std::vector<Block> blocks = memory().reached(launch.args, launch.bytes, launch.queue.get());
    size_t total = 0;
    for (const Block& b : blocks) total += b.bytes;
    if (total > options_.most) return run();
    std::vector<char> before;
    before.reserve(total);
    for (const Block& b : blocks)
      before.insert(before.end(), reinterpret_cast<const char*>(b.at), reinterpret_cast<const char*>(b.at) + b.bytes);
    const std::string args(static_cast<const char*>(launch.args), launch.bytes);
    run();
    launch.queue.wait();
    const std::vector<Piece> pieces = changes(blocks, before);
    if (pieces.empty() && ++unchanged_[key] < 3) return;  // one that writes what was there shows little
    ++counts_[key];
    std::vector<size_t> all(blocks.size());
    std::iota(all.begin(), all.end(), size_t{0});
    put_launch(launch, blocks, all, pieces);
    put(args.data(), args.size());
    put(before.data(), before.size());
    for (const Piece& p : pieces) put(reinterpret_cast<const char*>(blocks[p.block].at) + p.offset, p.bytes);
  }

  std::string digest_of(const Launch& launch) const {
    const auto it = digests_.find(launch.kernel);
    return it == digests_.end() ? "" : it->second;
  }
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
  }
  static std::string pair(uint64_t a, uint64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; }
  template <class T, class F> static std::string list(const std::vector<T>& values, F text) {
    std::string out = "[";
    for (const T& v : values) out += (out.size() > 1 ? ", " : "") + text(v);
    return out + "]";
  }
  void put_launch(const Launch& l, const std::vector<Block>& blocks, const std::vector<size_t>& before,
                  const std::vector<Piece>& pieces) {
    put_line("{\"kernel\": " + quoted(l.name) + ", \"digest\": " + quoted(digest_of(l)) +
             ", \"groups\": " + pair(l.groups[0], l.groups[1]) + ", \"local\": " + pair(l.local[0], l.local[1]) +
             ", \"args\": " + std::to_string(l.bytes) +
             ", \"blocks\": " + list(blocks, [](const Block& b) { return pair(b.at, b.bytes); }) +
             ", \"before\": " + list(before, [](size_t b) { return std::to_string(b); }) + ", \"after\": " +
             list(pieces,
                  [](const Piece& p) {
                    return "[" + std::to_string(p.block) + ", " + std::to_string(p.offset) + ", " +
                           std::to_string(p.bytes) + "]";
                  }) +
             "}");
  }
  void put_line(const std::string& line) {
    const auto n = static_cast<uint32_t>(line.size());
    put(&n, sizeof n);
    put(line.data(), n);
  }
  void put(const void* data, size_t bytes) { std::fwrite(data, 1, bytes, file_); }

  FILE* file_;
  const Options options_;
  std::mutex mutex_;
  std::unordered_map<std::string, int> counts_, unchanged_;
  std::unordered_map<sycl::kernel, std::string> digests_;
  std::unordered_set<uintptr_t> seen_;  // blocks of this case
};

Recorder* g_recorder = nullptr;  // stays until the process ends: a thread may be in it
Mode g_mode = Mode::record;

}  // namespace

// Called from Python: before the device is used, with its memory from record_allocate and record_free.
extern "C" {
int record_start(const char* path, int mode, int each, size_t most) {
  g_mode = static_cast<Mode>(mode);
  g_recorder = new Recorder(path, {g_mode, each, most});
  if (!g_recorder->good()) return 1;
  xpu_ops::runtime::record_launches(g_recorder);
  return 0;
}
void record_test(const char* name) { g_recorder->mark(name); }
void record_count(const char* kernel, int launches) { g_recorder->count(kernel, launches); }
void record_stop() {
  xpu_ops::runtime::record_launches(nullptr);
  delete std::exchange(g_recorder, nullptr);
}
// Launches a kernel that was compiled ahead of time on the first device, and waits: the recording is checked where it
// was made. `shape`: groups, then items of a group, the dimension that varies fastest first. 0, or 1 where it fails.
int replay_launch(const char* kernel, const uint32_t* shape, int dims, const void* args, size_t bytes) {
  try {
    xpu_ops::runtime::Queue& queue = xpu_ops::runtime::current_queue();
    const sycl::kernel& k = xpu_ops::runtime::load_kernel(kernel, queue.device);
    queue.submit([&](sycl::queue& q) {
      q.submit([&](sycl::handler& h) {
        h.set_arg(0, sycl::ext::oneapi::experimental::raw_kernel_arg(args, bytes));
        const size_t x = shape[2], y = shape[3];
        if (dims == 1)
          h.parallel_for(sycl::nd_range<1>(shape[0] * x, x), k);
        else
          h.parallel_for(sycl::nd_range<2>({shape[1] * y, shape[0] * x}, {y, x}), k);
      });
    });
    queue.wait();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kernel, error.what());
    return 1;
  }
}
void* record_allocate(size_t bytes, int, sycl::queue* queue) {
  return Recorder::memory().allocate(bytes, *queue, g_mode);
}
void record_free(void* p, size_t, int, sycl::queue* queue) { Recorder::memory().release(p, *queue, g_mode); }
}
