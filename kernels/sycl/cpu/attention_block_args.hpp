// Launch arguments of attention by blocks of queries; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

// All keys against blocks of kBlockQueries queries, f32 on the CPU device. Strides: batch, head, row; the last one
// is 1.
constexpr uint32_t kBlockQueries = 32, kBlockKeys = 64;
struct AttentionBlockArgs {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float* out = nullptr;
  float* logsumexp = nullptr;                     // [batch][heads][nq]
  float* scratch = nullptr;                       // `slot` elements for each work-group
  const float *grad = nullptr, *delta = nullptr;  // backward: of the output; row sums of grad * out
  float *q_grad = nullptr, *k_grad = nullptr,
        *v_grad = nullptr;                     // backward, null where unwanted; the last two are added to
  int64_t k_grad_split = 0, v_grad_split = 0;  // distance of the gradients of two splits
  int64_t grad_stride[3] = {}, q_grad_stride[3] = {}, k_grad_stride[3] = {}, v_grad_stride[3] = {};
  const void* mask = nullptr;  // bool, or f32 to be added; the last stride is 1
  int64_t q_stride[3] = {}, k_stride[3] = {}, v_stride[3] = {}, out_stride[3] = {}, mask_stride[3] = {};
  uint64_t slot = 0;
  uint32_t heads = 0, head_step = 1, nq = 0, nk = 0;
  uint32_t dim = 0, value_dim = 0;  // both 16 or more; the second a multiple of 8
  uint32_t blocks = 0, total = 0;   // of queries: of a plane, of all planes
  uint32_t splits = 1;              // backward: work-groups of one head of keys
  uint32_t causal = 0;
  float scale = 1;
};

}  // namespace xpu_ops
