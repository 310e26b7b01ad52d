#include "hyper_parallel/core/mesh.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <unordered_map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/hash.h"

namespace hyper_parallel {
namespace {

std::string list_text(const std::vector<int>& values) {
  std::vector<std::string> parts;
  for (int v : values) parts.push_back(std::to_string(v));
  return "[" + join(parts) + "]";
}

// A mesh lists its ranks, so a slip of the keyboard must not ask for all memory.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

// The product of sizes, those below 1 counted as 0.
std::int64_t count_ranks(const std::vector<int>& sizes) {
  std::int64_t count = 1;
  for (int size : sizes) {
    count *= std::max(size, 0);
    if (count > kMostRanks) {
      throw UsageError(
          Message("HP-M014", "a mesh has at most 1048576 ranks").fact("sizes", list_text(sizes)));
    }
  }
  return count;
}

void check(const std::vector<int>& sizes, const std::vector<std::string>& names,
           const std::vector<int>& ranks) {
  if (sizes.empty()) throw UsageError(Message("HP-M001", "a mesh needs at least one axis"));
  if (names.size() != sizes.size()) {
    throw UsageError(Message("HP-M002", "a mesh needs one name an axis")
                         .fact("sizes", list_text(sizes))
                         .fact("names", join(names)));
  }
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    if (!plain || name == "None" || name == "ranks") {
      throw UsageError(Message("HP-M003", "\"" + name + "\" cannot be the name of a mesh axis")
                           .hint("use letters, digits, '_', '-', '.'; not \"None\" or \"ranks\""));
    }
    if (!seen.insert(name).second) {
      throw UsageError(Message("HP-M004", "mesh axis \"" + name + "\" is named twice"));
    }
  }
  for (int size : sizes) {
    if (size < 1) {
      throw UsageError(
          Message("HP-M005", "axis size must be at least 1").fact("sizes", list_text(sizes)));
    }
  }
  if (count_ranks(sizes) != static_cast<std::int64_t>(ranks.size())) {
    throw UsageError(Message("HP-M006", "the rank list does not fill the mesh")
                         .fact("sizes", list_text(sizes))
                         .fact("ranks", std::to_string(ranks.size())));
  }
  std::set<int> members;
  for (int rank : ranks) {
    if (rank < 0 || !members.insert(rank).second) {
      throw UsageError(Message(
          "HP-M007", "rank " + std::to_string(rank) + " is negative or listed twice in a mesh"));
    }
  }
}

struct MeshTable {
  std::mutex mutex;
  std::unordered_multimap<std::size_t, std::unique_ptr<const Mesh>> meshes;
};

MeshTable& mesh_table() {
  static MeshTable* const instance = new MeshTable;  // never destroyed: layouts point into it
  return *instance;
}

}  // namespace

Mesh::Mesh(std::vector<int> sizes, std::vector<std::string> names, std::vector<int> ranks)
    : sizes_(std::move(sizes)), names_(std::move(names)), ranks_(std::move(ranks)) {
  std::size_t h = 0x6d657368;
  for (int v : sizes_) hash_combine(h, static_cast<std::size_t>(v));
  for (const std::string& n : names_) hash_combine(h, std::hash<std::string>{}(n));
  for (int v : ranks_) hash_combine(h, static_cast<std::size_t>(v));
  hash_ = h;
}

const Mesh* Mesh::get(const std::vector<int>& sizes, const std::vector<std::string>& names,
                      const std::vector<int>& ranks) {
  std::vector<int> members = ranks;
  if (members.empty()) {
    members.resize(static_cast<std::size_t>(count_ranks(sizes)));
    std::iota(members.begin(), members.end(), 0);
  }
  check(sizes, names, members);
  std::unique_ptr<const Mesh> mesh(new Mesh(sizes, names, std::move(members)));
  MeshTable& t = mesh_table();
  std::lock_guard<std::mutex> lock(t.mutex);
  auto [begin, end] = t.meshes.equal_range(mesh->hash());
  for (auto it = begin; it != end; ++it) {
    const Mesh& m = *it->second;
    if (m.sizes_ == mesh->sizes_ && m.names_ == mesh->names_ && m.ranks_ == mesh->ranks_) return &m;
  }
  const std::size_t key = mesh->hash();
  return t.meshes.emplace(key, std::move(mesh))->second.get();
}

int Mesh::axis(std::string_view name) const {
  for (int i = 0; i < ndim(); ++i) {
    if (names_[static_cast<std::size_t>(i)] == name) return i;
  }
  Message message("HP-M010", "no mesh axis named \"" + std::string(name) + "\"");
  message.fact("mesh", to_string()).fact("axes", join(names_));
  throw UsageError(message);
}

int Mesh::size(const std::vector<int>& axes) const {
  int out = 1;
  for (int axis : axes) out *= size(axis);
  return out;
}

std::optional<std::vector<int>> Mesh::coordinate(int rank) const {
  const auto it = std::find(ranks_.begin(), ranks_.end(), rank);
  if (it == ranks_.end()) return std::nullopt;
  auto index = static_cast<int>(it - ranks_.begin());
  std::vector<int> out(sizes_.size());
  for (int i = ndim() - 1; i >= 0; --i) {
    out[static_cast<std::size_t>(i)] = index % size(i);
    index /= size(i);
  }
  return out;
}

std::vector<int> Mesh::group(const std::vector<int>& axes, int rank) const {
  const auto here = coordinate(rank);
  if (!here) {
    throw UsageError(Message("HP-M011", "rank " + std::to_string(rank) + " is not in the mesh")
                         .fact("mesh", to_string()));
  }
  int count = 1;
  for (int axis : axes) count *= size(axis);
  std::vector<int> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int k = 0; k < count; ++k) {
    std::vector<int> at = *here;
    int rest = k;
    for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
      at[static_cast<std::size_t>(*it)] = rest % size(*it);
      rest /= size(*it);
    }
    int index = 0;
    for (int i = 0; i < ndim(); ++i) index = index * size(i) + at[static_cast<std::size_t>(i)];
    out.push_back(ranks_[static_cast<std::size_t>(index)]);
  }
  return out;
}

const Mesh* Mesh::sub_mesh(const std::vector<std::string>& names, int rank) const {
  std::vector<int> axes;
  std::vector<int> sizes;
  for (const std::string& name : names) {
    axes.push_back(axis(name));
    sizes.push_back(size(axes.back()));
  }
  return get(sizes, names, group(axes, rank));
}

const Mesh* Mesh::flatten(const std::vector<std::string>& names, std::string name) const {
  if (names.empty()) throw UsageError(Message("HP-M012", "flatten needs at least one axis"));
  const int first = axis(names.front());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (axis(names[i]) != first + static_cast<int>(i)) {
      throw UsageError(Message("HP-M013", "axes to flatten must be adjacent and in mesh order")
                           .fact("mesh", to_string())
                           .fact("axes", join(names)));
    }
  }
  if (name.empty()) name = join(names, "_");
  std::vector<int> sizes;
  std::vector<std::string> out_names;
  for (int i = 0; i < ndim(); ++i) {
    if (i == first) {
      sizes.push_back(1);
      out_names.push_back(name);
    }
    if (i >= first && i < first + static_cast<int>(names.size())) {
      sizes.back() *= size(i);
    } else {
      sizes.push_back(size(i));
      out_names.push_back(this->name(i));
    }
  }
  return get(sizes, out_names, ranks_);
}

std::string Mesh::to_string() const {
  std::vector<std::string> parts;
  for (int i = 0; i < ndim(); ++i) parts.push_back(name(i) + "=" + std::to_string(size(i)));
  std::string out = join(parts, " ");
  for (int i = 0; i < size(); ++i) {
    if (ranks_[static_cast<std::size_t>(i)] != i) return out + " ranks=" + list_text(ranks_);
  }
  return out;
}

}  // namespace hyper_parallel
