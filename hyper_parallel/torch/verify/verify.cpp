#include "hyper_parallel/torch/verify/verify.h"

#include <algorithm>

#include "hyper_parallel/torch/verify/items.h"

namespace hyper_parallel::torch_layer {

VerifyReport verify(const std::vector<VerifyCase>& cases, const std::vector<int>& sizes,
                    const VerifyOptions& options) {
  std::vector<std::string> names;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    names.push_back("x" + std::to_string(axis));
  const Mesh* mesh = Mesh::get(sizes, names);
  VerifyReport report;
  report.counts.resize(cases.size());
  std::vector<std::shared_ptr<const Reference>> references(cases.size());
  std::vector<VerifyItem> items;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    add_items(i, cases[i], mesh, options, references[i], report, items);
  }
  std::vector<VerifyOutcome> outcomes = run_items(items, mesh, options.timeout);
  for (std::size_t n = 0; n < items.size(); ++n) {
    VerifyReport::Counts& counts = report.counts[items[n].which];
    counts.error = std::max(counts.error, outcomes[n].error);
    counts.backward += outcomes[n].backward ? 1 : 0;
    for (Finding& f : outcomes[n].findings) report.findings.push_back(std::move(f));
  }
  return report;
}

}  // namespace hyper_parallel::torch_layer
