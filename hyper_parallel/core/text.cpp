#include "hyper_parallel/core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel {
namespace {

struct DTypeName {
  std::string_view name;
  int bytes;
};

constexpr std::array<DTypeName, 13> kDTypes = {{{"f64", 8},
                                                {"f32", 4},
                                                {"f16", 2},
                                                {"bf16", 2},
                                                {"i64", 8},
                                                {"i32", 4},
                                                {"i16", 2},
                                                {"i8", 1},
                                                {"u8", 1},
                                                {"bool", 1},
                                                {"c64", 8},
                                                {"c128", 16},
                                                {"other", 1}}};

/// Reads one text from left to right; every failure names the text and the place.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool done() {
    skip_space();
    return at_ == text_.size();
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("\"" + std::string(token) + "\" expected");
  }
  std::string word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '-' || text_[at_] == '.')) {
      ++at_;
    }
    if (at_ == begin) fail("a name expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::int64_t number(std::int64_t least, std::int64_t most) {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail("a number expected");
    if (error != std::errc() || value < least || value > most) {
      fail("a number from " + std::to_string(least) + " to " + std::to_string(most) + " expected");
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  int small_number() {
    return static_cast<int>(
        number(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(Message("HP-T001", what + " at place " + std::to_string(at_))
                         .fact("text", text_)
                         .fact("form", "f32[4096, 1024] on dp=2 tp=4: S(0) R"));
  }
  void finish() {
    if (!done()) fail("nothing more expected");
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// The longest dim that text can name; a sum of two such lengths is far from the end of 64 bits.
constexpr std::int64_t kLongest = std::int64_t{1} << 48;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

// `[a, b]`, each read by `number`.
template <class Number>
void read_list(Reader& in, Number number) {
  in.expect("[");
  if (in.take("]")) return;
  do number();
  while (in.take(","));
  in.expect("]");
}

TensorMeta read_meta(Reader& in) {
  TensorMeta meta;
  meta.dtype = parse_dtype(in.word());
  std::int64_t bytes = bytes_of(meta.dtype);
  read_list(in, [&] {
    meta.sizes.push_back(in.number(0, kLongest));
    const std::int64_t size = std::max<std::int64_t>(meta.sizes.back(), 1);
    if (size > kMostBytes / bytes) in.fail("a tensor of at most 2^62 bytes expected");
    bytes *= size;
  });
  return meta;
}

// Stops before ':' or at the end.
const Mesh* read_mesh(Reader& in) {
  std::vector<int> sizes;
  std::vector<std::string> names;
  std::vector<int> ranks;
  while (true) {
    std::string name = in.word();
    in.expect("=");
    if (name == "ranks") {
      read_list(in, [&] { ranks.push_back(in.small_number()); });
      break;
    }
    names.push_back(std::move(name));
    sizes.push_back(in.small_number());
    Reader ahead = in;
    if (ahead.done() || ahead.take(":")) break;
  }
  return Mesh::get(sizes, names, ranks);
}

// One dim while its axes are read: each with its place in the order of cuts.
struct OpenSplit {
  Split split;
  std::vector<std::pair<std::int64_t, int>> axes;  // place, axis
};

OpenSplit& split_of(std::vector<OpenSplit>& splits, int dim) {
  for (OpenSplit& open : splits) {
    if (open.split.dim == dim) return open;
  }
  return splits.emplace_back(OpenSplit{.split = {.dim = dim}, .axes = {}});
}

// `(dim)`, `(dim, place)`, then options: `; block=64`, `; segments=64|32|32`.
void read_shard(Reader& in, int axis, std::vector<OpenSplit>& splits) {
  in.expect("(");
  OpenSplit& open = split_of(splits, in.small_number());
  const auto count = static_cast<std::int64_t>(open.axes.size());
  open.axes.emplace_back(in.take(",") ? in.number(0, kLongest) : count, axis);
  while (in.take(";")) {
    if (in.take("block=")) {
      if (open.split.block != 1) in.fail("one block a dim expected");
      open.split.block = in.number(1, kLongest);
    } else if (in.take("segments=")) {
      if (!open.split.segments.empty()) in.fail("one list of segments a dim expected");
      do open.split.segments.push_back(in.number(0, kLongest));
      while (in.take("|"));
    } else {
      in.fail("block= or segments= expected");
    }
  }
  in.expect(")");
}

// The splits with their axes in order. The places of one dim must be 0, 1, 2 ...
std::vector<Split> close(const Reader& in, std::vector<OpenSplit> splits) {
  std::vector<Split> out;
  for (OpenSplit& open : splits) {
    std::sort(open.axes.begin(), open.axes.end());
    for (const auto& [place, axis] : open.axes) {
      if (place != static_cast<std::int64_t>(open.split.axes.size())) {
        in.fail("places 0, 1, ... of dim " + std::to_string(open.split.dim) +
                ", each once, expected");
      }
      open.split.axes.push_back(axis);
    }
    out.push_back(std::move(open.split));
  }
  return out;
}

const Layout* read_layout(Reader& in, const Mesh* mesh) {
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  std::vector<OpenSplit> splits;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    if (in.take("R")) continue;
    if (in.take("P")) {
      in.expect("(");
      partials[static_cast<std::size_t>(axis)] = parse_reduce_op(in.word());
      in.expect(")");
    } else if (in.take("S")) {
      read_shard(in, axis, splits);
    } else {
      in.fail("one placement (R, S(dim), P(kind)) for mesh axis \"" + mesh->name(axis) +
              "\" expected");
    }
  }
  return Layout::get(mesh, close(in, std::move(splits)), partials);
}

}  // namespace

std::string_view to_string(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

int bytes_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }

bool is_integral(DType dtype) {
  switch (dtype) {
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return true;
    default:
      return false;
  }
}

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  std::vector<std::string> names;
  for (const DTypeName& d : kDTypes) names.emplace_back(d.name);
  throw UsageError(Message("HP-T002", "unknown element type \"" + std::string(text) + "\"")
                       .fact("types", join(names)));
}

std::int64_t TensorMeta::numel() const {
  std::int64_t out = 1;
  for (std::int64_t s : sizes) out *= s;
  return out;
}

std::string to_string(const Shape& sizes) {
  std::vector<std::string> parts;
  for (std::int64_t s : sizes) parts.push_back(std::to_string(s));
  return "[" + join(parts) + "]";
}

std::string to_string(const TensorMeta& meta) {
  return std::string(to_string(meta.dtype)) + to_string(meta.sizes);
}

TensorMeta parse_meta(std::string_view text) {
  Reader in(text);
  TensorMeta meta = read_meta(in);
  in.finish();
  return meta;
}

const Mesh* parse_mesh(std::string_view text) {
  Reader in(text);
  const Mesh* mesh = read_mesh(in);
  in.finish();
  return mesh;
}

const Layout* parse_layout(const Mesh* mesh, std::string_view text) {
  Reader in(text);
  const Layout* layout = read_layout(in, mesh);
  in.finish();
  return layout;
}

std::string to_string_with_mesh(const Layout* layout) {
  return layout->mesh()->to_string() + ": " + layout->to_string();
}

const Layout* parse_layout(std::string_view text) {
  Reader in(text);
  const Mesh* mesh = read_mesh(in);
  in.expect(":");
  const Layout* layout = read_layout(in, mesh);
  in.finish();
  return layout;
}

std::string to_string(const TensorMeta& meta, const Layout* layout) {
  return to_string(meta) + " on " + to_string_with_mesh(layout);
}

Described parse_described(std::string_view text) {
  Reader in(text);
  TensorMeta meta = read_meta(in);
  in.expect("on");
  const Mesh* mesh = read_mesh(in);
  in.expect(":");
  const Layout* layout = read_layout(in, mesh);
  in.finish();
  return {std::move(meta), layout};
}

}  // namespace hyper_parallel
