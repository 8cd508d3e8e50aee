// The CPU tensor that an engine gets for an XPU tensor: its memory where the host may touch it, else a pinned copy.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "bindings/distributed/encoding.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::distributed {

enum class Use { read, write, both };
// Elements as they lie in memory, flat or with the first dimension kept, as split sizes count it: the tensor is dense.
// By index: as a contiguous tensor has them, whatever the strides are.
enum class Order { memory, rows, index };

class Image {
 public:
  Image(const at::Tensor& xpu, Use use, Encoding encoding, Order order = Order::memory);

  // The producing stream is done. With a queue the elements are copied on it; the caller waits for it before encode().
  // Else the tensor's memory serves, and `held` is let go after the engine's last reference to it.
  void open(runtime::Queue* fetches, const std::shared_ptr<void>& held);
  void encode();
  const at::Tensor& tensor() const { return xpu_; }
  Use use() const { return use_; }
  const at::Tensor& cpu() const { return cpu_; }  // from encode() on
  // The engine is done. deliver() puts the copy back on the queue, the current one, and returns at once.
  void decode(int ranks);
  void deliver(runtime::Queue& queue);

 private:
  bool writes() const { return use_ != Use::read && xpu_.numel() > 0; }

  bool gathered() const { return order_ == Order::index && !xpu_.is_contiguous(); }

  at::Tensor xpu_, memory_, cpu_;
  at::Tensor strided_;  // the tensor's memory, where memory_ is a copy by index
  Encoding encoding_;
  Use use_;
  Order order_;
};

}  // namespace xpu_ops::distributed
