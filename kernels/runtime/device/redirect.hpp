// One function of one loaded library replaced for another library that calls it.
#pragma once
#include <atomic>

namespace xpu_ops::runtime {

// Lets the library that holds `inside` call `to` wherever it calls the function `symbol` of another library. `before`
// is the function that it called until then, set before the first call of `to`. False, with nothing changed, where it
// does not call the symbol through its table.
bool redirect(const void* inside, const char* symbol, void* to, std::atomic<void*>& before);

}  // namespace xpu_ops::runtime
