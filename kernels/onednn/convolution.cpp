#include "kernels/onednn/convolution.hpp"

#include <algorithm>
#include <list>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/onednn/attributes.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/matmul.hpp"
#include "kernels/onednn/reorder.hpp"
#include "kernels/onednn/tensor.hpp"
#include "kernels/onednn/weight_cache.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::onednn {
namespace {

using dnnl::memory;

View channels_last(const View& v) {
  View r = v;
  int64_t stride = v.dims[1];
  r.strides[1] = 1;
  for (int i = v.ndim - 1; i >= 2; --i) {
    r.strides[i] = stride;
    stride *= v.dims[i];
  }
  r.strides[0] = stride;
  return r;
}

// The view itself if it is channels-last, else scratch memory of that layout, holding the same values if `fill`. `data`
// of the result is null if oneDNN cannot reorder the view.
View as_channels_last(runtime::Queue& queue, const View& v, std::list<runtime::Scratch>& scratch, bool fill) {
  View r = channels_last(v);
  if (is_channels_last(v)) return r;
  scratch.emplace_back(v.numel() * dtype_size(v.type));
  r.data = scratch.back().get();
  if (fill && !reorder(queue, v, r)) r.data = nullptr;
  return r;
}

// For gradients: a tensor that is not channels-last has to be copied anyway, into the layout that the implementation
// likes best (blocked ones are faster where weights are summed).
memory::desc preferred_layout(const View& v) {
  if (is_channels_last(v)) return to_desc(channels_last(v));
  return {memory::dims(v.dims, v.dims + v.ndim), to_dnnl(v.type), memory::format_tag::any};
}

// (groups, out, in, k...) or (out, in, k...) as oneDNN names the dims of a (transposed) convolution's weights.
View onednn_weights(const View& w, const ConvGeometry& g) {
  View r;
  r.data = w.data;
  r.type = w.type;
  const int64_t first = w.dims[0] / g.groups;
  if (g.groups > 1) r.push(g.groups, first * w.strides[0]);
  if (g.transposed) {
    r.push(w.dims[1], w.strides[1]);
    r.push(first, w.strides[0]);
  } else {
    r.push(first, w.strides[0]);
    r.push(w.dims[1], w.strides[1]);
  }
  for (int i = 2; i < w.ndim; ++i) r.push(w.dims[i], w.strides[i]);
  return r;
}

// The weights as the implementation wants them; 16-bit ones of a float source are widened when they are packed.
memory::desc any_layout(const View& w, const View& source) {
  const DType type = source.type == DType::f32 ? DType::f32 : w.type;
  return {memory::dims(w.dims, w.dims + w.ndim), to_dnnl(type), memory::format_tag::any};
}

struct Windows { memory::dims stride, dilation, left, right; };

// `big` is the side that the kernel slides over: src of a convolution, dst of a transposed one.
Windows windows(const View& big, const View& small, const View& w, const ConvGeometry& g) {
  Windows r;
  for (int i = 0; i < g.spatial; ++i) {
    // A stride that is never taken may be any: brg_conv_fwd of oneDNN 3.x is wrong with one channel and one column of
    // results that has another than 1.
    r.stride.push_back(small.dims[2 + i] == 1 ? 1 : g.stride[i]);
    r.dilation.push_back(g.dilation[i] - 1);
    r.left.push_back(g.padding[i]);
    r.right.push_back((small.dims[2 + i] - 1) * g.stride[i] + (w.dims[2 + i] - 1) * g.dilation[i] + 1 -
                      big.dims[2 + i] - g.padding[i]);
  }
  return r;
}

void add_geometry(Key& key, const ConvGeometry& g) {
  key.add(g.spatial | g.groups << 2);
  for (int i = 0; i < g.spatial; ++i) key.add(g.stride[i]).add(g.padding[i]).add(g.dilation[i]);
}

std::string shape_text(const View& src, const View& w, const View& dst, const ConvGeometry& g, size_t post_ops) {
  auto dims = [](const View& v) {
    std::string s = dtype_suffix(v.type);
    for (int i = 0; i < v.ndim; ++i) s += (i ? "x" : " ") + std::to_string(v.dims[i]);
    return s;
  };
  std::string s = dims(src) + " : " + dims(w) + " -> " + dims(dst) + " g" + std::to_string(g.groups) + " s";
  for (int i = 0; i < g.spatial; ++i) s += (i ? "x" : "") + std::to_string(g.stride[i]);
  s += " p";
  for (int i = 0; i < g.spatial; ++i) s += (i ? "x" : "") + std::to_string(g.padding[i]);
  s += " d";
  for (int i = 0; i < g.spatial; ++i) s += (i ? "x" : "") + std::to_string(g.dilation[i]);
  return s + (post_ops ? " post-ops=" + std::to_string(post_ops) : "");
}

bool known_types(const View& a, const View& b, const View& c) {
  constexpr auto undef = memory::data_type::undef;
  return to_dnnl(a.type) != undef && to_dnnl(b.type) != undef && to_dnnl(c.type) != undef;
}

// Whether one of the kernel's places, or of its windows, only ever meets padding.
enum class Meets { places, windows };
bool only_padding(const View& src, const View& dst, const View& w, const ConvGeometry& g, Meets what) {
  const bool places = what == Meets::places;
  for (int i = 0; i < g.spatial; ++i) {
    const int64_t kernel = w.dims[2 + i], steps = dst.dims[2 + i];
    for (int64_t n = 0; n < (places ? kernel : steps); ++n) {
      bool meets = false;
      for (int64_t m = 0; m < (places ? steps : kernel) && !meets; ++m) {
        const int64_t at = (places ? m : n) * g.stride[i] - g.padding[i] + (places ? n : m) * g.dilation[i];
        meets = at >= 0 && at < src.dims[2 + i];
      }
      if (!meets) return true;
    }
  }
  return false;
}

// Whether a volume has less depth than the kernel that slides over it, `big` as for windows(). There kernels of oneDNN
// 3.x for 16 bits, and all that make gradients of weights, leave memory unwritten or read past the volume.
bool is_shallow(const View& big, const View& w, const ConvGeometry& g) {
  return g.spatial == 3 && (w.dims[2] - 1) * g.dilation[0] + 1 > big.dims[2];
}

// Why oneDNN 3.x has a forward primitive wrong, null where it has not (docs/notes/convolution.md).
const char* wrong_forward(const View& src, const View& dst, const View& w, const ConvGeometry& g, const PostOps& post) {
  if (src.type != DType::f32 && is_shallow(g.transposed ? dst : src, w, g))
    return "wrong for volumes less deep than the kernel";
  const bool zero_point = std::any_of(post.quantization.begin(), post.quantization.end(), [](const Quantization& q) {
    return q.of == Quantization::Of::source && q.zero_points;
  });
  if (!zero_point || g.transposed) return nullptr;
  if (only_padding(src, dst, w, g, Meets::windows)) return "wrong for windows in padding";
  if (g.groups > 1 && w.dims[1] == 1 && w.dims[0] > 16 * g.groups)
    return "wrong for groups with one channel and more than 16 results";
  return nullptr;
}

std::shared_ptr<PackedWeight> packed_weights(runtime::Queue& queue, const Entry& entry, const View& w,
                                             const WeightRef& ref) {
  constexpr uint64_t kMade = 0x6d61646500000000;
  const uint64_t packing = ref.made ? entry.packing ^ kMade : entry.packing;
  return WeightCache::instance().get(queue, ref, packing, entry.weights.get_size(), [&](void* to) {
    View from = w;
    if (ref.made) from.data = const_cast<void*>(ref.made(ref.owner));
    if (!reorder(queue, from, entry.weights, entry.weights_layout, to))
      throw Error(ErrorKind::runtime, "oneDNN cannot pack the weights of " + entry.shapes);
  });
}

// dims 2... as one dim, if they are dense.
bool flatten_spatial(const View& v, View& out) {
  int64_t n = 1;
  for (int i = v.ndim - 1; i >= 2; --i) {
    if (v.dims[i] != 1 && v.strides[i] != n) return false;
    n *= v.dims[i];
  }
  out = View{};
  out.data = v.data;
  out.type = v.type;
  out.push(v.dims[0], v.strides[0]);
  out.push(v.dims[1], v.strides[1]);
  out.push(n, 1);
  return v.dims[1] == 1 || v.strides[1] >= n;
}

// An operand of a post-op as the product over flat images sees it: (N, O, positions), any of them 1.
bool flatten_operand(const View& v, int64_t positions, View& out) {
  if (!flatten_spatial(v, out) || (out.dims[2] != 1 && out.dims[2] != positions)) return false;
  int64_t dense = 1;
  for (int i = 2; i >= 0; --i) {
    if (out.dims[i] == 1) out.strides[i] = dense;
    dense = std::max(dense, out.dims[i] * out.strides[i]);
  }
  return true;
}

// A 1x1 convolution of channels-first tensors is a product with each image, with no layout to change: W @ src, and for
// the gradients W^T @ diff_dst and the sum over the images of diff_dst @ src^T. src, W and dst as that product's
// operands.
bool as_product(const View& src, const View& w, const View& dst, const ConvGeometry& g, View& x, View& k, View& y) {
  if (g.groups != 1 || g.transposed) return false;
  for (int i = 0; i < g.spatial; ++i)
    if (w.dims[2 + i] != 1 || g.stride[i] != 1 || g.padding[i] != 0) return false;
  k = View{};
  k.data = w.data;
  k.type = w.type;
  k.push(1, w.dims[0] * w.dims[1]);
  k.push(w.dims[0], w.strides[0]);
  k.push(w.dims[1], w.strides[1]);
  return flatten_spatial(src, x) && flatten_spatial(dst, y);
}

View transposed_matrices(const View& v) {
  View r = v;
  std::swap(r.dims[1], r.dims[2]);
  std::swap(r.strides[1], r.strides[2]);
  return r;
}

View one_image(const View& v, int64_t n) {
  View r = v;
  r.data = static_cast<char*>(v.data) + n * v.strides[0] * dtype_size(v.type);
  r.dims[0] = 1;
  return r;
}

bool pointwise_forward(runtime::Queue& queue, const View& src, const View& w, const View* bias, const View& dst,
                       const ConvGeometry& g, const PostOps& post) {
  if (!post.quantization.empty() || post.dropout.enabled) return false;
  View x, y, k;
  if (!as_product(src, w, dst, g, x, k, y)) return false;
  PostOps flat = post;
  for (size_t i = 0; i < flat.ops.size(); ++i) {
    if (flat.ops[i].kind == PostOp::Kind::prelu) return false;
    if (flat.ops[i].kind == PostOp::Kind::binary && !flatten_operand(post.ops[i].other, y.dims[2], flat.ops[i].other))
      return false;
  }
  if (!bias) return matmul(queue, k, x, nullptr, y, flat);
  View column = *bias;
  column.ndim = 0;
  column.push(1, w.dims[0]);
  column.push(w.dims[0], 1);
  column.push(1, 1);
  flat.ops.insert(flat.ops.begin(), PostOp::binary(PostFunction::add, column));
  return matmul(queue, k, x, nullptr, y, flat);
}

// Image after image into one sum in float. Each reads and writes that sum, which pays while the images are larger.
bool pointwise_backward_weights(runtime::Queue& queue, const View& src, const View& diff_dst, const View& w,
                                const ConvGeometry& g) {
  View x, y, k;
  if (w.type == DType::f64 || !as_product(src, w, diff_dst, g, x, k, y)) return false;
  if (k.dims[1] * k.dims[2] > (k.dims[1] + k.dims[2]) * x.dims[2]) return false;
  const View xt = transposed_matrices(x);
  View sum = k;
  runtime::Scratch scratch(k.numel() * dtype_size(DType::f32));
  const bool direct = k.type == DType::f32;
  if (!direct) {
    sum.type = DType::f32;
    sum.data = scratch.get();
    sum.strides[1] = k.dims[2];
    sum.strides[2] = 1;
  }
  PostOps add;
  add.ops.push_back(PostOp::sum());
  for (int64_t n = 0; n < x.dims[0]; ++n)
    if (!matmul(queue, one_image(y, n), one_image(xt, n), nullptr, sum, n ? add : PostOps{})) {
      if (n) throw Error(ErrorKind::runtime, "oneDNN cannot add the products of a 1x1 convolution's images");
      return false;
    }
  return direct || reorder(queue, sum, k);
}

// Whether a transposed convolution leaves places of the result that no window reaches.
bool has_gaps(const View& weights, const ConvGeometry& g) {
  bool gaps = false;
  for (int i = 0; i < weights.ndim - 2; ++i)
    gaps |= g.transposed && g.stride[i] > (weights.dims[i + 2] - 1) * g.dilation[i] + 1;
  return gaps;
}

template <class Primitive>
void make_forward(Entry& e, int device, const View& x, const View& k, const View* bias, const View& y,
                  const Windows& win, dnnl::algorithm algorithm, const PostOps& post, bool gaps = false) {
  if (const char* reason = unwanted_source(device, x.type)) {
    e.refuse(reason);
    return;
  }
  const memory::desc x_md = to_desc(x), y_md = to_desc(y);
  const auto attr = attributes(post);
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  const auto pd =
      bias ? typename Primitive::primitive_desc(engine(device), kind, algorithm, x_md, any_layout(k, x), to_desc(*bias),
                                                y_md, win.stride, win.dilation, win.left, win.right, attr, true)
           : typename Primitive::primitive_desc(engine(device), kind, algorithm, x_md, any_layout(k, x), y_md,
                                                win.stride, win.dilation, win.left, win.right, attr, true);
  if (!pd || Entry::is_reference(pd.impl_info_str())) {
    e.refuse(pd ? pd.impl_info_str() : "no implementation");
    return;
  }
  if (gaps && (bias || !post.empty()) && std::string_view(pd.impl_info_str()).find("amx") != std::string_view::npos) {
    e.refuse("wrong at places that no window reaches");
    return;
  }
  e.weights = pd.weights_desc();
  e.weights_layout = layout_id(e.weights);
  e.packing = packing_id(k, e.weights);
  e.args = {{DNNL_ARG_SRC, x_md}, {DNNL_ARG_WEIGHTS, e.weights}, {DNNL_ARG_DST, y_md}};
  if (bias) e.args.push_back({DNNL_ARG_BIAS, to_desc(*bias)});
  add_args(e.args, post);
  e.accept(pd, Primitive(pd));
}

// The forward descriptor that oneDNN wants before it makes a gradient's primitive.
dnnl::convolution_forward::primitive_desc forward_hint(const dnnl::engine& eng, const memory::desc& src,
                                                       const memory::desc& weights, const memory::desc& dst,
                                                       const Windows& win) {
  return {eng,
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          src,
          weights,
          dst,
          win.stride,
          win.dilation,
          win.left,
          win.right,
          attributes({}),
          true};
}

// v's own memory if it is channels-last, else a copy in the layout `md`; `layout` is layout_id(md).
void* read_layout(LayoutCopies& copies, runtime::Queue& queue, const View& v, const memory::desc& md, uint64_t layout) {
  if (is_channels_last(v)) return v.data;
  for (const LayoutCopy& c : copies)
    if (c.layout == layout && c.from.data == v.data && std::equal(v.strides, v.strides + v.ndim, c.from.strides))
      return c.memory.get();
  copies.emplace_back(v, layout, md.get_size());
  if (!reorder(queue, v, md, layout, copies.back().memory.get()))
    throw Error(ErrorKind::runtime, "oneDNN cannot read the layout of a convolution's operand");
  return copies.back().memory.get();
}

}  // namespace

bool convolution_forward(runtime::Queue& queue, const View& src, const View& weights, const View* bias, const View& dst,
                         const ConvGeometry& g, const PostOps& post_in, const WeightRef& weight) {
  if (!known_types(src, weights, dst)) return false;
  const bool last = is_channels_last(src) && is_channels_last(dst);
  if (!last && pointwise_forward(queue, src, weights, bias, dst, g, post_in)) return true;

  const View k = onednn_weights(weights, g), x = channels_last(src), y = channels_last(dst);
  PostOps post = post_in;
  bool reads_dst = false;
  for (auto& p : post.ops) {
    reads_dst |= p.kind == PostOp::Kind::sum;
    // A full-size operand has to be in dst's layout.
    if (p.kind == PostOp::Kind::binary && p.other.numel() > p.other.dims[1]) p.other = channels_last(p.other);
  }
  Key key(g.transposed ? Op::deconv_forward : Op::conv_forward, queue.device);
  key.add(x).add(k).add(y).add(bias ? static_cast<int64_t>(bias->type) : -1);
  add_geometry(key, g);
  add_key(key, post);
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    e.shapes = shape_text(src, weights, dst, g, post.ops.size());
    if (const char* reason = wrong_forward(src, dst, weights, g, post)) {
      e.refuse(reason);
      return;
    }
    if (g.transposed)
      make_forward<dnnl::deconvolution_forward>(e, queue.device, x, k, bias, y, windows(dst, src, weights, g),
                                                dnnl::algorithm::deconvolution_direct, post, has_gaps(weights, g));
    else
      make_forward<dnnl::convolution_forward>(e, queue.device, x, k, bias, y, windows(src, dst, weights, g),
                                              dnnl::algorithm::convolution_direct, post);
  });
  if (!*entry) {
    // A deconvolution computes the gradient of the convolution's input.
    if (!g.transposed || bias || !post.empty()) return false;
    ConvGeometry conv = g;
    conv.transposed = false;
    LayoutCopies copies;
    return convolution_backward_data(queue, src, weights, dst, conv, copies, weight);
  }

  std::list<runtime::Scratch> scratch;
  const View x_data = as_channels_last(queue, src, scratch, true);
  const View y_data = as_channels_last(queue, dst, scratch, reads_dst);
  if (!x_data.data || !y_data.data) return false;
  for (size_t i = 0; i < post.ops.size(); ++i)
    if (post.ops[i].kind == PostOp::Kind::binary && post_in.ops[i].other.numel() > post_in.ops[i].other.dims[1]) {
      post.ops[i].other = as_channels_last(queue, post_in.ops[i].other, scratch, true);
      if (!post.ops[i].other.data) return false;
    }
  const auto packed = packed_weights(queue, *entry, k, weight);
  std::vector<void*> pointers{x_data.data, packed->data, y_data.data};
  if (bias) pointers.push_back(bias->data);
  add_pointers(pointers, post);
  run(queue, *entry, pointers.data(), static_cast<int>(pointers.size()));
  if (y_data.data != dst.data && !reorder(queue, y_data, dst))
    throw Error(ErrorKind::runtime, "oneDNN cannot write the layout of the result of " + entry->shapes);
  return true;
}

bool convolution_backward_data(runtime::Queue& queue, const View& diff_dst, const View& weights, const View& diff_src,
                               const ConvGeometry& g, LayoutCopies& copies, const WeightRef& weight) {
  if (!known_types(diff_dst, weights, diff_src)) return false;
  if (g.transposed) {
    ConvGeometry conv = g;
    conv.transposed = false;
    return convolution_forward(queue, diff_dst, weights, nullptr, diff_src, conv, {}, weight);
  }
  View x, y, w;
  if (!(is_channels_last(diff_src) && is_channels_last(diff_dst)) &&
      as_product(diff_src, weights, diff_dst, g, x, w, y) && matmul(queue, transposed_matrices(w), y, nullptr, x))
    return true;
  const View k = onednn_weights(weights, g), dx = channels_last(diff_src), dy = channels_last(diff_dst);
  Key key(Op::conv_backward_data, queue.device);
  key.add(dx).add(k).add(dy).add(is_channels_last(diff_src) << 1 | is_channels_last(diff_dst));
  add_geometry(key, g);
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    e.shapes = shape_text(diff_src, weights, diff_dst, g, 0);
    if (const char* reason = unwanted_source(queue.device, diff_dst.type)) return e.refuse(reason);
    if (diff_dst.type != DType::f32 && is_shallow(diff_src, weights, g))
      return e.refuse("wrong for volumes less deep than the kernel");
    const auto attr = attributes({});
    const auto& eng = engine(queue.device);
    const auto win = windows(diff_src, diff_dst, weights, g);
    const memory::desc dx_md = preferred_layout(diff_src), dy_md = preferred_layout(diff_dst);
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    const auto hint = forward_hint(eng, dx_md, any_layout(k, dy), dy_md, win);
    if (!hint) return e.refuse("no forward implementation");
    const dnnl::convolution_backward_data::primitive_desc pd(eng, direct, dx_md, any_layout(k, dy), dy_md, win.stride,
                                                             win.dilation, win.left, win.right, hint, attr, true);
    if (!pd) return e.refuse("no implementation");
    if (Entry::is_reference(pd.impl_info_str())) return e.refuse(pd.impl_info_str());
    e.weights = pd.weights_desc();
    e.weights_layout = layout_id(e.weights);
    e.packing = packing_id(k, e.weights);
    e.keep_layouts(pd.diff_src_desc(), pd.diff_dst_desc());
    e.args = {{DNNL_ARG_DIFF_DST, e.dst}, {DNNL_ARG_WEIGHTS, e.weights}, {DNNL_ARG_DIFF_SRC, e.src}};
    return e.accept(pd, dnnl::convolution_backward_data(pd));
  });
  if (!*entry) return false;
  const bool last = is_channels_last(diff_src);
  runtime::Scratch scratch(last ? 0 : entry->src.get_size());
  void* const dx_data = last ? diff_src.data : scratch.get();
  const auto packed = packed_weights(queue, *entry, k, weight);
  run(queue, *entry, {read_layout(copies, queue, diff_dst, entry->dst, entry->dst_layout), packed->data, dx_data});
  if (!last && !reorder(queue, entry->src, entry->src_layout, dx_data, diff_src))
    throw Error(ErrorKind::runtime, "oneDNN cannot write the layout of the result of " + entry->shapes);
  return true;
}

bool convolution_backward_weights(runtime::Queue& queue, const View& src, const View& diff_dst,
                                  const View& diff_weights, const View* diff_bias, const ConvGeometry& g,
                                  LayoutCopies& copies) {
  if (!known_types(src, diff_dst, diff_weights)) return false;
  if (g.transposed) {
    if (diff_bias) return false;
    ConvGeometry conv = g;
    conv.transposed = false;
    return convolution_backward_weights(queue, diff_dst, src, diff_weights, nullptr, conv, copies);
  }
  if (!diff_bias && !(is_channels_last(src) && is_channels_last(diff_dst)) &&
      pointwise_backward_weights(queue, src, diff_dst, diff_weights, g))
    return true;
  const View k = onednn_weights(diff_weights, g), x = channels_last(src), dy = channels_last(diff_dst);
  Key key(Op::conv_backward_weights, queue.device);
  key.add(x).add(k).add(dy).add(diff_bias ? static_cast<int64_t>(diff_bias->type) : -1);
  key.add(is_channels_last(src) << 1 | is_channels_last(diff_dst));
  add_geometry(key, g);
  auto entry = PrimitiveCache::instance().get(key, [&](Entry& e) {
    e.shapes = shape_text(src, diff_weights, diff_dst, g, 0);
    if (const char* reason = unwanted_source(queue.device, src.type)) return e.refuse(reason);
    if (is_shallow(src, diff_weights, g)) return e.refuse("wrong for volumes less deep than the kernel");
    // jit_bf16 does not write their gradients.
    if (diff_weights.type != DType::f32 && only_padding(src, diff_dst, diff_weights, g, Meets::places))
      return e.refuse("wrong for places in padding");
    const auto attr = attributes({});
    const auto& eng = engine(queue.device);
    const auto win = windows(src, diff_dst, diff_weights, g);
    const memory::desc x_md = preferred_layout(src), dy_md = preferred_layout(diff_dst);
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    const auto hint = forward_hint(eng, x_md, any_layout(k, x), dy_md, win);
    if (!hint) return e.refuse("no forward implementation");
    using Pd = dnnl::convolution_backward_weights::primitive_desc;
    const Pd pd = diff_bias ? Pd(eng, direct, x_md, any_layout(k, x), to_desc(*diff_bias), dy_md, win.stride,
                                 win.dilation, win.left, win.right, hint, attr, true)
                            : Pd(eng, direct, x_md, any_layout(k, x), dy_md, win.stride, win.dilation, win.left,
                                 win.right, hint, attr, true);
    if (!pd) return e.refuse("no implementation");
    if (Entry::is_reference(pd.impl_info_str())) return e.refuse(pd.impl_info_str());
    e.weights = pd.diff_weights_desc();
    e.weights_layout = layout_id(e.weights);
    e.keep_layouts(pd.src_desc(), pd.diff_dst_desc());
    e.args = {{DNNL_ARG_SRC, e.src}, {DNNL_ARG_DIFF_DST, e.dst}, {DNNL_ARG_DIFF_WEIGHTS, e.weights}};
    if (diff_bias) e.args.push_back({DNNL_ARG_DIFF_BIAS, to_desc(*diff_bias)});
    return e.accept(pd, dnnl::convolution_backward_weights(pd));
  });
  if (!*entry) return false;
  void* const x_data = read_layout(copies, queue, src, entry->src, entry->src_layout);
  void* const dy_data = read_layout(copies, queue, diff_dst, entry->dst, entry->dst_layout);
  const runtime::Scratch scratch(entry->weights.get_size());
  void* const packed = scratch.get();
  if (diff_bias)
    run(queue, *entry, {x_data, dy_data, packed, diff_bias->data});
  else
    run(queue, *entry, {x_data, dy_data, packed});
  if (!reorder(queue, entry->weights, entry->weights_layout, packed, k))
    throw Error(ErrorKind::runtime, "oneDNN cannot unpack the weights of " + entry->shapes);
  return true;
}

}  // namespace xpu_ops::onednn
