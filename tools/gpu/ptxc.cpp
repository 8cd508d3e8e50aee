// Compiles SYCL sources to PTX with the compiler in libsycl-jit.so, which the SYCL runtime calls the same way.
//   ptxc CPU FEATURES PRELUDE [compiler options]
// PRELUDE is a header before every source: the library passes over -include.
// Reads lines "source<TAB>output" and answers each with "ok<TAB>milliseconds" or "failed"; the compiler's text goes to
// stderr. It exits where the library crashes: tools/gpu/ptx.py starts another one.
//
// The SYCL runtime can ask for PTX only where it has a CUDA device, so the library's own entry points are called. Their
// declarations are in no installed header; those below are of intel-sycl-rt 2026.2, sycl-jit/common/include of
// intel/llvm.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

template <class T> struct View {
  const T* data;
  size_t size;
};
template <class T> struct Owned {
  T* data;
  size_t size;
};
struct SourceFile {
  const char* path;
  const char* contents;
};
struct Text { char* chars; };
struct PropertyValue {
  Text name;
  bool is_integer;
  uint32_t integer;
  Owned<uint8_t> bytes;
};
struct PropertySet {
  Text name;
  Owned<PropertyValue> values;
};
enum class Format : uint32_t { spirv = 2, ptx = 3 };
struct Binary {
  Format format;
  uint64_t address_bits;
  const uint8_t* start;
  uint64_t size;
};
struct Image {
  Binary binary;
  Owned<Text> symbols;
  Owned<PropertySet> properties;
};
struct Result {
  uint32_t error;
  Owned<Image> images;
  Text options;
  Owned<char> ir;
  Text log;
  ~Result() {
  }  // NOLINT: a destructor that is not trivial makes the caller pass the result's place, as the library expects
};
using CompileSycl = Result(SourceFile, View<SourceFile>, View<const char*>, View<char> cached_ir, bool save_ir, Format);

// An option of the library: an object with a virtual destructor, a number and a value.
class TextOption {
 public:
  enum Id : int { target_cpu = 1, target_features = 2 };
  TextOption(Id id, std::string_view text) : id_(id), value_{new char[text.size() + 1](), text.size()} {
    std::memcpy(value_.data, text.data(), text.size());
  }
  virtual ~TextOption() = default;

 private:
  [[maybe_unused]] int id_;
  [[maybe_unused]] Owned<char> value_;
};
struct OptionStorage { TextOption* option; };

class Compiler {
 public:
  Compiler(std::string_view cpu, std::string_view features, std::vector<const char*> options)
      : options_(std::move(options)) {
    void* library = dlopen("libsycl-jit.so", RTLD_NOW);
    if (!library) fail(dlerror());
    compile_ = find<CompileSycl>(library, "compileSYCL");
    auto* configure = find<void(OptionStorage&&)>(library, "addToJITConfiguration");
    configure({new TextOption(TextOption::target_cpu, cpu)});
    configure({new TextOption(TextOption::target_features, features)});
    // The library registers the target in its back end, so the front end optimises its first module without it, and
    // inlines nothing of libspirv.
    (void)run("first.cpp",
              "extern \"C\" [[__sycl_detail__::add_ir_attributes_function(\"sycl-nd-range-kernel\", 1)]] "
              "__attribute__((sycl_device)) void first(int*) {}");
  }

  Result run(const std::string& name, const std::string& text) const {
    return compile_({name.c_str(), text.c_str()}, {nullptr, 0}, {options_.data(), options_.size()}, {nullptr, 0}, false,
                    Format::ptx);
  }

 private:
  [[noreturn]] static void fail(const char* text) {
    std::fprintf(stderr, "ptxc: %s\n", text);
    std::exit(2);
  }
  template <class F> static F* find(void* library, const char* name) {
    void* symbol = dlsym(library, name);
    if (!symbol) fail(dlerror());
    return reinterpret_cast<F*>(symbol);
  }
  std::vector<const char*> options_;
  CompileSycl* compile_;
};

// The library links libspirv from /lib/clang, where no file is: it forgets the prefix of the files inside itself.
// Options have linked libspirv before (tools/gpu/ptx.py), so it gets a module without functions.
int open_for_library(const char* path, int flags, int mode) {
  if (!std::string_view(path).starts_with("/lib/clang/"))
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  constexpr std::string_view module = "target triple = \"nvptx64-nvidia-cuda\"\n";
  const int file = memfd_create("libspirv", 0);
  if (file < 0 || ::write(file, module.data(), module.size()) != static_cast<ssize_t>(module.size())) return -1;
  lseek(file, 0, SEEK_SET);
  return file;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool write(const std::string& path, const Owned<Image>& images) {
  if (images.size != 1) {
    std::fprintf(stderr, "ptxc: %zu images instead of one\n", images.size);
    return false;
  }
  const Binary& b = images.data[0].binary;
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(b.start), static_cast<std::streamsize>(b.size));
  return out.good();
}

}  // namespace

extern "C" {
#define PTXC_OPEN(NAME)                         \
  int NAME(const char* path, int flags, ...) {  \
    va_list rest;                               \
    va_start(rest, flags);                      \
    const int mode = va_arg(rest, int);         \
    va_end(rest);                               \
    return open_for_library(path, flags, mode); \
  }
PTXC_OPEN(open)
PTXC_OPEN(open64)
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: ptxc CPU FEATURES PRELUDE [compiler options]\n");
    return 2;
  }
  const Compiler compiler(argv[1], argv[2], {argv + 4, argv + argc});
  const std::string prelude = std::string("#include \"") + argv[3] + "\"\n#line 1\n";
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t tab = line.find('\t');
    const std::string source = line.substr(0, tab), output = line.substr(tab + 1);
    const std::clock_t start = std::clock();
    const Result r = compiler.run("module" + std::to_string(number++) + ".cpp", prelude + read(source));
    if (r.log.chars && *r.log.chars) std::fprintf(stderr, "%s: %s\n", source.c_str(), r.log.chars);
    if (r.error == 0 && write(output, r.images))
      std::printf("ok\t%ld\n", (std::clock() - start) * 1000 / CLOCKS_PER_SEC);
    else
      std::printf("failed\n");
    std::fflush(stdout);
  }
  std::_Exit(0);  // the library's destructors take seconds
}
