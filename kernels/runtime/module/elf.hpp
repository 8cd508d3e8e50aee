// Native code of a module is an ELF file, which holds an object file.
#pragma once
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace xpu_ops::runtime {

// An ELF file and its section headers; empty where it is damaged.
struct Elf {
  Elf64_Ehdr header;
  std::string_view file;
  std::vector<Elf64_Shdr> sections;
  std::string_view names;

  static std::optional<Elf> read(std::string_view file) {
    Elf64_Ehdr header;
    if (file.size() < sizeof header) return std::nullopt;
    std::memcpy(&header, file.data(), sizeof header);
    const uint64_t bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > file.size() ||
        bytes > file.size() - header.e_shoff || header.e_shstrndx >= header.e_shnum)
      return std::nullopt;
    Elf elf{header, file, std::vector<Elf64_Shdr>(header.e_shnum), {}};
    std::memcpy(elf.sections.data(), file.data() + header.e_shoff, bytes);
    for (const Elf64_Shdr& s : elf.sections)
      if (s.sh_type != SHT_NOBITS && (s.sh_offset > file.size() || s.sh_size > file.size() - s.sh_offset))
        return std::nullopt;
    elf.names = elf.contents(elf.sections[header.e_shstrndx]);
    return elf;
  }
  std::string_view contents(const Elf64_Shdr& s) const {
    return s.sh_type == SHT_NOBITS ? std::string_view{} : file.substr(s.sh_offset, s.sh_size);
  }
  std::string_view named(std::string_view name) const {
    for (const Elf64_Shdr& s : sections)
      if (text(names, s.sh_name) == name) return contents(s);
    return {};
  }
  static std::string_view text(std::string_view table, size_t at) {
    if (at >= table.size()) return {};
    const std::string_view rest = table.substr(at);
    return rest.substr(0, rest.find('\0'));
  }
  template <class T> std::vector<T> table(const Elf64_Shdr& s) const {
    std::vector<T> entries(s.sh_size / sizeof(T));
    std::memcpy(entries.data(), file.data() + s.sh_offset, entries.size() * sizeof(T));
    return entries;
  }
};

}  // namespace xpu_ops::runtime
