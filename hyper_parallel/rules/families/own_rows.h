// Internal: rows that the program registered.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {

/// The words of a row's text, without blanks.
std::vector<std::string_view> words_of(std::string_view text);

/// A row ready to meet calls: a builder with its words, or a parsed notation.
struct Compiled {
  Builder build = nullptr;
  std::vector<std::string_view> words;
  Notation notation;
};

/// Rows live for ever, also those that were replaced: a thread may hold one. Safe for threads.
class OwnRows {
 public:
  struct Entry {
    std::string op;
    std::string spec;
    Row row{};
    Compiled compiled;
  };

  /// Null if there is none.
  const Row* find(std::string_view op) const;
  const Compiled* compiled(const Row& row) const;

  /// Throws UsageError HP-S045: the op has another row of the program's.
  void add(std::unique_ptr<Entry> entry);

  /// False if there was none.
  bool remove(std::string_view op);

  /// Sorted.
  std::vector<std::string> names() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::deque<std::unique_ptr<Entry>> all_;
  std::unordered_map<std::string, const Entry*> current_;
  std::unordered_map<const Row*, const Entry*> by_row_;
};

OwnRows& own_rows();

}  // namespace hyper_parallel::rules
