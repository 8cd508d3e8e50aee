#include "bindings/aten/core/library.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "kernels/error.hpp"

namespace xpu_ops::aten {
namespace {

struct Entry {
  void (*define)(torch::Library&);
  std::unique_ptr<torch::Library> defined;  // the operators live as long as it
};
std::map<std::string, Entry>& known() {
  static auto* libraries = new std::map<std::string, Entry>;  // never destroyed: torch's dispatcher may be gone by then
  return *libraries;
}

}  // namespace

KnownLibrary::KnownLibrary(const char* name, void (*define)(torch::Library&)) { known()[name].define = define; }

void define_library(const std::string& name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto found = known().find(name);
  if (found == known().end()) throw Error(ErrorKind::value, "no library of the manifest: " + name);
  Entry& entry = found->second;
  if (entry.defined) return;
  auto library =
      std::make_unique<torch::Library>(torch::Library::FRAGMENT, name, std::nullopt, __FILE__, uint32_t{__LINE__});
  entry.define(*library);
  entry.defined = std::move(library);
}

}  // namespace xpu_ops::aten
