// A number as a type, for what generic lambdas take.
#pragma once
#include <cstdint>

namespace xpu {

template <uint32_t n> struct Constant { static constexpr uint32_t value = n; };

}  // namespace xpu
