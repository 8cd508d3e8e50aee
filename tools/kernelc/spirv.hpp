// The SPIR-V modules in a SYCLBIN file.
#pragma once
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace spirv {

using Bytes = std::vector<char>;

constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kOpNop = 0, kOpName = 5, kOpEntryPoint = 15, kOpCapability = 17, kOpFunction = 54,
                   kOpFunctionParameter = 55, kOpFunctionEnd = 56, kOpFunctionCall = 57, kOpDecorate = 71,
                   kOpReturn = 253;
constexpr uint32_t kKernelModel = 6, kFloat64 = 10;
constexpr size_t kHeader = 20;

inline uint32_t word(const Bytes& file, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, file.data() + at, 4);
  return value;
}

struct Instruction {
  size_t at;  // in the file
  uint32_t op, words;
};

// The instructions of each module; a module ends where no whole instruction follows.
inline std::vector<std::vector<Instruction>> modules(const Bytes& file) {
  std::vector<std::vector<Instruction>> out;
  for (size_t at = 0; at + kHeader <= file.size(); at += 4) {
    if (word(file, at) != kMagic) continue;
    auto& module = out.emplace_back();
    size_t next = at + kHeader;
    while (next + 4 <= file.size()) {
      const uint32_t first = word(file, next), words = first >> 16;
      if (words == 0 || next + 4 * size_t{words} > file.size()) break;
      module.push_back({next, first & 0xffff, words});
      next += 4 * size_t{words};
    }
    at = next - 4;
  }
  return out;
}

// Declarations of the file's SPIR-V.
struct Facts {
  std::vector<std::string> kernels;
  bool fp64 = false;
  int images = 0;
};

inline Facts inspect(const Bytes& file) {
  constexpr std::string_view prefix = "__sycl_kernel_";
  std::set<std::string> kernels;
  Facts facts;
  for (const auto& module : modules(file)) {
    ++facts.images;
    for (const auto& [at, op, words] : module) {
      if (op == kOpCapability && words == 2 && word(file, at + 4) == kFloat64) facts.fp64 = true;
      if (op != kOpEntryPoint || words < 4 || word(file, at + 4) != kKernelModel) continue;
      const std::string name(file.data() + at + 12, strnlen(file.data() + at + 12, 4 * (words - 3)));
      if (name.starts_with(prefix)) kernels.insert(name.substr(prefix.size()));
    }
  }
  facts.kernels.assign(kernels.begin(), kernels.end());
  return facts;
}

// The file without functions that are declared and never called. LLVM's translator writes such a declaration for an
// intrinsic that it has expanded, such as llvm.is.fpclass; a GPU's compiler asks for its body. Sizes stay: as many
// OpNop stand before a return.
inline Bytes without_unused_declarations(Bytes file) {
  for (const auto& module : modules(file)) {
    std::set<uint32_t> called, dropped;
    for (const auto& [at, op, words] : module)
      if (op == kOpFunctionCall && words > 3) called.insert(word(file, at + 12));
    // A declaration has no label.
    for (size_t i = 0; i < module.size(); ++i) {
      if (module[i].op != kOpFunction || called.contains(word(file, module[i].at + 8))) continue;
      size_t end = i + 1;
      while (end < module.size() && module[end].op == kOpFunctionParameter) ++end;
      if (end == module.size() || module[end].op != kOpFunctionEnd) continue;
      for (size_t k = i; k < end; ++k) dropped.insert(word(file, module[k].at + 8));
    }
    if (dropped.empty()) continue;

    Bytes out;
    size_t spare = 0, before_return = 0;
    bool inside = false;  // of a declaration that goes
    for (const auto& [at, op, words] : module) {
      if (op == kOpFunction) inside = dropped.contains(word(file, at + 8));
      const bool named = (op == kOpName || op == kOpDecorate) && dropped.contains(word(file, at + 4));
      if (op == kOpReturn && before_return == 0) before_return = out.size();
      if (inside || named) {
        spare += words;
      } else {
        out.insert(out.end(), file.data() + at, file.data() + at + 4 * size_t{words});
      }
      if (op == kOpFunctionEnd) inside = false;
    }
    if (before_return == 0) continue;
    constexpr uint32_t nop = 1u << 16 | kOpNop;
    Bytes padding(4 * spare);
    for (size_t i = 0; i < padding.size(); i += 4) std::memcpy(padding.data() + i, &nop, 4);
    out.insert(out.begin() + static_cast<ptrdiff_t>(before_return), padding.begin(), padding.end());
    std::memcpy(file.data() + module.front().at, out.data(), out.size());
  }
  return file;
}

}  // namespace spirv
