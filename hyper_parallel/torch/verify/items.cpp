#include "hyper_parallel/torch/verify/items.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/engine/mutate.h"
#include "hyper_parallel/torch/verify/missing.h"
#include "hyper_parallel/torch/verify/oracle.h"
#include "hyper_parallel/torch/verify/trials.h"

namespace hyper_parallel::torch_layer {
namespace {

using rules::AxisChoice;
using rules::ConcreteRule;

std::string text_of(const std::vector<const Layout*>& inputs,
                    const std::vector<const Layout*>& outputs) {
  std::string out;
  const auto add = [&](const std::vector<const Layout*>& layouts) {
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      out += (i == 0 ? "" : ", ") + (layouts[i] == nullptr ? "-" : layouts[i]->to_string());
    }
  };
  add(inputs);
  out += " -> ";
  add(outputs);
  return out;
}

// One case on one mesh: which items to run, and the parts that they share.
class Planner {
 public:
  Planner(std::size_t which, const VerifyCase& c, const Mesh* mesh, const VerifyOptions& options,
          VerifyReport& report, std::vector<VerifyItem>& items)
      : which_(which),
        c_(c),
        mesh_(mesh),
        options_(options),
        report_(report),
        counts_(report.counts[which]),
        items_(items),
        op_(find_op(c.op)),
        info_(op_info(op_)),
        random_(options.seed * 1000003 + which),
        generator_(at::detail::createCPUGenerator(options.seed * 1000003 + which)) {}

  void run(std::shared_ptr<const Reference>& reference) {
    const rules::Row* row = rules::find_row(c_.op);
    try {
      if (!c_.spec.empty()) {
        row_ = {c_.op.c_str(), c_.spec.c_str()};
      } else if (row != nullptr) {
        row_ = *row;
      } else {
        throw UsageError(
            Message("HP-V002", "no rule for " + c_.op).hint("give one: spec=..., or register it"));
      }
      if (!reference) {
        reference = std::make_shared<Reference>(run_reference(op_, info_, c_, generator_));
      }
      ref_ = reference.get();
      call_ = read();
      rule_ = rules::concretize(row_, call_);
      if (!mutate()) return;
    } catch (const std::exception& e) {
      find("case", c_.label, e.what());
      return;
    }
    if (rule_.outputs.size() != ref_->results.tensors.size()) {
      find("layout", "results",
           "the rule has " + std::to_string(rule_.outputs.size()) + ", the op gives " +
               std::to_string(ref_->results.tensors.size()));
      return;
    }
    // A list op has no strategies of its own: it is many calls in one, and goes through the
    // dispatch.
    if (options_.strategies && rule_.parts.empty()) {
      try {
        force_all();
      } catch (const UsageError& e) {
        find("error", "strategies", e.what());  // a rule that contradicts itself
      }
    }
    const bool own_rule = c_.spec.empty() && c_.mutation.empty();
    if (options_.dispatch && info_.kind == OpInfo::Kind::rule && own_rule) dispatch_all();
    if (options_.missing && mesh_->ndim() == 1 && mesh_->size() == 2) look_for_missing();
  }

 private:
  void find(const char* kind, std::string line, std::string detail) {
    report_.findings.push_back({which_, kind, std::move(line), std::move(detail)});
  }

  rules::Call read() {
    torch::jit::Stack stack = c_.arguments;
    Frame frame(op_, info_, &stack);
    Operands operands;
    PlanKey key;
    read_call(frame, operands, key);
    operands.mesh = mesh_;
    return make_call(frame, operands);
  }

  // False if the rule of this case has no such mutation.
  bool mutate() {
    bool found = c_.mutation.empty();
    for (const rules::Mutation& m : rules::mutations(rule_)) {
      counts_.mutations.push_back(m.what);
      if (m.what != c_.mutation) continue;
      m.change(rule_);
      found = true;
      break;
    }
    return found;
  }

  // ---- Strategies --------------------------------------------------------------------------

  void force_all() {
    std::vector<AxisChoice> one_axis;
    for (const AxisChoice& choice : rules::strategies(rule_)) {
      counts_.table.push_back(rules::to_string(rule_, choice));
      for (AxisChoice& c : with_whole_addends(rule_, choice)) one_axis.push_back(std::move(c));
    }
    std::vector<std::vector<AxisChoice>> sets{{}};
    for (int axis = 0; axis < mesh_->ndim(); ++axis) {
      std::vector<std::vector<AxisChoice>> next;
      for (const auto& set : sets) {
        for (const AxisChoice& c : one_axis) {
          next.push_back(set);
          next.back().push_back(mesh_->size(axis) == 1 ? AxisChoice{} : c);
        }
        if (mesh_->size(axis) == 1) next.resize(next.size() - one_axis.size() + 1);
      }
      sets = std::move(next);
    }
    counts_.drawn |= keep_some(sets, options_.most_choices, random_);
    for (const auto& set : sets) force(set);
  }

  void force(const std::vector<AxisChoice>& choices) {
    // Layouts before the call: one placement an axis, one variant an addend.
    std::vector<std::vector<std::vector<Placement>>> variants{{}};
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      std::vector<std::vector<Placement>> own{{}};
      for (const AxisChoice& choice : choices) {
        std::vector<std::vector<Placement>> next;
        for (const auto& placements : own) {
          for (const Placement& p : before(rule_, i, choice)) {
            next.push_back(placements);
            next.back().push_back(p);
          }
        }
        own = std::move(next);
      }
      std::vector<std::vector<std::vector<Placement>>> all;
      for (const auto& v : variants) {
        for (const auto& placements : own) {
          all.push_back(v);
          all.back().push_back(placements);
        }
      }
      variants = std::move(all);
    }
    for (const auto& placements : variants) {
      Layouts layouts;
      for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
        layouts.push_back(rule_.inputs[i].present ? Layout::get(mesh_, placements[i]) : nullptr);
      }
      try {
        force(choices, layouts);
      } catch (const UsageError& e) {
        find("error", text_of(layouts, {}), e.what());
      }
    }
  }

  void force(const std::vector<AxisChoice>& choices, const Layouts& layouts) {
    VerifyItem item = start();
    item.forced = true;
    item.call = with_layouts(layouts);
    try {
      item.inference = rules::apply(rule_, free_of_pins(item.call), choices);
      for (std::size_t i = 0; i < item.call.inputs.size(); ++i) {
        if (item.call.inputs[i].pinned) item.call.inputs[i].layout = item.inference.inputs[i];
      }
      item.inference = rules::apply(rule_, item.call, choices);
    } catch (const UnsupportedError&) {
      ++counts_.refused;
      return;
    }
    item.given = item.inference.inputs;
    item.outputs = item.inference.outputs;
    item.dynamic = item.inference.dynamic;
    item.random = item.inference.random;
    item.line = text_of(item.given, item.outputs);
    if (!item.inference.handler.empty()) item.line += " ~" + item.inference.handler;
    if (!finish(item)) return;
    if (item.backward) check_gradient_layouts(item);
    ++counts_.forced;
    items_.push_back(std::move(item));
  }

  // An operand that is written keeps its layout, so it must have the strategy's from the start.
  static rules::Call free_of_pins(rules::Call call) {
    for (rules::Operand& o : call.inputs) o.pinned = false;
    return call;
  }

  // The third inference must agree with what is measured: every cotangent in the dual layout.
  void check_gradient_layouts(const VerifyItem& item) {
    Layouts duals;
    for (const Layout* layout : item.outputs) duals.push_back(layout->dual());
    const auto grads = rules::infer_cotangents(rule_, item.call, item.inference, duals);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (grads[i] == nullptr || item.given[i] == nullptr || ref_->differentiable[i] == 0) continue;
      if (grads[i] == item.given[i]->dual()) continue;
      find("gradient layout", item.line,
           "operand " + std::to_string(i) + ": infer_grad says " + grads[i]->to_string() +
               ", the dual is " + item.given[i]->dual()->to_string());
    }
  }

  // ---- Dispatch ----------------------------------------------------------------------------

  void dispatch_all() {
    const TrialLayouts trials =
        trial_layouts(rule_, call_, ref_->operands, mesh_, options_.most_layouts, random_);
    counts_.drawn |= trials.drawn;
    for (const Layouts& set : trials.sets) dispatch(set);
  }

  void dispatch(const Layouts& layouts) {
    if (std::all_of(layouts.begin(), layouts.end(), [](const Layout* l) { return l == nullptr; })) {
      return;
    }
    VerifyItem item = start();
    rules::Inference inference;
    try {
      // Anew: a rule may look at layouts.
      const rules::Call call = with_layouts(layouts);
      inference = rules::infer_forward(rules::concretize(row_, call), call);
    } catch (const UnsupportedError&) {
      ++counts_.refused;
      return;
    }
    item.given = layouts;
    item.outputs = inference.outputs;
    item.dynamic = inference.dynamic;
    item.random = inference.random;
    item.line = "dispatch of " + text_of(layouts, item.outputs);
    if (!inference.handler.empty()) item.line += " ~" + inference.handler;
    if (!finish(item)) return;
    ++counts_.dispatched;
    items_.push_back(std::move(item));
  }

  // ---- Items -------------------------------------------------------------------------------

  VerifyItem start() const {
    VerifyItem item;
    item.which = which_;
    item.c = &c_;
    item.reference = ref_;
    item.op = op_;
    item.info = &info_;
    item.mesh = mesh_;
    return item;
  }

  rules::Call with_layouts(const Layouts& layouts) const {
    rules::Call out = call_;
    for (std::size_t i = 0; i < layouts.size(); ++i) out.inputs[i].layout = layouts[i];
    return out;
  }

  // Cut operands and cotangents. False if the values cannot be told apart into such parts.
  bool finish(VerifyItem& item) {
    item.backward = ref_->backward;
    for (const Layouts* side : {&item.given, &item.outputs}) {
      for (const Layout* layout : *side) {
        if (layout == nullptr) continue;
        if (!oracle::is_clear(layout)) return false;
        item.backward &= oracle::has_dual(layout);
      }
    }
    for (std::size_t i = 0; i < ref_->operands.size(); ++i) {
      const Layout* layout = i < item.given.size() ? item.given[i] : nullptr;
      const at::Tensor& t = ref_->operands[i];
      if (layout != nullptr && !oracle::can_part(t.scalar_type(), layout)) return false;
      item.operand_parts.push_back(layout == nullptr || !t.defined() ? nullptr : cut(t, layout, 1));
    }
    item.given.resize(ref_->operands.size(), nullptr);
    item.outputs.resize(ref_->cotangents.size(), nullptr);
    for (std::size_t k = 0; k < ref_->cotangents.size() && item.backward; ++k) {
      const at::Tensor& t = ref_->cotangents[k];
      const Layout* layout = item.outputs[k];
      item.cotangent_parts.push_back(t.defined() && layout != nullptr
                                         ? cut(t, layout->dual(), oracle::cotangent_scale(layout))
                                         : nullptr);
    }
    return true;
  }

  std::shared_ptr<const VerifyItem::Parts> cut(const at::Tensor& t, const Layout* layout,
                                               double scale) {
    auto& known = parts_[{t.unsafeGetTensorImpl(), layout, scale}];
    if (known) return known;
    VerifyItem::Parts parts = oracle::cut(t, layout, generator_);
    for (at::Tensor& p : parts) {
      if (scale != 1) p = p * scale;
    }
    known = std::make_shared<const VerifyItem::Parts>(std::move(parts));
    return known;
  }

  // ---- Missing -----------------------------------------------------------------------------

  void look_for_missing() {
    if (!c_.missing || rule_.random || !c_.values || !rule_.parts.empty() || call_.inputs.empty())
      return;
    std::vector<KnownLine> known;
    for (const VerifyItem& item : items_) {
      if (item.which == which_ && item.forced) known.push_back({item.given, item.outputs});
    }
    std::vector<char> any;
    for (const rules::TensorMap& map : rule_.inputs) any.push_back(map.shape_only ? 1 : 0);
    MissingResult result =
        find_missing(op_, info_, c_, *ref_, mesh_, known, any, options_.most_trials, generator_);
    counts_.trials += result.trials;
    counts_.drawn |= result.drawn;
    for (std::string& line : result.lines) find("missing", std::move(line), c_.label);
  }

  const std::size_t which_;
  const VerifyCase& c_;
  const Mesh* mesh_;
  const VerifyOptions& options_;
  VerifyReport& report_;
  VerifyReport::Counts& counts_;
  std::vector<VerifyItem>& items_;
  const c10::OperatorHandle op_;
  const OpInfo& info_;
  std::mt19937_64 random_;
  at::Generator generator_;
  rules::Row row_{};
  const Reference* ref_ = nullptr;
  rules::Call call_;
  ConcreteRule rule_;
  std::map<std::tuple<const void*, const Layout*, double>, std::shared_ptr<const VerifyItem::Parts>>
      parts_;
};

}  // namespace

void add_items(std::size_t which, const VerifyCase& c, const Mesh* mesh,
               const VerifyOptions& options, std::shared_ptr<const Reference>& reference,
               VerifyReport& report, std::vector<VerifyItem>& items) {
  Planner(which, c, mesh, options, report, items).run(reference);
}

}  // namespace hyper_parallel::torch_layer
