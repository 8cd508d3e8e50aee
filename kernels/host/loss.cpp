#include "kernels/host/loss.hpp"

#include <atomic>

namespace xpu_ops::host {
namespace {

constexpr size_t kItems = 16;  // of the work-group of partial sums

// As report_error of device code: raised at the next synchronisation, too.
void report(DeviceError* flag, const DeviceError& error) {
  uint32_t expected = 0;
  if (!std::atomic_ref<uint32_t>(flag->code).compare_exchange_strong(expected, error.code)) return;
  flag->dim = error.dim;
  flag->value = error.value;
  flag->size = error.size;
}

// Without weights: there is no product that a compiler may round with its sum.
template <class T>
void sum_targets(const NllArgs& p, void* output, void* total_weight, bool mean) {
  const T* input = static_cast<const T*>(p.input);
  T sums[kItems] = {}, totals[kItems] = {};
  for (uint32_t i = 0; i < p.n; ++i) {
    const int64_t t =
        p.byte_target ? static_cast<const uint8_t*>(p.target)[i] : static_cast<const int64_t*>(p.target)[i];
    if (t == p.ignore_index) continue;
    if (static_cast<uint64_t>(t) >= p.classes) {
      report(p.error, {static_cast<uint32_t>(DeviceErrorCode::target), 1, t, p.classes});
      continue;
    }
    const uint32_t row = i / p.spatial.d, s = i - row * p.spatial.d;
    sums[i % kItems] -= input[(static_cast<int64_t>(row) * p.classes + t) * p.spatial.d + s];
    totals[i % kItems] += T(1);
  }
  for (size_t half = kItems / 2; half > 0; half /= 2)
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half], totals[j] += totals[j + half];
  const T sum = sums[0], total = totals[0];
  *static_cast<T*>(total_weight) = total;
  *static_cast<T*>(output) = mean ? sum / total : sum;
}

}  // namespace

NllSum nll_sum(DType type) {
  switch (type) {
    case DType::f32: return &sum_targets<float>;
    case DType::f64: return &sum_targets<double>;
    default: return nullptr;
  }
}

}  // namespace xpu_ops::host
