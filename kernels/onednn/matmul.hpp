// dst = post(a @ b + bias) through oneDNN.
#pragma once
#include "kernels/postops.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::onednn {

struct MatmulOptions {
  WeightRef weight;    // of b; used when pack is set
  bool pack = false;   // let the implementation choose b's layout and keep b packed
  bool widen = false;  // and as float32: for a b where the device does not compute in its type
  // b holds unsigned integers of 4 bits, two per byte, the low nibble first along the dimension of stride 1; its view
  // gives the logical dims and strides in 4-bit elements.
  bool int4 = false;
  bool ask = false;  // only say whether there is a fast implementation; memory is not looked at
};

// a (..., M, K), b (..., K, N), dst (..., M, N), all of one rank >= 2; batch dims of a and b may be 1 (or have stride
// 0) to broadcast. One of the last two strides of each has to be 1 (up to dims of size 1). bias: null, or dst's rank
// with dims 1 or dst's. Element types as oneDNN pairs them; f16, s8 or s4/u4 weights of a float source want scales and
// post.fpmath_on_integers. No dim may be 0.
// False if oneDNN has no fast implementation: nothing was run and the caller takes another path.
bool matmul(runtime::Queue& queue, const View& a, const View& b, const View* bias, const View& dst,
            const PostOps& post = {}, const MatmulOptions& options = {});

}  // namespace xpu_ops::onednn
