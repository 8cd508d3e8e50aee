// The user's folder of natively linked kernel modules: one file per module and target, digest + key + payload, moved
// into place. A file that does not match is removed and made anew.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace xpu_ops::runtime {

// XPU_OPS_CACHE_DIR, else XDG_CACHE_HOME/xpu_ops, else HOME/.cache/xpu_ops; empty where none is set: nothing is cached.
std::string module_cache_dir();

// Empty where the file cannot be read.
std::optional<std::vector<char>> read_file(const std::string& path);

// `key` says all that the payload depends on; `module` only makes the file's name readable.
class ModuleCacheFile {
 public:
  ModuleCacheFile(const std::string& module, const std::string& key);
  // Empty where there is no file; a bad one is removed and warned about once per process.
  std::optional<std::vector<char>> load() const;
  // Failure to write (full or read-only disk) is warned about once and otherwise ignored.
  void store(const std::vector<char>& payload) const;
  void discard(const char* why) const;
  const std::string& path() const { return path_; }

 private:
  std::string key_, path_;
};

// One line on stderr, the first time only for each `once`.
void warn_once(const std::string& once, const std::string& text);

}  // namespace xpu_ops::runtime
