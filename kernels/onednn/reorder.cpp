#include "kernels/onednn/reorder.hpp"

#include <string_view>

#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/tensor.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::onednn {
namespace {

Widen widen = nullptr;

// Implementations that are taken: all, since a packed layout can only be made by oneDNN; no reference; generated code
// alone (simple:any converts element by element).
enum class Takes : uint8_t { all, no_reference, generated };

bool takes(Takes what, const char* implementation) {
  if (what == Takes::all) return true;
  return !Entry::is_reference(implementation) &&
         (what != Takes::generated || !std::string_view(implementation).starts_with("simple"));
}

bool run_reorder(runtime::Queue& queue, const Key& key, const dnnl::memory::desc& src, const dnnl::memory::desc& dst,
                 void* from, void* to, Takes what) {
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto& eng = engine(queue.device);
    const dnnl::reorder::primitive_desc pd(eng, src, eng, dst, attr, true);
    if (!pd) return e.refuse("no implementation");
    if (!takes(what, pd.impl_info_str())) return e.refuse(pd.impl_info_str());
    e.args = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    return e.accept(pd, dnnl::reorder(pd));
  });
  if (!*entry) return false;
  run(queue, *entry, {from, to});
  return true;
}

}  // namespace

void set_widen(Widen given) { widen = given; }

bool reorder(runtime::Queue& queue, const View& src, const View& dst) {
  Key key(Op::reorder, queue.device);
  key.add(0).add(src).add(dst);
  return run_reorder(queue, key, to_desc(src), to_desc(dst), src.data, dst.data, Takes::no_reference);
}

bool reorder(runtime::Queue& queue, const View& src, const dnnl::memory::desc& dst, uint64_t dst_layout,
             void* dst_data) {
  const auto pack = [&](const View& from, Takes what) {
    Key key(Op::reorder, queue.device);
    key.add(what == Takes::all ? 1 : 3).add(from).add(static_cast<int64_t>(dst_layout));
    return run_reorder(queue, key, to_desc(from), dst, from.data, dst_data, what);
  };
  View wide = src;
  wide.type = DType::f32;
  const size_t bytes = static_cast<size_t>(src.numel()) * sizeof(float);
  const bool converts = src.type != DType::f32 && dst.get_data_type() == dnnl::memory::data_type::f32;
  if (!converts || !widen || to_desc(wide).get_size() != bytes) return pack(src, Takes::all);
  if (pack(src, Takes::generated)) return true;
  const runtime::Scratch scratch(bytes);
  wide.data = scratch.get();
  widen(queue, wide.data, src.data, src.type, src.numel());
  return pack(wide, Takes::all);
}

bool reorder(runtime::Queue& queue, const dnnl::memory::desc& src, uint64_t src_layout, void* src_data,
             const View& dst) {
  Key key(Op::reorder, queue.device);
  key.add(2).add(dst).add(static_cast<int64_t>(src_layout));
  return run_reorder(queue, key, src, to_desc(dst), src_data, dst.data, Takes::all);
}

}  // namespace xpu_ops::onednn
