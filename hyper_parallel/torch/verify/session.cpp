#include "hyper_parallel/torch/verify/session.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "hyper_parallel/torch/verify/oracle.h"

namespace hyper_parallel::torch_layer {
namespace {

/// What one rank brings home from one item.
struct RankResult {
  struct Value {
    at::Tensor local;
    const Layout* layout = nullptr;  // null: a plain tensor
    Shape sizes;
  };
  std::vector<Value> results;
  std::vector<c10::IValue> others;
  std::vector<Value> after;       // operands after the call
  std::vector<at::Tensor> grads;  // by operand
  bool backward = false;
  std::string failure;  // not empty: it threw
};

struct Slot {
  std::vector<RankResult> ranks;
  std::atomic<int> arrived{0};
  bool done = false;
  VerifyOutcome outcome;
};

RankResult::Value value_of(const at::Tensor& t) {
  RankResult::Value out;
  if (!t.defined()) return out;
  out.sizes.assign(t.sizes().begin(), t.sizes().end());
  if (!is_dtensor(t)) {
    out.local = t.detach();
    return out;
  }
  out.layout = impl_of(t)->layout();
  out.local = impl_of(t)->local().detach();
  return out;
}

RankResult run_on_rank(const VerifyItem& item, std::size_t rank) {
  const Reference& ref = *item.reference;
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < ref.operands.size(); ++i) {
    const auto& held = item.operand_parts[i];
    parts.push_back(held ? (*held)[rank] : ref.operands[i]);
  }
  std::vector<char> differentiable = ref.differentiable;
  if (!item.backward) std::fill(differentiable.begin(), differentiable.end(), 0);
  const Leaves made = make_leaves(*item.info, parts, differentiable);
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool wrapped = parts[i].defined() && item.given[i] != nullptr;
    operands.push_back(wrapped ? wrap(made.values[i], item.given[i], ref.operands[i].sizes())
                               : made.values[i]);
  }
  torch::jit::Stack stack = with_tensors(*item.info, item.c->arguments, operands);
  if (item.random) seed_rank_stream(kVerifySeed);
  if (item.forced) {
    Frame frame(*item.op, *item.info, &stack);
    Operands read;
    PlanKey key;
    read_call(frame, read, key);
    read.mesh = item.mesh;
    const auto plan = make_plan(frame, read, item.call, item.inference);
    run_plan(frame, *plan, read);
  } else {
    item.op->callBoxed(&stack);
  }

  RankResult out;
  Results results = results_of(stack);
  torch::autograd::variable_list roots;
  torch::autograd::variable_list cotangents;
  for (std::size_t k = 0; k < results.tensors.size(); ++k) {
    const at::Tensor& t = results.tensors[k];
    out.results.push_back(value_of(t));
    if (!item.backward || !t.defined() || k >= item.cotangent_parts.size() ||
        item.cotangent_parts[k] == nullptr) {
      continue;
    }
    const at::Tensor local = is_dtensor(t) ? local_for_use(t) : t;
    // A member of a list that is plain on all ranks stays so: its cotangent is whole there.
    const at::Tensor& cotangent =
        is_dtensor(t) ? (*item.cotangent_parts[k])[rank] : ref.cotangents[k];
    if (!local.requires_grad() || local.sizes() != cotangent.sizes()) continue;
    roots.push_back(local);
    cotangents.push_back(cotangent);
  }
  out.others = std::move(results.others);
  for (const at::Tensor& t : operands) out.after.push_back(value_of(t));
  out.grads.resize(operands.size());
  torch::autograd::variable_list leaves;
  for (const at::Tensor& t : made.leaves) {
    if (t.defined() && t.requires_grad()) leaves.push_back(t);
  }
  if (!item.backward) return out;
  out.backward = true;
  torch::autograd::variable_list grads(leaves.size());
  if (!roots.empty()) {
    grads = torch::autograd::grad(roots, leaves, cotangents, std::nullopt, false, true);
  }
  std::size_t k = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const at::Tensor& leaf = made.leaves[i];
    if (!leaf.defined() || !leaf.requires_grad()) continue;
    out.grads[i] = grads[k].defined() ? grads[k].detach() : at::zeros_like(leaf.detach());
    ++k;
  }
  return out;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", v);
  return text;
}

/// Compares what all ranks brought with the unsplit op.
class Judge {
 public:
  Judge(const VerifyItem& item, const std::vector<RankResult>& ranks, VerifyOutcome& out)
      : item_(item), ref_(*item.reference), ranks_(ranks), out_(out) {}

  void run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].failure.empty()) continue;
      find("error", "rank " + std::to_string(r) + ": " + ranks_[r].failure);
      return;
    }
    for (std::size_t k = 0; k < ref_.results.tensors.size(); ++k) result(k);
    for (const RankResult& r : ranks_) {
      for (std::size_t k = 0; k < ref_.results.others.size(); ++k) {
        if (k < r.others.size() && same_value(r.others[k], ref_.results.others[k])) continue;
        find("forward", "a result that is no tensor differs");
        return;
      }
    }
    for (std::size_t i = 0; i < ref_.after.size(); ++i) {
      if (ref_.after[i].defined()) written(i);
    }
    if (!item_.backward || !out_.findings.empty()) return;
    for (std::size_t i = 0; i < ref_.operands.size(); ++i) gradient(i);
    out_.backward = true;
  }

 private:
  void find(const char* kind, std::string detail) {
    out_.findings.push_back({item_.which, kind, item_.line, std::move(detail)});
  }

  // The layout that all ranks report; nothing if they disagree.
  const Layout* common(std::size_t k, bool after, const std::string& what) {
    const auto& values = [&](const RankResult& r) -> const RankResult::Value& {
      return after ? r.after[k] : r.results[k];
    };
    const Layout* layout = values(ranks_[0]).layout;
    for (const RankResult& r : ranks_) {
      if (values(r).layout == layout && values(r).sizes == values(ranks_[0]).sizes) continue;
      find("layout", what + ": ranks disagree on layout or sizes");
      return nullptr;
    }
    return layout == nullptr ? Layout::replicated(item_.mesh) : layout;
  }

  void check(const char* kind, const std::string& what, const std::vector<at::Tensor>& parts,
             const Layout* layout, const at::Tensor& whole) {
    const oracle::Match match = oracle::compare(parts, layout, whole);
    if (match.problem.empty() && !item_.c->values) return;
    if (match.holds(ref_.bound)) {
      out_.error = std::max(out_.error, match.error);
      return;
    }
    find(kind, what + " as " + layout->to_string() + ": " +
                   (match.problem.empty() ? "error " + number(match.error) : match.problem));
  }

  void result(std::size_t k) {
    const std::string what = "result " + std::to_string(k);
    std::vector<at::Tensor> parts;
    for (const RankResult& r : ranks_) {
      if (k >= r.results.size() ||
          r.results[k].local.defined() != ref_.results.tensors[k].defined()) {
        find("layout", what + " is missing, or there where the op has none");
        return;
      }
      parts.push_back(r.results[k].local);
    }
    const at::Tensor& whole = ref_.results.tensors[k];
    if (!whole.defined()) return;
    const Layout* layout = common(k, false, what);
    if (layout == nullptr) return;
    if (k < item_.outputs.size() && item_.outputs[k] != nullptr && item_.outputs[k] != layout) {
      find("layout", what + " is " + layout->to_string() + ", the rule says " +
                         item_.outputs[k]->to_string());
    }
    const Shape sizes(whole.sizes().begin(), whole.sizes().end());
    if (ranks_[0].results[k].sizes != sizes) {
      find("layout", what + " has sizes " + to_string(ranks_[0].results[k].sizes) +
                         ", the op gives " + to_string(sizes));
      return;
    }
    check("forward", what, parts, layout, whole);
  }

  void written(std::size_t i) {
    const std::string what = "operand " + std::to_string(i) + " after the call";
    const Layout* layout = common(i, true, what);
    if (layout == nullptr) return;
    std::vector<at::Tensor> parts;
    for (const RankResult& r : ranks_) parts.push_back(r.after[i].local);
    check("forward", what, parts, layout, ref_.after[i]);
  }

  void gradient(std::size_t i) {
    if (ref_.differentiable[i] == 0 || !ref_.operands[i].defined()) return;
    const bool plain = item_.given[i] == nullptr;
    const Layout* layout = plain ? Layout::replicated(item_.mesh) : item_.given[i]->dual();
    const double scale = plain ? 1 : oracle::cotangent_scale(item_.given[i]);
    std::vector<at::Tensor> parts;
    for (const RankResult& r : ranks_) {
      parts.push_back(scale == 1 ? r.grads[i] : r.grads[i] / scale);
    }
    const at::Tensor whole =
        ref_.grads[i].defined() ? ref_.grads[i] : at::zeros_like(ref_.operands[i]);
    check("backward", "gradient of operand " + std::to_string(i), parts, layout, whole);
  }

  const VerifyItem& item_;
  const Reference& ref_;
  const std::vector<RankResult>& ranks_;
  VerifyOutcome& out_;
};

std::string first_lines(const std::string& text) {
  const std::size_t end = text.find("\nException raised from");
  return text.substr(0, std::min<std::size_t>(end, 600));
}

class Session {
 public:
  Session(const std::vector<VerifyItem>& items, const Mesh* mesh, std::chrono::milliseconds timeout)
      : items_(items), world_(static_cast<std::size_t>(mesh->size())), timeout_(timeout) {
    for (std::size_t i = 0; i < items.size(); ++i) slots_.emplace_back();
  }

  std::vector<VerifyOutcome> run() {
    for (std::size_t i = 0; i < items_.size(); ++i) todo_.push_back(i);
    while (!todo_.empty()) {
      reset();
      try {
        run_local(static_cast<int>(world_), [this] { rank_loop(); }, {.timeout = timeout_});
      } catch (const std::exception& e) {
        settle(e);
      }
      std::erase_if(todo_, [this](std::size_t i) { return slots_[i].done; });
    }
    std::vector<VerifyOutcome> out;
    for (Slot& slot : slots_) out.push_back(std::move(slot.outcome));
    return out;
  }

 private:
  void reset() {
    for (std::size_t i : todo_) {
      slots_[i].ranks.assign(world_, {});
      slots_[i].arrived = 0;
    }
    at_.assign(world_, 0);
  }

  void rank_loop() {
    const auto rank = static_cast<std::size_t>(current_rank().rank());
    for (std::size_t n = 0; n < todo_.size(); ++n) {
      at_[rank] = n;
      const VerifyItem& item = items_[todo_[n]];
      Slot& slot = slots_[todo_[n]];
      try {
        slot.ranks[rank] = run_on_rank(item, rank);
      } catch (const CommError& e) {
        if (item.meets()) throw;
        slot.ranks[rank].failure = first_lines(e.what());
      } catch (const std::exception& e) {
        slot.ranks[rank].failure = first_lines(e.what());
        if (item.meets()) throw;
      }
      if (slot.arrived.fetch_add(1) + 1 != static_cast<int>(world_)) continue;
      judge(item, slot);
      slot.ranks.clear();
      slot.done = true;
    }
  }

  static void judge(const VerifyItem& item, Slot& slot) {
    try {
      Judge(item, slot.ranks, slot.outcome).run();
    } catch (const std::exception& e) {
      slot.outcome.findings.push_back(
          {item.which, "error", item.line, "comparing: " + first_lines(e.what())});
    }
  }

  // Ranks stopped: find the item that did it.
  void settle(const std::exception& e) {
    bool found = false;
    for (std::size_t i : todo_) {
      Slot& slot = slots_[i];
      if (slot.done) continue;
      for (std::size_t r = 0; r < slot.ranks.size() && !slot.done; ++r) {
        if (slot.ranks[r].failure.empty()) continue;
        slot.outcome.findings.push_back(
            {items_[i].which, "error", items_[i].line,
             "rank " + std::to_string(r) + ": " + slot.ranks[r].failure});
        slot.done = found = true;
      }
    }
    if (found) return;
    const std::size_t i = todo_[*std::min_element(at_.begin(), at_.end())];
    slots_[i].outcome.findings.push_back(
        {items_[i].which, "hang", items_[i].line, first_lines(e.what())});
    slots_[i].done = true;
  }

  const std::vector<VerifyItem>& items_;
  const std::size_t world_;
  const std::chrono::milliseconds timeout_;
  std::deque<Slot> slots_;
  std::vector<std::size_t> todo_;
  std::vector<std::size_t> at_;  // by rank: the item it is at
};

}  // namespace

std::vector<VerifyOutcome> run_items(const std::vector<VerifyItem>& items, const Mesh* mesh,
                                     std::chrono::milliseconds timeout) {
  return Session(items, mesh, timeout).run();
}

}  // namespace hyper_parallel::torch_layer
