// Compiles SYCL device modules through the compiler in libsycl-jit; the driver (__main__.py) feeds it. It can crash in
// the compiler, so it is a process of its own, and it stays up for many modules because the first one costs 0.2 s more.
//   kernelc --identify             prints {"target": ...}
//   kernelc [--preamble=FILE,FILE] [compiler options]
//                                  reads "source<TAB>output prefix" lines, answers each with one JSON line; a third
//                                  field "portable" leaves the native file empty
// The preamble's headers are included before each source and compiled once per process: most of a front end's fixed
// cost. For each module it writes PREFIX.spv.syclbin (portable) and PREFIX.native.syclbin, for this CPU or for the
// target that CL_CONFIG_CPU_TARGET_ARCH names. A source that is such a portable file is linked only.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sycl/sycl.hpp>
#include <sycl/backend/opencl.hpp>
#include <sycl/ext/oneapi/experimental/syclbin_kernel_bundle.hpp>

#include "kernels/runtime/device/opencl_symbol.hpp"
#include "kernels/runtime/module/native_code.hpp"
#include "kernels/runtime/module/target_key.hpp"

namespace syclexp = sycl::ext::oneapi::experimental;
using Bytes = std::vector<char>;

namespace {

// Processor time of this process: means the same on a busy machine.
int cpu_ms() { return static_cast<int>(std::clock() * 1000 / CLOCKS_PER_SEC); }

std::string json(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

Bytes read_bytes(const std::string& path) {
  const std::string text = read_text(path);
  return {text.begin(), text.end()};
}

void write_file(const std::string& path, const Bytes& data) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) throw std::runtime_error(path + ": cannot be written");
}

// Facts of a module, read from its SPIR-V.
struct SpirvFacts {
  std::vector<std::string> kernels;
  std::set<std::string> exchanging;  // kernels that use their sub-group's operations or the index in it
  bool fp64 = false;
  std::string_view assembly;  // the instruction set that assembly in it needs
  int images = 0;
};

constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kOpEntryPoint = 15, kOpCapability = 17, kOpFunction = 54, kOpFunctionEnd = 56, kOpFunctionCall = 57,
                   kOpLoad = 61, kOpDecorate = 71, kOpAssembly = 5610;
// Of assembly that names a tile, of that whose operands are AVX-512's registers, and of other assembly. All processors
// with one of them have what assembly in kernels needs of the next.
constexpr std::string_view kTileAssembly = "amx", kWideAssembly = "avx512bf16", kNarrowAssembly = "avx2";

// Calls instruction(opcode, words) for each instruction of the SPIR-V whose header is at `at`, to the last function's
// end.
template <class F> void each_instruction(const Bytes& content, size_t at, F instruction) {
  uint32_t last = 0;
  for (size_t i = at + 20; i + 4 <= content.size();) {
    uint32_t word = 0;
    std::memcpy(&word, content.data() + i, 4);
    const uint32_t op = word & 0xffff, words = word >> 16;
    if (words == 0 || i + 4 * words > content.size() || (last == kOpFunctionEnd && op != kOpFunction)) break;
    std::vector<uint32_t> operands(std::max(words, 4u));  // as many as are looked at
    std::memcpy(operands.data(), content.data() + i, 4 * words);
    instruction(op, operands);
    i += 4 * words;
    last = op;
  }
}

// OpGroupAll to OpGroupSMax, OpGroupNonUniform*, and SPV_INTEL_subgroups.
bool of_sub_group(uint32_t op) {
  return (op >= 261 && op <= 271) || (op >= 333 && op <= 366) || (op >= 5571 && op <= 5576);
}

// The instruction set of assembly, whose code and constraints are texts from word 5 on. AVX-512's registers have the
// constraint v.
std::string_view set_of_assembly(const std::vector<uint32_t>& w) {
  const std::string_view texts(reinterpret_cast<const char*>(w.data() + 5), 4 * (w.size() - 5));
  const size_t code = texts.find('\0');
  if (texts.substr(0, code).find("tmm") != std::string_view::npos) return kTileAssembly;
  std::istringstream constraints(std::string(texts.substr((code / 4 + 1) * 4)).c_str());
  for (std::string each; std::getline(constraints, each, ',');)
    if (each == "v" || each == "=v") return kWideAssembly;
  return kNarrowAssembly;
}

void inspect_image(const Bytes& content, size_t at, SpirvFacts& facts) {
  constexpr uint32_t kKernelModel = 6, kFloat64 = 10, kBuiltIn = 11, kLaneInSubGroup = 41;
  std::map<uint32_t, std::string> kernels;
  std::map<uint32_t, std::set<uint32_t>> callers;
  std::set<uint32_t> lanes;
  std::vector<uint32_t> exchanging;
  uint32_t function = 0;
  each_instruction(content, at, [&](uint32_t op, const std::vector<uint32_t>& w) {
    if (op == kOpCapability && w[1] == kFloat64) facts.fp64 = true;
    if (op == kOpAssembly && facts.assembly != kTileAssembly) {
      const std::string_view set = set_of_assembly(w);
      if (facts.assembly.empty() || set != kNarrowAssembly) facts.assembly = set;
    }
    if (op == kOpDecorate && w[2] == kBuiltIn && w[3] == kLaneInSubGroup) lanes.insert(w[1]);
    if (op == kOpEntryPoint && w[1] == kKernelModel) {
      const char* text = reinterpret_cast<const char*>(w.data() + 3);
      const std::string name(text, strnlen(text, 4 * (w.size() - 3)));
      constexpr std::string_view prefix = "__sycl_kernel_";
      if (name.starts_with(prefix)) kernels[w[2]] = name.substr(prefix.size());
    }
    if (op == kOpFunction) function = w[2];
    if (op == kOpFunctionCall) callers[w[3]].insert(function);
    if (of_sub_group(op) || (op == kOpLoad && lanes.contains(w[3]))) exchanging.push_back(function);
  });
  std::set<uint32_t> known(exchanging.begin(), exchanging.end());
  while (!exchanging.empty()) {
    const uint32_t f = exchanging.back();
    exchanging.pop_back();
    if (const auto kernel = kernels.find(f); kernel != kernels.end()) facts.exchanging.insert(kernel->second);
    for (const uint32_t caller : callers[f])
      if (known.insert(caller).second) exchanging.push_back(caller);
  }
  for (const auto& [id, name] : kernels) facts.kernels.push_back(name);
}

SpirvFacts inspect(const Bytes& content) {
  SpirvFacts facts;
  for (size_t at = 0; at + 20 <= content.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, content.data() + at, 4);
    if (word != kMagic) continue;
    ++facts.images;
    inspect_image(content, at, facts);
  }
  std::sort(facts.kernels.begin(), facts.kernels.end());
  facts.kernels.erase(std::unique(facts.kernels.begin(), facts.kernels.end()), facts.kernels.end());
  return facts;
}

// The log of the driver's compiler for each program of the module.
std::string build_log(const sycl::kernel_bundle<sycl::bundle_state::executable>& bundle, const sycl::device& device) {
  static const auto get = xpu_ops::runtime::opencl_symbol<decltype(clGetProgramBuildInfo)>("clGetProgramBuildInfo");
  if (!get) throw std::runtime_error("the log of the driver's compiler cannot be asked for: no libOpenCL.so.1");
  const cl_device_id id = sycl::get_native<sycl::backend::opencl>(device);
  std::string logs;
  for (const cl_program program : sycl::get_native<sycl::backend::opencl>(bundle)) {
    size_t size = 0;
    if (get(program, id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS) continue;
    std::string log(size, '\0');
    if (get(program, id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr) == CL_SUCCESS) logs += log.c_str();
  }
  return logs;
}

// A kernel that the driver's compiler leaves scalar runs item by item: each exchanges with itself, and results are
// wrong.
void check_vectors(const std::string& log, const std::set<std::string>& exchanging) {
  for (const std::string& kernel : exchanging)
    if (log.find("Kernel \"__sycl_kernel_" + kernel + "\" was not vectorized") != std::string::npos)
      throw std::runtime_error("the compiler of the CPU device gave up on vectors in kernel " + kernel +
                               ", whose items exchange values: the result would be wrong");
}

// The compiler calls a source given as a string rtc_<n>.cpp; its line numbers are those of the string.
std::string with_real_name(const std::string& diagnostics, const std::string& source) {
  static const std::regex name(R"((^|[\s'"(])rtc_\d+\.cpp)");
  return std::regex_replace(diagnostics, name, "$1" + source);
}

class Compiler {
 public:
  Compiler(const sycl::device& device, std::vector<std::string> options)
      : device_(device), context_(device), target_(xpu_ops::runtime::target_key(device)), options_(std::move(options)) {
    constexpr std::string_view flag = "--preamble=";
    const auto given = std::ranges::find_if(options_, [&](const std::string& o) { return o.starts_with(flag); });
    if (given == options_.end()) return;
    std::istringstream names(given->substr(flag.size()));
    for (std::string name; std::getline(names, name, ',');) preamble_ += "#include \"" + name + "\"\n";
    preamble_ += "static_assert(true);\n#line 1\n";  // what the compiler keeps ends before a declaration
    *given = "--auto-pch";
  }

  // One JSON object. Never throws.
  std::string run(const std::string& source, const std::string& prefix, bool wanted) {
    std::string log;
    try {
      int start = cpu_ms();
      const bool portable = source.ends_with(kPortable);
      const Bytes given = portable ? read_bytes(source) : Bytes{};
      const auto object =
          portable ? syclexp::get_kernel_bundle<sycl::bundle_state::object>(
                         context_, {device_}, sycl::span<char>(const_cast<char*>(given.data()), given.size()))
                   : compile(source, log);
      const Bytes spirv = portable ? given : object.ext_oneapi_get_content();
      const int compile_ms = cpu_ms() - start;
      const SpirvFacts facts = inspect(spirv);
      if (facts.kernels.empty()) throw std::runtime_error("no kernel in this module");

      start = cpu_ms();
      Bytes native;  // empty where it is not wanted, and where the target lacks the instruction
      if (wanted && (facts.assembly.empty() || xpu_ops::runtime::isa_has(target_, facts.assembly))) {
        const auto linked = sycl::link(object);
        check_vectors(build_log(linked, device_), facts.exchanging);
        native = xpu_ops::runtime::without_ir(linked.ext_oneapi_get_content());
      }
      const int link_ms = cpu_ms() - start;
      start = cpu_ms();
      if (!native.empty()) check_native(native, facts.kernels);
      const int check_ms = cpu_ms() - start;
      if (!portable) write_file(prefix + kPortable, spirv);
      write_file(prefix + ".native.syclbin", native);

      std::string kernels;
      for (const std::string& k : facts.kernels) kernels += (kernels.empty() ? "" : ",") + json(k);
      return "{\"ok\":true,\"compile_ms\":" + std::to_string(compile_ms) + ",\"link_ms\":" + std::to_string(link_ms) +
             ",\"check_ms\":" + std::to_string(check_ms) + ",\"fp64\":" + (facts.fp64 ? "true" : "false") +
             ",\"images\":" + std::to_string(facts.images) + ",\"target\":" + json(target_) +
             ",\"log\":" + json(with_real_name(log, source)) + ",\"kernels\":[" + kernels + "]}";
    } catch (const std::exception& e) {
      return "{\"ok\":false,\"log\":" + json(with_real_name(std::string(e.what()) + "\n" + log, source)) + "}";
    }
  }

 private:
  static constexpr const char* kPortable = ".spv.syclbin";

  sycl::kernel_bundle<sycl::bundle_state::object> compile(const std::string& source, std::string& log) {
    auto bundle = syclexp::create_kernel_bundle_from_source(context_, syclexp::source_language::sycl,
                                                            preamble_ + read_text(source));
    return syclexp::compile(bundle, syclexp::properties{syclexp::build_options{options_}, syclexp::save_log{&log}});
  }

  // Loads the bytes as the installed library will and asks for every kernel.
  void check_native(const Bytes& native, const std::vector<std::string>& kernels) {
    auto loaded = syclexp::get_kernel_bundle<sycl::bundle_state::executable>(
        context_, {device_}, sycl::span<char>(const_cast<char*>(native.data()), native.size()));
    for (const std::string& name : kernels) {
      if (!loaded.ext_oneapi_has_kernel(name)) throw std::runtime_error("the native code lacks kernel " + name);
      (void)loaded.ext_oneapi_get_kernel(name);
    }
    if (inspect(native).images != 0)
      throw std::runtime_error("the native file still holds SPIR-V: device code was split into several images");
  }

  sycl::device device_;
  sycl::context context_;
  std::string target_;  // what the native code is for
  std::vector<std::string> options_;
  std::string preamble_;
};

}  // namespace

int main(int argc, char** argv) {
  // Answers go to the original stdout; whatever the compiler prints goes to stderr.
  const int answer = dup(STDOUT_FILENO);
  fcntl(answer, F_SETFD, FD_CLOEXEC);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  auto reply = [&](const std::string& line) {
    const std::string text = line + "\n";
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = write(answer, text.data() + done, text.size() - done);
      if (n <= 0) std::exit(3);
      done += static_cast<size_t>(n);
    }
  };
  try {
    const sycl::device device(sycl::cpu_selector_v);
    std::vector<std::string> options(argv + 1, argv + argc);
    if (options == std::vector<std::string>{"--identify"}) {
      reply("{\"target\":" + json(xpu_ops::runtime::target_key(device)) + "}");
      return 0;
    }
    Compiler compiler(device, options);
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream fields(line);
      std::string source, prefix, form;
      std::getline(fields, source, '\t');
      if (!std::getline(fields, prefix, '\t')) continue;
      std::getline(fields, form);
      reply(compiler.run(source, prefix, form != "portable"));
    }
  } catch (const std::exception& e) {
    std::cerr << "kernelc: " << e.what() << "\n";
    return 2;
  }
  return 0;
}
