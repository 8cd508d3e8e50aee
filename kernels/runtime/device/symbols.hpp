// Names of functions by address, from the symbol tables of the loaded libraries: without line numbers, and in
// milliseconds, where addr2line takes seconds.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace xpu_ops::runtime {

struct Symbol {
  std::string function = "??";  // demangled
  std::string library = "??";
  uint64_t offset = 0;  // in the library, as addr2line takes it
};
// Of return addresses: the call before each.
std::vector<Symbol> symbols_of(const std::vector<void*>& addresses);

}  // namespace xpu_ops::runtime
