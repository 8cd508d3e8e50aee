#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "kernels/runtime/queue/command_graph.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>

#include <sycl/backend.hpp>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/opencl_symbol.hpp"
#include "kernels/runtime/profile/profiler.hpp"

namespace xpu_ops::runtime {
namespace {

namespace syclex = sycl::ext::oneapi::experimental;
using Replayable = syclex::command_graph<syclex::graph_state::executable>;

// The graphs that record.
struct Recording {
  std::mutex mutex;
  std::vector<CommandGraph*> graphs;
};
Recording& recording_graphs() {
  static auto* r = new Recording;
  return *r;
}

void check(cl_int status, const char* what) {
  if (status != CL_SUCCESS)
    throw Error(ErrorKind::runtime, std::string("OpenCL could not ") + what + " (" + std::to_string(status) + ").");
}

struct OpenCl {
  decltype(clCloneKernel)* clone = opencl_symbol<decltype(clCloneKernel)>("clCloneKernel");
  decltype(clReleaseKernel)* release = opencl_symbol<decltype(clReleaseKernel)>("clReleaseKernel");
  decltype(clSetKernelArg)* set = opencl_symbol<decltype(clSetKernelArg)>("clSetKernelArg");
  decltype(clEnqueueNDRangeKernel)* launch = opencl_symbol<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  decltype(clEnqueueNativeKernel)* work = opencl_symbol<decltype(clEnqueueNativeKernel)>("clEnqueueNativeKernel");
  decltype(clReleaseCommandQueue)* release_queue =
      opencl_symbol<decltype(clReleaseCommandQueue)>("clReleaseCommandQueue");
  bool complete() const { return clone && release && set && launch && work && release_queue; }
};
const OpenCl& opencl() {
  static const OpenCl functions;
  return functions;
}

}  // namespace

// A kernel, work of the host, or commands that SYCL recorded.
struct CommandGraph::Part {
  std::string name;
  cl_kernel kernel = nullptr;
  cl_uint dims = 0;
  size_t global[2] = {}, local[2] = {};
  std::function<void()> work;
  std::optional<syclex::command_graph<>> recorded;
  std::optional<Replayable> executable;
  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    if (kernel) opencl().release(kernel);
  }
};

namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

CommandGraph::CommandGraph(Queue& queue)
    : number(next_number()), queue_(queue), keeps_(native_tasks(queue.device) && opencl().complete()) {}

CommandGraph::~CommandGraph() {
  parts_.clear();
  if (mark_) sycl::free(mark_, sycl_context(queue_.device));
}

void CommandGraph::begin() {
  recorded_.emplace(queue_.get().get_context(), queue_.get().get_device());
  queue_.submit_marker([&](sycl::queue& q) { recorded_->begin_recording(q); });
  {
    const std::lock_guard lock(recording_graphs().mutex);
    recording_graphs().graphs.push_back(this);
  }
  count_recording(1);
  watch_launches(1);
}

void CommandGraph::end() {
  queue_.submit([&](sycl::queue&) { recorded_->end_recording(); });
  watch_launches(-1);
  count_recording(-1);
  {
    const std::lock_guard lock(recording_graphs().mutex);
    std::erase(recording_graphs().graphs, this);
  }
  if (parts_.empty() || !recorded_->get_nodes().empty()) {
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->recorded = std::move(recorded_);
  }
  recorded_.reset();
}

void CommandGraph::instantiate() {
  for (const auto& part : parts_)
    if (part->recorded) part->executable.emplace(part->recorded->finalize());
  if (keeps_ && !mark_) mark_ = sycl::malloc_device<char>(1, sycl_device(queue_.device), sycl_context(queue_.device));
  instantiated_ = true;
}

bool CommandGraph::records(const Queue& queue) const {
  return queue.device == queue_.device && recording(queue) && recorded_ &&
         queue.get().ext_oneapi_get_graph() == *recorded_;
}

CommandGraph* graph_of(const Queue& queue) {
  if (graphs_recording() == 0 || !recording(queue)) return nullptr;
  const std::lock_guard lock(recording_graphs().mutex);
  for (CommandGraph* graph : recording_graphs().graphs)
    if (graph->records(queue)) return graph;
  return nullptr;
}

void join_graph(uint64_t number, Queue& queue) {
  CommandGraph* found = nullptr;
  {
    const std::lock_guard lock(recording_graphs().mutex);
    for (CommandGraph* graph : recording_graphs().graphs)
      if (graph->number == number) found = graph;
  }
  if (found) found->join(queue);
}

void CommandGraph::close() {
  if (recorded_->get_nodes().empty()) return;
  std::vector<Queue*> queues;
  for_each_queue(queue_.device, [&](Queue& q) {
    if (records(q)) queues.push_back(&q);
  });
  recorded_->end_recording();
  auto part = std::make_unique<Part>();
  part->name = "commands";
  part->recorded = std::move(recorded_);
  parts_.push_back(std::move(part));
  recorded_.emplace(queue_.get().get_context(), queue_.get().get_device());
  for (Queue* q : queues) q->submit([&](sycl::queue& s) { recorded_->begin_recording(s); });
}

void CommandGraph::add(std::unique_ptr<Part> part) {
  const std::lock_guard lock(mutex_);
  close();
  parts_.push_back(std::move(part));
}

void CommandGraph::add(const Launch& launch) {
  auto part = std::make_unique<Part>();
  part->name = launch.name;
  part->dims = static_cast<cl_uint>(launch.dims);
  // OpenCL's first dimension varies fastest.
  for (int d = 0; d < launch.dims; ++d) {
    part->global[d] = launch.global[launch.dims - 1 - d];
    part->local[d] = launch.local[launch.dims - 1 - d];
  }
  const cl_kernel original = sycl::get_native<sycl::backend::opencl>(launch.kernel);
  cl_int status = CL_SUCCESS;
  part->kernel = opencl().clone(original, &status);
  opencl().release(original);
  check(status, "keep a kernel for a graph");
  check(opencl().set(part->kernel, 0, launch.bytes, launch.args), "keep the arguments of a kernel for a graph");
  add(std::move(part));
}

void CommandGraph::add(const char* name, std::function<void()> work) {
  auto part = std::make_unique<Part>();
  part->name = name;
  part->work = std::move(work);
  add(std::move(part));
}

void CommandGraph::hold(std::shared_ptr<void> held) {
  const std::lock_guard lock(mutex_);
  held_.push_back(std::move(held));
}

void CommandGraph::join(Queue& queue) {
  const std::lock_guard lock(mutex_);
  if (!records(queue)) queue.submit_marker([&](sycl::queue& q) { recorded_->begin_recording(q); });
}

// Neighbours without a kernel between them are one native kernel of OpenCL.
void CommandGraph::run_work(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    try {
      parts_[i]->work();
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

sycl::event CommandGraph::enqueue(sycl::queue& queue) {
  if (parts_.size() == 1 && parts_[0]->executable) return queue.ext_oneapi_graph(*parts_[0]->executable);
  struct Works {
    CommandGraph* graph;
    size_t begin, end;
  };
  const auto run = [](void* args) {
    const Works w = *static_cast<const Works*>(args);
    w.graph->run_work(w.begin, w.end);
  };
  const cl_command_queue native = sycl::get_native<sycl::backend::opencl>(queue);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = *parts_[i];
    if (part.executable) {
      queue.ext_oneapi_graph(*part.executable);
    } else if (part.kernel) {
      check(opencl().launch(native, part.kernel, part.dims, nullptr, part.global, part.local, 0, nullptr, nullptr),
            "launch a kernel of a graph");
    } else {
      Works works{this, i, i + 1};  // OpenCL copies it
      while (works.end < parts_.size() && parts_[works.end]->work) ++works.end;
      check(opencl().work(native, run, &works, sizeof works, 0, nullptr, nullptr, 0, nullptr, nullptr),
            "enqueue work of a graph");
      i = works.end - 1;
    }
  }
  opencl().release_queue(native);
  return queue.memset(mark_, 0, 1);  // SYCL knows none of the others, and this one stands behind them
}

void CommandGraph::replay(Queue& queue) {
  {
    const std::lock_guard lock(error_mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  // Kernels that OpenCL gets directly would overtake what SYCL holds back behind a host task.
  if (keeps_ && !queue.natives().takes()) queue.wait();
  submit_named(queue, {"graph", CommandKind::graph, 0, false}, [&](sycl::queue& q) { return enqueue(q); });
}

void CommandGraph::print(const std::string& path) const {
  if (parts_.size() == 1 && parts_[0]->recorded) return parts_[0]->recorded->print_graph(path, true);
  std::ofstream out(path);
  out << "digraph {\n";
  for (size_t i = 0; i < parts_.size(); ++i) {
    out << "  n" << i << " [label=\"" << parts_[i]->name << "\"]\n";
    if (i) out << "  n" << i - 1 << " -> n" << i << "\n";
  }
  out << "}\n";
}

}  // namespace xpu_ops::runtime
