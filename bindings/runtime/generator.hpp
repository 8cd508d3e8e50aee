// The Philox generator of an XPU device. Its state is 16 bytes: seed, offset.
#pragma once
#include <ATen/core/Generator.h>

#include <mutex>
#include <optional>
#include <vector>

#include "bindings/export.hpp"
#include "kernels/runtime/queue/philox.hpp"

namespace xpu_ops {

using runtime::PhiloxState;

class XPU_OPS_EXPORT XpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit XpuGenerator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;  // also rewinds the offset
  void set_offset(uint64_t offset) override;      // must be a multiple of 4
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  // The state before the increment, which is rounded up to a multiple of 4.
  PhiloxState reserve(uint64_t increment);
  // Draws in the graph of this number count from 0 and find the rest at `memory`: {seed, offset}. end_graph returns how
  // far they went.
  void begin_graph(uint64_t graph, const uint64_t* memory);
  uint64_t end_graph(uint64_t graph);
  PhiloxState reserve_in_graph(uint64_t graph, uint64_t increment);
  static c10::DeviceType device_type() { return c10::kXPU; }

 private:
  PhiloxState now() const;
  XpuGenerator* clone_impl() const override;
  // Shared by generators that were tied together with graphsafe_set_state: each has a mutex_ of its own, so the state
  // has another.
  struct State : c10::intrusive_ptr_target {
    std::mutex mutex;
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
    struct Graph {
      uint64_t number, drawn;
      const uint64_t* memory;
    };
    std::vector<Graph> graphs;  // that record
  };
  c10::intrusive_ptr<State> state_;
};

XPU_OPS_EXPORT const at::Generator& default_generator(c10::DeviceIndex device = -1);  // -1: the current device
at::Generator new_generator(c10::DeviceIndex device = -1);

// The start of a random kernel: reserves `increment` outputs a counter in the generator, or in the default one of
// the current device. Throws where the generator belongs to another device.
XPU_OPS_EXPORT PhiloxState reserve_philox(const std::optional<at::Generator>& generator, uint64_t increment);

}  // namespace xpu_ops
