#include "bindings/aoti/package.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include <elf.h>

#include <torch/headeronly/version.h>

#include "gen/version.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/module/module_cache.hpp"

namespace xpu_ops::aoti {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "xpu_ops-model 1";  // xpu_ops/inductor/aoti/package.py writes it
constexpr const char* kSuffix = ".xpu_ops";

[[noreturn]] void damaged(const std::string& path, const char* what) {
  throw Error(ErrorKind::runtime,
              "xpu_ops: the package is damaged (" + path + ": " + what + "); export the model again.");
}

// As zlib.crc32.
uint32_t crc32(const char* data, size_t size) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0xedb88320u : 0);
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(data[i])) & 0xff];
  return ~crc;
}

// The lines of a header, in their order.
class Header {
 public:
  Header(const std::string& path, std::string_view text) : path_(path), text_(text) {}
  std::string value(std::string_view key) {
    const std::string_view found = line();
    if (found.substr(0, key.size()) != key || found.size() <= key.size() || found[key.size()] != ' ')
      damaged(path_, ("no " + std::string(key)).c_str());
    return std::string(found.substr(key.size() + 1));
  }
  std::string_view line() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) damaged(path_, "it ends in its header");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  size_t end() const { return at_; }

 private:
  const std::string& path_;
  std::string_view text_;
  size_t at_ = 0;
};

struct Part {
  size_t bytes = 0;
  uint32_t crc = 0;
};

Part part(const std::string& path, const std::string& text) {
  size_t bytes = 0;
  unsigned crc = 0;
  if (std::sscanf(text.c_str(), "%zu %x", &bytes, &crc) != 2) damaged(path, "a length is no number");
  return {bytes, crc};
}

KernelFile parse(const std::string& path, const std::vector<char>& content, bool with_code) {
  Header header(path, {content.data(), content.size()});
  if (header.line() != kFormat)
    throw Error(ErrorKind::runtime, "xpu_ops: " + path +
                                        " is of another format than xpu_ops " XPU_OPS_VERSION " reads (" +
                                        std::string(kFormat) + "); export the model with this version.");
  KernelFile file;
  file.xpu_ops = header.value("xpu_ops");
  file.torch = header.value("torch");
  file.digest = header.value("digest");
  file.target = header.value("target");
  const Part spirv = part(path, header.value("spirv")), native = part(path, header.value("native"));
  if (!header.line().empty()) damaged(path, "unknown lines");
  const size_t left = content.size() - header.end();
  if (spirv.bytes > left || native.bytes != left - spirv.bytes) damaged(path, "it is cut off");
  if (!with_code) return file;
  const char* code = content.data() + header.end();
  if (crc32(code, spirv.bytes) != spirv.crc || crc32(code + spirv.bytes, native.bytes) != native.crc)
    damaged(path, "its code has changed");
  file.spirv.assign(code, code + spirv.bytes);
  file.native.assign(code + spirv.bytes, code + left);
  return file;
}

KernelFile read(const std::string& path, bool with_code) {
  const std::optional<std::vector<char>> content = runtime::read_file(path);
  if (!content) damaged(path, "it cannot be read");
  return parse(path, *content, with_code);
}

// The dynamic loader maps what the headers name and does not look whether the file has it: a program that touches a
// page behind the end is ended by a signal.
void check_library(const std::string& path) {
  std::error_code unreadable;
  const uint64_t size = fs::file_size(path, unreadable);
  std::ifstream file(path, std::ios::binary);
  const auto inside = [&](uint64_t offset, uint64_t bytes) { return offset <= size && bytes <= size - offset; };
  const auto read_at = [&](uint64_t offset, void* to, size_t bytes) {
    if (unreadable || !inside(offset, bytes) || !file.seekg(static_cast<std::streamoff>(offset)) ||
        !file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
      damaged(path, "it is cut off");
  };
  Elf64_Ehdr head;
  read_at(0, &head, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    damaged(path, "it is no library");
  if (!inside(head.e_shoff, uint64_t{head.e_shnum} * head.e_shentsize)) damaged(path, "it is cut off");
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    read_at(head.e_phoff + i * sizeof segment, &segment, sizeof segment);
    if (!inside(segment.p_offset, segment.p_filesz)) damaged(path, "it is cut off");
  }
}

void check_metadata(const std::string& path) {
  const std::optional<std::vector<char>> content = runtime::read_file(path);
  if (!content) damaged(path, "it cannot be read");
  const std::string_view text(content->data(), content->size());
  const size_t last = text.find_last_not_of(" \n");
  if (last == text.npos || text[last] != '}') damaged(path, "it is cut off");
  if (text.find("\"AOTI_DEVICE_KEY\": \"xpu\"") == text.npos) damaged(path, "it names another device");
}

}  // namespace

KernelFile read_kernel_file(const std::string& folder, const std::string& module) {
  return read(folder + "/" + module + kSuffix, true);
}

void check_package(const std::string& folder) {
  bool found = false;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".so") check_library(entry.path().string());
    if (entry.path().string().ends_with("wrapper_metadata.json")) check_metadata(entry.path().string());
    if (entry.path().extension() != kSuffix) continue;
    found = true;
    const KernelFile file = read(entry.path().string(), false);
    const std::string here = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
    if (file.torch != here)
      throw Error(ErrorKind::runtime, "xpu_ops: the package was made by xpu_ops " + file.xpu_ops + " with torch " +
                                          file.torch + ", and this is torch " + here +
                                          "; export the model with this release of torch, or load it with that one.");
  }
  if (!found)
    throw Error(ErrorKind::runtime,
                "xpu_ops: the package was not made by xpu_ops for the xpu device (it has no .xpu_ops file); export the "
                "model on a torch with xpu_ops " XPU_OPS_VERSION ".");
}

}  // namespace xpu_ops::aoti
