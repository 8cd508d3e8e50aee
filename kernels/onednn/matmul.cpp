#include "kernels/onednn/matmul.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/onednn/attributes.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/reorder.hpp"
#include "kernels/onednn/tensor.hpp"
#include "kernels/onednn/weight_cache.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::onednn {
namespace {

using dnnl::memory;

// Strides of dims of size 1 mean nothing to torch but decide whether oneDNN recognises a plain layout; broadcast batch
// dims (stride 0) become dims of size 1. False if the last two dims are in no layout that oneDNN takes.
bool normalise(View& v) {
  const int r = v.ndim - 2, c = v.ndim - 1;
  int64_t &rows = v.dims[r], &cols = v.dims[c], &sr = v.strides[r], &sc = v.strides[c];
  if (cols == 1 && sr != 1) sc = 1;
  if (rows == 1 && sc != 1) sr = 1;
  if (cols == 1 && sr == 1) sc = rows;
  if (rows == 1 && sc == 1) sr = cols;
  const bool row_major = sc == 1 && sr >= cols, column_major = sr == 1 && sc >= rows;
  if (!row_major && !column_major) return false;
  int64_t outer = row_major ? rows * sr : cols * sc;
  for (int i = r - 1; i >= 0; --i) {
    if (v.strides[i] == 0) v.dims[i] = 1;
    if (v.dims[i] == 1) v.strides[i] = outer;
    outer = std::max(outer, v.dims[i] * v.strides[i]);
  }
  return true;
}

// Batch dims that can be walked as one, so that (B, M, K) @ (K, N) and its kin take the kernels of 2-D matmul.
void collapse_rows(View& a, View& b, View* bias, View& dst, const PostOps& post) {
  if (a.ndim != 3 || b.dims[0] != 1 || !post.empty()) return;
  if (bias && (bias->dims[0] != 1 || bias->dims[1] != 1)) return;
  auto joins = [](const View& v) { return v.dims[0] == 1 || v.strides[0] == v.dims[1] * v.strides[1]; };
  if (a.strides[2] != 1 || dst.strides[2] != 1 || !joins(a) || !joins(dst)) return;
  auto squeeze = [](View& v) {
    for (int i = 0; i < 2; ++i) {
      v.dims[i] = v.dims[i + 1];
      v.strides[i] = v.strides[i + 1];
    }
    v.ndim = 2;
  };
  const int64_t batch = a.dims[0];
  squeeze(a);
  squeeze(b);
  squeeze(dst);
  if (bias) squeeze(*bias);
  a.dims[0] *= batch;
  dst.dims[0] *= batch;
}

// Whether the operand of a post-op has fewer elements than the result, other than one for each column. brg_matmul of
// oneDNN 3.x finds their places by those of a dense result.
bool broadcasts(const PostOps& post, const View& dst) {
  for (const PostOp& op : post.ops) {
    if (op.kind != PostOp::Kind::binary && op.kind != PostOp::Kind::prelu) continue;
    bool fewer = false, columns = true;
    for (int i = 0; i < dst.ndim; ++i) fewer |= op.other.dims[i] != dst.dims[i];
    for (int i = 0; i + 1 < dst.ndim; ++i) columns &= op.other.dims[i] == 1;
    if (fewer && !columns) return true;
  }
  return false;
}

// Where threads share the inner dimension, brg_matmul of oneDNN 3.13 sums all matrices of a batch into one buffer. It
// does so for float32 and few matrices of these sizes, with more threads than matrices.
bool sums_matrices_of_a_batch(int device, const View& a, const View& b, const View& dst) {
  const int r = dst.ndim - 2, c = dst.ndim - 1;
  int64_t batch = 1;
  for (int i = 0; i < r; ++i) batch *= dst.dims[i];
  return a.dims[c] >= 20'000 && batch > 1 && dst.dims[r] <= 512 && dst.dims[c] <= 512 && a.type == DType::f32 &&
         b.type == DType::f32 && dst.type == DType::f32 && batch < runtime::device_info(device).policy.units;
}

// The operands at one index of the first dimension, which is dropped.
View at(const View& v, int64_t index) {
  View out = v;
  if (v.dims[0] > 1) out.data = static_cast<char*>(v.data) + index * v.strides[0] * dtype_size(v.type);
  std::copy(v.dims + 1, v.dims + v.ndim, out.dims);
  std::copy(v.strides + 1, v.strides + v.ndim, out.strides);
  --out.ndim;
  return out;
}

std::string shape_text(const View& a, const View& b, const View& dst, bool bias, const PostOps& post) {
  auto dims = [](const View& v) {
    std::string s = dtype_suffix(v.type);
    for (int i = 0; i < v.ndim; ++i) s += (i ? "x" : " ") + std::to_string(v.dims[i]);
    if (v.ndim >= 2 && v.strides[v.ndim - 1] != 1) s += "^T";
    return s;
  };
  return dims(a) + " : " + dims(b) + " -> " + dims(dst) + (bias ? " bias" : "") +
         (post.ops.empty() ? "" : " post-ops=" + std::to_string(post.ops.size()));
}

}  // namespace

bool matmul(runtime::Queue& queue, const View& a_in, const View& b_in, const View* bias_in, const View& dst_in,
            const PostOps& post, const MatmulOptions& options) {
  View a = a_in, b = b_in, dst = dst_in;
  const bool pack = options.pack && options.weight.storage;
  const auto b_type =
      options.int4 ? memory::data_type::u4 : to_dnnl(options.pack && options.widen ? DType::f32 : b.type);
  View bias;
  if (bias_in) bias = *bias_in;
  // post-ops that broadcast over the batch keep its dims
  if (!options.int4) collapse_rows(a, b, bias_in ? &bias : nullptr, dst, post);
  if (!normalise(a) || !normalise(b) || !normalise(dst)) return false;
  if (sums_matrices_of_a_batch(queue.device, a, b, dst)) {
    MatmulOptions one = options;
    one.pack &= b.dims[0] == 1;
    for (int64_t i = 0; i < dst.dims[0]; ++i) {
      PostOps ops = post;
      for (PostOp& op : ops.ops)
        for (View* other : {&op.other, &op.other2})
          if (other->ndim) *other = at(*other, i);
      const View row = bias_in ? at(bias, i) : View{};
      if (!matmul(queue, at(a, i), at(b, i), bias_in ? &row : nullptr, at(dst, i), ops, one)) return false;
      if (options.ask) break;
    }
    return true;
  }
  // Of results whose matrices lie apart oneDNN takes rows, not columns; a single column may be either.
  if (dst.ndim > 2 && dst.dims[dst.ndim - 1] == 1) dst.strides[dst.ndim - 1] = 1;
  Key key(Op::matmul, queue.device);
  key.add(a).add(static_cast<int64_t>(b_type)).add(b).add(dst).add(static_cast<int64_t>(pack) << 1 | !!bias_in);
  if (bias_in) key.add(bias);
  add_key(key, post);
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    e.shapes = shape_text(a, b, dst, bias_in, post);
    if (broadcasts(post, dst) && !is_dense(dst))
      return e.refuse("wrong for a broadcast operand and a result with gaps");
    if (to_dnnl(a.type) == memory::data_type::undef || b_type == memory::data_type::undef ||
        to_dnnl(dst.type) == memory::data_type::undef)
      return e.refuse("type");
    if (const char* reason = unwanted_source(queue.device, a.type)) return e.refuse(reason);
    const memory::dims b_dims(b.dims, b.dims + b.ndim), b_strides(b.strides, b.strides + b.ndim);
    const memory::desc a_md = to_desc(a), dst_md = to_desc(dst);
    const memory::desc b_md =
        pack ? memory::desc(b_dims, b_type, memory::format_tag::any) : memory::desc(b_dims, b_type, b_strides);
    const auto attr = attributes(post);
    const auto& eng = engine(queue.device);
    const auto pd = bias_in ? dnnl::matmul::primitive_desc(eng, a_md, b_md, to_desc(bias), dst_md, attr, true)
                            : dnnl::matmul::primitive_desc(eng, a_md, b_md, dst_md, attr, true);
    if (!pd) return e.refuse("no implementation");
    if (Entry::is_reference(pd.impl_info_str())) return e.refuse(pd.impl_info_str());
    e.weights = pd.weights_desc();
    if (pack) {
      e.weights_layout = layout_id(e.weights);
      e.packing = packing_id(b, e.weights);
    }
    e.args = {{DNNL_ARG_SRC, a_md}, {DNNL_ARG_WEIGHTS, e.weights}, {DNNL_ARG_DST, dst_md}};
    if (bias_in) e.args.push_back({DNNL_ARG_BIAS, to_desc(bias)});
    add_args(e.args, post);
    return e.accept(pd, dnnl::matmul(pd));
  });
  if (!*entry || options.ask) return static_cast<bool>(*entry);
  std::shared_ptr<PackedWeight> packed;
  if (pack) {
    packed =
        WeightCache::instance().get(queue, options.weight, entry->packing, entry->weights.get_size(), [&](void* to) {
          if (!reorder(queue, b, entry->weights, entry->weights_layout, to))
            throw Error(ErrorKind::runtime, "oneDNN cannot pack " + entry->shapes);
        });
    b.data = packed->data;
  }
  if (post.empty() && !bias_in) {
    run(queue, *entry, {a.data, b.data, dst.data});
    return true;
  }
  thread_local std::vector<void*> pointers;
  pointers.assign({a.data, b.data, dst.data});
  if (bias_in) pointers.push_back(bias.data);
  add_pointers(pointers, post);
  run(queue, *entry, pointers.data(), static_cast<int>(pointers.size()));
  return true;
}

}  // namespace xpu_ops::onednn
