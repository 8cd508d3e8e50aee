// The only place for differences between the releases of torch that one source is built against. Operators that a
// release lacks are rows of the manifest with `torch:`.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/Padding.h>
#include <torch/headeronly/version.h>

#include <limits>
#include <utility>
#include <vector>

#define XPU_OPS_TORCH_FROM(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

// Refuses an element type as torch's relu and hardtanh do: a NotImplementedError from 2.15 on.
#if XPU_OPS_TORCH_FROM(2, 15)
#define XPU_OPS_CHECK_TYPE TORCH_CHECK_NOT_IMPLEMENTED
#else
#define XPU_OPS_CHECK_TYPE TORCH_CHECK
#endif

namespace xpu_ops {

// A list of tensors as rows with `meta: false` take it: torch passes another type since it has a structured meta.
inline std::vector<at::Tensor> listed(const at::ITensorListRef& list) { return {list.begin(), list.end()}; }

// Whether torch's CPU quantizes to an integer zero point by rounding first. At ties beside an odd one the result
// differs.
constexpr bool kZeroAfterRounding = XPU_OPS_TORCH_FROM(2, 14);

// Checks the dimensions of the input of a padding in 2D.
inline void check_padding2d(const at::Tensor& input, at::IntArrayRef padding) {
#if XPU_OPS_TORCH_FROM(2, 15)
  at::native::padding::check_valid_input(input, padding, 2);
#else
  at::native::padding::check_valid_input<2>(input, padding);
#endif
}

inline void check_group_norm_channels([[maybe_unused]] const c10::SymInt& channels) {
#if XPU_OPS_TORCH_FROM(2, 14)
  TORCH_CHECK(channels > 0, "Expected number of channels to be greater than 0, got ", channels);
#endif
}

// Checks the input of native_group_norm beside its sizes: any strides where torch takes them, but not without elements.
inline void check_group_norm_input([[maybe_unused]] const at::Tensor& X,
                                   [[maybe_unused]] at::MemoryFormat memory_format, [[maybe_unused]] int64_t HxW) {
#if XPU_OPS_TORCH_FROM(2, 14)
  TORCH_CHECK(HxW > 0, "Expected HxW to be greater than 0, got ", HxW);
#else
  TORCH_CHECK(X.is_contiguous(memory_format));
#endif
}

// Checks the element type of the input of var, std and the pairs with mean: the type of the error changed.
inline void check_variance_type(const char* name, at::ScalarType type) {
  const bool valid = at::isFloatingType(type) || at::isComplexType(type);
#if XPU_OPS_TORCH_FROM(2, 15)
  TORCH_CHECK_NOT_IMPLEMENTED(valid, name, " only support floating point and complex dtypes");
#else
  TORCH_CHECK(valid, name, " only support floating point and complex dtypes");
#endif
}

// Checks input and grid of grid_sampler_3d: 2.15 added cubic interpolation of volumes.
inline void check_grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, [[maybe_unused]] int64_t mode) {
#if XPU_OPS_TORCH_FROM(2, 15)
  at::native::check_grid_sampler_3d(input, grid);
#else
  at::native::check_grid_sampler_3d(input, grid, mode);
#endif
}

// A bound of clamp as a number that the integers from `low` to `high` of a type hold. One that bounds nothing becomes
// the limit of the type from 2.15 on, and stays as it is before; the caller refuses it then.
template <class T>
at::Scalar clamp_bound(const at::Scalar& bound, [[maybe_unused]] at::ScalarType type, [[maybe_unused]] bool lower) {
#if XPU_OPS_TORCH_FROM(2, 15)
  using Limits = std::numeric_limits<T>;
  if (!bound.isIntegral(true)) return bound;
  const auto held = [&](auto value) -> at::Scalar {
    const bool below = std::cmp_less(value, Limits::lowest()), above = std::cmp_greater(value, Limits::max());
    if (!below && !above) return bound;
    TORCH_CHECK(lower ? below : above, "Clamp ", lower ? "min" : "max", " value ", bound.to<double>(),
                " is outside the representable range of ", type);
    return lower ? Limits::lowest() : Limits::max();
  };
  return bound.type() == at::kUInt64 ? held(bound.toUInt64()) : held(bound.to<int64_t>());
#else
  return bound;
#endif
}

// Checks the bounds of hardtanh of unsigned integers: they follow clamp from 2.15 on.
inline void check_hardtanh([[maybe_unused]] const at::Tensor& self, [[maybe_unused]] const at::Scalar& low,
                           [[maybe_unused]] const at::Scalar& high) {
#if !XPU_OPS_TORCH_FROM(2, 15)
  TORCH_CHECK(self.scalar_type() != at::kByte || (low.to<double>() >= 0 && high.to<double>() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
#endif
}

}  // namespace xpu_ops
