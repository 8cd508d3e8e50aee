// Element types, numbered like c10::ScalarType so that bindings convert by a cast. tools/codegen/types.py lists them;
// `x16` is no type of torch: 16 raw bytes, for kernels that only move elements.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xpu_ops {

enum class DType : int8_t {
#define XPU_OPS_DTYPE(name, number, bytes, scalar) name = number,
#include "gen/kernels/dtypes.inc"
#undef XPU_OPS_DTYPE
};
constexpr int kDTypeSlots = 48;

// The suffix a kernel name carries for this type: add_f32_rows.
constexpr const char* dtype_suffix(DType t) {
  switch (t) {
#define XPU_OPS_DTYPE(name, number, bytes, scalar) \
  case DType::name: return #name;
#include "gen/kernels/dtypes.inc"
#undef XPU_OPS_DTYPE
  }
  return "?";
}

constexpr size_t dtype_size(DType t) {
  switch (t) {
#define XPU_OPS_DTYPE(name, number, bytes, scalar) \
  case DType::name: return bytes;
#include "gen/kernels/dtypes.inc"
#undef XPU_OPS_DTYPE
  }
  return 0;
}

// c10::toString's name, which torch's messages carry.
constexpr const char* scalar_type_name(DType t) {
  switch (t) {
#define XPU_OPS_DTYPE(name, number, bytes, scalar) \
  case DType::name: return scalar;
#include "gen/kernels/dtypes.inc"
#undef XPU_OPS_DTYPE
  }
  return "UNKNOWN_SCALAR";
}

// The unsigned type that moves elements of this size: group `raw` of the manifest.
constexpr DType raw_dtype(size_t bytes) {
  switch (bytes) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    case 8: return DType::u64;
    default: return DType::x16;
  }
}

constexpr bool is_complex(DType t) { return t == DType::c32 || t == DType::c64 || t == DType::c128; }
constexpr bool is_floating(DType t) {
  return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64;
}

}  // namespace xpu_ops
