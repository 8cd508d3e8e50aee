// One collective on XPU tensors: brings them to the engine, and its results back.
//
// wait() makes the host wait, which is more than the current stream: no queue of the CPU device can wait for the host.
// Where memory is discrete the results come back on a stream, and the current one waits for that.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "bindings/distributed/image.hpp"
#include "bindings/distributed/outstanding.hpp"
#include "bindings/distributed/peers.hpp"
#include "bindings/distributed/record.hpp"
#include "kernels/runtime/queue/event.hpp"

namespace xpu_ops::distributed {

// A collective as data: `start` gets the CPU tensors in the order of the images and calls the engine, once or more;
// `after`, where given, runs when the engine is done and before results go back.
struct Call {
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  c10d::OpType type;
  std::vector<at::Tensor> results;  // the value of the future
  std::vector<Image> images;
  std::function<Works(c10d::Backend&, const std::vector<at::Tensor>&)> start;
  std::function<void(const std::vector<at::Tensor>&)> after;
  // The root or the other side, and for profiles: the sizes of an uneven all_to_all, the group.
  int peer = -1;
  std::vector<int64_t> input_splits = {}, output_splits = {};
  GroupName group = {};
};

class XcclWork final : public c10d::Work {
 public:
  struct Streams { runtime::StreamId fetch, deliver; };
  XcclWork(Call call, c10::Device device, std::shared_ptr<const Peers> peers, uint64_t sequence,
           std::chrono::milliseconds timeout, Streams streams, bool discrete);

  void release_resources() override;  // where weak references outlive the strong ones

  // Once, in the order of the group: after the producing stream is done, or behind `ready`. Throws what the engine
  // does. Nothing where the work has failed before, by an abort. `waited_for`: this thread waits for it next.
  void launch(c10d::Backend& engine, const runtime::Event* ready, const Ticket& ticket, bool waited_for);
  void fail(std::exception_ptr error, const Ticket& ticket) noexcept;
  // Whether the calling thread is an engine's that completes a work: it cannot wait for the engine's end.
  static bool in_callback();

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() override;
  void abort() override;
  std::vector<at::Tensor> result() override { return results_; }
  int sourceRank() const override;
  uint64_t getSequencenumber() const override { return sequence_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  bool await(std::chrono::milliseconds timeout);
  void part_done(std::exception_ptr error, const Ticket& ticket) noexcept;
  void complete(std::exception_ptr error, const Ticket& ticket) noexcept;
  void mark(c10::ivalue::Future& future, const std::exception_ptr& error) const;
  void drive(std::chrono::milliseconds timeout);
  std::string name() const;
  std::exception_ptr explain(const std::exception_ptr& error, bool roll_call) const;

  Call call_;
  std::vector<at::Tensor> results_;
  const c10::Device device_;
  const std::shared_ptr<const Peers> peers_;
  const uint64_t sequence_;
  const std::chrono::milliseconds timeout_;
  const Streams streams_;
  const bool discrete_;  // the host does not read device memory
  const int peer_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const GroupName group_;
  int64_t carried_since_ = 0;  // where a profile runs: the engine was asked

  // Under mutex_ of the base.
  std::vector<at::Tensor> cpu_;
  Call::Works driven_;  // of the engine, without a future: whoever waits drives them. Sends and receives
  bool starting_ = false, launched_ = false, driving_ = false;
  size_t parts_ = 0;  // of the engine, not done yet
  std::exception_ptr part_error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  runtime::Event delivered_;
  int source_ = -1;
};

// Several as one, for endCoalescing.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(std::vector<c10::intrusive_ptr<XcclWork>> works, c10::Device device);
  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  uint64_t getSequencenumber() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<XcclWork>> works_;
  const c10::Device device_;
};

}  // namespace xpu_ops::distributed
