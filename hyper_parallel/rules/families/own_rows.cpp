#include "hyper_parallel/rules/families/own_rows.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::rules {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

const Row* OwnRows::find(std::string_view op) const {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = current_.find(std::string(op));
  return it == current_.end() ? nullptr : &it->second->row;
}

const Compiled* OwnRows::compiled(const Row& row) const {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = by_row_.find(&row);
  return it == by_row_.end() ? nullptr : &it->second->compiled;
}

void OwnRows::add(std::unique_ptr<Entry> entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto before = current_.find(entry->op);
  if (before != current_.end()) {
    if (before->second->spec == entry->spec) return;
    throw UsageError(Message("HP-S045", entry->op + " has another rule of the program's already")
                         .fact("registered", before->second->spec)
                         .fact("given", entry->spec)
                         .hint("unregister_rule takes the first away"));
  }
  all_.push_back(std::move(entry));
  const Entry* added = all_.back().get();
  current_[added->op] = added;
  by_row_[&added->row] = added;
  count_.store(all_.size(), std::memory_order_release);
}

bool OwnRows::remove(std::string_view op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_.erase(std::string(op)) > 0;
}

std::vector<std::string> OwnRows::names() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [name, entry] : current_) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

OwnRows& own_rows() {
  static auto* const instance = new OwnRows;
  return *instance;
}

}  // namespace hyper_parallel::rules
