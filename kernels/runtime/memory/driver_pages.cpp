#include "kernels/runtime/memory/driver_pages.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

namespace xpu_ops::runtime {

void release_driver_pages() {
  auto visit = [](dl_phdr_info* info, size_t, void*) {
    std::string_view name = info->dlpi_name ? info->dlpi_name : "";
    name.remove_prefix(name.rfind('/') + 1);
    if (!name.starts_with("libintelocl.so") && !name.starts_with("libcommon_clang.so")) return 0;
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      // A segment that is never writable has no page that differs from the file.
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W)) continue;
      const uint64_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_filesz;
      const uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
      if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
    return 0;
  };
  dl_iterate_phdr(visit, nullptr);
}

}  // namespace xpu_ops::runtime
