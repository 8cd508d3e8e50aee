// Tensors without torch: logical dims and strides in elements over device memory that the view does not own.
#pragma once
#include <cstdint>

#include "kernels/dtype.hpp"

namespace xpu_ops {

constexpr int kViewDims = 12;  // DNNL_MAX_NDIMS

struct View {
  void* data = nullptr;
  DType type = DType::f32;
  int ndim = 0;
  int64_t dims[kViewDims] = {};
  int64_t strides[kViewDims] = {};

  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= dims[i];
    return n;
  }
  void push(int64_t dim, int64_t stride) {
    dims[ndim] = dim;
    strides[ndim++] = stride;
  }
};

// Row-major without gaps; strides of dims of size 1 mean nothing.
inline bool is_dense(const View& v) {
  int64_t next = 1;
  for (int d = v.ndim - 1; d >= 0; --d) {
    if (v.dims[d] != 1 && v.strides[d] != next) return false;
    next *= v.dims[d];
  }
  return true;
}
// The same in the order batch, spatial dims, channels.
inline bool is_channels_last(const View& v) {
  int64_t next = 1;
  const auto follows = [&](int d) {
    const bool here = v.dims[d] == 1 || v.strides[d] == next;
    next *= v.dims[d];
    return here;
  };
  bool all = follows(1);
  for (int d = v.ndim - 1; d >= 2; --d) all = all && follows(d);
  return all && follows(0);
}

// The tensor a packed weight was made from. `storage` must never name another tensor's memory while the cache holds an
// entry for it: see onednn/weight_cache.hpp.
struct WeightRef {
  uint64_t storage = 0;  // 0: unknown, nothing is cached
  uint64_t version = 0;
  int64_t offset = 0;  // bytes
  // Makes what is packed, where that is not the tensor itself but is made of it: dense, with its dims and strides.
  const void* (*made)(const void* owner) = nullptr;
  const void* owner = nullptr;
};

// How the windows of a convolution lie.
struct ConvGeometry {
  int spatial = 2;
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
  int64_t output_padding[3] = {0, 0, 0};  // transposed only
  int64_t groups = 1;
  bool transposed = false;
};

}  // namespace xpu_ops
