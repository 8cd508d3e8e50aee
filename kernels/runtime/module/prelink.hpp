// Modules by name, ahead of the first kernel that needs one.
#pragma once
#include <optional>
#include <string>

namespace xpu_ops::runtime {

// Makes the module's native code be there for later processes: loads the installed or the cached file, or links and
// stores it. Keeps nothing loaded, prints no progress. module_stats counts it.
void prelink_module(const std::string& name, int device);

// The class of installed native modules that is nearest to the device, empty where the build made them for its own
// processor; nothing where the device takes none.
std::optional<std::string> native_class(int device);

}  // namespace xpu_ops::runtime
