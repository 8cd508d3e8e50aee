// Transforms: oneMKL's C interface on the calling thread, its SYCL interface on a queue.
#include "kernels/mkl/lib/dft.hpp"

#include <algorithm>
#include <complex>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include <mkl_dfti.h>
#include <oneapi/mkl/dft.hpp>

#include "kernels/error.hpp"
#include "kernels/mkl/lib/workers.hpp"

namespace xpu_ops::mkl {
namespace {

void check(MKL_LONG status) {
  if (status != DFTI_NO_ERROR && !DftiErrorClass(status, DFTI_NO_ERROR))
    throw Error(ErrorKind::runtime, std::string("oneMKL's transform: ") + DftiErrorMessage(status));
}

struct FreeDescriptor {
  void operator()(DFTI_DESCRIPTOR_HANDLE handle) const { DftiFreeDescriptor(&handle); }
};

// A descriptor; on one thread of ours, or on as many as oneMKL takes.
class Descriptor {
 public:
  Descriptor(const FftShape& s, bool in_place, bool one_thread) : forward_(s.forward), in_place_(in_place) {
    const auto precision = s.real == DType::f64 ? DFTI_DOUBLE : DFTI_SINGLE;
    const auto domain = s.kind == FftKind::c2c ? DFTI_COMPLEX : DFTI_REAL;
    const MKL_LONG rank = s.rank, batch = s.batch, in_distance = s.in_distance, out_distance = s.out_distance;
    MKL_LONG lengths[kFftRank], in[kFftRank + 1] = {0}, out[kFftRank + 1] = {0};
    for (int d = 0; d < s.rank; ++d) {
      lengths[d] = s.lengths[d];
      in[d + 1] = s.in_strides[d];
      out[d + 1] = s.out_strides[d];
    }
    DFTI_DESCRIPTOR_HANDLE made = nullptr;
    if (s.rank == 1) {
      check(DftiCreateDescriptor(&made, precision, domain, 1, lengths[0]));
    } else {
      check(DftiCreateDescriptor(&made, precision, domain, rank, lengths));
    }
    handle_.reset(made);
    set(DFTI_PLACEMENT, in_place ? DFTI_INPLACE : DFTI_NOT_INPLACE);
    if (domain == DFTI_REAL) set(DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
    set(DFTI_NUMBER_OF_TRANSFORMS, batch);
    set(DFTI_FWD_DISTANCE, s.forward ? in_distance : out_distance);
    set(DFTI_BWD_DISTANCE, s.forward ? out_distance : in_distance);
    set(DFTI_FWD_STRIDES, s.forward ? in : out);
    set(DFTI_BWD_STRIDES, s.forward ? out : in);
    set(s.forward ? DFTI_FORWARD_SCALE : DFTI_BACKWARD_SCALE, s.scale);
    if (one_thread) set(DFTI_THREAD_LIMIT, static_cast<MKL_LONG>(1));
    check(DftiCommitDescriptor(handle_.get()));
  }

  // Threads may share it. `in` is not read where it works in place.
  void run(void* in, void* out) const {
    const auto handle = handle_.get();
    if (in_place_) {
      check(forward_ ? DftiComputeForward(handle, out) : DftiComputeBackward(handle, out));
    } else {
      check(forward_ ? DftiComputeForward(handle, in, out) : DftiComputeBackward(handle, in, out));
    }
  }

 private:
  template <class V>
  void set(DFTI_CONFIG_PARAM name, V value) {
    check(DftiSetValue(handle_.get(), name, value));
  }
  bool forward_, in_place_;
  std::unique_ptr<std::remove_pointer_t<DFTI_DESCRIPTOR_HANDLE>, FreeDescriptor> handle_;
};

int64_t points(const FftShape& s) {
  int64_t n = s.batch;
  for (int d = 0; d < s.rank; ++d) n *= s.lengths[d];
  return n;
}

// oneMKL leaves to one thread what fewer points have, and threads of ours would wake for less than they cost.
// Measured on two cores: 2^15 points take 75 us on one thread, and a thread wakes in 10 to 20.
constexpr int64_t kSplitPoints = 1 << 16;
// Neighbouring columns of a pass that is not over the last dim: 64 together take half the time of 32.
constexpr int64_t kLeastColumns = 64;
constexpr int64_t kPartsPerThread = 2;  // so that a thread that wakes late leaves its share to others

// The transforms of a batch, in equal parts on several threads.
class Pass {
 public:
  Pass(const FftShape& s, bool in_place, int64_t least) : threads_(s.threads) {
    const int64_t wanted = (s.batch + kPartsPerThread * threads_ - 1) / (kPartsPerThread * threads_);
    each_ = std::min(s.batch, std::max(wanted, least));
    parts_ = (s.batch + each_ - 1) / each_;
    const int64_t real = s.real == DType::f64 ? 8 : 4;
    in_step_ = each_ * s.in_distance * real * (s.kind == FftKind::r2c ? 1 : 2);
    out_step_ = each_ * s.out_distance * real * (s.kind == FftKind::c2r ? 1 : 2);
    FftShape part = s;
    part.batch = each_;
    most_.emplace(part, in_place, true);
    part.batch = s.batch - (parts_ - 1) * each_;
    if (part.batch != each_) last_.emplace(part, in_place, true);
  }

  void run(void* in, void* out) const {
    run_parts(parts_, threads_, [&](int64_t i) {
      const Descriptor& d = last_ && i == parts_ - 1 ? *last_ : *most_;
      d.run(static_cast<char*>(in) + i * in_step_, static_cast<char*>(out) + i * out_step_);
    });
  }

 private:
  int threads_;
  int64_t each_, parts_, in_step_, out_step_;
  std::optional<Descriptor> most_, last_;
};

// Whether the results of all dims but the first lie side by side.
bool dense_inside(const FftShape& s) {
  int64_t step = 1;
  for (int d = s.rank - 1; d > 0; --d) {
    if (s.out_strides[d] != step) return false;
    step *= s.kind == FftKind::r2c && d == s.rank - 1 ? s.lengths[d] / 2 + 1 : s.lengths[d];
  }
  return s.out_strides[0] == step;
}

class HostPlan final : public FftPlan {
 public:
  explicit HostPlan(const FftShape& s) {
    const bool split = s.threads > 1 && points(s) >= kSplitPoints;
    if (split && s.batch >= s.threads) {
      passes_.emplace_back(s, false, s.in_distance == 1 || s.out_distance == 1 ? kLeastColumns : 1);
    } else if (split && s.batch == 1 && s.rank > 1 && s.kind != FftKind::c2r && dense_inside(s)) {
      by_dims(s);
    } else {
      whole_.emplace(s, false, false);
    }
  }

  void run(void* in, void* out) override {
    if (whole_) whole_->run(in, out);
    for (const Pass& pass : passes_) pass.run(in, out);
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

  std::optional<Descriptor> whole_;
  std::vector<Pass> passes_;
};

template <class R, oneapi::mkl::dft::precision kPrecision, bool kReal>
class QueuePlan final : public FftPlan {
  using Param = oneapi::mkl::dft::config_param;
  using Value = oneapi::mkl::dft::config_value;
  using Descriptor = oneapi::mkl::dft::descriptor<kPrecision, kReal ? oneapi::mkl::dft::domain::REAL
                                                                    : oneapi::mkl::dft::domain::COMPLEX>;
  using Complex = std::complex<R>;
  using Forward = std::conditional_t<kReal, R, Complex>;

 public:
  QueuePlan(const FftShape& s, sycl::queue& queue)
      : forward_(s.forward), plan_(std::vector<int64_t>(s.lengths, s.lengths + s.rank)) {
    auto strides = [&](const int64_t* of) {
      std::vector<int64_t> v{0};
      v.insert(v.end(), of, of + s.rank);
      return v;
    };
    plan_.set_value(Param::PLACEMENT, Value::NOT_INPLACE);
    plan_.set_value(Param::NUMBER_OF_TRANSFORMS, s.batch);
    plan_.set_value(Param::FWD_DISTANCE, s.forward ? s.in_distance : s.out_distance);
    plan_.set_value(Param::BWD_DISTANCE, s.forward ? s.out_distance : s.in_distance);
    plan_.set_value(Param::FWD_STRIDES, strides(s.forward ? s.in_strides : s.out_strides));
    plan_.set_value(Param::BWD_STRIDES, strides(s.forward ? s.out_strides : s.in_strides));
    plan_.set_value(s.forward ? Param::FORWARD_SCALE : Param::BACKWARD_SCALE, static_cast<R>(s.scale));
    plan_.commit(queue);
  }

  void run(void* in, void* out) override {
    namespace dft = oneapi::mkl::dft;
    if (forward_) {
      dft::compute_forward<Descriptor, Forward, Complex>(plan_, static_cast<Forward*>(in), static_cast<Complex*>(out));
    } else {
      dft::compute_backward<Descriptor, Complex, Forward>(plan_, static_cast<Complex*>(in), static_cast<Forward*>(out));
    }
  }

 private:
  const bool forward_;
  Descriptor plan_;
};

}  // namespace

FftPlan* fft_host_plan(const FftShape& shape) { return new HostPlan(shape); }

FftPlan* fft_queue_plan(const FftShape& shape, void* sycl_queue) {
  using enum oneapi::mkl::dft::precision;
  sycl::queue& queue = *static_cast<sycl::queue*>(sycl_queue);
  const bool real = shape.kind != FftKind::c2c;
  if (shape.real == DType::f64) {
    if (real) return new QueuePlan<double, DOUBLE, true>(shape, queue);
    return new QueuePlan<double, DOUBLE, false>(shape, queue);
  }
  if (real) return new QueuePlan<float, SINGLE, true>(shape, queue);
  return new QueuePlan<float, SINGLE, false>(shape, queue);
}

}  // namespace xpu_ops::mkl
