// Transforms on a queue, by oneMKL's SYCL interface: a library of its own, whose oneMKL takes some milliseconds to load
// and which a device that the host does not compute for needs alone.
#include <complex>
#include <type_traits>
#include <vector>

#include <oneapi/mkl/dft.hpp>

#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {
namespace {

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

FftPlan* plan(const FftShape& shape, void* sycl_queue) {
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

}  // namespace
}  // namespace xpu_ops::mkl

extern "C" __attribute__((visibility("default"))) xpu_ops::mkl::FftPlan* xpu_ops_mkl_queue_plan(
    const xpu_ops::mkl::FftShape& shape, void* sycl_queue) {
  return xpu_ops::mkl::plan(shape, sycl_queue);
}
