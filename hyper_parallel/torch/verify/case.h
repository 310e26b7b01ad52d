// Internal to the verifier: calls, their operands and results, and what the unsplit op gives.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/verify/verify.h"

namespace hyper_parallel::torch_layer {

/// The tensor arguments of a call, lists flattened, undefined where absent.
std::vector<at::Tensor> tensors_of(const OpInfo& info, const torch::jit::Stack& arguments);

/// The same call on other tensors.
torch::jit::Stack with_tensors(const OpInfo& info, const torch::jit::Stack& arguments,
                               const std::vector<at::Tensor>& tensors);

/// The results of a call: tensors, lists flattened, and the rest.
struct Results {
  std::vector<at::Tensor> tensors;
  std::vector<c10::IValue> others;
};
Results results_of(const torch::jit::Stack& stack);

/// True if two results that are no tensors are the same.
bool same_value(const c10::IValue& a, const c10::IValue& b);

/// Random ops draw from this seed, unsplit and on ranks.
constexpr std::uint64_t kVerifySeed = 77;

/// What the unsplit op does.
struct Reference {
  std::vector<at::Tensor> operands;    // before the call, without graph
  std::vector<char> differentiable;    // beside operands
  std::vector<at::Tensor> after;       // operands that the call changed; others undefined
  Results results;                     // without graph
  std::vector<at::Tensor> cotangents;  // beside results.tensors; undefined where no gradient flows
  std::vector<at::Tensor> grads;       // beside operands; undefined where none arrives
  bool backward = false;
  double bound = 0;  // oracle::bound_of all of these
};

/// A leaf for each operand, and what the op is called with: for ops that write a copy, which a
/// leaf is not.
struct Leaves {
  std::vector<at::Tensor> leaves;
  std::vector<at::Tensor> values;
};
Leaves make_leaves(const OpInfo& info, const std::vector<at::Tensor>& operands,
                   const std::vector<char>& differentiable);

/// Run the op. Gradients are taken for all floating operands, else for the first one, else for
/// none, whichever the op allows. Throws what the op throws.
Reference run_reference(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
                        at::Generator& random);

/// The handle of "aten::sum.dim_IntList". Throws UsageError HP-V001 if there is no such op.
c10::OperatorHandle find_op(const std::string& name);

}  // namespace hyper_parallel::torch_layer
