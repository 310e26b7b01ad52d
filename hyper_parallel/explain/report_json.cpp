#include "hyper_parallel/explain/json_text.h"
#include "hyper_parallel/explain/report.h"

namespace hyper_parallel::explain {
namespace {

std::string row_of(const CommRow& row) {
  std::string axes;
  for (const std::string& axis : row.axes) axes += (axes.empty() ? "" : ", ") + quoted(axis);
  std::string out = "{\"kind\": " + quoted(row.kind) + ", \"axes\": [" + axes +
                    "], \"bytes\": " + std::to_string(row.bytes) +
                    ", \"phase\": " + quoted(row.phase());
  const std::pair<const char*, const std::string&> texts[] = {{"op", row.op},
                                                              {"reason", row.reason},
                                                              {"tensor", row.tensor},
                                                              {"source", row.from},
                                                              {"target", row.to}};
  for (const auto& [name, text] : texts) {
    out += std::string(", \"") + name + "\": " + quoted(text);
  }
  return out + ", \"ranks\": " + std::to_string(row.ranks) +
         ", \"joined\": " + std::to_string(row.joined) + "}";
}

}  // namespace

std::string json(std::span<const CommRow> rows) {
  std::string out = "{\"report\": \"hyper_parallel.comm\", \"version\": 1, \"rows\": [";
  const char* before = "\n  ";
  for (const CommRow& row : rows) {
    out += before + row_of(row);
    before = ",\n  ";
  }
  return out + "\n]}\n";
}

}  // namespace hyper_parallel::explain
