#include "kernels/onednn/primitive_cache.hpp"

#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/tensor.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::onednn {

dnnl::memory::data_type to_dnnl(DType t) noexcept {
  using dt = dnnl::memory::data_type;
  switch (t) {
    case DType::u8:
    case DType::b8: return dt::u8;
    case DType::i8: return dt::s8;
    case DType::i32: return dt::s32;
    case DType::f16: return dt::f16;
    case DType::bf16: return dt::bf16;
    case DType::f32: return dt::f32;
    case DType::f8e5m2: return dt::f8_e5m2;
    case DType::f8e4m3fn: return dt::f8_e4m3;
    default: return dt::undef;
  }
}

dnnl::memory::desc to_desc(const View& v) {
  return dnnl::memory::desc(dnnl::memory::dims(v.dims, v.dims + v.ndim), to_dnnl(v.type),
                            dnnl::memory::dims(v.strides, v.strides + v.ndim));
}

const char* op_name(Op op) noexcept {
  static constexpr const char* names[] = {
      "matmul",         "conv_forward",         "conv_backward_data",      "conv_backward_weights",
      "deconv_forward", "deconv_backward_data", "deconv_backward_weights", "reorder"};
  return names[static_cast<int>(op)];
}

uint64_t Key::hash() const {
  // Multiply and fold, 8 bytes per step; equality is checked on the bytes, so this only has to spread.
  uint64_t h = 0x9e3779b97f4a7c15ull ^ size_;
  const uint32_t* p = data();
  size_t i = 0;
  for (; i + 2 <= size_; i += 2) {
    const uint64_t w = p[i] | static_cast<uint64_t>(p[i + 1]) << 32;
    const unsigned __int128 m = static_cast<unsigned __int128>(h ^ w) * 0xd6e8feb86659fd93ull;
    h = static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
  }
  if (i < size_) h = (h ^ p[i]) * 0xd6e8feb86659fd93ull;
  return h ^ h >> 29;
}

void Entry::keep_layouts(const dnnl::memory::desc& chosen_src, const dnnl::memory::desc& chosen_dst) {
  src = chosen_src;
  dst = chosen_dst;
  src_layout = layout_id(src);
  dst_layout = layout_id(dst);
}

bool Entry::refuse(std::string why) {
  impl = std::move(why);
  if (verbose()) std::fprintf(stderr, "xpu_ops,onednn,%s,refused,%s,%s\n", op_name(op), impl.c_str(), shapes.c_str());
  return false;
}

bool Entry::accept(const dnnl::primitive_desc_base& pd, const dnnl::primitive& made) {
  impl = pd.impl_info_str();
  scratchpad = pd.scratchpad_desc();
  scratchpad_bytes = scratchpad.get_size();
  primitive = made;
  return true;
}

static uint64_t intern(std::vector<uint8_t> blob) {
  static std::mutex mutex;
  static auto* ids = new std::map<std::vector<uint8_t>, uint64_t>;
  std::lock_guard lock(mutex);
  return ids->emplace(std::move(blob), ids->size() + 1).first->second;
}

std::shared_ptr<Entry> PrimitiveCache::create(Op op, const std::function<void(Entry&)>& make) {
  auto e = std::make_shared<Entry>();
  e->op = op;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      make(*e);
    } catch (const dnnl::error& error) { e->refuse(error.what()); } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return e;
}

uint64_t layout_id(const dnnl::memory::desc& md) { return intern(dnnl::memory::desc(md).get_blob()); }

uint64_t packing_id(const View& from, const dnnl::memory::desc& to) {
  std::vector<uint8_t> both = to_desc(from).get_blob();
  const std::vector<uint8_t> second = dnnl::memory::desc(to).get_blob();
  both.insert(both.end(), second.begin(), second.end());
  return intern(std::move(both));
}

PrimitiveCache& PrimitiveCache::instance() {
  static auto* cache = new PrimitiveCache;  // never destroyed: engines may be gone when static destructors run
  return *cache;
}

PrimitiveCache::PrimitiveCache() : LruCache(runtime::env_number("XPU_OPS_PRIMITIVE_CACHE_CAPACITY", 1024)) {}

std::vector<PrimitiveCacheEntry> PrimitiveCache::entries() const {
  std::vector<PrimitiveCacheEntry> out;
  each([&](const Entry& e, uint64_t uses) {
    out.push_back({op_name(e.op), e.primitive ? e.impl : "refused: " + e.impl, e.shapes, e.scratchpad_bytes, uses});
  });
  return out;
}

}  // namespace xpu_ops::onednn
