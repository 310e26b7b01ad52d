#include "hyper_parallel/torch/ranks/watch.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <sstream>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hyper_parallel::torch_layer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kSent = 16;   // entries of a note
constexpr std::size_t kPeers = 64;  // ranks looked at in one beat
constexpr std::size_t kShown = 16;  // ranks in an error
constexpr int kSilentChecks = 4;    // a process that was stopped itself needs a moment
constexpr const char* kVerdict = "verdict";
constexpr const char* kHint =
    "all ranks of a group must call the same collectives in the same order";

std::string key_of(int rank) { return "rank" + std::to_string(rank); }

std::string name_of(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return out;
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string seconds(milliseconds time) {
  std::ostringstream out;
  out << static_cast<double>(time.count()) / 1000 << " s";
  return out.str();
}

/// A message as it travels: the code, then the text behind "[code] ".
std::string pack(const Message& message) {
  return message.code() + "\n" + message.text().substr(message.code().size() + 3);
}

}  // namespace

Watch::Watch(int rank, int size, c10::intrusive_ptr<c10d::Store> store,
             const c10::intrusive_ptr<c10d::ProcessGroup>& world, WatchSettings settings)
    : rank_(rank),
      size_(size),
      settings_(std::move(settings)),
      store_(std::move(store)),
      world_(world),
      last_beat_(steady_clock::now()),
      thread_([this] { run(); }) {}

Watch::~Watch() { finish(); }

void Watch::run() {
  bool answers = true;
  while (true) {
    bool stop = false, broken = false;
    {
      std::unique_lock lock(mutex_);
      if (world_.expired() && state_ == RankNote::State::runs) state_ = RankNote::State::finished;
      stop = stop_ || world_.expired();
      broken = broken_;
    }
    try {
      if (answers) {
        publish();
        if (!failed_) look(broken);
      }
    } catch (const std::exception&) {
      answers = false;  // the process that holds the store is gone
    }
    if (!answers && !failed_) {  // that matters to those that wait
      for (const Logged& each : log_.last()) broken |= each.state == Logged::State::waits;
      if (broken) {
        adopt(pack(Message("HP-C014", "rank 0 died, or the launcher that holds the store")));
      }
    }
    std::unique_lock lock(mutex_);
    last_beat_ = steady_clock::now();
    ++beats_;
    done_ = stop;
    changed_.notify_all();
    if (stop) return;
    const std::uint64_t beat = beats_;
    changed_.wait_for(lock, broken && !failed_ ? settings_.beat() / 4 : settings_.beat(),
                      [&] { return stop_ || (beat == beats_ && hurry_); });
    hurry_ = false;
  }
}

RankNote Watch::own_note() {
  RankNote note;
  note.last = log_.last(kSent);
  note.counts = log_.counts();
  const std::lock_guard lock(mutex_);
  note.beat = beats_ + 1;
  note.state = state_;
  note.error = error_;
  return note;
}

void Watch::publish() { store_->set(key_of(rank_), bytes_of(to_text(own_note()))); }

std::optional<RankNote> Watch::read(int rank) {
  const std::string key = key_of(rank);
  if (!store_->check({key})) return std::nullopt;  // `get` would wait for it
  const std::vector<std::uint8_t> bytes = store_->get(key);
  std::optional<RankNote> note = parse_note({bytes.begin(), bytes.end()});
  Seen& seen = seen_[rank];
  if (note && note->beat != seen.beat) seen = {note->beat, steady_clock::now()};
  return note;
}

bool Watch::silent(int rank) const {
  const auto seen = seen_.find(rank);
  return seen != seen_.end() && seen->second.beat > 0 &&
         steady_clock::now() - seen->second.at > settings_.silence();
}

void Watch::look(bool broken) {
  if (store_->check({kVerdict})) {
    const std::vector<std::uint8_t> bytes = store_->get(kVerdict);
    adopt({bytes.begin(), bytes.end()});
    return;
  }
  // A neighbour each beat: where values fit by chance, ranks that disagree do not even wait.
  const int neighbour = (rank_ + 1) % size_;
  if (const std::optional<RankNote> note = read(neighbour)) {
    compare({}, {{neighbour, *note}}, own_note());
  }
  const auto now = steady_clock::now();
  for (const Logged& each : log_.last()) {
    if (failed_) return;
    const bool waits =
        each.state == Logged::State::waits && now - each.since > settings_.patience();
    if (waits || (broken && each.state != Logged::State::done)) look_at(each, broken);
  }
}

// Entries of one group with one number must be the same collective.
void Watch::compare(const std::vector<int>& ranks, const Notes& notes, const RankNote& mine) {
  for (const Logged& entry : mine.last) {
    std::map<std::string, std::vector<int>> brought;
    for (const auto& [rank, note] : notes) {
      if (const Logged* other = note.find(entry.group, entry.number)) {
        brought[signature(*other)].push_back(rank);
      }
    }
    brought[signature(entry)].push_back(rank_);
    if (brought.size() == 1) continue;
    // Whom to name: those that differ from most.
    auto most = brought.begin();
    for (auto each = brought.begin(); each != brought.end(); ++each) {
      if (each->second.size() > most->second.size()) most = each;
    }
    std::vector<int> odd;
    std::size_t agreeing = 0;
    for (auto each = brought.begin(); each != brought.end(); ++each) {
      if (each->second.size() == most->second.size()) ++agreeing;
      if (each != most) odd.insert(odd.end(), each->second.begin(), each->second.end());
    }
    // The majority is right, so ask all.
    Notes all = notes;
    if (ranks.empty() && entry.ranks.size() > 2) {
      for (const int rank : entry.ranks) {
        if (rank == rank_ || all.count(rank) > 0 || all.size() >= kPeers) continue;
        if (std::optional<RankNote> note = read(rank)) all[rank] = std::move(*note);
      }
      compare(entry.ranks, all, mine);
      return;
    }
    std::sort(odd.begin(), odd.end());
    const std::string number = "collective #" + std::to_string(entry.number) + " of ranks " +
                               name_of(entry.ranks).substr(6);
    Message message("HP-C001",
                    agreeing == 1 ? name_of(odd) + " did not bring the collective of the others (" +
                                        number + ")"
                                  : "ranks do not bring the same collective (" + number + ")");
    for (const auto& [what, who] : brought) {
      std::vector<int> sorted = who;
      std::sort(sorted.begin(), sorted.end());
      message.fact(name_of(sorted), what);
    }
    all[rank_] = mine;
    decide(std::move(message), all);
    return;
  }
}

void Watch::look_at(const Logged& mine, bool broken) {
  Notes notes;
  std::vector<int> absent, silent_ones;
  // Of a large group a part each time.
  const std::size_t members = mine.ranks.size();
  const std::size_t start = members > kPeers ? (beats_ * kPeers) % members : 0;
  const std::string what = to_string(mine);
  const auto waits = [&](int rank) { return name_of({rank_}) + " waits for " + name_of({rank}); };
  for (std::size_t i = 0; i < std::min(members, kPeers); ++i) {
    const int rank = mine.ranks[(start + i) % members];
    if (rank == rank_) continue;
    std::optional<RankNote> note = read(rank);
    if (!note || note->count(mine.group) < mine.number) absent.push_back(rank);
    if (!note) continue;
    if (silent(rank) && note->state == RankNote::State::runs) silent_ones.push_back(rank);
    notes[rank] = std::move(*note);
  }
  const RankNote own = own_note();
  compare(mine.ranks, notes, own);
  if (failed_) return;
  notes[rank_] = own;
  for (const auto& [rank, note] : notes) {
    const bool lacks = broken || note.count(mine.group) < mine.number;
    if (note.state == RankNote::State::failed && lacks) {
      decide(Message("HP-C003", name_of({rank}) + " " + note.error).fact("needed in", what), notes);
      return;
    }
  }
  if (!silent_ones.empty()) {
    decide(Message("HP-C014", name_of(silent_ones) + " died or was stopped")
               .fact("no sign for", seconds(settings_.silence()))
               .fact("needed in", what),
           notes);
    return;
  }
  for (const auto& [rank, note] : notes) {
    if (note.state == RankNote::State::finished && note.count(mine.group) < mine.number) {
      decide(Message("HP-C004", waits(rank) + ", which has returned")
                 .fact("needed in", what)
                 .hint(kHint),
             notes);
      return;
    }
  }
  const auto waited = steady_clock::now() - mine.since;
  if (!broken && waited > settings_.progress && !absent.empty()) {
    decide(Message("HP-C002", name_of({rank_}) + " waited " + seconds(settings_.progress) +
                                  " for " + name_of(absent))
               .fact("needed in", what)
               .hint(kHint),
           notes);
  }
}

void Watch::decide(Message message, const Notes& notes) {
  std::size_t shown = 0;
  for (const auto& [rank, note] : notes) {
    if (shown++ < kShown) message.fact("rank " + std::to_string(rank), summary(note));
  }
  const std::string text = pack(message);
  // Another rank may have been first: one verdict for all.
  const auto bytes = store_->compareSet(kVerdict, {}, bytes_of(text));
  adopt({bytes.begin(), bytes.end()});
}

void Watch::adopt(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (!verdict_.empty()) return;
    verdict_ = text;
    verdict_at_ = steady_clock::now();
    failed_ = true;
    changed_.notify_all();
  }
  if (settings_.log_directory.empty()) return;
  std::ofstream file(settings_.log_directory + "/collectives.rank" + std::to_string(rank_) +
                     ".txt");
  file << text.substr(text.find('\n') + 1) << "\n" << log_.text();
}

void Watch::throw_if_failed() {
  if (!failed_.load(std::memory_order_acquire)) return;
  std::unique_lock lock(mutex_);
  // The store may go with this process: the others read the verdict first.
  while (steady_clock::now() < verdict_at_ + settings_.patience()) {
    changed_.wait_until(lock, verdict_at_ + settings_.patience());
  }
  const std::size_t end = verdict_.find('\n');
  throw CommError(Message(verdict_.substr(0, end), verdict_.substr(end + 1)));
}

void Watch::check_wait(int& silent) {
  throw_if_failed();
  {
    const std::lock_guard lock(mutex_);
    const bool late = !done_ && steady_clock::now() - last_beat_ > settings_.silence();
    silent = late ? silent + 1 : 0;
  }
  if (silent < kSilentChecks) return;
  adopt(pack(Message("HP-C014", "rank 0 was stopped, or the launcher that holds the store")
                 .fact("no answer for", seconds(settings_.silence()))));
  throw_if_failed();
}

void Watch::explain(const std::string& collective, const std::string& error) {
  {
    std::unique_lock lock(mutex_);
    broken_ = hurry_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, 2 * settings_.death, [&] { return failed_ || done_; });
  }
  throw_if_failed();
  adopt(pack(Message("HP-C015", "a link broke, and no rank is known to have failed")
                 .fact("in", collective)
                 .fact("seen", error.substr(0, error.find('\n')))));
  throw_if_failed();
  throw CommError(Message("HP-C015", "a link broke"));  // not reached
}

void Watch::note_failure(const std::string& error, bool final) {
  std::unique_lock lock(mutex_);
  state_ = error.empty() ? RankNote::State::runs : RankNote::State::failed;
  error_ = error;
  if (error.empty() || failed_ || done_) return;
  const std::uint64_t before = beats_;
  hurry_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, settings_.patience(), [&] { return beats_ > before + 1 || done_; });
  if (!final || failed_ || done_) return;
  lock.unlock();
  try {
    const std::string text = pack(Message("HP-C003", name_of({rank_}) + " " + error)
                                      .fact("rank " + std::to_string(rank_), summary(own_note())));
    const auto bytes = store_->compareSet(kVerdict, {}, bytes_of(text));
    adopt({bytes.begin(), bytes.end()});
    // The store may go with this process: let the others read it first.
    std::this_thread::sleep_for(settings_.patience());
  } catch (const std::exception&) {  // the store is gone: nobody can be told
  }
}

void Watch::finish() {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return;
  if (state_ == RankNote::State::runs) state_ = RankNote::State::finished;
  stop_ = true;
  changed_.notify_all();
  const bool ended = changed_.wait_for(lock, settings_.death, [&] { return done_; });
  lock.unlock();
  if (!ended) return;  // a thread that hangs in the store keeps this object
  thread_.join();
  if (rank_ != 0 || state_ != RankNote::State::finished || failed_) return;
  // The store may go with rank 0: those that still wait for it read first that it returned.
  const auto end = steady_clock::now() + settings_.patience() + settings_.beat();
  try {
    for (int rank = 1; rank < size_ && steady_clock::now() < end;) {
      const std::optional<RankNote> note = read(rank);
      if (!note || note->state != RankNote::State::runs) {
        ++rank;
      } else {
        std::this_thread::sleep_for(settings_.beat() / 8);
      }
    }
  } catch (const std::exception&) {  // the store is gone
  }
}

}  // namespace hyper_parallel::torch_layer
