#include "hyper_parallel/torch/ranks/local/collective_log.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace hyper_parallel::torch_layer {
namespace {

constexpr std::size_t kSummarised = 4;

std::string list_of(const std::vector<int>& ranks) {
  std::string out = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(ranks[i]);
  }
  return out + "]";
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c == '\t') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

std::string to_string(const Logged& logged) {
  std::string out = "#" + std::to_string(logged.number) + " " + logged.what + " on ranks " +
                    list_of(logged.ranks);
  if (!logged.op.empty()) out += " for " + logged.op;
  return out;
}

std::string signature(const Logged& logged) {
  return logged.same_shape ? logged.what : logged.what.substr(0, logged.what.find('['));
}

std::uint64_t CollectiveLog::add(Logged logged) {
  logged.since = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  logged.number = ++counts_[logged.group];
  if (entries_.size() == kKept) {
    entries_.pop_front();
    ++first_;
  }
  entries_.push_back(std::move(logged));
  return first_ + entries_.size() - 1;
}

void CollectiveLog::change(std::uint64_t entry, Logged::State state) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (entry < first_) return;  // fell out
  Logged& logged = entries_[entry - first_];
  logged.state = state;
  logged.since = now;
}

std::vector<Logged> CollectiveLog::last(std::size_t count) const {
  const std::lock_guard lock(mutex_);
  const std::size_t shown = std::min(count, entries_.size());
  return {entries_.end() - static_cast<std::ptrdiff_t>(shown), entries_.end()};
}

std::map<std::string, std::uint64_t> CollectiveLog::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string CollectiveLog::text() const {
  const auto now = std::chrono::steady_clock::now();
  std::string out;
  for (const Logged& logged : last()) {
    out += to_string(logged);
    if (logged.state == Logged::State::waits) {
      const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - logged.since);
      out += "  waits since " + std::to_string(waited.count()) + " s";
    }
    if (logged.state == Logged::State::issued) out += "  issued";
    if (logged.state == Logged::State::failed) out += "  failed";
    out += "\n";
  }
  return out;
}

std::uint64_t RankNote::count(const std::string& group) const {
  const auto found = counts.find(group);
  return found == counts.end() ? 0 : found->second;
}

const Logged* RankNote::find(const std::string& group, std::uint64_t number) const {
  for (const Logged& each : last) {
    if (each.number == number && each.group == group) return &each;
  }
  return nullptr;
}

std::string to_text(const RankNote& note) {
  std::ostringstream out;
  out << "note\t" << note.beat << "\t" << static_cast<char>(note.state) << "\t"
      << one_line(note.error) << "\n";
  for (const auto& [group, count] : note.counts) out << "group\t" << group << "\t" << count << "\n";
  for (const Logged& each : note.last) {
    out << "last\t" << each.group << "\t" << each.number << "\t" << static_cast<char>(each.state)
        << "\t" << each.same_shape << "\t" << each.what << "\t" << each.op;
    for (const int rank : each.ranks) out << "\t" << rank;
    out << "\n";
  }
  return out.str();
}

std::optional<RankNote> parse_note(const std::string& text) {
  RankNote note;
  std::istringstream lines(text);
  std::string line;
  try {
    while (std::getline(lines, line)) {
      const std::vector<std::string> f = fields_of(line);
      if (f[0] == "note" && f.size() == 4) {
        note.beat = std::stoull(f[1]);
        note.state = static_cast<RankNote::State>(f[2].at(0));
        note.error = f[3];
      } else if (f[0] == "group" && f.size() == 3) {
        note.counts[f[1]] = std::stoull(f[2]);
      } else if (f[0] == "last" && f.size() >= 7) {
        Logged each;
        each.group = f[1];
        each.number = std::stoull(f[2]);
        each.state = static_cast<Logged::State>(f[3].at(0));
        each.same_shape = f[4] == "1";
        each.what = f[5];
        each.op = f[6];
        for (std::size_t i = 7; i < f.size(); ++i) each.ranks.push_back(std::stoi(f[i]));
        note.last.push_back(std::move(each));
      } else {
        return std::nullopt;
      }
    }
  } catch (const std::exception&) {  // no number
    return std::nullopt;
  }
  return note.beat == 0 ? std::nullopt : std::optional(std::move(note));
}

std::string summary(const RankNote& note) {
  std::string out;
  if (note.state == RankNote::State::failed) out = "failed, ";
  if (note.state == RankNote::State::finished) out = "returned, ";
  if (note.last.empty()) return out + "no collective yet";
  const Logged& newest = note.last.back();
  if (newest.state == Logged::State::waits) {
    out += "waits in " + to_string(newest);
  } else {
    out += (newest.state == Logged::State::failed ? "failed in " : "last ") + to_string(newest);
  }
  for (std::size_t i = 1; i < std::min(kSummarised, note.last.size()); ++i) {
    const Logged& each = note.last[note.last.size() - 1 - i];
    out += (i == 1 ? ", before #" : ", #") + std::to_string(each.number) + " " + each.what;
  }
  return out;
}

}  // namespace hyper_parallel::torch_layer
