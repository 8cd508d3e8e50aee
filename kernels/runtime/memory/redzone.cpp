#include "kernels/runtime/memory/redzone.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::runtime {
namespace {

constexpr unsigned char kZoneValue = 0xa5;
constexpr size_t kMostZoneTexts = 16;

struct Enclosed {
  size_t bytes;
  Queue* queue;
};

struct Zones {
  std::mutex mutex;
  std::map<void*, Enclosed> blocks;                         // by the user's pointer
  std::array<std::vector<std::string>, kMaxDevices> texts;  // of blocks that were freed
};
Zones& zones() {
  static Zones* s = new Zones;
  return *s;
}

char* before(void* ptr) { return static_cast<char*>(ptr) - kRedzone; }
char* behind(void* ptr, size_t bytes) { return static_cast<char*>(ptr) + bytes; }

void fill_zone(Queue& queue, char* zone) {
  submit_named(queue, {"fill", CommandKind::fill, kRedzone},
               [&](sycl::queue& s) { return s.memset(zone, kZoneValue, kRedzone); });
}

// The zone's bytes that differ, as text; none: empty. Puts the value back.
std::string damage(Queue& queue, char* zone) {
  std::array<unsigned char, kRedzone> found;
  submit_named(queue, {"copy", CommandKind::copy, kRedzone},
               [&](sycl::queue& s) { return s.memcpy(found.data(), zone, kRedzone); });
  queue.wait();
  size_t first = kRedzone, last = 0;
  for (size_t i = 0; i < kRedzone; ++i) {
    if (found[i] == kZoneValue) continue;
    if (first == kRedzone) first = i;
    last = i;
  }
  if (first == kRedzone) return "";
  fill_zone(queue, zone);
  queue.wait();
  return "bytes " + std::to_string(first) + " to " + std::to_string(last);
}

std::string check(void* ptr, const Enclosed& block) {
  std::string text;
  const std::string of = " of a block of " + std::to_string(block.bytes) + " bytes";
  if (std::string found = damage(*block.queue, before(ptr)); !found.empty())
    text += " " + found + " of the " + std::to_string(kRedzone) + " in front" + of + " were written to.";
  if (std::string found = damage(*block.queue, behind(ptr, block.bytes)); !found.empty())
    text += " " + found + " behind the end" + of + " were written to.";
  return text;
}

}  // namespace

bool redzones() noexcept {
  static const bool on = env_flag("XPU_OPS_REDZONE");
  return on;
}

void* enclose(Queue& queue, void* base, size_t bytes) {
  char* ptr = static_cast<char*>(base) + kRedzone;
  if (recording(queue)) return ptr;  // a graph would fill them at each replay
  fill_zone(queue, before(ptr));
  fill_zone(queue, behind(ptr, bytes));
  queue.wait();
  Zones& s = zones();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.blocks[ptr] = {bytes, &queue};
  return ptr;
}

void* disclose(void* ptr) noexcept {
  Zones& s = zones();
  Enclosed block;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const auto it = s.blocks.find(ptr);
    if (it == s.blocks.end()) return before(ptr);
    block = it->second;
    s.blocks.erase(it);
  }
  try {
    if (graphs_recording() == 0) {
      settle(block.queue->device);
      if (std::string text = check(ptr, block); !text.empty()) {
        std::fprintf(stderr, "xpu_ops: XPU_OPS_REDZONE:%s\n", text.c_str());
        std::lock_guard<std::mutex> lock(s.mutex);
        auto& texts = s.texts[static_cast<size_t>(block.queue->device)];
        if (texts.size() < kMostZoneTexts) texts.push_back(text);
      }
    }
  } catch (const std::exception&) {  // the device is gone, and its memory with it
  }
  return before(ptr);
}

void check_redzones(int device) {
  Zones& s = zones();
  if (graphs_recording() > 0) return;
  std::string text;
  std::lock_guard<std::mutex> lock(s.mutex);
  for (const std::string& freed : s.texts[static_cast<size_t>(device)]) text += freed;
  s.texts[static_cast<size_t>(device)].clear();
  for (const auto& [ptr, block] : s.blocks) {
    if (block.queue->device == device) text += check(ptr, block);
  }
  if (!text.empty()) throw Error(ErrorKind::runtime, "XPU_OPS_REDZONE:" + text);
}

}  // namespace xpu_ops::runtime
