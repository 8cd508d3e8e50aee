// Symmetric memory: an allocation is a shared block of buffer and signal pad, a rendezvous maps the blocks of the
// others.
#include "bindings/distributed/symmetric_memory.hpp"

#include <sched.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "bindings/distributed/shared_block.hpp"
#include "bindings/distributed/without_gil.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/pool.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::distributed {
namespace {

using Symmetric = c10d::symmetric_memory::SymmetricMemory;
using Clock = std::chrono::steady_clock;
constexpr size_t kPage = 4096;
constexpr std::chrono::microseconds kSpin{50}, kLook{500000};

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The blocks of all ranks of a group, mapped here.
struct Mapped {
  std::vector<std::shared_ptr<SharedBlock>> blocks;
  std::vector<void*> buffers, pads;
  size_t bytes, pad_bytes;
  int rank, device;
};

struct Allocation {
  std::shared_ptr<SharedBlock> block;
  size_t bytes, pad_offset, pad_bytes;
  int device;
  std::optional<std::string> group;
  std::map<std::string, std::shared_ptr<Mapped>> peers;
};

// Waits until `done`, with the interpreter free for other threads, and gives up after the timeout or when the process
// at the other end has ended.
template <class Done>
void wait_for(Done done, const SharedBlock& other, int rank, const char* what, size_t timeout_ms) {
  const auto start = Clock::now();
  auto look = start + kLook;
  for (;;) {
    if (done()) return;
    const auto now = Clock::now();
    if (timeout_ms != 0 && now - start >= std::chrono::milliseconds(timeout_ms))
      TORCH_CHECK(false, "Timed out after ", timeout_ms, " ms in ", what, ": rank ", rank, " did not come.");
    if (now >= look) {
      look = now + kLook;
      TORCH_CHECK(!other.abandoned() || done(), "Rank ", rank, ", process ", other.address().process, ", ended: ", what,
                  " waits for it.");
    }
    if (now - start < kSpin)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// A process group by its name, or what set_group_info said of a name that is none.
c10d::symmetric_memory::GroupInfo members(const std::string& name) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(name);
  } catch (const c10::Error&) { return c10d::symmetric_memory::get_group_info(name); }
  return {group->getRank(), group->getSize(), group->getStore()};
}

class XpuSymmetricMemory final : public Symmetric {
 public:
  XpuSymmetricMemory(std::shared_ptr<Mapped> peers, size_t offset) : peers_(std::move(peers)), offset_(offset) {}
  std::vector<void*> get_buffer_ptrs() override { return peers_->buffers; }
  std::vector<void*> get_signal_pad_ptrs() override { return peers_->pads; }
  void** get_buffer_ptrs_dev() override { return peers_->buffers.data(); }
  void** get_signal_pad_ptrs_dev() override { return peers_->pads.data(); }
  size_t get_buffer_size() override { return peers_->bytes; }
  size_t get_offset() override { return offset_; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return peers_->rank; }
  int get_world_size() override { return static_cast<int>(peers_->blocks.size()); }
  c10::Device get_device() override { return c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(peers_->device)); }
  bool world_within_direct_access() override { return true; }

  void barrier(int channel, size_t timeout_ms) override {
    enter(channel, "barrier");
    WithoutGil waiting;
    for (int r = 0; r < get_world_size(); ++r)
      if (r != peers_->rank) put(r, channel, "barrier", timeout_ms);
    for (int r = 0; r < get_world_size(); ++r)
      if (r != peers_->rank) take(r, channel, "barrier", timeout_ms);
  }
  void put_signal(int dst_rank, int channel, size_t timeout_ms) override {
    check_peer(dst_rank);
    enter(channel, "put_signal");
    WithoutGil waiting;
    put(dst_rank, channel, "put_signal", timeout_ms);
  }
  void wait_signal(int src_rank, int channel, size_t timeout_ms) override {
    check_peer(src_rank);
    enter(channel, "wait_signal");
    WithoutGil waiting;
    take(src_rank, channel, "wait_signal", timeout_ms);
  }

 private:
  void check_peer(int rank) {
    TORCH_CHECK(rank >= 0 && rank < get_world_size(), "rank must be in [0, ", get_world_size(), ") (got ", rank, ")");
  }
  // Work that the current stream has is done, and later work comes after: no queue of the CPU device can wait for
  // another process, so the caller does.
  void enter(int channel, const char* what) {
    TORCH_CHECK(channel >= 0, "channel for barrier(), put_signal() and wait_signal() must be greater than 0 (got ",
                channel, ")");
    const size_t channels = peers_->pad_bytes / (sizeof(uint32_t) * peers_->blocks.size());
    TORCH_CHECK(static_cast<size_t>(channel) < channels,
                "The maximum supported channel for barrier(), put_signal() and wait_signal() is ", channels - 1,
                " (got ", channel, ")");
    translate([&] {
      runtime::Queue& queue = runtime::current_queue(peers_->device);
      runtime::refuse_recording(queue, what);
      WithoutGil waiting;
      runtime::synchronize(queue);
    });
  }
  uint32_t* signal(int pad, int channel, int from) {
    return static_cast<uint32_t*>(peers_->pads[pad]) + static_cast<size_t>(channel) * peers_->blocks.size() + from;
  }
  // A signal goes from 0 to 1 where it is put, and back where it is taken: a second one waits for the first to be
  // taken.
  static bool change(uint32_t* at, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
  void put(int to, int channel, const char* what, size_t timeout_ms) {
    uint32_t* at = signal(to, channel, peers_->rank);
    wait_for([&] { return change(at, 0, 1); }, *peers_->blocks[to], to, what, timeout_ms);
  }
  void take(int from, int channel, const char* what, size_t timeout_ms) {
    uint32_t* at = signal(peers_->rank, channel, from);
    wait_for([&] { return change(at, 1, 0); }, *peers_->blocks[from], from, what, timeout_ms);
  }

  std::shared_ptr<Mapped> peers_;
  size_t offset_;
};

class XpuSymmetricAllocator final : public c10d::symmetric_memory::SymmetricMemoryAllocator {
 public:
  void* alloc(size_t size, int device, const std::optional<std::string>& group) override {
    return translate([&] {
      if (device < 0) device = runtime::current_device();
      runtime::check_fork();
      TORCH_CHECK_NOT_IMPLEMENTED(
          runtime::host_accessible(device), "Symmetric memory on xpu needs a device that reads ",
          "the host's memory, as the CPU device does without XPU_OPS_DISCRETE=1 and ", "XPU_OPS_POLICY=gpu.");
      auto made = std::make_shared<Allocation>();
      made->bytes = size;
      made->pad_offset = whole_pages(size);
      made->pad_bytes = c10d::symmetric_memory::get_signal_pad_size();
      made->device = device;
      made->group = group;
      made->block = SharedBlock::make(made->pad_offset + whole_pages(made->pad_bytes), device);
      void* ptr = made->block->data();
      std::lock_guard lock(mutex_);
      allocations_[ptr] = std::move(made);
      return ptr;
    });
  }
  void free(void* ptr) override {
    std::shared_ptr<Allocation> gone;
    {
      std::lock_guard lock(mutex_);
      auto it = allocations_.find(ptr);
      if (it == allocations_.end()) return;
      gone = std::move(it->second);
      allocations_.erase(it);
    }
    if (!runtime::in_bad_fork()) runtime::settle(gone->device);
  }
  size_t get_alloc_size(void* ptr) override {
    size_t offset = 0;
    auto found = find(ptr, offset);
    TORCH_CHECK(found, "The pointer is no symmetric memory of xpu.");
    return found->bytes;
  }
  c10::intrusive_ptr<Symmetric> rendezvous(void* ptr, const std::optional<std::string>& group) override {
    size_t offset = 0;
    auto found = find(ptr, offset);
    if (!found) return nullptr;
    const std::optional<std::string>& name = group ? group : found->group;
    TORCH_CHECK(name, "rendezvous of symmetric memory needs a group: neither the call nor the allocation names one.");
    auto& peers = found->peers[*name];
    if (!peers) peers = meet(*found, *name);
    return c10::make_intrusive<XpuSymmetricMemory>(peers, offset);
  }
  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return c10::kXPU; }
  std::string name() override { return "XPU"; }
  bool has_allocation(void* ptr) override {
    size_t offset = 0;
    return find(ptr, offset) != nullptr;
  }

 private:
  // The allocation that an address lies in.
  std::shared_ptr<Allocation> find(void* ptr, size_t& offset) {
    std::lock_guard lock(mutex_);
    auto it = allocations_.upper_bound(ptr);
    if (it == allocations_.begin()) return nullptr;
    --it;
    offset = static_cast<size_t>(static_cast<char*>(ptr) - static_cast<char*>(it->first));
    return offset < std::max<size_t>(it->second->bytes, 1) ? it->second : nullptr;
  }
  // Tells the group where the block is, maps the others' and returns when all have done so.
  std::shared_ptr<Mapped> meet(const Allocation& own, const std::string& group) {
    WithoutGil waiting;
    const auto info = members(group);
    TORCH_CHECK(info.world_size > 0 && own.pad_bytes >= sizeof(uint32_t) * static_cast<size_t>(info.world_size),
                "The signal pad is too small for ", info.world_size, " ranks.");
    size_t number = 0;
    {
      std::lock_guard lock(mutex_);
      number = meetings_[group]++;
    }
    const std::string key = "xpu_ops/symmetric/" + group + "/" + std::to_string(number) + "/";
    struct Message {
      BlockAddress address;
      uint64_t bytes, pad_offset;
    };
    const Message mine{own.block->address(), own.bytes, own.pad_offset};
    std::vector<uint8_t> raw(sizeof(Message));
    std::memcpy(raw.data(), &mine, sizeof(Message));
    info.store->set(key + std::to_string(info.rank), raw);
    auto out = std::make_shared<Mapped>();
    out->bytes = own.bytes;
    out->pad_bytes = own.pad_bytes;
    out->rank = info.rank;
    out->device = own.device;
    for (int r = 0; r < info.world_size; ++r) {
      std::shared_ptr<SharedBlock> block = own.block;
      if (r != info.rank) {
        const auto got = info.store->get(key + std::to_string(r));
        TORCH_CHECK(got.size() == sizeof(Message), "Rank ", r, " has another version of xpu_ops.");
        Message theirs;
        std::memcpy(&theirs, got.data(), sizeof(Message));
        TORCH_CHECK(theirs.bytes == own.bytes, "Symmetric memory must have the same size on all ranks: ", own.bytes,
                    " bytes here, ", theirs.bytes, " on rank ", r, ".");
        block = SharedBlock::map(theirs.address, own.device);
      }
      out->buffers.push_back(block->data());
      out->pads.push_back(static_cast<char*>(block->data()) + own.pad_offset);
      out->blocks.push_back(std::move(block));
    }
    info.store->set(key + "mapped/" + std::to_string(info.rank), std::vector<uint8_t>{1});
    for (int r = 0; r < info.world_size; ++r) (void)info.store->get(key + "mapped/" + std::to_string(r));
    return out;
  }

  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Allocation>> allocations_;
  std::unordered_map<std::string, size_t> meetings_;  // by group: every rank comes to them in the same order
};

}  // namespace

void register_symmetric_memory() {
  auto allocator = c10::make_intrusive<XpuSymmetricAllocator>();
  c10d::symmetric_memory::register_availability(allocator->name(), allocator);
  c10d::symmetric_memory::register_allocator(c10::kXPU, std::move(allocator));
}

}  // namespace xpu_ops::distributed
