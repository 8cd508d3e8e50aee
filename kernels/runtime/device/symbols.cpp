#include "kernels/runtime/device/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

namespace xpu_ops::runtime {
namespace {

struct Library {
  std::string path;
  uint64_t base, end;
};

std::vector<Library> loaded_libraries() {
  std::vector<Library> out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        uint64_t end = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& p = info->dlpi_phdr[i];
          if (p.p_type == PT_LOAD) end = std::max<uint64_t>(end, info->dlpi_addr + p.p_vaddr + p.p_memsz);
        }
        const bool program = !info->dlpi_name || !*info->dlpi_name;
        static_cast<std::vector<Library>*>(data)->push_back(
            {program ? "/proc/self/exe" : info->dlpi_name, info->dlpi_addr, end});
        return 0;
      },
      &out);
  return out;
}

// A file in memory; empty where it cannot be read.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat s{};
    if (::fstat(file, &s) == 0 && s.st_size > 0) {
      void* p = ::mmap(nullptr, static_cast<size_t>(s.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (p != MAP_FAILED) {
        data_ = static_cast<const char*>(p);
        size_ = static_cast<size_t>(s.st_size);
      }
    }
    ::close(file);
  }
  ~Mapped() {
    if (data_) ::munmap(const_cast<char*>(data_), size_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  // nullptr where count objects do not lie in the file.
  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// Names for the offsets of one library, which are sorted.
void look_up(const std::string& path, const std::vector<std::pair<uint64_t, Symbol*>>& wanted) {
  const Mapped file(path);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return;
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (!sections) return;
  const Elf64_Shdr* table = nullptr;
  for (int i = 0; i < header->e_shnum; ++i) {
    // All functions where the file is not stripped, else those that it exports.
    if (sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && !table)) table = &sections[i];
  }
  if (!table || table->sh_link >= header->e_shnum) return;
  const size_t count = table->sh_size / sizeof(Elf64_Sym);
  const auto* symbols = file.at<Elf64_Sym>(table->sh_offset, count);
  const auto& strings = sections[table->sh_link];
  const char* text = file.at<char>(strings.sh_offset, strings.sh_size);
  if (!symbols || !text || strings.sh_size == 0 || text[strings.sh_size - 1] != '\0') return;
  for (size_t i = 0; i < count; ++i) {
    const Elf64_Sym& s = symbols[i];
    const int type = ELF64_ST_TYPE(s.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s.st_size == 0 || s.st_name >= strings.sh_size) continue;
    auto at = std::lower_bound(wanted.begin(), wanted.end(), s.st_value,
                               [](const auto& w, uint64_t value) { return w.first < value; });
    for (; at != wanted.end() && at->first < s.st_value + s.st_size; ++at)
      at->second->function = demangled(text + s.st_name);
  }
}

}  // namespace

std::vector<Symbol> symbols_of(const std::vector<void*>& addresses) {
  std::vector<Symbol> out(addresses.size());
  const auto libraries = loaded_libraries();
  std::map<const Library*, std::vector<std::pair<uint64_t, Symbol*>>> wanted;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto address = reinterpret_cast<uint64_t>(addresses[i]);
    for (const Library& l : libraries) {
      if (address <= l.base || address >= l.end) continue;
      out[i].library = l.path;
      out[i].offset = address - 1 - l.base;
      wanted[&l].emplace_back(out[i].offset, &out[i]);
      break;
    }
  }
  for (auto& [library, offsets] : wanted) {
    std::sort(offsets.begin(), offsets.end());
    look_up(library->path, offsets);
  }
  return out;
}

}  // namespace xpu_ops::runtime
