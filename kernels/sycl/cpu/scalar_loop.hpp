// A loop of one item, called with values alone: what a kernel keeps for later would push the loop's own values out of
// the registers, which costs it three times the time.
#pragma once

#define XPU_SCALAR_LOOP inline __attribute__((noinline))
