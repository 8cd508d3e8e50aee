#include "kernels/runtime/module/module_cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

namespace xpu_ops::runtime {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[8] = {'X', 'P', 'U', 'O', 'P', 'S', 'M', '1'};

// FNV-1a (Fowler, Noll, Vo): guards against damage. What others could write is not read at all.
uint64_t fnv1a(const char* data, size_t size, uint64_t hash = 0xcbf29ce484222325u) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3u;
  return hash;
}

std::string hex(uint64_t v) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(v));
  return buffer;
}

struct Header {
  char magic[8];
  uint64_t digest;  // of key and payload
  uint64_t key_size;
  uint64_t payload_size;
};

uint64_t digest_of(const std::string& key, const char* payload, size_t size) {
  return fnv1a(payload, size, fnv1a(key.data(), key.size()));
}

// Why code from a file or folder is not run: somebody else could have put it there. Empty where nobody could.
std::string distrust(const std::string& path) {
  struct stat s;
  if (stat(path.c_str(), &s) != 0) return "";
  if (s.st_uid != geteuid() && s.st_uid != 0) return "it belongs to user " + std::to_string(s.st_uid);
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return "others can write to it";
  return "";
}

}  // namespace

void warn_once(const std::string& once, const std::string& text) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>;
  {
    std::lock_guard lock(mutex);
    if (!seen->insert(once).second) return;
  }
  std::fprintf(stderr, "xpu_ops: warning: %s\n", text.c_str());
}

std::string module_cache_dir() {
  if (const char* dir = std::getenv("XPU_OPS_CACHE_DIR"); dir && *dir) return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir && *dir) return std::string(dir) + "/xpu_ops";
  if (const char* dir = std::getenv("HOME"); dir && *dir) return std::string(dir) + "/.cache/xpu_ops";
  return {};
}

ModuleCacheFile::ModuleCacheFile(const std::string& module, const std::string& key) : key_(key) {
  const std::string dir = module_cache_dir();
  if (dir.empty()) return;
  if (const std::string why = distrust(dir); !why.empty()) {
    warn_once("module cache folder", "the cache folder " + dir + " is not used: " + why +
                                         ". Run `chmod go-w` on it, or " +
                                         "set XPU_OPS_CACHE_DIR to a folder of your own.");
    return;
  }
  path_ = dir + "/" + module + "-" + hex(fnv1a(key.data(), key.size())) + ".bin";
}

std::optional<std::vector<char>> read_file(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return std::nullopt;
  std::vector<char> bytes(size);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  return bytes;
}

std::optional<std::vector<char>> ModuleCacheFile::load() const {
  if (path_.empty()) return std::nullopt;
  const auto file = read_file(path_);
  if (!file) return std::nullopt;
  if (const std::string why = distrust(path_); !why.empty()) {
    discard(why.c_str());
    return std::nullopt;
  }
  const std::vector<char>& data = *file;
  Header h;
  if (data.size() < sizeof h) {
    discard("it is truncated");
    return std::nullopt;
  }
  std::memcpy(&h, data.data(), sizeof h);
  const size_t body = data.size() - sizeof h;
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.key_size > body || h.payload_size != body - h.key_size) {
    discard("it is truncated or not a module");
    return std::nullopt;
  }
  const std::string key(data.data() + sizeof h, h.key_size);
  const char* payload = data.data() + sizeof h + h.key_size;
  if (digest_of(key, payload, h.payload_size) != h.digest) {
    discard("its digest does not match");
    return std::nullopt;
  }
  if (key != key_) {
    discard("it was made for another target");
    return std::nullopt;
  }
  return std::vector<char>(payload, payload + h.payload_size);
}

void ModuleCacheFile::store(const std::vector<char>& payload) const {
  if (path_.empty()) return;
  static std::atomic<unsigned> counter{0};
  const std::string temporary = path_ + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".tmp";
  std::error_code ec;
  const fs::path folder = fs::path(path_).parent_path();
  // Whatever the umask: only the user writes to a folder and to files that are run.
  if (fs::create_directories(folder, ec))
    fs::permissions(folder, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove, ec);
  Header h;
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.digest = digest_of(key_, payload.data(), payload.size());
  h.key_size = key_.size();
  h.payload_size = payload.size();
  {
    std::ofstream out(temporary, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(key_.data(), static_cast<std::streamsize>(key_.size()));
    out.write(payload.data(), static_cast<std::streamsize>(payload.size()));
    out.close();
    if (out) fs::permissions(temporary, fs::perms::owner_read | fs::perms::owner_write, ec);
    if (out && !ec) fs::rename(temporary, path_, ec);
    if (out && !ec) return;
  }
  std::error_code ignored;
  fs::remove(temporary, ignored);
  warn_once("module cache store", "cannot write " + path_ + "; kernels will be linked again in the next process. Set " +
                                      "XPU_OPS_CACHE_DIR to a folder that can be written.");
}

void ModuleCacheFile::discard(const char* why) const {
  std::error_code ignored;
  fs::remove(path_, ignored);
  warn_once("module cache discard",
            "the cached kernel module " + path_ + " was removed and is made again: " + why + ".");
}

}  // namespace xpu_ops::runtime
