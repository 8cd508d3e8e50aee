// Memory that processes of one host share: an anonymous file that each of them maps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace xpu_ops::distributed {

// Where another process finds a block.
struct BlockAddress {
  int64_t process = 0, file = 0;
  uint64_t bytes = 0;
  char host[64] = {};  // the boot of the machine
};

class SharedBlock {
 public:
  // Zeroed memory for a device index, in a new file.
  static std::shared_ptr<SharedBlock> make(size_t bytes, int device);
  // The block of another process, for a device index of this one.
  static std::shared_ptr<SharedBlock> map(const BlockAddress& address, int device);
  ~SharedBlock();  // the device has finished with it
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  BlockAddress address() const;
  // Whether the process that made the block has ended.
  bool abandoned() const noexcept;

 private:
  SharedBlock(int file, size_t bytes, int device, int64_t process);
  int file_, owner_ = -1;  // the latter a descriptor of the other process
  size_t bytes_;
  int64_t process_;
  void* data_ = nullptr;
};

}  // namespace xpu_ops::distributed
