// Transforms on the calling thread, by oneMKL's C interface.
#include "kernels/mkl/lib/dft.hpp"

#include <algorithm>
#include <complex>
#include <optional>
#include <vector>

#include "kernels/mkl/lib/passes.hpp"
#include "kernels/mkl/lib/workers.hpp"

namespace xpu_ops::mkl {
namespace {

// oneMKL leaves to one thread what fewer points have, and threads of ours would wake for less than they cost.
// Measured on two cores: 2^15 points take 75 us on one thread, and a thread wakes in 10 to 20.
constexpr int64_t kSplitPoints = 1 << 16;
constexpr int64_t kSplitTurned = 1 << 15;  // real transforms in two passes

int64_t points(const FftShape& s) {
  int64_t n = s.batch;
  for (int d = 0; d < s.rank; ++d) n *= s.lengths[d];
  return n;
}

// Whether the results of all dims but the first lie side by side.
bool dense_inside(const FftShape& s) {
  int64_t step = 1;
  for (int d = s.rank - 1; d > 0; --d) {
    if (s.out_strides[d] != step) return false;
    step *= d == s.rank - 1 ? spectrum(s) : s.lengths[d];
  }
  return s.out_strides[0] == step;
}

// Whether the last dim is the slowest of the results, and all others lie side by side in the same order in both.
bool last_outside(const FftShape& s) {
  const int last = s.rank - 1;
  int64_t step = 1, in_step = s.in_strides[last - 1];
  for (int d = last - 1; d >= 0; --d) {
    if (s.out_strides[d] != step || s.in_strides[d] != in_step) return false;
    step *= s.lengths[d];
    in_step *= s.lengths[d];
  }
  return s.out_strides[last] == step;
}

class HostPlan final : public FftPlan {
 public:
  explicit HostPlan(const FftShape& s) {
    const bool split = s.threads > 1 && points(s) >= kSplitPoints;
    if (s.rank > 1 && s.kind == FftKind::r2c && last_outside(s) && Turned::fits(s)) {
      last_first(s, points(s) >= kSplitTurned ? s.threads : 1);
    } else if (split && s.batch >= s.threads) {
      passes_.emplace_back(s, false, s.in_distance == 1 || s.out_distance == 1 ? kLeastColumns : 1);
    } else if (split && s.batch == 1 && s.rank > 1 && s.kind != FftKind::c2r && dense_inside(s)) {
      by_dims(s);
    } else if (split && Long::fits(s)) {
      long_.emplace(s);
    } else {
      whole_.emplace(s, false, false);
    }
  }

  void run(void* in, void* out) override {
    if (whole_) whole_->run(in, out);
    if (long_) long_->run(in, out);
    if (turned_) {
      run_blocks(batch_, batch_threads_, [&](int64_t i) {
        char* results = static_cast<char*>(out) + i * out_step_;
        turned_->run(static_cast<char*>(in) + i * in_step_, results);
        passes_[0].run(results, results);
      });
    } else {
      for (const Pass& pass : passes_) pass.run(in, out);
    }
  }

 private:
  // All dims but the first, then that one in place.
  void by_dims(const FftShape& s) {
    FftShape inner = s, first = s;
    inner.rank = s.rank - 1;
    inner.batch = s.lengths[0];
    inner.in_distance = s.in_strides[0];
    inner.out_distance = s.out_strides[0];
    for (int d = 1; d < s.rank; ++d) {
      inner.lengths[d - 1] = s.lengths[d];
      inner.in_strides[d - 1] = s.in_strides[d];
      inner.out_strides[d - 1] = s.out_strides[d];
    }
    inner.scale = 1;
    passes_.emplace_back(inner, false, 1);
    first.kind = FftKind::c2c;
    first.rank = 1;
    first.batch = s.out_strides[0];
    first.in_distance = first.out_distance = 1;
    first.in_strides[0] = s.out_strides[0];
    passes_.emplace_back(first, true, kLeastColumns);
  }

  // The last dim, then all others in place; where there are enough transforms, each on one thread.
  void last_first(FftShape s, int threads) {
    const int last = s.rank - 1;
    const int64_t real = s.real == DType::f64 ? 8 : 4;
    batch_ = s.batch;
    batch_threads_ = s.batch >= threads ? threads : 1;
    s.threads = s.batch >= threads ? 1 : threads;
    in_step_ = s.in_distance * real;
    out_step_ = s.out_distance * 2 * real;
    FftShape rows = s, others = s;
    rows.rank = 1;
    rows.lengths[0] = s.lengths[last];
    rows.in_strides[0] = s.in_strides[last];
    rows.batch = s.out_strides[last];
    rows.in_distance = s.in_strides[last - 1];
    rows.scale = 1;
    turned_.emplace(rows);
    others.kind = FftKind::c2c;
    others.rank = last;
    others.batch = spectrum(s);
    others.in_distance = others.out_distance = s.out_strides[last];
    std::copy_n(s.out_strides, last, others.in_strides);
    passes_.emplace_back(others, true, 1);
  }

  std::optional<Long> long_;
  std::optional<Turned> turned_;
  std::optional<Descriptor> whole_;
  std::vector<Pass> passes_;
  int64_t batch_ = 1, in_step_ = 0, out_step_ = 0;  // of transforms with `turned_`; steps in bytes
  int batch_threads_ = 1;
};

}  // namespace

FftPlan* fft_host_plan(const FftShape& shape) { return new HostPlan(shape); }

}  // namespace xpu_ops::mkl
