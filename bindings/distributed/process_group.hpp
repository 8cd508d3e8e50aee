// The backend "xccl": collectives on XPU tensors by an engine that takes CPU tensors, ProcessGroupGloo.
//
// Where the device shares its memory with the host the engine works on the tensors' memory; else on pinned copies. A
// collective starts on the calling thread when its stream is idle, or waits for the stream in a thread of the group, so
// that it overlaps with what the caller does next.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "bindings/distributed/launcher.hpp"
#include "bindings/distributed/work.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::distributed {

using Engine = c10::intrusive_ptr<c10d::Backend>;
using EngineFactory =
    std::function<Engine(const c10::intrusive_ptr<c10d::Store>&, int rank, int size, std::chrono::milliseconds)>;

class ProcessGroupXCCL final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
        : c10d::Backend::Options("xccl", timeout) {}
    bool is_high_priority_stream = false;  // of the copies, where memory is discrete
  };

  ProcessGroupXCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                   c10::intrusive_ptr<Options> options, EngineFactory factory);
  // Serves XPU tensors of a group that has only an engine; does not keep it in use. Its memory goes with this object's.
  ProcessGroupXCCL(const Engine& borrowed, const c10::intrusive_ptr<c10d::Store>& store);
  ~ProcessGroupXCCL() override;
  void release_resources() override { close(); }  // where weak references outlive the strong ones

  const std::string getBackendName() const override { return "xccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return factory_ != nullptr; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& uid) override;
  void setSequenceNumberForGroup() override {}  // all ranks count from zero
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  bool serves(const c10d::Backend* engine) const;  // false when it is gone, too
  bool alive() const;

  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using Result = c10::intrusive_ptr<c10d::Work>;
  void startCoalescing() override;
  Result endCoalescing() override;
  Result broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  Result allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  Result allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  Result allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  Result reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  Result allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  Result _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  Result allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  Result allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& opts) override;
  Result gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  Result scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  Result reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  Result _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  Result reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const c10d::ReduceScatterOptions& opts) override;
  Result alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                       std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  Result alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  Result send(Tensors& tensors, int peer, int tag) override;
  Result recv(Tensors& tensors, int peer, int tag) override;
  Result recvAnysource(Tensors& tensors, int tag) override;
  Result barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  void close();
  Engine engine() const;
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds asked) const;
  Result run(Call call, c10::Device device, std::chrono::milliseconds timeout, bool async);
  Result enqueue(Call call, c10::Device device, std::chrono::milliseconds timeout, bool async);
  Result reduce_scatter_lists(c10d::OpType type, Tensors& outputs, TensorLists inputs,
                              const c10d::ReduceScatterOptions& opts);
  XcclWork::Streams& streams(int device);
  void remember(const c10::intrusive_ptr<XcclWork>& work);

  Engine engine_;  // under state_; no weak reference, which would keep its threads
  c10::weak_intrusive_ptr<c10d::Backend> borrowed_;
  const EngineFactory factory_;
  const c10::intrusive_ptr<Options> options_;
  std::shared_ptr<const Peers> peers_;
  std::optional<XcclWork::Streams> streams_[runtime::kMaxDevices];

  std::mutex order_;          // collectives start in the order of the calls
  mutable std::mutex state_;  // the members below
  std::vector<c10::weak_intrusive_ptr<XcclWork>> live_;
  std::optional<std::vector<c10::intrusive_ptr<XcclWork>>> coalesced_;
  std::atomic<uint64_t> sequence_{0}, transfers_{0};
  std::atomic<bool> aborted_{false}, closed_{false};
  Launcher launcher_;  // last: its thread uses the others
};

}  // namespace xpu_ops::distributed
