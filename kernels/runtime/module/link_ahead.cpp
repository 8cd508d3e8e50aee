#include "kernels/runtime/module/link_ahead.hpp"

#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace xpu_ops::runtime {
namespace {

constexpr int kMaxProcesses = 16;

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Starts the processes of a device. A name sent to the socket is received by one of them. -1 where none was started.
int start(const std::string& module_dir, int device) {
  const int processes = std::min(usable_cores() - 1, kMaxProcesses);
  const std::string program = module_dir + "/../linker";
  int ends[2];
  if (processes < 1 || access(program.c_str(), X_OK) != 0 ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  std::string arguments[] = {program, module_dir, std::to_string(device), std::to_string(processes)};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  pid_t pid = 0;
  const bool started = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (started) {
    // It starts the others and ends, so that a program that waits for its children does not wait for them.
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
    return ends[0];
  }
  close(ends[0]);
  return -1;
}

}  // namespace

std::string family_of(const std::string& module) {
  for (size_t at = module.find('_'); at != module.npos; at = module.find('_', at + 1))
    if (std::isdigit(static_cast<unsigned char>(module[at + 1])) || module.compare(at, module.npos, "_fp64") == 0)
      return module.substr(0, at);
  return module;
}

void link_ahead(const std::string& module_dir, const std::vector<std::string>& modules, int device) {
  if (modules.empty()) return;
  if (const char* wanted = std::getenv("XPU_OPS_LINK_AHEAD"); wanted && std::strcmp(wanted, "0") == 0) return;
  static std::mutex mutex;
  static auto* sockets = new std::map<int, int>;  // by device
  std::lock_guard lock(mutex);
  auto found = sockets->find(device);
  if (found == sockets->end()) found = sockets->emplace(device, start(module_dir, device)).first;
  if (found->second < 0) return;
  for (const std::string& name : modules)  // where too many wait already, the rest is left to the program
    if (send(found->second, name.data(), name.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
}

}  // namespace xpu_ops::runtime
