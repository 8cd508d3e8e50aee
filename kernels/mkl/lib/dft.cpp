// Transforms: oneMKL's C interface on the calling thread, its SYCL interface on a queue.
#include "kernels/mkl/lib/dft.hpp"

#include <complex>
#include <memory>
#include <type_traits>
#include <vector>

#include <mkl_dfti.h>
#include <oneapi/mkl/dft.hpp>

#include "kernels/error.hpp"

namespace xpu_ops::mkl {
namespace {

void check(MKL_LONG status) {
  if (status != DFTI_NO_ERROR && !DftiErrorClass(status, DFTI_NO_ERROR))
    throw Error(ErrorKind::runtime, std::string("oneMKL's transform: ") + DftiErrorMessage(status));
}

struct FreeDescriptor {
  void operator()(DFTI_DESCRIPTOR_HANDLE handle) const { DftiFreeDescriptor(&handle); }
};

class HostPlan final : public FftPlan {
 public:
  explicit HostPlan(const FftShape& s) : forward_(s.forward) {
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
    set(DFTI_PLACEMENT, DFTI_NOT_INPLACE);
    if (domain == DFTI_REAL) set(DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
    set(DFTI_NUMBER_OF_TRANSFORMS, batch);
    set(DFTI_FWD_DISTANCE, s.forward ? in_distance : out_distance);
    set(DFTI_BWD_DISTANCE, s.forward ? out_distance : in_distance);
    set(DFTI_FWD_STRIDES, s.forward ? in : out);
    set(DFTI_BWD_STRIDES, s.forward ? out : in);
    set(s.forward ? DFTI_FORWARD_SCALE : DFTI_BACKWARD_SCALE, s.scale);
    check(DftiCommitDescriptor(handle_.get()));
  }

  void run(void* in, void* out) override {
    check(forward_ ? DftiComputeForward(handle_.get(), in, out) : DftiComputeBackward(handle_.get(), in, out));
  }

 private:
  template <class V>
  void set(DFTI_CONFIG_PARAM name, V value) {
    check(DftiSetValue(handle_.get(), name, value));
  }
  const bool forward_;
  std::unique_ptr<std::remove_pointer_t<DFTI_DESCRIPTOR_HANDLE>, FreeDescriptor> handle_;
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
