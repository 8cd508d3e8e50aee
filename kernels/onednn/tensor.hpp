// Tensors as the oneDNN layer sees them: logical dims and strides in elements over device memory it does not own.
#pragma once
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/dtype.hpp"

namespace xpu_ops::onednn {

constexpr int kMaxDims = 12;  // DNNL_MAX_NDIMS

struct View {
  void* data = nullptr;
  DType type = DType::f32;
  int ndim = 0;
  int64_t dims[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};

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

// The tensor a packed weight was made from. `storage` must never name another tensor's memory while the cache holds an
// entry for it: see weight_cache.hpp.
struct WeightRef {
  uint64_t storage = 0;  // 0: unknown, nothing is cached
  uint64_t version = 0;
  int64_t offset = 0;  // bytes
};

// data_type::undef where oneDNN has no such type.
dnnl::memory::data_type to_dnnl(DType t) noexcept;
dnnl::memory::desc to_desc(const View& v);

}  // namespace xpu_ops::onednn
