#include "bindings/distributed/peers.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

namespace xpu_ops::distributed {
namespace {

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string process_key(int rank) { return "xpu_ops/process/" + std::to_string(rank); }

// A process that nobody has waited for yet is gone, too.
bool alive(pid_t process) {
  if (kill(process, 0) != 0) return errno != ESRCH;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() || text[end + 2] != 'Z';
}

}  // namespace

Peers::Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size) {
  if (store_) store_->set(process_key(rank), host() + " " + std::to_string(getpid()));
}

bool Peers::ended(c10d::Store& store, int rank, std::string& who) const {
  if (!store.check({process_key(rank)})) return false;
  const std::string text = store.get_to_str(process_key(rank));
  const size_t space = text.rfind(' ');
  const std::string process = text.substr(space + 1);
  who = "process " + process + " of " + text.substr(0, space);
  return text.substr(0, space) == host() && !alive(static_cast<pid_t>(std::stol(process)));
}

std::string Peers::missing(const std::string& what) const noexcept {
  using namespace std::chrono_literals;
  if (!store_) return "";
  try {
    // A connection of its own: another thread may wait in the store.
    const c10::intrusive_ptr<c10d::Store> store = store_->clone();
    const auto key = [&](int rank) { return "xpu_ops/failed/" + what + "/" + std::to_string(rank); };
    store->set(key(rank_), "1");
    std::vector<int> silent;
    std::string gone, quiet;
    for (int attempt = 0; attempt < 40; ++attempt) {
      silent.clear();
      gone.clear();
      quiet.clear();
      for (int r = 0; r < size_; ++r) {
        if (r == rank_ || store->check({key(r)})) continue;
        std::string who;
        const bool over = ended(*store, r, who);
        if (!over) silent.push_back(r);
        std::string& list = over ? gone : quiet;
        list += (list.empty() ? "" : ", ") + ("rank " + std::to_string(r)) + (who.empty() ? "" : " (" + who + ")");
      }
      if (silent.empty()) break;
      std::this_thread::sleep_for(50ms);
    }
    std::string text;
    if (!gone.empty()) text += " Ended: " + gone + ".";
    if (!quiet.empty()) text += " No word within 2 s from " + quiet + ": late, hanging or still waiting.";
    return text;
  } catch (const std::exception&) {
    return " The store of the group does not answer: the process that keeps it, most often rank 0, may have ended.";
  }
}

}  // namespace xpu_ops::distributed
