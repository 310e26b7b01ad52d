// Internal to the verifier: many small runs on ranks that are started once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/verify/case.h"

namespace hyper_parallel::torch_layer {

/// One run of one case on all ranks of a mesh.
struct VerifyItem {
  std::size_t which = 0;  // the case
  const VerifyCase* c = nullptr;
  const Reference* reference = nullptr;
  std::optional<c10::OperatorHandle> op;
  const OpInfo* info = nullptr;
  const Mesh* mesh = nullptr;
  std::string line;

  /// Forced: the plan is made from this inference. Else the op is called on DTensors.
  bool forced = false;
  rules::Call call;
  rules::Inference inference;

  std::vector<const Layout*> given;    // of the operands; null: absent, or a plain tensor
  std::vector<const Layout*> outputs;  // what the rule says of the results
  bool dynamic = false;                // sizes of results depend on values
  bool backward = false;
  bool random = false;  // draws numbers

  /// By operand and by result: what each rank holds. Null: nothing.
  using Parts = std::vector<at::Tensor>;
  std::vector<std::shared_ptr<const Parts>> operand_parts;
  std::vector<std::shared_ptr<const Parts>> cotangent_parts;

  /// A rank that fails may leave others waiting in a collective.
  bool meets() const { return !forced || !inference.handler.empty(); }
};

/// What came out of one item.
struct VerifyOutcome {
  std::vector<Finding> findings;
  double error = 0;
  bool backward = false;
};

/// Run all items on `mesh`; a rank that throws or hangs costs its item, not the others.
std::vector<VerifyOutcome> run_items(const std::vector<VerifyItem>& items, const Mesh* mesh,
                                     std::chrono::milliseconds timeout);

}  // namespace hyper_parallel::torch_layer
