#include "kernels/runtime/module/native_code.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "kernels/runtime/module/elf.hpp"

namespace xpu_ops::runtime {
namespace {

using Bytes = std::vector<char>;

// llvm/Object/OffloadBinary.h, version 2, with one image.
struct OffloadFile {
  uint32_t magic, version;
  uint64_t size, entries, count;
  uint16_t image_kind, offload_kind;
  uint32_t flags;
  uint64_t strings, string_count, image, image_size;
};
// The SYCLBIN format of sycl_ext_oneapi_syclbin, version 1, with one abstract module of one native image.
struct Syclbin {
  uint32_t magic, version, modules, ir_modules, images, unused;
  uint64_t metadata_size, binary_size, global, global_size;
  uint64_t module_metadata, module_metadata_size;
  uint32_t module_ir, first_ir, module_images, first_image;
  uint64_t image_metadata, image_metadata_size, binary, image_binary_size;
};
constexpr uint32_t kOffloadMagic = 0xad10ff10, kSyclbinMagic = 0x53594249;
constexpr size_t kAlign = 8;
static_assert(sizeof(OffloadFile) == 72 && sizeof(Syclbin) == 120);

// An LLVM module with its version and nothing else, as bitcode.
constexpr unsigned char kEmptyModule[] = {'B', 'C', 0xc0, 0xde, 0x21, 0x0c, 0, 0, 1, 0, 0, 0, 0x0b, 0x02, 0x01, 0};

template <class T> std::optional<T> read(const Bytes& from, uint64_t at) {
  if (at > from.size() || from.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, from.data() + at, sizeof(T));
  return value;
}
template <class T> void write(Bytes& to, uint64_t at, const T& value) {
  std::memcpy(to.data() + at, &value, sizeof(T));
}
size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
bool inside(const Bytes& file, uint64_t at, uint64_t size) { return at <= file.size() && size <= file.size() - at; }

// The ELF file with sections .ocl.ir, .ocl.meta, .ocl.obj, .ocl.ver, side by side; empty where `elf` is no such file.
Bytes smaller(const Bytes& elf) {
  auto image = Elf::read({elf.data(), elf.size()});
  if (!image) return {};
  std::vector<Elf64_Shdr>& sections = image->sections;
  const uint64_t begin = image->header.e_shoff + sections.size() * sizeof(Elf64_Shdr);
  Bytes out(elf.begin(), elf.begin() + static_cast<ptrdiff_t>(begin));
  bool found = false;
  uint64_t end = begin;
  for (size_t i = 1; i < sections.size(); ++i) {
    Elf64_Shdr& s = sections[i];
    // One after the other from the headers to the end of the file, so that nothing is lost.
    if (s.sh_offset != end || !inside(elf, s.sh_offset, s.sh_size)) return {};
    end = s.sh_offset + s.sh_size;
    const char *data = elf.data() + s.sh_offset, *last = data + s.sh_size;
    if (Elf::text(image->names, s.sh_name) == ".ocl.ir") {
      if (found || s.sh_size <= sizeof kEmptyModule || std::memcmp(data, kEmptyModule, 4) != 0) return {};
      found = true;
      data = reinterpret_cast<const char*>(kEmptyModule), last = data + sizeof kEmptyModule;
    }
    s.sh_offset = out.size();
    s.sh_size = static_cast<uint64_t>(last - data);
    out.insert(out.end(), data, last);
  }
  if (!found || end != elf.size()) return {};
  std::memcpy(out.data() + image->header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  return out;
}

// Of a file with one native image: its headers, and where the image stands.
struct Native {
  OffloadFile file;
  Syclbin image;
  size_t at;
};
std::optional<Native> native_of(const Bytes& syclbin) {
  const auto file = read<OffloadFile>(syclbin, 0);
  if (!file || file->magic != kOffloadMagic || file->version != 2 || file->size != syclbin.size() || file->count != 1 ||
      file->entries != offsetof(OffloadFile, image_kind) || file->image != sizeof(OffloadFile) ||
      file->image_size != syclbin.size() - sizeof(OffloadFile))
    return std::nullopt;
  const auto image = read<Syclbin>(syclbin, file->image);
  if (!image || image->magic != kSyclbinMagic || image->version != 1 || image->modules != 1 || image->ir_modules != 0 ||
      image->images != 1 || image->binary != 0 || image->image_binary_size != image->binary_size ||
      image->metadata_size > syclbin.size())
    return std::nullopt;
  const size_t at = file->image + aligned(sizeof(Syclbin) + image->metadata_size);
  if (!inside(syclbin, at, image->binary_size) || aligned(at + image->binary_size) != syclbin.size())
    return std::nullopt;
  return Native{*file, *image, at};
}

}  // namespace

std::string_view native_image(const std::vector<char>& syclbin) {
  const auto native = native_of(syclbin);
  if (!native) return {};
  return {syclbin.data() + native->at, static_cast<size_t>(native->image.binary_size)};
}

std::vector<char> without_ir(const std::vector<char>& syclbin) {
  auto native = native_of(syclbin);
  if (!native) return syclbin;
  const auto begin = syclbin.begin() + static_cast<ptrdiff_t>(native->at);
  const Bytes elf = smaller(Bytes(begin, begin + static_cast<ptrdiff_t>(native->image.binary_size)));
  if (elf.empty()) return syclbin;

  Bytes out(syclbin.begin(), begin);
  out.insert(out.end(), elf.begin(), elf.end());
  out.resize(aligned(out.size()));
  native->image.binary_size = native->image.image_binary_size = elf.size();
  native->file.size = out.size();
  native->file.image_size = out.size() - sizeof(OffloadFile);
  write(out, 0, native->file);
  write(out, sizeof(OffloadFile), native->image);
  return out;
}

}  // namespace xpu_ops::runtime
