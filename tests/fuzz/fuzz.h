// Random texts with fixed seeds: random bytes, and valid texts that were damaged.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace hyper_parallel::test {

/// The same numbers everywhere (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = (state_ += 0x9e3779b97f4a7c15ULL);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  /// 0 .. count - 1; 0 for none.
  std::size_t below(std::size_t count) {
    return count == 0 ? 0 : static_cast<std::size_t>(next() % count);
  }

  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

/// How long to go on: HP_FUZZ_SECONDS, or `count` rounds if it is not set.
class Rounds {
 public:
  explicit Rounds(int count) : count_(count) {
    if (const char* text = std::getenv("HP_FUZZ_SECONDS")) seconds_ = std::atof(text);
  }

  bool more() {
    ++done_;
    if (seconds_ <= 0) return done_ <= count_;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return spent.count() < seconds_;
  }

  int done() const { return done_ - 1; }

 private:
  int count_;
  int done_ = 0;
  double seconds_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A text made of random bytes, of pieces of valid texts, or of one of them with a few damages.
inline std::string damaged(Random& random, const std::vector<std::string>& valid,
                           const std::vector<std::string>& tokens) {
  static const std::vector<std::string> kNumbers = {"0",
                                                    "-1",
                                                    "1",
                                                    "2",
                                                    "7",
                                                    "2147483648",
                                                    "-2147483649",
                                                    "4294967296",
                                                    "281474976710656",
                                                    "9223372036854775807",
                                                    "-9223372036854775808",
                                                    "99999999999999999999",
                                                    "1e9",
                                                    "0x10",
                                                    "+1"};
  std::string text;
  switch (random.below(8)) {
    case 0:
      for (std::size_t n = random.below(24); n > 0; --n) {
        text += static_cast<char>(random.below(256));
      }
      return text;
    case 1:
      for (std::size_t n = random.below(16); n > 0; --n) text += random.pick(tokens);
      return text;
    default:
      text = random.pick(valid);
  }
  for (std::size_t n = random.below(4); n > 0; --n) {
    const std::size_t at = random.below(text.size() + 1);
    const std::size_t length = random.below(text.size() - at + 1);
    const std::string other = random.pick(valid);
    switch (random.below(7)) {
      case 0:
        text.erase(at, std::min<std::size_t>(length, 3));
        break;
      case 1:
        text.insert(at, random.pick(tokens));
        break;
      case 2:
        text.insert(at, random.pick(kNumbers));
        break;
      case 3:
        text.insert(at, 1, static_cast<char>(random.below(256)));
        break;
      case 4:
        text.insert(at, text.substr(at, length));
        break;
      case 5:
        text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

}  // namespace hyper_parallel::test
