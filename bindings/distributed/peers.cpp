#include "bindings/distributed/peers.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

namespace xpu_ops::distributed {
namespace {

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

constexpr auto no_store =
    " The store of the group does not answer: the process that keeps it, most often rank 0, may have ended.";

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

Peers::Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::vector<uint64_t> global_ranks)
    : store_(std::move(store)), rank_(rank), size_(size), global_ranks_(std::move(global_ranks)) {
  if (store_) store_->set(process_key(rank), host() + " " + std::to_string(getpid()));
}

std::string Peers::name(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return "rank " + std::to_string(r < global_ranks_.size() ? global_ranks_[r] : r);
}

bool Peers::over(c10d::Store& store, int rank, std::string& who) const {
  if (!store.check({process_key(rank)})) return false;
  const std::string text = store.get_to_str(process_key(rank));
  const size_t space = text.rfind(' ');
  const std::string process = text.substr(space + 1);
  who = "process " + process + " of " + text.substr(0, space);
  return text.substr(0, space) == host() && !alive(static_cast<pid_t>(std::stol(process)));
}

Peers::Lists Peers::ask(c10d::Store& store, const std::vector<int>& ranks, const std::string& key, bool one) const {
  using namespace std::chrono_literals;
  Lists lists;
  for (int attempt = 0; attempt < 40; ++attempt) {
    if (attempt) std::this_thread::sleep_for(50ms);
    lists = {};
    for (int r : ranks) {
      if (r == rank_ || (!key.empty() && store.check({key + std::to_string(r)}))) continue;
      std::string who;
      std::string& list = over(store, r, who) ? lists.gone : lists.quiet;
      list += (list.empty() ? "" : ", ") + name(r) + (who.empty() ? "" : " (" + who + ")");
    }
    if (lists.quiet.empty() || (one && !lists.gone.empty())) break;
  }
  return lists;
}

std::string Peers::missing(const std::string& what) const noexcept {
  if (!store_) return "";
  try {
    // A connection of its own: another thread may wait in the store.
    const c10::intrusive_ptr<c10d::Store> store = store_->clone();
    const std::string key = "xpu_ops/failed/" + what + "/";
    store->set(key + std::to_string(rank_), "1");
    std::vector<int> all(size_);
    std::iota(all.begin(), all.end(), 0);
    const auto [gone, quiet] = ask(*store, all, key, false);
    std::string text;
    if (!gone.empty()) text += " Ended: " + gone + ".";
    if (!quiet.empty()) text += " No word within 2 s from " + quiet + ": late, hanging or still waiting.";
    return text;
  } catch (const std::exception&) { return no_store; }
}

std::string Peers::ended(int peer) const noexcept {
  if (!store_) return "";
  try {
    const c10::intrusive_ptr<c10d::Store> store = store_->clone();
    std::vector<int> ranks(peer < 0 ? size_ : 1, peer);
    if (peer < 0) std::iota(ranks.begin(), ranks.end(), 0);
    const auto [gone, quiet] = ask(*store, ranks, "", true);
    if (!gone.empty()) return " Ended: " + gone + ".";
    return quiet.empty() ? "" : " Not seen to have ended: " + quiet + ", late or hanging.";
  } catch (const std::exception&) { return no_store; }
}

}  // namespace xpu_ops::distributed
