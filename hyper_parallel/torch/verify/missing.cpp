#include "hyper_parallel/torch/verify/missing.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <random>

#include "hyper_parallel/torch/verify/oracle.h"

namespace hyper_parallel::torch_layer {
namespace {

using Placements = std::vector<Placement>;

// Zeros and tensors without elements are R and P(sum) and more: they say nothing.
bool tells(const at::Tensor& t) {
  return t.defined() && t.numel() > 0 && t.ne(0).any().item<bool>();
}

// One set of values of the call: operands in every placement, and the results.
class Values {
 public:
  Values(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
         const Reference& reference, const Mesh* mesh, const std::vector<Placements>& options,
         at::Generator& random)
      : op_(op),
        info_(info),
        c_(c),
        results_(reference.results.tensors),
        bound_(reference.bound),
        mesh_(mesh),
        options_(options) {
    const std::vector<at::Tensor>& operands = reference.operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      parts_.emplace_back();
      for (const Placement& p : options[i]) {
        parts_.back().push_back(operands[i].defined() ? oracle::cut(operands[i], layout(p), random)
                                                      : std::vector<at::Tensor>(2));
      }
    }
  }

  // For each result the placements that it has when operand `i` has its option number choice[i];
  // nothing if the op refuses, or some result has none.
  std::optional<std::vector<Placements>> run(const std::vector<std::size_t>& choice) const {
    std::vector<std::vector<at::Tensor>> results;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::vector<at::Tensor> operands;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        const at::Tensor& t = parts_[i][choice[i]][rank];
        operands.push_back(t.defined() ? t.clone() : t);  // some ops write what no schema says
      }
      torch::jit::Stack stack = with_tensors(info_, c_.arguments, operands);
      try {
        op_.callBoxed(&stack);
      } catch (const std::exception&) {
        return std::nullopt;
      }
      results.push_back(results_of(stack).tensors);
      if (results.back().size() != results_.size()) return std::nullopt;
    }
    std::vector<Placements> out;
    for (std::size_t k = 0; k < results_.size(); ++k) {
      out.push_back(placements_of({results[0][k], results[1][k]}, results_[k]));
      if (out.back().empty()) return std::nullopt;
    }
    return out;
  }

 private:
  const Layout* layout(Placement p) const { return Layout::get(mesh_, std::span(&p, 1)); }

  Placements placements_of(const std::vector<at::Tensor>& parts, const at::Tensor& whole) const {
    Placements out;
    if (!tells(whole)) return {Placement::replicate()};
    if (!parts[0].defined() || !parts[1].defined() || parts[0].dim() != whole.dim() ||
        parts[1].dim() != whole.dim()) {
      return out;
    }
    const auto test = [&](Placement p) {
      if (oracle::compare(parts, layout(p), whole).holds(bound_)) out.push_back(p);
    };
    test(Placement::replicate());
    for (int d = 0; d < whole.dim(); ++d) {
      if (whole.size(d) > 1) test(Placement::shard(d));
    }
    if (oracle::can_part(whole.scalar_type())) test(Placement::partial());
    return out;
  }

  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  const VerifyCase& c_;
  const std::vector<at::Tensor>& results_;
  const double bound_;
  const Mesh* mesh_;
  const std::vector<Placements>& options_;
  std::vector<std::vector<std::vector<at::Tensor>>> parts_;  // operand, option, rank
};

Placements options_of(const at::Tensor& t) {
  Placements out{Placement::replicate()};
  if (!t.defined()) return out;
  for (int d = 0; d < t.dim(); ++d) {
    if (t.size(d) > 1) out.push_back(Placement::shard(d));
  }
  // Parts of an index are no indices.
  if (t.is_floating_point() || t.is_complex()) out.push_back(Placement::partial());
  return out;
}

bool listed(const std::vector<KnownLine>& known, const std::vector<char>& any,
            const std::vector<char>& told, const Placements& inputs, const Placements& outputs) {
  const auto fits = [](const Layout* layout, Placement p) {
    return layout == nullptr || layout->placement(0) == p;
  };
  for (const KnownLine& line : known) {
    bool all = true;
    for (std::size_t i = 0; all && i < inputs.size(); ++i) {
      all = (i < any.size() && any[i] != 0) || fits(line.inputs[i], inputs[i]);
    }
    for (std::size_t k = 0; all && k < outputs.size(); ++k) {
      all = told[k] == 0 || fits(line.outputs[k], outputs[k]);
    }
    if (all) return true;
  }
  return false;
}

std::string text_of(const Placements& inputs, const Placements& outputs) {
  std::string out;
  for (const Placement& p : inputs) out += to_string(p) + " ";
  out += "->";
  for (const Placement& p : outputs) out += " " + to_string(p);
  return out;
}

// Every set of outputs that is common to all values. A result that says nothing counts as R.
std::vector<Placements> common(const std::vector<std::vector<Placements>>& found,
                               const std::vector<char>& told) {
  std::vector<Placements> out{{}};
  for (std::size_t k = 0; k < found[0].size(); ++k) {
    Placements both = told[k] != 0 ? found[0][k] : Placements{Placement::replicate()};
    for (const auto& other : found) {
      if (told[k] == 0) break;
      std::erase_if(both, [&](const Placement& p) {
        return std::find(other[k].begin(), other[k].end(), p) == other[k].end();
      });
    }
    std::vector<Placements> next;
    for (const Placements& set : out) {
      for (const Placement& p : both) {
        next.push_back(set);
        next.back().push_back(p);
      }
    }
    out = std::move(next);
  }
  return out;
}

}  // namespace

MissingResult find_missing(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
                           const Reference& reference, const Mesh* mesh,
                           const std::vector<KnownLine>& known, const std::vector<char>& any,
                           int most_trials, at::Generator& random) {
  at::NoGradGuard no_grad;
  std::vector<Placements> options;
  double count = 1;
  for (const at::Tensor& t : reference.operands) {
    options.push_back(options_of(t));
    count *= static_cast<double>(options.back().size());
  }
  std::vector<Reference> references;
  std::vector<VerifyCase> cases;
  for (const torch::jit::Stack& other : c.others) {
    cases.push_back(c);
    cases.back().arguments = other;
    cases.back().grad = false;
  }
  for (const VerifyCase& other : cases)
    references.push_back(run_reference(op, info, other, random));
  std::vector<Values> values;
  values.emplace_back(op, info, c, reference, mesh, options, random);
  for (std::size_t n = 0; n < cases.size(); ++n) {
    values.emplace_back(op, info, cases[n], references[n], mesh, options, random);
  }

  MissingResult out;
  std::vector<char> told;
  for (std::size_t k = 0; k < reference.results.tensors.size(); ++k) {
    bool all = tells(reference.results.tensors[k]);
    for (const Reference& other : references) all &= tells(other.results.tensors[k]);
    told.push_back(all ? 1 : 0);
  }
  if (std::find(told.begin(), told.end(), 1) == told.end()) return out;
  out.drawn = count > most_trials;
  std::mt19937_64 draw(count > most_trials ? 1 : 0);
  std::vector<std::size_t> choice(options.size(), 0);
  while (true) {
    ++out.trials;
    std::vector<std::vector<Placements>> found;
    for (const Values& v : values) {
      auto one = v.run(choice);
      if (!one) break;
      found.push_back(*std::move(one));
    }
    if (found.size() == values.size()) {
      Placements inputs;
      for (std::size_t i = 0; i < choice.size(); ++i) inputs.push_back(options[i][choice[i]]);
      for (const Placements& outputs : common(found, told)) {
        if (!listed(known, any, told, inputs, outputs))
          out.lines.push_back(text_of(inputs, outputs));
      }
    }
    if (out.drawn) {
      if (out.trials >= most_trials) break;
      for (std::size_t i = 0; i < choice.size(); ++i)
        choice[i] = draw() % 2 == 0 ? 0 : draw() % options[i].size();
      continue;
    }
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == options[i].size()) choice[i++] = 0;
    if (i == choice.size()) break;
  }
  std::sort(out.lines.begin(), out.lines.end());
  out.lines.erase(std::unique(out.lines.begin(), out.lines.end()), out.lines.end());
  return out;
}

}  // namespace hyper_parallel::torch_layer
