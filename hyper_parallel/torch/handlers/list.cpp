#include <algorithm>
#include <string>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer {
namespace {

// An entry for lists joins that of the same name for single tensors.
std::vector<HandlerEntry> collected() {
  namespace h = handlers;
  std::vector<HandlerEntry> out;
  for (const auto entries :
       {h::attention_entries(), h::counting_entries(), h::embedding_entries(), h::extra_entries(),
        h::extreme_entries(), h::gather_entries(), h::halo_entries(), h::linear_entries(),
        h::lists_entries(), h::loss_entries(), h::norm_entries(), h::reduce_entries(),
        h::select_entries(), h::shape_entries(), h::softmax_entries(), h::tokens_entries(),
        h::write_entries()}) {
    for (const HandlerEntry& entry : entries) {
      const auto it = std::find_if(out.begin(), out.end(),
                                   [&](const HandlerEntry& e) { return e.name == entry.name; });
      if (it == out.end()) {
        out.push_back(entry);
        continue;
      }
      check_internal((it->run == nullptr) != (entry.run == nullptr),
                     "two handlers " + std::string(entry.name));
      if (entry.run != nullptr) it->run = entry.run;
      if (entry.run_list != nullptr) it->run_list = entry.run_list;
    }
  }
  std::sort(out.begin(), out.end(),
            [](const HandlerEntry& a, const HandlerEntry& b) { return a.name < b.name; });
  return out;
}

void check_names(const std::vector<HandlerEntry>& entries) {
  std::vector<std::string_view> here;
  std::vector<std::string_view> known;
  for (const HandlerEntry& e : entries) {
    if (e.run != nullptr) here.push_back(e.name);
  }
  for (const rules::HandlerInfo& info : rules::handlers()) {
    if (!info.of_members) known.push_back(info.name);
  }
  std::vector<std::string_view> one_side;
  std::set_symmetric_difference(here.begin(), here.end(), known.begin(), known.end(),
                                std::back_inserter(one_side));
  if (one_side.empty()) return;
  throw InternalError(Message("HP-S090", "handler \"" + std::string(one_side.front()) +
                                             "\" has a price or a function, not both"));
}

}  // namespace

std::span<const HandlerEntry> handler_entries() {
  static const auto* const entries = [] {
    auto made = collected();
    check_names(made);
    return new std::vector<HandlerEntry>(std::move(made));
  }();
  return *entries;
}

// Both sides are compared when the library is loaded.
[[maybe_unused]] const std::span<const HandlerEntry> kAtLoad = handler_entries();

const HandlerEntry& find_handler(std::string_view name) {
  for (const HandlerEntry& e : handler_entries()) {
    if (e.name == name) return e;
  }
  throw InternalError(Message("HP-S090", "no handler \"" + std::string(name) + "\""));
}

}  // namespace hyper_parallel::torch_layer
