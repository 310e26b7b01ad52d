#include "hyper_parallel/rules/engine/mutate.h"

#include <algorithm>
#include <utility>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/engine/cut.h"

namespace hyper_parallel::rules {
namespace {

bool stands_in(const TensorMap& map, int factor) {
  return map.present && std::any_of(map.dims.begin(), map.dims.end(), [&](const auto& dim) {
           return std::find(dim.begin(), dim.end(), factor) != dim.end();
         });
}

class Mutations {
 public:
  explicit Mutations(const ConcreteRule& rule) : rule_(rule) {}

  std::vector<Mutation> all() {
    for (int f = 0; f < static_cast<int>(rule_.factors.size()); ++f) {
      if (rule_.factors[at(f)].size > 1) letter(f);
    }
    trades(&ConcreteRule::inputs, "operand ");
    trades(&ConcreteRule::outputs, "result ");
    for (int i = 0; i < static_cast<int>(rule_.inputs.size()); ++i) operand(i);
    whole();
    return std::move(out_);
  }

 private:
  using Maps = std::vector<TensorMap> ConcreteRule::*;

  void add(std::string what, std::function<void(ConcreteRule&)> change) {
    out_.push_back({std::move(what), std::move(change)});
  }

  void letter(int f) {
    const Factor& factor = rule_.factors[at(f)];
    const std::string& name = factor.name;
    const auto kind = [f](FactorKind k) {
      return [f, k](ConcreteRule& r) { r.factors[at(f)].kind = k; };
    };
    const bool held = std::any_of(rule_.inputs.begin(), rule_.inputs.end(),
                                  [&](const TensorMap& map) { return stands_in(map, f); });
    if (!held) return;
    if (factor.kind == FactorKind::blocked || factor.part) {
      // An operand whose values do not matter may lie as it likes.
      add(name + " may be split", [f](ConcreteRule& r) {
        r.factors[at(f)].kind = FactorKind::pass;
        r.factors[at(f)].part.reset();
      });
      return;
    }
    // The verifier finds by brute force what an op can do as it is, not what handlers, other blocks
    // or other attributes could do.
    if (factor.handler.empty() && factor.block == 1 && rule_.rewrites.empty()) {
      add(name + " must be whole", kind(FactorKind::blocked));
    }
    if (!factor.handler.empty()) {
      add("handler " + factor.handler + " of " + name + " is forgotten",
          [f](ConcreteRule& r) { r.factors[at(f)].handler.clear(); });
    }
    if (factor.block > 1) {
      add("blocks of " + name + " are forgotten",
          [f](ConcreteRule& r) { r.factors[at(f)].block = 1; });
    }
    if (factor.kind == FactorKind::reduce) {
      add(name + " passes instead of being summed", kind(FactorKind::pass));
      const ReduceOp other = factor.reduce == ReduceOp::max ? ReduceOp::min : ReduceOp::max;
      add(name + " gives P(" + std::string(hyper_parallel::to_string(other)) + ")",
          [f, other](ConcreteRule& r) { r.factors[at(f)].reduce = other; });
    }
    loses(f, &ConcreteRule::inputs, "operand ");
    loses(f, &ConcreteRule::outputs, "result ");
  }

  void loses(int f, Maps maps, const char* side) {
    if (holders(f) < 2) return;  // then nothing would be split
    const auto& tensors = rule_.*maps;
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      if (!stands_in(tensors[at(i)], f) || tensors[at(i)].shape_only) continue;
      add(side + std::to_string(i) + " loses " + rule_.factors[at(f)].name,
          [f, i, maps](ConcreteRule& r) {
            for (auto& dim : (r.*maps)[at(i)].dims) std::erase(dim, f);
          });
    }
  }

  std::ptrdiff_t holders(int f) const {
    const auto holds = [f](const TensorMap& map) { return stands_in(map, f); };
    return std::count_if(rule_.inputs.begin(), rule_.inputs.end(), holds) +
           std::count_if(rule_.outputs.begin(), rule_.outputs.end(), holds);
  }

  void trades(Maps maps, const char* side) {
    const auto& tensors = rule_.*maps;
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      const TensorMap& map = tensors[at(i)];
      if (!map.present || map.shape_only || !map.segments.empty()) continue;
      for (std::size_t a = 0; a < map.dims.size(); ++a) {
        for (std::size_t b = a + 1; b < map.dims.size(); ++b) {
          if (map.dims[a].size() != 1 || map.dims[b].size() != 1) continue;
          const Factor& x = rule_.factors[at(map.dims[a][0])];
          const Factor& y = rule_.factors[at(map.dims[b][0])];
          if (map.dims[a] == map.dims[b] || x.size != y.size || x.size <= 1) continue;
          if (x.kind == FactorKind::blocked && y.kind == FactorKind::blocked) continue;
          add(side + std::to_string(i) + ": " + x.name + " and " + y.name + " trade places",
              [=](ConcreteRule& r) {
                std::swap((r.*maps)[at(i)].dims[a], (r.*maps)[at(i)].dims[b]);
              });
        }
      }
    }
  }

  void operand(int i) {
    const TensorMap& map = rule_.inputs[at(i)];
    if (!map.present) return;
    const std::string name = "operand " + std::to_string(i);
    if (map.shape_only) {
      add(name + " counts by its values",
          [i](ConcreteRule& r) { r.inputs[at(i)].shape_only = false; });
      return;
    }
    add(name + (map.linear ? " is not linear" : " is linear"), [i](ConcreteRule& r) {
      TensorMap& m = r.inputs[at(i)];
      m.linear = !m.linear;
      m.addend = m.addend && m.linear;
    });
    // Only where a sum is split does the mark matter.
    const bool sums = std::any_of(rule_.factors.begin(), rule_.factors.end(), [](const Factor& f) {
      return f.kind == FactorKind::reduce && f.size > 1;
    });
    if (map.addend && sums) {
      add(name + " is no addend", [i](ConcreteRule& r) { r.inputs[at(i)].addend = false; });
    }
  }

  void whole() {
    const bool some = std::any_of(rule_.inputs.begin(), rule_.inputs.end(),
                                  [](const TensorMap& map) { return map.present && map.linear; });
    if (some) {
      const PartialRule other =
          rule_.partial == PartialRule::monotone ? PartialRule::linear : PartialRule::monotone;
      const char* kinds = other == PartialRule::linear ? "sums" : "maxima";
      add(std::string("partial ") + kinds + " pass instead",
          [other](ConcreteRule& r) { r.partial = other; });
    }
    for (int n = 0; n < static_cast<int>(rule_.rewrites.size()); ++n) {
      add("attribute " + rule_.rewrites[at(n)].argument + " is not rewritten",
          [n](ConcreteRule& r) { r.rewrites.erase(r.rewrites.begin() + n); });
    }
    if (!rule_.handler.empty()) {
      add("handler " + rule_.handler + " is forgotten", [](ConcreteRule& r) { r.handler.clear(); });
    }
    if (rule_.random) {
      add("each rank draws for itself", [](ConcreteRule& r) { r.random = false; });
    }
  }

  const ConcreteRule& rule_;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<Mutation> mutations(const ConcreteRule& rule) {
  if (!rule.parts.empty()) return {};  // the rules of its parts are other rows
  return Mutations(rule).all();
}

}  // namespace hyper_parallel::rules
