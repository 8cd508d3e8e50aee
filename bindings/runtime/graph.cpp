// torch._C._XPUGraph: what a stream executes, recorded once and replayed, as a SYCL command graph.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <fstream>
#include <optional>

#include "bindings/runtime/module.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/queue.hpp"

namespace py = pybind11;
namespace syclex = sycl::ext::oneapi::experimental;

namespace xpu_ops {
namespace {

using runtime::PoolId;
using Recorded = syclex::command_graph<syclex::graph_state::modifiable>;
using Executable = syclex::command_graph<syclex::graph_state::executable>;

class Graph {
 public:
  explicit Graph(bool keep) : keep_(keep) {}
  ~Graph() {
    try {
      if (capturing()) end_recording();
      reset();
    } catch (const std::exception& e) { TORCH_WARN("An XPU graph could not be released: ", e.what()); }
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void capture_begin(const std::optional<PoolId>& pool) {
    TORCH_CHECK(!recorded_ && !executable_,
                "This XPUGraph instance already owns a captured graph. "
                "To capture a new graph, create a new instance.");
    queue_ = &runtime::current_queue();
    TORCH_CHECK(runtime::sycl_device(queue_->device).has(sycl::aspect::ext_oneapi_limited_graph) ||
                    runtime::sycl_device(queue_->device).has(sycl::aspect::ext_oneapi_graph),
                "The device (", runtime::device_info(queue_->device).name, ") does not support XPU graphs.");
    TORCH_CHECK(!runtime::recording(*queue_), "This stream is recording another XPU graph.");
    pool_ = pool && *pool != PoolId{0, 0} ? *pool : runtime::new_pool_id(false);
    runtime::begin_allocate_to_pool(queue_->device, pool_, {std::nullopt, queue_->id});
    try {
      recorded_.emplace(queue_->get().get_context(), queue_->get().get_device());
      queue_->block_inline();  // first: no thread computes inline what should be recorded
      queue_->submit_marker([&](sycl::queue& q) { recorded_->begin_recording(q); });
    } catch (...) {
      queue_->unblock_inline();
      recorded_.reset();
      runtime::end_allocate_to_pool(queue_->device, pool_);
      runtime::release_pool(queue_->device, pool_);
      throw;
    }
    runtime::count_recording(1);
    refused_before_ = runtime::refused_recordings();
    capturing_ = true;
    holds_pool_ = true;
  }

  void capture_end() {
    TORCH_CHECK(capturing(), "capture_end() came without capture_begin().");
    TORCH_CHECK(&runtime::current_queue() == queue_, "Capture must end on the same stream it began on.");
    end_recording();
    // Work is missing. The error that says so is on its way; one from here would hide it, and keep torch.xpu.graph from
    // leaving the stream.
    if (runtime::refused_recordings() != refused_before_) return reset();
    if (!keep_) {
      instantiate();
      recorded_.reset();
    }
  }

  void instantiate() {
    TORCH_CHECK(recorded_ && !capturing(), "capture_end() must have been called before calling instantiate");
    executable_.emplace(recorded_->finalize());
  }

  void replay() {
    TORCH_CHECK(!capturing() && (recorded_ || executable_),
                "Called XPUGraph::replay without a preceding successful capture.");
    if (!executable_) instantiate();
    auto& q = runtime::current_queue(queue_->device);
    runtime::submit_named(q, {"graph", runtime::CommandKind::graph, 0, false},
                          [&](sycl::queue& s) { return s.ext_oneapi_graph(*executable_); });
  }

  void reset() {
    if (runtime::in_bad_fork()) return;
    if (executable_) runtime::synchronize(queue_->device);  // a replay may still run on its memory
    executable_.reset();
    recorded_.reset();
    if (holds_pool_) runtime::release_pool(queue_->device, pool_);
    holds_pool_ = false;
  }

  PoolId pool() const {
    TORCH_CHECK(holds_pool_, "Called XPUGraph::pool() without a preceding successful capture.");
    return pool_;
  }

  void debug_dump(const std::string& path) const {
    TORCH_CHECK(recorded_, "debug_dump needs keep_graph=True: the recorded graph is gone.");
    recorded_->print_graph(path, true);
  }
  uintptr_t raw_graph() const {
    TORCH_CHECK(keep_ && recorded_,
                "You cannot access the raw graph unless XPUGraph was created with keep_graph=True.");
    return reinterpret_cast<uintptr_t>(&*recorded_);
  }
  uintptr_t raw_executable() const {
    TORCH_CHECK(executable_, "You cannot access the executable graph before it is instantiated.");
    return reinterpret_cast<uintptr_t>(&*executable_);
  }

 private:
  bool capturing() const { return capturing_; }
  // On every queue that records: those that waited for a recorded event do, as autograd's leaf streams.
  void end_recording() {
    capturing_ = false;
    runtime::end_allocate_to_pool(queue_->device, pool_);
    queue_->submit([&](sycl::queue&) { recorded_->end_recording(); });
    runtime::count_recording(-1);
    queue_->unblock_inline();
  }

  bool keep_;
  bool capturing_ = false, holds_pool_ = false;
  uint64_t refused_before_ = 0;
  runtime::Queue* queue_ = nullptr;
  PoolId pool_{0, 0};
  std::optional<Recorded> recorded_;
  std::optional<Executable> executable_;
};

}  // namespace

void bind_graph(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  py::class_<Graph, std::shared_ptr<Graph>>(m, "_XPUGraph")
      .def(py::init<bool>(), py::arg("keep_graph") = false)
      .def("capture_begin", &Graph::capture_begin, py::arg("pool") = py::none(), NoGil())
      .def("capture_end", &Graph::capture_end, NoGil())
      .def("instantiate", &Graph::instantiate, NoGil())
      .def("replay", &Graph::replay, NoGil())
      .def("reset", &Graph::reset, NoGil())
      .def("pool", &Graph::pool)
      .def("register_generator_state",
           [](Graph&, const py::object&) {
             TORCH_CHECK_NOT_IMPLEMENTED(false, "Random numbers cannot be captured in an XPU graph by xpu_ops.");
           })
      .def("enable_debug_mode", [](Graph&) {})  // everything debug_dump writes is recorded anyway
      .def("debug_dump", &Graph::debug_dump, py::arg("debug_path"))
      .def("raw_xpu_graph", &Graph::raw_graph)
      .def("raw_xpu_graph_exec", &Graph::raw_executable);
  m.def("_xpu_graph_pool_handle", [] { return runtime::new_pool_id(true); });
  m.def("_xpu_isCurrentStreamCapturing",
        [] { return runtime::graphs_recording() && runtime::recording(runtime::current_queue()); });
}

}  // namespace xpu_ops
