// Which item of a sub-group decides what is stored after values were exchanged.
#pragma once
#include <sycl/sub_group.hpp>

#include "kernels/sycl/core/device.hpp"

namespace xpu {

// The item's place in its sub-group. After an exchange (lane_sum, permute_group_by_xor ...) a test that decides who
// stores reads it from here. Behind a test of the work-item's local id the CPU device's compiler may run no item but
// those that pass it, and the exchange before then reads what nobody wrote. tests/build/test_lanes.py has the rule.
inline size_t sub_group_lane() { return syclex::this_work_item::get_sub_group().get_local_linear_id(); }
inline bool is_first_lane() { return sub_group_lane() == 0; }

}  // namespace xpu
