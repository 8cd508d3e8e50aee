// Modules that a program will probably want, linked in other processes while it goes on.
#pragma once
#include <string>
#include <vector>

namespace xpu_ops::runtime {

// Of names such as reduction_0010_fp64: "reduction".
std::string family_of(const std::string& module);

// Has processes of their own link the modules into the cache folder, each module by one of them: the driver links one
// at a time per process. They end with this process, and are no children of it. The program xpu_ops/linker is one
// folder above the modules. Does nothing where it is missing, on one core, and under XPU_OPS_LINK_AHEAD=0. Does not
// wait.
void link_ahead(const std::string& module_dir, const std::vector<std::string>& modules, int device);

}  // namespace xpu_ops::runtime
