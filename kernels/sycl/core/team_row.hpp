// A row that the registers of a team hold, in fours. Elements j to j + 3 of an item are a four.
#pragma once
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/core/team.hpp"

namespace xpu {

// Where a four is in its row, and whether it is there.
XPU_INLINE uint32_t four_at(const Team& t, uint32_t j) { return j * t.lanes + 4 * t.lane; }
XPU_INLINE bool holds(const Team& t, uint32_t n, uint32_t j) { return four_at(t, j / 4 * 4) < n; }

}  // namespace xpu
