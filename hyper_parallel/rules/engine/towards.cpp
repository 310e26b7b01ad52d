// Joint inference: what goes into an op and where its results shall be, weighed together.

#include "hyper_parallel/rules/engine/towards.h"

#include <limits>
#include <optional>
#include <tuple>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double bytes_between(const Layout* from, const Layout* to, const TensorMeta& meta) {
  if (from == nullptr || to == nullptr || from == to) return 0;
  if (equivalent(from, to, meta.sizes)) return 0;
  for (std::int64_t size : meta.sizes) {
    if (size < 0) return kNever;  // known after the run only
  }
  try {
    return plan::redistribute(from, to, meta)->bytes;
  } catch (const UnsupportedError&) {
    return kNever;
  }
}

class SearchTowards {
 public:
  SearchTowards(const ConcreteRule& rule, const Call& call, std::span<const Layout* const> wanted)
      : rule_(rule), call_(call), wanted_(wanted), states_(read_operands(rule, call)) {}

  Inference run() {
    read_factors();
    chosen_.resize(at(call_.mesh->ndim()));
    descend(0);
    if (!best_) fail();
    return *std::move(best_);
  }

 private:
  // In total, number of results that must change, before the op.
  using Price = std::tuple<double, int, double>;

  // Only factors that some operand or wanted result has split can help, and sums where a result
  // is wanted partial.
  void read_factors() {
    used_.assign(rule_.factors.size(), 0);
    for (const OperandState& state : states_) {
      for (const auto& [factor, cut] : state.cuts) used_[at(factor)] = 1;
    }
    bool partial = false;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] == nullptr) continue;
      partial |= wanted_[i]->has_partial();
      for (const Split& split : wanted_[i]->splits()) {
        if (split.dim >= static_cast<int>(rule_.outputs[i].dims.size())) continue;
        for (const auto& [factor, cut] :
             decompose(rule_, rule_.outputs[i], split, call_.mesh).cuts) {
          used_[at(factor)] = 1;
        }
      }
    }
    for (std::size_t f = 0; f < used_.size(); ++f) {
      const Factor& factor = rule_.factors[f];
      if (partial && factor.kind == FactorKind::reduce) used_[f] = 1;
      if (factor.kind == FactorKind::blocked || factor.size <= 1) used_[f] = 0;
    }
  }

  std::vector<AxisChoice> list(int axis) const {
    std::vector<AxisChoice> out;
    if (call_.mesh->size(axis) > 1) {
      for (std::size_t f = 0; f < used_.size(); ++f) {
        if (used_[f] == 0) continue;
        AxisChoice choice;
        choice.kind = AxisChoice::Kind::factor;
        choice.factor = static_cast<int>(f);
        out.push_back(std::move(choice));
      }
      for (AxisChoice& choice : partial_choices(rule_, call_, states_, axis)) {
        out.push_back(std::move(choice));
      }
    }
    out.emplace_back();
    return out;
  }

  void descend(int axis) {
    if (axis == call_.mesh->ndim()) return weigh();
    for (const AxisChoice& choice : list(axis)) {
      chosen_[at(axis)] = choice;
      descend(axis + 1);
    }
  }

  void weigh() {
    auto made = assemble(rule_, call_, states_, chosen_, {}, &why_);
    if (!made) return;
    Inference answer = finish(rule_, call_, states_, chosen_, *std::move(made));
    double before = answer.bytes;  // of which the operands' part is only estimated
    for (Change& change : answer.changes) {
      before -= change.bytes;
      change.bytes = bytes_between(change.from, change.to, call_.inputs[at(change.input)].meta);
      before += change.bytes;
    }
    answer.bytes = before;
    double after = 0;
    int changed = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] == nullptr || !rule_.outputs[i].present) continue;
      if (answer.outputs[i] == wanted_[i]) continue;
      ++changed;
      after += bytes_between(answer.outputs[i], wanted_[i], result_meta(i));
    }
    const Price price = {before + after, changed, before};
    if (before + after == kNever || (best_ && price >= price_)) return;
    price_ = price;
    best_ = std::move(answer);
  }

  TensorMeta result_meta(std::size_t i) const {
    for (const Operand& operand : call_.inputs) {
      if (operand.present && !is_integral(operand.meta.dtype)) {
        return {.sizes = rule_.outputs[i].sizes, .dtype = operand.meta.dtype};
      }
    }
    return {.sizes = rule_.outputs[i].sizes, .dtype = DType::i64};
  }

  [[noreturn]] void fail() const {
    Message message("HP-S034", call_.op + ": no strategy leads to these results");
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] == nullptr) continue;
      message.fact("result " + std::to_string(i), to_string_with_mesh(wanted_[i]));
    }
    if (!why_.empty()) message.fact("last tried", why_);
    throw UnsupportedError(message.hint("ask for another layout and redistribute the result"));
  }

  const ConcreteRule& rule_;
  const Call& call_;
  std::span<const Layout* const> wanted_;
  std::vector<OperandState> states_;
  std::vector<char> used_;  // beside factors
  std::vector<AxisChoice> chosen_;
  std::optional<Inference> best_;
  Price price_;
  std::string why_;
};

}  // namespace

Inference infer_towards(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted) {
  check_internal(call.mesh != nullptr, call.op + ": the call names no mesh");
  if (!rule.parts.empty()) {
    throw UnsupportedError(Message("HP-S035", call.op + ": no inference from results for list ops")
                               .hint("ask for each element by the op without _foreach_"));
  }
  if (wanted.size() > rule.outputs.size()) {
    throw UsageError(Message("HP-S033", call.op + ": wrong number of result layouts")
                         .fact("needed", std::to_string(rule.outputs.size()))
                         .fact("given", std::to_string(wanted.size())));
  }
  return SearchTowards(rule, call, wanted).run();
}

}  // namespace hyper_parallel::rules
