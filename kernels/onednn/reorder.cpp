#include "kernels/onednn/reorder.hpp"

#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/tensor.hpp"

namespace xpu_ops::onednn {
namespace {

bool run_reorder(runtime::Queue& queue, const Key& key, const dnnl::memory::desc& src, const dnnl::memory::desc& dst,
                 void* from, void* to, bool allow_reference) {
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto& eng = engine(queue.device);
    const dnnl::reorder::primitive_desc pd(eng, src, eng, dst, attr, true);
    if (!pd) return e.refuse("no implementation");
    // A packed layout can only be made by oneDNN, so a slow reorder into one is better than none.
    if (!allow_reference && Entry::is_reference(pd.impl_info_str())) return e.refuse(pd.impl_info_str());
    e.args = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    return e.accept(pd, dnnl::reorder(pd));
  });
  if (!*entry) return false;
  run(queue, *entry, {from, to});
  return true;
}

}  // namespace

bool reorder(runtime::Queue& queue, const View& src, const View& dst) {
  Key key(Op::reorder, queue.device);
  key.add(0).add(src).add(dst);
  return run_reorder(queue, key, to_desc(src), to_desc(dst), src.data, dst.data, false);
}

bool reorder(runtime::Queue& queue, const View& src, const dnnl::memory::desc& dst, uint64_t dst_layout,
             void* dst_data) {
  Key key(Op::reorder, queue.device);
  key.add(1).add(src).add(static_cast<int64_t>(dst_layout));
  return run_reorder(queue, key, to_desc(src), dst, src.data, dst_data, true);
}

bool reorder(runtime::Queue& queue, const dnnl::memory::desc& src, uint64_t src_layout, void* src_data,
             const View& dst) {
  Key key(Op::reorder, queue.device);
  key.add(2).add(dst).add(static_cast<int64_t>(src_layout));
  return run_reorder(queue, key, src, to_desc(dst), src_data, dst.data, true);
}

}  // namespace xpu_ops::onednn
