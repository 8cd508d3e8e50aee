// torch._C._XPUGraph: what a stream executes, recorded once and replayed.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/onednn.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/runtime/module.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/command_graph.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

using runtime::PoolId;

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
    TORCH_CHECK(!graph_,
                "This XPUGraph instance already owns a captured graph. "
                "To capture a new graph, create a new instance.");
    queue_ = &runtime::current_queue();
    TORCH_CHECK(runtime::sycl_device(queue_->device).has(sycl::aspect::ext_oneapi_limited_graph) ||
                    runtime::sycl_device(queue_->device).has(sycl::aspect::ext_oneapi_graph),
                "The device (", runtime::device_info(queue_->device).name, ") does not support XPU graphs.");
    TORCH_CHECK(!runtime::recording(*queue_), "This stream is recording another XPU graph.");
    add_generator(default_generator(static_cast<c10::DeviceIndex>(queue_->device)));
    for (Source& s : sources_) s.memory = aten::new_empty({2}, at::kLong);
    pool_ = pool && *pool != PoolId{0, 0} ? *pool : runtime::new_pool_id(false);
    runtime::begin_allocate_to_pool(queue_->device, pool_, {std::nullopt, queue_->id});
    try {
      graph_.emplace(*queue_);
      graph_->weights_stay = weights_stay_;
      queue_->small().close();  // first: no thread computes inline what should be recorded
      graph_->begin();
    } catch (...) {
      queue_->small().open();
      graph_.reset();
      runtime::end_allocate_to_pool(queue_->device, pool_);
      runtime::release_pool(queue_->device, pool_);
      throw;
    }
    for (Source& s : sources_)
      s.generator().begin_graph(graph_->number, reinterpret_cast<const uint64_t*>(s.memory.const_data_ptr()));
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
    if (!keep_) graph_->instantiate();
  }

  void instantiate() {
    TORCH_CHECK(graph_ && !capturing(), "capture_end() must have been called before calling instantiate");
    graph_->instantiate();
  }

  void replay() {
    TORCH_CHECK(!capturing() && graph_, "Called XPUGraph::replay without a preceding successful capture.");
    if (!graph_->instantiated()) instantiate();
    auto& queue = runtime::current_queue(queue_->device);
    for (const Source& s : sources_) {
      if (!s.drawn) continue;
      const PhiloxState now = s.generator().reserve(s.drawn);
      const uint64_t numbers[2] = {now.seed, now.offset};
      ops::CopyShape shape;
      shape.ndim = 1;
      shape.size[0] = shape.dst[0] = 1;
      ops::fill(queue, s.memory.mutable_data_ptr(), sizeof numbers, numbers, shape);
    }
    graph_->replay(queue);
  }

  void reset() {
    if (runtime::in_bad_fork()) return;
    if (graph_ && graph_->instantiated()) runtime::synchronize(queue_->device);  // a replay may still run on its memory
    graph_.reset();
    if (holds_pool_) runtime::release_pool(queue_->device, pool_);
    holds_pool_ = false;
  }

  size_t commands() const { return graph_ ? graph_->size() : 0; }
  // Before the capture: whoever replays sees to it that no weight was written, and no replay packs.
  void weights_stay() {
    TORCH_CHECK(!graph_, "Weights are said to stay before the capture begins.");
    weights_stay_ = true;
  }

  PoolId pool() const {
    TORCH_CHECK(holds_pool_, "Called XPUGraph::pool() without a preceding successful capture.");
    return pool_;
  }

  void register_generator_state(const at::Generator& generator) {
    TORCH_CHECK(!graph_, "Generators are registered before the capture begins.");
    TORCH_CHECK(generator.device().type() == c10::kXPU, "Expected a 'xpu' device type for generator but found '",
                generator.device().type(), "'");
    add_generator(generator);
  }

  void debug_dump(const std::string& path) const {
    TORCH_CHECK(keep_ && graph_ && !capturing(), "debug_dump needs keep_graph=True: the recorded graph is gone.");
    graph_->print(path);
  }
  // The object that holds the graph: SYCL's own graphs are parts of it.
  uintptr_t raw_graph() const {
    TORCH_CHECK(keep_ && graph_ && !capturing(),
                "You cannot access the raw graph unless XPUGraph was created with keep_graph=True.");
    return reinterpret_cast<uintptr_t>(&*graph_);
  }
  uintptr_t raw_executable() const {
    TORCH_CHECK(graph_ && graph_->instantiated(), "You cannot access the executable graph before it is instantiated.");
    return reinterpret_cast<uintptr_t>(&*graph_);
  }

 private:
  // A generator that the graph draws from, and the memory that tells its kernels where a replay begins.
  struct Source {
    at::Generator held;
    at::Tensor memory;
    uint64_t drawn = 0;
    XpuGenerator& generator() const { return *static_cast<XpuGenerator*>(held.unsafeGetGeneratorImpl()); }
  };

  bool capturing() const { return capturing_; }
  void add_generator(const at::Generator& generator) {
    for (const Source& s : sources_)
      if (s.held.unsafeGetGeneratorImpl() == generator.unsafeGetGeneratorImpl()) return;
    sources_.push_back({generator, {}, 0});
  }
  // On every queue that records: those that waited for a recorded event do, as autograd's leaf streams.
  void end_recording() {
    capturing_ = false;
    runtime::end_allocate_to_pool(queue_->device, pool_);
    graph_->end();
    queue_->small().open();
    for (Source& s : sources_) s.drawn = s.generator().end_graph(graph_->number);
  }

  bool keep_;
  bool capturing_ = false, holds_pool_ = false, weights_stay_ = false;
  uint64_t refused_before_ = 0;
  runtime::Queue* queue_ = nullptr;
  PoolId pool_{0, 0};
  std::vector<Source> sources_;
  std::optional<runtime::CommandGraph> graph_;
};

// Which memory some tensors are, and how often it was written: what a recording that reads it relies on.
class TensorStates {
 public:
  explicit TensorStates(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& t : tensors)
      states_.push_back({t.storage().getWeakStorageImpl(), t.const_data_ptr(), version(t)});
  }
  bool same(const std::vector<at::Tensor>& tensors) const {
    if (tensors.size() != states_.size()) return false;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!same(i, tensors[i])) return false;
    return true;
  }
  bool same(size_t i, const at::Tensor& t) const {
    const State& s = states_[i];
    return t.storage().unsafeGetStorageImpl() == s.storage._unsafe_get_target() && t.const_data_ptr() == s.data &&
           version(t) == s.version;
  }

 private:
  // A storage that is held weakly never has the address of another.
  struct State {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    uint64_t version;
  };
  static uint64_t version(const at::Tensor& t) { return t.is_inference() ? 0 : static_cast<uint64_t>(t._version()); }
  std::vector<State> states_;
};

// A call of a compiled graph as its recording: inputs are copied to where the recording reads them, results from where
// it leaves them. Weights are read where they are.
class Replay {
 public:
  Replay(std::shared_ptr<Graph> graph, std::vector<size_t> fixed, const std::vector<at::Tensor>& weights,
         std::vector<size_t> own, std::vector<at::Tensor> operands, std::vector<at::Tensor> results, uint64_t writes)
      : graph_(std::move(graph)),
        fixed_(std::move(fixed)),
        own_(std::move(own)),
        states_(weights),
        operands_(std::move(operands)),
        results_(std::move(results)),
        writes_(writes),
        device_(static_cast<int>(results_.at(0).device().index())),
        stream_(runtime::current_queue(device_).id) {}

  // Nothing where a weight may have changed since the recording, and on another stream.
  std::optional<std::vector<at::Tensor>> run(const py::list& inputs) {
    const runtime::Queue& queue = runtime::current_queue(device_);
    if (queue.id != stream_ || aten::packed_weight_writes() != writes_) return std::nullopt;
    if (runtime::graphs_recording() && runtime::recording(queue)) return std::nullopt;
    for (const py::handle h : inputs)
      if (!THPVariable_Check(h.ptr())) return std::nullopt;
    if (inputs.size() != fixed_.size() + own_.size()) return std::nullopt;
    const auto input = [&](size_t i) -> const at::Tensor& {
      return THPVariable_Unpack(PyList_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i)));
    };
    for (size_t i = 0; i < fixed_.size(); ++i)
      if (!states_.same(i, input(fixed_[i]))) return std::nullopt;
    std::vector<at::Tensor> given, copies;
    for (const size_t i : own_) given.push_back(input(i));
    const py::gil_scoped_release no_gil;
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < given.size(); ++i) operands_[i].copy_(given[i]);
    graph_->replay();
    for (const at::Tensor& t : results_) copies.push_back(t.clone());
    return copies;
  }

 private:
  std::shared_ptr<Graph> graph_;
  std::vector<size_t> fixed_, own_;  // places of weights and of other inputs
  TensorStates states_;
  std::vector<at::Tensor> operands_, results_;
  uint64_t writes_;
  int device_;
  runtime::StreamId stream_;
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
      .def("weights_stay", &Graph::weights_stay)
      .def("commands", &Graph::commands)
      .def("pool", &Graph::pool)
      .def("register_generator_state", &Graph::register_generator_state)
      .def("enable_debug_mode", [](Graph&) {})  // everything debug_dump writes is recorded anyway
      .def("debug_dump", &Graph::debug_dump, py::arg("debug_path"))
      .def("raw_xpu_graph", &Graph::raw_graph)
      .def("raw_xpu_graph_exec", &Graph::raw_executable);
  py::class_<TensorStates>(m, "TensorStates")
      .def(py::init<const std::vector<at::Tensor>&>())
      .def("same", py::overload_cast<const std::vector<at::Tensor>&>(&TensorStates::same, py::const_));
  py::class_<Replay>(m, "Replay")
      .def(py::init<std::shared_ptr<Graph>, std::vector<size_t>, const std::vector<at::Tensor>&, std::vector<size_t>,
                    std::vector<at::Tensor>, std::vector<at::Tensor>, uint64_t>())
      .def("run", &Replay::run);
  m.def("_xpu_graph_pool_handle", [] { return runtime::new_pool_id(true); });
  m.def("_xpu_isCurrentStreamCapturing",
        [] { return runtime::graphs_recording() && runtime::recording(runtime::current_queue()); });
}

}  // namespace xpu_ops
