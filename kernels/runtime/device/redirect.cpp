#include "kernels/runtime/device/redirect.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace xpu_ops::runtime {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobData = R_X86_64_GLOB_DAT;
#else
constexpr uint64_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobData = R_AARCH64_GLOB_DAT;
#endif

// The cell of a library's table that holds the address of `symbol`. It stands with the data where the compiler calls
// through the table itself (-fno-plt).
void** table_cell(const link_map* library, const char* symbol) {
  const char* names = nullptr;
  const Elf64_Sym* symbols = nullptr;
  struct Table {
    const Elf64_Rela* cells = nullptr;
    uint64_t bytes = 0;
  } calls, data;
  // The loader may have added the address of the library to the pointers already.
  const auto at = [&](uint64_t p) { return p < library->l_addr ? p + library->l_addr : p; };
  for (const Elf64_Dyn* d = library->l_ld; d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_STRTAB: names = reinterpret_cast<const char*>(at(d->d_un.d_ptr)); break;
      case DT_SYMTAB: symbols = reinterpret_cast<const Elf64_Sym*>(at(d->d_un.d_ptr)); break;
      case DT_JMPREL: calls.cells = reinterpret_cast<const Elf64_Rela*>(at(d->d_un.d_ptr)); break;
      case DT_PLTRELSZ: calls.bytes = d->d_un.d_val; break;
      case DT_RELA: data.cells = reinterpret_cast<const Elf64_Rela*>(at(d->d_un.d_ptr)); break;
      case DT_RELASZ: data.bytes = d->d_un.d_val; break;
      default: break;
    }
  }
  if (!names || !symbols) return nullptr;
  for (const Table& table : {calls, data}) {
    for (const Elf64_Rela* r = table.cells; r < table.cells + table.bytes / sizeof *r; ++r) {
      const uint64_t type = ELF64_R_TYPE(r->r_info);
      if ((type == kJumpSlot || type == kGlobData) &&
          !std::strcmp(names + symbols[ELF64_R_SYM(r->r_info)].st_name, symbol))
        return reinterpret_cast<void**>(library->l_addr + r->r_offset);
    }
  }
  return nullptr;
}

}  // namespace

bool redirect(const void* inside, const char* symbol, void* to, std::atomic<void*>& before) {
  Dl_info info;
  link_map* library = nullptr;
  if (!dladdr1(inside, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) || !library) return false;
  void** const slot = table_cell(library, symbol);
  if (!slot) return false;
  // Tables that the loader has filled at once are write-protected.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(page - 1));
  if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
  const std::atomic_ref<void*> cell(*slot);
  before.store(cell.load());
  cell.store(to);
  return true;
}

}  // namespace xpu_ops::runtime
