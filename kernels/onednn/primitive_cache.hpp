// The primitive cache: everything that shapes a primitive is packed into one key; a hit costs a hash, one probe and a
// splice, well under a microsecond, against 50-600 us for a creation.
#pragma once
#include <atomic>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/runtime/lru.hpp"
#include "kernels/view.hpp"

namespace xpu_ops::onednn {

enum class Op : uint8_t {
  matmul,
  conv_forward,
  conv_backward_data,
  conv_backward_weights,
  deconv_forward,
  deconv_backward_data,
  deconv_backward_weights,
  reorder,
};
const char* op_name(Op op) noexcept;

// Bytes that identify a primitive. Small integers take four bytes, so that a convolution with a chain of post-ops fits
// the inline buffer.
class Key {
 public:
  Key(Op op, int device) { add(static_cast<int>(op) | device << 8); }
  template <std::integral T>
  Key& add(T value) {
    const int64_t v = static_cast<int64_t>(value);
    if (v > INT32_MIN && v <= INT32_MAX) [[likely]] {
      word(static_cast<uint32_t>(static_cast<int32_t>(v)));
    } else {
      word(0x80000000u);  // INT32_MIN marks a 64-bit value
      word(static_cast<uint32_t>(v));
      word(static_cast<uint32_t>(static_cast<uint64_t>(v) >> 32));
    }
    return *this;
  }
  Key& add(float v) { return word(std::bit_cast<uint32_t>(v)), *this; }
  Key& add(const int64_t* v, int n) {
    for (int i = 0; i < n; ++i) add(v[i]);
    return *this;
  }
  // Everything of a view but its address.
  Key& add(const View& v) {
    add(static_cast<int>(v.type) | v.ndim << 8);
    add(v.dims, v.ndim);
    return add(v.strides, v.ndim);
  }
  const uint32_t* data() const { return spill_.empty() ? inline_ : spill_.data(); }
  size_t size() const { return size_; }
  uint64_t hash() const;
  bool operator==(const Key& o) const { return size_ == o.size_ && !std::memcmp(data(), o.data(), size_ * 4); }

 private:
  static constexpr size_t kInline = 96;
  void word(uint32_t w) {
    if (size_ < kInline) [[likely]] {
      inline_[size_++] = w;
    } else {
      if (spill_.empty()) spill_.assign(inline_, inline_ + size_);
      spill_.push_back(w);
      ++size_;
    }
  }
  uint32_t size_ = 0;
  uint32_t inline_[kInline];
  std::vector<uint32_t> spill_;
};

struct ArgSpec {
  int id;  // DNNL_ARG_*
  dnnl::memory::desc md;
};

// Memory objects of one execution.
struct ArgSet {
  std::vector<dnnl::memory> memory;
  std::vector<dnnl_exec_arg_t> c_args;
};

// Sets that no execution uses, so that the next one only sets data handles.
class SpareArgs {
 public:
  std::unique_ptr<ArgSet> take() {
    const std::lock_guard lock(mutex_);
    if (sets_.empty()) return nullptr;
    std::unique_ptr<ArgSet> last = std::move(sets_.back());
    sets_.pop_back();
    return last;
  }
  void put(std::unique_ptr<ArgSet> set) {
    const std::lock_guard lock(mutex_);
    if (sets_.size() < kKept) sets_.push_back(std::move(set));
  }

 private:
  static constexpr size_t kKept = 64;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ArgSet>> sets_;
};

// A primitive, or the fact that there is none worth running (`primitive` empty, `impl` says why).
struct Entry : std::enable_shared_from_this<Entry> {
  explicit operator bool() const { return static_cast<bool>(primitive); }
  dnnl::primitive primitive;
  std::vector<ArgSpec> args;  // without the scratchpad
  dnnl::memory::desc scratchpad;
  size_t scratchpad_bytes = 0;
  dnnl::memory::desc src, weights, dst;                         // the layouts that the implementation takes
  uint64_t src_layout = 0, weights_layout = 0, dst_layout = 0;  // layout_id of each, where it was chosen
  uint64_t packing = 0;                                         // packing_id(the caller's weights, weights)
  Op op{};
  std::string impl, shapes;
  std::atomic<bool> last_was_hit{false};  // for the verbose line only
  SpareArgs spare;

  // Takes the primitive from a descriptor, unless its implementation is a reference one. False if refused.
  bool accept(const dnnl::primitive_desc_base& pd, const dnnl::primitive& made);
  bool refuse(std::string why);
  // The layouts of src and dst that the implementation has chosen.
  void keep_layouts(const dnnl::memory::desc& chosen_src, const dnnl::memory::desc& chosen_dst);
  // "ref:any", and what wraps one, as a deconvolution wraps "conv:any+ref:any".
  static bool is_reference(const char* impl) { return !std::strncmp(impl, "ref", 3) || std::strstr(impl, "+ref"); }
};

// A number that is equal for equal memory descriptors in this process.
uint64_t layout_id(const dnnl::memory::desc& md);
// The same for a pair: views of one storage with other strides pack to the same layout but to other values.
uint64_t packing_id(const View& from, const dnnl::memory::desc& to);

struct PrimitiveCacheEntry {
  std::string op, impl, shapes;
  uint64_t scratchpad_bytes, uses;
};

struct KeyHash {
  size_t operator()(const Key& key) const { return key.hash(); }
};

class PrimitiveCache : public runtime::LruCache<Key, Entry, KeyHash> {
 public:
  static PrimitiveCache& instance();

  // `make(Entry&)` fills a new entry.
  template <class Make> std::shared_ptr<Entry> get(const Key& key, Make&& make) {
    bool hit = true;
    auto entry = LruCache::get(key, [&] {
      hit = false;
      return create(static_cast<Op>(key.data()[0] & 0xff), std::ref(make));
    });
    if (entry->last_was_hit.load(std::memory_order_relaxed) != hit) [[unlikely]]
      entry->last_was_hit.store(hit, std::memory_order_relaxed);
    return entry;
  }
  std::vector<PrimitiveCacheEntry> entries() const;  // most recently used first

 private:
  PrimitiveCache();
  // Runs `make` on a thread of its own. oneDNN's code generator keeps an error in a variable of the thread and fails
  // there from then on, also in what primitives generate while they run, which any thread that waits may do.
  static std::shared_ptr<Entry> create(Op op, const std::function<void(Entry&)>& make);
};

}  // namespace xpu_ops::onednn
