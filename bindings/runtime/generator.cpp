#include "bindings/runtime/generator.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>

#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/command_graph.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

constexpr size_t kStateBytes = 16;

constexpr uint64_t rounded(uint64_t increment) { return (increment + 3) / 4 * 4; }

int resolve(c10::DeviceIndex device) { return device < 0 ? runtime::current_device() : device; }

}  // namespace

XpuGenerator::XpuGenerator(c10::DeviceIndex device)
    : c10::GeneratorImpl{c10::Device(c10::kXPU, device), c10::DispatchKeySet(c10::DispatchKey::XPU)},
      state_(c10::make_intrusive<State>()) {}

void XpuGenerator::set_current_seed(uint64_t seed) {
  const std::lock_guard lock(state_->mutex);
  state_->seed = seed;
  state_->offset = 0;
}

void XpuGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4");
  const std::lock_guard lock(state_->mutex);
  state_->offset = offset;
}

PhiloxState XpuGenerator::now() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->seed, state_->offset};
}
uint64_t XpuGenerator::get_offset() const { return now().offset; }
uint64_t XpuGenerator::current_seed() const { return now().seed; }

uint64_t XpuGenerator::seed() {
  uint64_t random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void XpuGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  const auto size = state.numel();
  TORCH_CHECK(size == static_cast<int64_t>(kStateBytes) || size == static_cast<int64_t>(kStateBytes / 2),
              "RNG state is wrong size");
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  uint64_t seed = 0, offset = 0;
  std::memcpy(&seed, bytes, sizeof seed);
  if (size == static_cast<int64_t>(kStateBytes)) std::memcpy(&offset, bytes + sizeof seed, sizeof offset);
  set_current_seed(seed);
  set_offset(offset);
}

c10::intrusive_ptr<c10::TensorImpl> XpuGenerator::get_state() const {
  auto state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, c10::kByte);
  auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
  const PhiloxState philox = now();
  std::memcpy(bytes, &philox.seed, sizeof(uint64_t));
  std::memcpy(bytes + sizeof(uint64_t), &philox.offset, sizeof(uint64_t));
  return state.getIntrusivePtr();
}

void XpuGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto* other = dynamic_cast<XpuGenerator*>(state.get());
  TORCH_CHECK(other, "Expected a XPU Generator");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> XpuGenerator::graphsafe_get_state() const {
  auto copy = c10::make_intrusive<XpuGenerator>(device().index());
  copy->state_ = state_;
  return copy;
}

XpuGenerator* XpuGenerator::clone_impl() const {
  auto* copy = new XpuGenerator(device().index());
  const PhiloxState philox = now();
  copy->state_->seed = philox.seed;
  copy->state_->offset = philox.offset;
  return copy;
}

PhiloxState XpuGenerator::reserve(uint64_t increment) {
  const std::lock_guard lock(state_->mutex);
  PhiloxState before{state_->seed, state_->offset};
  state_->offset += rounded(increment);
  return before;
}

void XpuGenerator::begin_graph(uint64_t graph, const uint64_t* memory) {
  const std::lock_guard lock(state_->mutex);
  for (const State::Graph& g : state_->graphs)
    if (g.number == graph) return;  // its state is another one's
  state_->graphs.push_back({graph, 0, memory});
}

uint64_t XpuGenerator::end_graph(uint64_t graph) {
  const std::lock_guard lock(state_->mutex);
  uint64_t drawn = 0;
  std::erase_if(state_->graphs, [&](const State::Graph& g) {
    if (g.number == graph) drawn = g.drawn;
    return g.number == graph;
  });
  return drawn;
}

PhiloxState XpuGenerator::reserve_in_graph(uint64_t graph, uint64_t increment) {
  const std::lock_guard lock(state_->mutex);
  for (State::Graph& g : state_->graphs) {
    if (g.number != graph) continue;
    const PhiloxState here{0, g.drawn, g.memory};
    g.drawn += rounded(increment);
    return here;
  }
  TORCH_CHECK(false,
              "This generator is not registered with the XPU graph that records: call register_generator_state "
              "of the graph before its capture begins.");
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  struct Slot {
    std::once_flag once;
    at::Generator generator;
  };
  static auto* slots = new std::array<Slot, runtime::kMaxDevices>;
  int i = resolve(device);
  if (i >= runtime::kMaxDevices) translate([&] { runtime::device_info(i); });
  Slot& slot = (*slots)[i];
  std::call_once(slot.once, [&] {
    translate([&] { runtime::device_info(i); });
    slot.generator = at::make_generator<XpuGenerator>(static_cast<c10::DeviceIndex>(i));
    slot.generator.seed();
  });
  return slot.generator;
}

at::Generator new_generator(c10::DeviceIndex device) {
  int i = resolve(device);
  translate([&] { runtime::device_info(i); });
  auto g = at::make_generator<XpuGenerator>(static_cast<c10::DeviceIndex>(i));
  g.set_current_seed(c10::default_rng_seed_val);
  return g;
}

PhiloxState reserve_philox(const std::optional<at::Generator>& generator, uint64_t increment) {
  const at::Generator& g = generator && generator->defined() ? *generator : default_generator();
  TORCH_CHECK(g.device().type() == c10::kXPU, "Expected a 'xpu' device type for generator but found '",
              g.device().type(), "'");
  auto* impl = static_cast<XpuGenerator*>(g.unsafeGetGeneratorImpl());
  if (runtime::graphs_recording()) [[unlikely]]
    if (const auto* graph = runtime::graph_of(runtime::current_queue()))
      return impl->reserve_in_graph(graph->number, increment);
  std::lock_guard<std::mutex> lock(impl->mutex_);  // against a seed and an offset that are set one after the other
  return impl->reserve(increment);
}

}  // namespace xpu_ops
