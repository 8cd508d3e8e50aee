// Links kernel modules into the cache folder for a program that goes on meanwhile
// (kernels/runtime/module/link_ahead.hpp).
//   linker MODULE_DIR DEVICE PROCESSES     names of modules are messages on standard input, a socket
// Starts the processes and ends; they end where the program does.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/module/prelink.hpp"

namespace runtime = xpu_ops::runtime;

namespace {

bool program_is_there() {
  pollfd socket{STDIN_FILENO, POLLIN, 0};
  return poll(&socket, 1, 0) >= 0 && !(socket.revents & (POLLHUP | POLLERR | POLLNVAL));
}

int serve(const char* dir, int device) {
  char name[256];
  for (;;) {
    const ssize_t size = recv(STDIN_FILENO, name, sizeof name, 0);
    if (size <= 0 || !program_is_there()) return 0;
    try {
      runtime::set_module_dir(dir);
      if (device >= runtime::device_count()) return 1;
      runtime::prelink_module(std::string(name, static_cast<size_t>(size)), device);
    } catch (const std::exception&) {}  // the program meets it where it wants the module
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // Nothing is said: the program's terminal and pipes are not held open.
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  setsid();
  for (int i = 0; i < std::atoi(argv[3]); ++i)
    if (fork() == 0) _exit(serve(argv[1], std::atoi(argv[2])));
  _exit(0);
}
