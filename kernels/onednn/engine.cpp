#include "kernels/onednn/engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>

#include <oneapi/dnnl/dnnl_sycl.hpp>

#include "kernels/error.hpp"
#include "kernels/onednn/host_task.hpp"
#include "kernels/onednn/per_device.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/command_graph.hpp"

namespace xpu_ops::onednn {
namespace {

std::atomic<bool>& verbose_flag() {
  static std::atomic<bool> flag{runtime::env_flag("XPU_OPS_VERBOSE")};
  return flag;
}

// oneDNN streams are not made for two threads at once, so each is used under the lock of its queue.
struct Stream {
  sycl::queue queue;
  dnnl::stream stream;
  Stream(int device, sycl::queue q)
      : queue(std::move(q)), stream(dnnl::sycl_interop::make_stream(engine(device), queue)) {}
};

Stream& stream(runtime::Queue& queue) {
  thread_local runtime::Queue* last_queue = nullptr;
  thread_local Stream* last = nullptr;
  if (last_queue == &queue) return *last;
  static std::mutex mutex;
  static auto* streams = new std::unordered_map<runtime::Queue*, Stream*>;  // as long-lived as the queues
  std::lock_guard lock(mutex);
  Stream*& s = (*streams)[&queue];
  if (!s) s = new Stream(queue.device, queue.get());
  last_queue = &queue;
  return *(last = s);
}

ArgSet* make_args(const Entry& entry, int device) {
  auto set = std::make_unique<ArgSet>();
  auto add = [&](int id, const dnnl::memory::desc& md) {
    set->memory.push_back(
        dnnl::sycl_interop::make_memory(md, engine(device), dnnl::sycl_interop::memory_kind::usm, DNNL_MEMORY_NONE));
    set->c_args.push_back({id, set->memory.back().get()});
  };
  for (const auto& a : entry.args) add(a.id, a.md);
  if (entry.scratchpad_bytes) add(DNNL_ARG_SCRATCHPAD, entry.scratchpad);
  return set.release();
}

// Multiplications and additions of a product or a convolution, those with padding too; 0 for others.
double flops(const Entry& entry) {
  const auto dims = [&](std::initializer_list<int> ids) {
    for (const auto& a : entry.args) {
      if (std::find(ids.begin(), ids.end(), a.id) != ids.end()) return a.md.get_dims();
    }
    return dnnl::memory::dims{};
  };
  const auto src = dims({DNNL_ARG_SRC, DNNL_ARG_DIFF_SRC}), dst = dims({DNNL_ARG_DST, DNNL_ARG_DIFF_DST});
  const auto weights = dims({DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS});
  if (src.size() < 2 || dst.size() < 2 || weights.empty()) return 0;
  const auto count = [](const dnnl::memory::dims& d) {
    return std::accumulate(d.begin(), d.end(), 1.0, [](double n, int64_t m) { return n * static_cast<double>(m); });
  };
  switch (entry.op) {
    case Op::matmul: return 2 * count(dst) * static_cast<double>(src.back());
    case Op::conv_forward:
    case Op::conv_backward_data:
    case Op::conv_backward_weights: return 2 * count(dst) * count(weights) / static_cast<double>(dst[1]);
    case Op::deconv_forward:
    case Op::deconv_backward_data:
    case Op::deconv_backward_weights: return 2 * count(src) * count(weights) / static_cast<double>(src[1]);
    default: return 0;
  }
}

// One execution in flight.
class Execution final : public runtime::NativeTask {
 public:
  Execution(Entry& entry, std::unique_ptr<ArgSet> args, int device)
      : entry_(entry.shared_from_this()), args_(std::move(args)), work_(host_task(device, entry, args_->c_args)) {}
  void run() override {
    work_();
    work_ = nullptr;
    entry_->spare.put(take());
  }
  std::unique_ptr<ArgSet> take() { return std::move(args_); }

 private:
  std::shared_ptr<Entry> entry_;
  std::unique_ptr<ArgSet> args_;
  std::function<void()> work_;
};

dnnl::engine* new_engine(int device) {
  return new dnnl::engine(dnnl::sycl_interop::make_engine(runtime::sycl_device(device), runtime::sycl_context(device)));
}

runtime::Command described(const Entry& entry) {
  runtime::Command c;
  c.kind = runtime::CommandKind::primitive;
  c.name = op_name(entry.op);
  for (const std::string* part : {&entry.shapes, &entry.impl}) {
    if (!part->empty()) c.name += " " + *part;
  }
  c.flops = flops(entry);
  return c;
}

}  // namespace

bool verbose() noexcept { return verbose_flag().load(std::memory_order_relaxed); }
void set_verbose(bool on) noexcept { verbose_flag().store(on, std::memory_order_relaxed); }

dnnl::engine& engine(int device) { return per_device<new_engine>(device); }

void check(dnnl_status_t status, const Entry& entry) {
  if (status != dnnl_success)
    throw Error(ErrorKind::runtime, std::string("oneDNN could not run ") + op_name(entry.op) + " " + entry.impl +
                                        " (status " + std::to_string(static_cast<int>(status)) + ")");
}

bool on_host(int device) { return runtime::device_info(device).is_cpu; }

const char* unwanted_source(int device, DType source) {
  const bool bytes = source == DType::i8 || source == DType::u8;
  if ((!bytes && source != DType::bf16) || !on_host(device)) return nullptr;
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
    case dnnl::cpu_isa::avx:
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx512_core:
      return bytes ? "8-bit products saturate on this processor" : "bf16 is emulated on this processor";
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx512_core_vnni: return bytes ? nullptr : "bf16 is emulated on this processor";
    default: return nullptr;
  }
}

void run(runtime::Queue& queue, Entry& entry, void* const* pointers, int count) {
  using clock = std::chrono::steady_clock;
  const bool talk = verbose(), host = on_host(queue.device);
  // There it is no command of SYCL, or a host task that must end before the arguments are used again.
  runtime::CommandGraph* graph = host ? runtime::graph_of(queue) : nullptr;
  if (host && !(graph && graph->keeps() && takes_host_tasks()))
    runtime::refuse_recording(queue, "Work of oneDNN on the CPU device");
  if (count != static_cast<int>(entry.args.size()))
    throw Error(ErrorKind::runtime, "oneDNN: wrong number of arguments for " + entry.shapes);
  std::unique_ptr<ArgSet> args = entry.spare.take();
  if (!args) args.reset(make_args(entry, queue.device));
  for (int i = 0; i < count; ++i) check(dnnl_memory_set_data_handle(args->c_args[i].memory, pointers[i]), entry);
  std::optional<runtime::Scratch> scratch;
  if (entry.scratchpad_bytes) {
    scratch.emplace(entry.scratchpad_bytes);
    check(dnnl_memory_set_data_handle(args->c_args[count].memory, scratch->get()), entry);
  }
  if (graph) {
    // A task of oneDNN runs once, so a worker makes one for each replay.
    return graph->add(op_name(entry.op),
                      [entry = entry.shared_from_this(), device = queue.device,
                       args = std::shared_ptr<ArgSet>(std::move(args))] { host_task(device, *entry, args->c_args)(); });
  }
  if (host && !talk && queue.natives().takes() && takes_host_tasks()) {
    std::unique_ptr<runtime::NativeTask> task = std::make_unique<Execution>(entry, std::move(args), queue.device);
    if (queue.natives().submit(task)) return;
    args = static_cast<Execution&>(*task).take();
  }
  // A wait of another thread on this queue makes sycl::queue forget its last kernel, and the host task would not stand
  // behind it. The scratchpad may be a block that a kernel before this wait still reads, so it is taken before.
  if (talk || host) queue.wait();
  clock::time_point start;
  if (talk) [[unlikely]]
    start = clock::now();
  {
    Stream& s = stream(queue);
    const int n = static_cast<int>(args->c_args.size());
    const auto stream_of = [&](sycl::queue& q) {
      if (s.queue != q) [[unlikely]]
        s = Stream(queue.device, q);  // a profile began or ended, or an external queue lives where another did
      return s.stream.get();
    };
    if (runtime::profiling()) [[unlikely]] {
      runtime::submit_profiled(queue, described(entry), [&](sycl::queue& q) {
        sycl::event done;
        check(dnnl_sycl_interop_primitive_execute(entry.primitive.get(), stream_of(q), n, args->c_args.data(), nullptr,
                                                  &done),
              entry);
        return done;
      });
    } else {
      queue.submit([&](sycl::queue& q) {
        check(dnnl_primitive_execute(entry.primitive.get(), stream_of(q), n, args->c_args.data()), entry);
      });
    }
  }
  if (talk || host) queue.wait();
  if (talk) [[unlikely]] {
    std::fprintf(stderr, "xpu_ops,onednn,%s,%s,%s,%s,%.1f us\n", op_name(entry.op), entry.impl.c_str(),
                 entry.shapes.c_str(), entry.last_was_hit ? "hit" : "miss",
                 std::chrono::duration<double, std::micro>(clock::now() - start).count());
  }
  entry.spare.put(std::move(args));
}

void run(runtime::Queue& queue, Entry& entry, std::initializer_list<void*> pointers) {
  run(queue, entry, pointers.begin(), static_cast<int>(pointers.size()));
}

}  // namespace xpu_ops::onednn
