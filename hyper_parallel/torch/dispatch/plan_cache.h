#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/dispatch/op_info.h"

namespace hyper_parallel::torch_layer {

/// Run by a handler instead of the op: local inputs, in the layouts that the plan asks for, are on
/// the stack; local results in the plan's output layouts take their place. See handlers.h.
struct OpPlan;
using Handler = void (*)(const c10::OperatorHandle& op, const OpPlan& plan,
                         torch::jit::Stack* stack);

/// All that a call needs once its op, layouts, shapes and arguments were seen before.
struct OpPlan {
  /// How one tensor operand becomes what the local op takes.
  struct Input {
    std::shared_ptr<const plan::Plan> plan;  // null: as it is
    const Layout* layout = nullptr;          // after the plan; null: absent or taken as it is
    std::string reason;
    bool scratch = false;  // written by the schema, not in this call: a copy of it may be given
  };
  /// A non-tensor argument replaced for this rank.
  struct Replaced {
    int argument;
    c10::IValue value;
  };
  std::vector<Input> inputs;  // tensor operands, lists flattened
  std::vector<Replaced> replaced;
  std::vector<const Layout*> outputs;
  std::vector<Shape> output_sizes;  // global
  std::vector<Shape> input_sizes;   // global, beside inputs
  Handler handler = nullptr;
  std::string handler_reason;  // its name, and what a gather would move in its place
  rules::Inference inference;  // for handlers and reports
  const Mesh* mesh = nullptr;
  bool moves = false;        // some input has a plan
  bool dynamic = false;      // output sizes are those of the local results
  bool plain_write = false;  // a plain tensor is written: operands cross the border
  bool replicate = false;    // no rule: run on whole tensors
};

/// The key of a plan: a flat list of words, complete (None, tags, shapes, layouts, policy).
using PlanKey = c10::SmallVector<std::uint64_t, 64>;

/// Plans of one thread, bounded: when full, it starts anew.
class PlanCache {
 public:
  /// The cache of the calling thread. It is emptied when the thread serves another rank context or
  /// when rules were registered since.
  static PlanCache& of_thread();

  const OpPlan* find(const PlanKey& key, std::uint64_t hash) const;
  const OpPlan* insert(const PlanKey& key, std::uint64_t hash, std::unique_ptr<OpPlan> plan);
  std::size_t size() const { return count_; }
  void clear();

  std::uint64_t hits = 0;
  std::uint64_t misses = 0;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    PlanKey key;
    std::shared_ptr<OpPlan> plan;
  };
  static constexpr std::size_t kSlots = 16384;  // a power of two
  static constexpr std::size_t kLimit = 8192;
  std::vector<std::unique_ptr<Entry>> slots_ = std::vector<std::unique_ptr<Entry>>(kSlots);
  // A plan in use by an outer call must outlive a reset.
  std::vector<std::shared_ptr<OpPlan>> retired_;
  std::size_t count_ = 0;
  std::uint64_t generation_ = 0;
};

/// Empty the caches of all threads (each at its next use).
void forget_plans();

}  // namespace hyper_parallel::torch_layer
