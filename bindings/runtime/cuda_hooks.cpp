// Torch beside CUDA libraries but without a CUDA device.
//
// at::accelerator::getAccelerator asks the hooks of CUDA and of XPU whether they are built and takes one of both at the
// most. A CUDA build says yes on every machine, so backward, pinned memory and streams would raise. The hooks object is
// made once, at the latest while torch is imported, and at::detail::getCUDAHooks keeps the only pointer to it: neither
// a later registration nor another object reaches its callers. But they call it through the interface, so it is enough
// that its table of virtual functions says no in one place. The object gets a copy of its table in which isBuilt is
// another function; the rest, its state and its type stay. Nobody else reads that answer: torch.cuda asks the driver.
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <typeinfo>

#include "bindings/runtime/hooks.hpp"

namespace xpu_ops {
namespace {

using Interface = at::CUDAHooksInterface;
using Word = const void*;
constexpr size_t kHeader =
    2;  // before the first function: the offset to the top and the type, which belong to the table
constexpr const char* kClass = "N2at4cuda6detail9CUDAHooksE";
constexpr const char* kInterfaceTable = "_ZTVN2at18CUDAHooksInterfaceE";

bool not_built(const Interface*) { return false; }

// As the Itanium C++ ABI (2.3) writes a pointer to a virtual function: 1 + its offset in the table, and no adjustment.
size_t slot_of_is_built() {
  const auto member = static_cast<bool (Interface::*)() const>(&Interface::isBuilt);
  struct {
    uintptr_t place;
    ptrdiff_t adjustment;
  } raw;
  static_assert(sizeof raw == sizeof member);
  std::memcpy(&raw, &member, sizeof raw);
  return raw.place % sizeof(Word) == 1 && raw.adjustment == 0 ? raw.place / sizeof(Word) : SIZE_MAX;
}

// Functions in the table of the interface in the torch that runs, 0 where it cannot be told.
size_t table_size() {
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  void* table = dlsym(RTLD_DEFAULT, kInterfaceTable);
  if (!table || !dladdr1(table, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) ||
      !symbol)
    return 0;
  const size_t words = symbol->st_size / sizeof(Word);
  return words > kHeader ? words - kHeader : 0;
}

}  // namespace

std::string hide_cuda() {
  const Interface& hooks = at::detail::getCUDAHooks();
  if (!hooks.isBuilt()) return "";
  const bool has_cuda = hooks.hasCUDA();
  const std::type_info& type = typeid(hooks);
  if (std::strcmp(type.name(), kClass) != 0)
    return std::string("its CUDA hooks are of the unknown class ") + type.name();
  const size_t size = table_size(), slot = slot_of_is_built();
  if (slot >= size) return "its CUDA hooks have an unknown layout";

  std::atomic_ref<Word*> pointer(*reinterpret_cast<Word**>(const_cast<Interface*>(&hooks)));
  Word* const original = pointer.load();
  auto* table = new Word[kHeader + size];  // torch calls it until the process ends
  std::memcpy(table, original - kHeader, (kHeader + size) * sizeof(Word));
  table[kHeader + slot] = reinterpret_cast<Word>(&not_built);
  pointer.store(table + kHeader);

  const Interface& now = at::detail::getCUDAHooks();
  if (!now.isBuilt() && now.hasCUDA() == has_cuda && typeid(now) == type) return "";
  pointer.store(original);
  delete[] table;
  return "its CUDA hooks did not take another answer";
}

}  // namespace xpu_ops
