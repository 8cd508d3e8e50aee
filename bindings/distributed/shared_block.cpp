// Memory that processes of one host share.
#include "bindings/distributed/shared_block.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "bindings/runtime/mapped_memory.hpp"

namespace xpu_ops::distributed {
namespace {

std::string host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace

SharedBlock::SharedBlock(int file, size_t bytes, int device, int64_t process)
    : file_(file), bytes_(bytes), process_(process) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  if (data_ == MAP_FAILED) {
    close(file);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Cannot map ", bytes, " bytes of shared memory: ", std::strerror(error));
  }
  if (process != getpid()) owner_ = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  name_mapping(data_, bytes, device);
}

SharedBlock::~SharedBlock() {
  forget_mapping(data_);
  munmap(data_, bytes_);
  close(file_);
  if (owner_ >= 0) close(owner_);
}

std::shared_ptr<SharedBlock> SharedBlock::make(size_t bytes, int device) {
  const int file = memfd_create("xpu_ops", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0, "Cannot make shared memory: ", std::strerror(errno));
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(file);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Cannot make ", bytes, " bytes of shared memory: ", std::strerror(error));
  }
  return std::shared_ptr<SharedBlock>(new SharedBlock(file, bytes, device, getpid()));
}

std::shared_ptr<SharedBlock> SharedBlock::map(const BlockAddress& address, int device) {
  TORCH_CHECK(host() == address.host, "Symmetric memory on xpu is memory of one host: process ", address.process,
              " runs on another.");
  const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  TORCH_CHECK(file >= 0, "Cannot open the symmetric memory of process ", address.process, ": ", std::strerror(errno));
  struct stat found = {};
  if (fstat(file, &found) != 0 || static_cast<uint64_t>(found.st_size) != address.bytes) {
    close(file);
    TORCH_CHECK(false, "The symmetric memory of process ", address.process, " is gone.");
  }
  return std::shared_ptr<SharedBlock>(new SharedBlock(file, address.bytes, device, address.process));
}

BlockAddress SharedBlock::address() const {
  BlockAddress out{process_, file_, bytes_, {}};
  std::strncpy(out.host, host().c_str(), sizeof(out.host) - 1);
  return out;
}

bool SharedBlock::abandoned() const noexcept {
  if (owner_ < 0) return false;
  pollfd p{owner_, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

}  // namespace xpu_ops::distributed
