#include "kernels/runtime/module/host_code.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "kernels/runtime/module/elf.hpp"
#include "kernels/runtime/module/native_code.hpp"

namespace xpu_ops::runtime {
namespace {

constexpr std::string_view kPrefix = "__sycl_kernel_";
constexpr char kFormat[4] = {0x17, 0, 0, 0};  // .ocl.ver of a runtime that calls kernels as HostEntry says

// Memory for code in few mappings: the driver reads the list of all of them for each kernel that it makes.
class CodeMemory {
 public:
  // Pages that can be written; empty where there are none.
  char* take(size_t bytes) {
    bytes = whole_pages(bytes);
    if (bytes > left_) {
      const size_t chunk = std::max(bytes, kChunk);
      void* p = mmap(nullptr, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) return nullptr;
      next_ = static_cast<char*>(p), left_ = chunk;
    }
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }
  static bool close(char* pages, size_t bytes) {
    return mprotect(pages, whole_pages(bytes), PROT_READ | PROT_EXEC) == 0;
  }

 private:
  static constexpr size_t kPage = 4096, kChunk = size_t{4} << 20;
  static size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  char* next_ = nullptr;
  size_t left_ = 0;
};

// The folder of the driver; empty where it is not in this process.
std::string driver_folder() {
  std::string folder;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        const size_t slash = path.rfind('/');
        if (slash == path.npos || !path.substr(slash).starts_with("/libintelocl.so")) return 0;
        *static_cast<std::string*>(to) = path.substr(0, slash);
        return 1;
      },
      &folder);
  return folder;
}

// A function that code calls: of the C library, or of the driver's vector mathematics,
// __ocl_svml_<processor>_<function>. Null where it is not known.
void* function(std::string_view name) {
  if (name == "memcpy") return reinterpret_cast<void*>(&std::memcpy);
  if (name == "memset") return reinterpret_cast<void*>(&std::memset);
  if (name == "memmove") return reinterpret_cast<void*>(&std::memmove);
  constexpr std::string_view prefix = "__ocl_svml_";
  if (!name.starts_with(prefix)) return nullptr;
  const std::string_view processor = name.substr(prefix.size(), name.substr(prefix.size()).find('_'));
  static const std::string folder = driver_folder();
  const std::string library = folder + "/libocl_svml_" + std::string(processor) + ".so";
  void* handle = folder.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle ? dlsym(handle, std::string(name).c_str()) : nullptr;
}

// Sections of an object file in memory, relocated. Refuses what native code does not have: data that is written, other
// relocations than addresses, unknown functions.
class Linking {
 public:
  explicit Linking(const Elf& object) : elf_(object), at_(object.sections.size()) {}

  bool run() {
    size_t bytes = 0;
    for (const Elf64_Shdr& s : elf_.sections) {
      if (!(s.sh_flags & SHF_ALLOC)) continue;
      if (s.sh_type != SHT_PROGBITS || (s.sh_flags & SHF_WRITE) || s.sh_addralign > 4096) return false;
      bytes = aligned(bytes, s.sh_addralign) + s.sh_size;
    }
    static CodeMemory& memory = *new CodeMemory;
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    char* base = bytes ? memory.take(bytes) : nullptr;
    if (!base) return false;
    size_t end = 0;
    for (size_t i = 0; i < at_.size(); ++i) {
      const Elf64_Shdr& s = elf_.sections[i];
      if (!(s.sh_flags & SHF_ALLOC)) continue;
      end = aligned(end, s.sh_addralign);
      at_[i] = base + end;
      std::memcpy(at_[i], elf_.file.data() + s.sh_offset, s.sh_size);
      end += s.sh_size;
    }
    for (const Elf64_Shdr& s : elf_.sections)
      if (s.sh_type == SHT_REL || (s.sh_type == SHT_RELA && !relocate(s))) return false;
    return CodeMemory::close(base, bytes);
  }
  // Calls f(name, address) for each function.
  template <class F> void functions(F f) const {
    for (const Elf64_Shdr& s : elf_.sections)
      if (s.sh_type == SHT_SYMTAB && s.sh_link < elf_.sections.size())
        for (const auto& y : elf_.table<Elf64_Sym>(s))
          if (ELF64_ST_TYPE(y.st_info) == STT_FUNC && y.st_shndx < at_.size() && at_[y.st_shndx])
            f(Elf::text(elf_.contents(elf_.sections[s.sh_link]), y.st_name), at_[y.st_shndx] + y.st_value);
  }

 private:
  static size_t aligned(size_t n, uint64_t to) { return to > 1 ? (n + to - 1) / to * to : n; }
  bool relocate(const Elf64_Shdr& s) {
    if (s.sh_info >= at_.size() || s.sh_link >= at_.size()) return false;
    char* to = at_[s.sh_info];
    if (!to) return true;  // of what is not loaded
    const Elf64_Shdr& table = elf_.sections[s.sh_link];
    if (table.sh_link >= at_.size()) return false;
    const auto symbols = elf_.table<Elf64_Sym>(table);
    const std::string_view names = elf_.contents(elf_.sections[table.sh_link]);
    for (const auto& r : elf_.table<Elf64_Rela>(s)) {
      const size_t number = ELF64_R_SYM(r.r_info);
      if (ELF64_R_TYPE(r.r_info) != R_X86_64_64 || number >= symbols.size() ||
          r.r_offset + sizeof(uint64_t) > elf_.sections[s.sh_info].sh_size)
        return false;
      const Elf64_Sym& y = symbols[number];
      const void* target = nullptr;
      if (y.st_shndx == SHN_UNDEF)
        target = function(Elf::text(names, y.st_name));
      else if (y.st_shndx < at_.size() && at_[y.st_shndx])
        target = at_[y.st_shndx] + y.st_value;
      if (!target) return false;
      const uint64_t address = reinterpret_cast<uint64_t>(target) + static_cast<uint64_t>(r.r_addend);
      std::memcpy(to + r.r_offset, &address, sizeof address);
    }
    return true;
  }

  const Elf& elf_;
  std::vector<char*> at_;  // of each section
};

}  // namespace

HostRange::HostRange(uint32_t d, size_t groups0, size_t local0, size_t groups1, size_t local1)
    : dims(d),
      asked{{groups0 * local0, groups1 * local1, 1}, {{local0, local1, 1}, {local0, local1, 1}}, {groups0, groups1, 1}},
      run(asked),
      run_dims(d) {}

void HostFunction::call(const void* args, const HostRange& range) {
  const uint64_t begin = __rdtsc();
  size_t group[4] = {};
  for (group[1] = 0; group[1] < range.run.groups[1]; ++group[1])
    for (group[0] = 0; group[0] < range.run.groups[0]; ++group[0]) entry_(args, group, nullptr);
  // A call that something disturbed counts as two long ones, which the mean survives.
  const float cycles = std::min(static_cast<float>(__rdtsc() - begin), 2 * kMost);
  const float cost = cycles / static_cast<float>(group[0] * group[1]);
  const float mean = cost_.load(std::memory_order_relaxed);
  cost_.store(mean + (cost - mean) / 4, std::memory_order_relaxed);
}

std::unique_ptr<HostCode> HostCode::load(const std::vector<char>& syclbin) {
  const auto image = Elf::read(native_image(syclbin));
  if (!image || image->named(".ocl.ver") != std::string_view(kFormat, sizeof kFormat)) return nullptr;
  const auto object = Elf::read(image->named(".ocl.obj"));
  if (!object) return nullptr;
  Linking linking(*object);
  if (!linking.run()) return nullptr;
  auto code = std::make_unique<HostCode>();
  linking.functions([&](std::string_view name, void* address) {
    if (name.starts_with(kPrefix))
      code->entries_.emplace_back(name.substr(kPrefix.size()), reinterpret_cast<HostEntry>(address));
  });
  return code;
}

HostFunction* HostCode::find(std::string_view kernel) {
  const auto at = std::ranges::find(entries_, kernel, &Entry::name);
  return at == entries_.end() ? nullptr : &at->function;
}

}  // namespace xpu_ops::runtime
