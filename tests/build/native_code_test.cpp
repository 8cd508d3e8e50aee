// The LLVM IR in native code, in files that are written here and in damaged ones.
#include "kernels/runtime/module/native_code.hpp"

#include <elf.h>

#include <cstring>

#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using Bytes = std::vector<char>;

template <class... T> void put(Bytes& to, T... values) {
  (to.insert(to.end(), reinterpret_cast<const char*>(&values), reinterpret_cast<const char*>(&values) + sizeof values),
   ...);
}
void pad(Bytes& b) { b.resize((b.size() + 7) / 8 * 8); }

const std::string kNames("\0.ocl.ir\0.ocl.obj\0", 18);
constexpr uint32_t kIr = 1, kObj = 9;

// Sections .ocl.ir, .ocl.obj and the names, as the OpenCL CPU runtime lays them out.
Bytes elf(const std::string& ir, const std::string& object) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 3;
  Bytes out;
  put(out, header);
  uint64_t at = sizeof header + 4 * sizeof(Elf64_Shdr);
  put(out, Elf64_Shdr{});
  for (const auto& [name, text] : {std::pair{kIr, &ir}, {kObj, &object}, {0u, &kNames}}) {
    Elf64_Shdr section{};
    section.sh_name = name;
    section.sh_offset = at;
    section.sh_size = text->size();
    at += text->size();
    put(out, section);
  }
  for (const std::string* text : {&ir, &object, &kNames}) out.insert(out.end(), text->begin(), text->end());
  return out;
}

// OffloadBinary with one SYCLBIN with one native image.
Bytes file(const std::string& ir, const std::string& object, const std::string& metadata) {
  const Bytes image = elf(ir, object);
  const auto length = static_cast<uint64_t>(image.size()), about = static_cast<uint64_t>(metadata.size());
  Bytes body;
  put(body, 0x53594249u, 1u, 1u, 0u, 1u, 0u, about, length, uint64_t{0}, uint64_t{8}, uint64_t{8}, uint64_t{8});
  put(body, 0u, 0u, 1u, 0u, uint64_t{16}, about - 16, uint64_t{0}, length);
  body.insert(body.end(), metadata.begin(), metadata.end());
  pad(body);
  body.insert(body.end(), image.begin(), image.end());
  pad(body);
  Bytes out;
  put(out, 0xad10ff10u, 2u, uint64_t{72} + body.size(), uint64_t{32}, uint64_t{1}, uint16_t{7}, uint16_t{8}, 0u);
  put(out, uint64_t{0}, uint64_t{0}, uint64_t{72}, static_cast<uint64_t>(body.size()));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

}  // namespace

void test_native_code() {
  const std::string empty("BC\xc0\xde\x21\x0c\0\0\1\0\0\0\x0b\2\1\0", 16), object = "machine code", about(45, 'm');
  const std::string ir = "BC\xc0\xde" + std::string(1001, 'i');

  at("native code: the IR goes, all else stays");
  const Bytes whole = file(ir, object, about), small = file(empty, object, about);
  CHECK(runtime::without_ir(whole) == small);
  CHECK(runtime::without_ir(small) == small);

  at("native code: sections that are no IR stay");
  const Bytes other = file("not bitcode, and longer than that", object, about);
  CHECK(runtime::without_ir(other) == other);
  CHECK(runtime::without_ir({}).empty());

  for (size_t i = 0; i < whole.size(); i += 3) {
    at("native code: truncated", i);
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(i));
    CHECK(runtime::without_ir(cut) == cut);
  }
  for (size_t i = 0; i < whole.size() - ir.size() - object.size(); ++i)
    for (const int bit : {1, 0x80}) {
      at("native code: damaged", i);
      Bytes bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ bit);
      CHECK(runtime::without_ir(bad).size() <= bad.size());
    }
}

}  // namespace plan_test
