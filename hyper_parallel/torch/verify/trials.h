// Internal to the verifier: which choices and layouts are tried.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/verify/session.h"

namespace hyper_parallel::torch_layer {

/// One layout an operand; null for a plain or absent one.
using Layouts = std::vector<const Layout*>;

/// `choice`, and where it takes an addend as a partial sum beside others also the same with the
/// addend whole.
std::vector<rules::AxisChoice> with_whole_addends(const rules::ConcreteRule& rule,
                                                  const rules::AxisChoice& choice);

/// What operand `i` must have on an axis before `choice`; two answers for an addend.
std::vector<Placement> before(const rules::ConcreteRule& rule, std::size_t i,
                              const rules::AxisChoice& choice);

/// Keep the first of `from`, where nothing is split, and others at random, `most` in all. True if
/// some had to go.
template <class T>
bool keep_some(std::vector<T>& from, int most, std::mt19937_64& random) {
  if (static_cast<int>(from.size()) <= most) return false;
  std::shuffle(from.begin() + 1, from.end(), random);
  from.resize(static_cast<std::size_t>(most));
  return true;
}

/// Sets of layouts of the operands of one call, for the dispatch.
struct TrialLayouts {
  std::vector<Layouts> sets;
  bool drawn = false;  // there were more than were kept
};

/// `most` sets of R, S and P(sum) in all orders of axes, and a quarter as many with other partial
/// kinds and with plain tensors.
TrialLayouts trial_layouts(const rules::ConcreteRule& rule, const rules::Call& call,
                           const std::vector<at::Tensor>& operands, const Mesh* mesh, int most,
                           std::mt19937_64& random);

}  // namespace hyper_parallel::torch_layer
