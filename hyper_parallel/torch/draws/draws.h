// The ways in which ops draw; each leaves wrapped results on the stack.
#pragma once

#include "hyper_parallel/torch/dispatch/frame.h"

namespace hyper_parallel::torch_layer::draws {

/// Factors of elements or channels: dropout and its kin, native_dropout.
void dropout(Frame& frame, const OpPlan& plan, Operands& operands);

/// Numbers whose parameters are numbers: uniform_, rand_like ... The operand lends its shape.
void fill(Frame& frame, const OpPlan& plan, Operands& operands);

/// Numbers whose parameters are tensors: bernoulli, normal, and any other op, which runs whole.
void values(Frame& frame, const OpPlan& plan, Operands& operands);

/// Slopes of the elements that are not positive (rrelu in training).
void slopes(Frame& frame, const OpPlan& plan, Operands& operands);

/// Recurrent layers with dropout between them: layer by layer, each op by its own rule.
void layers(Frame& frame, const OpPlan& plan, Operands& operands);

/// Attention with dropout of its weights.
void attention(Frame& frame, const OpPlan& plan, Operands& operands);

/// The op on whole operands; each rank keeps its part of the results.
void whole(Frame& frame, const OpPlan& plan, Operands& operands, bool shape_only);

/// Operand `i` in the layout that the plan asks for; undefined if absent.
at::Tensor local_operand(const OpPlan& plan, const Operands& operands, std::size_t i);

/// Leave `results` on the stack in place of the arguments.
void leave(Frame& frame, std::initializer_list<at::Tensor> results);

}  // namespace hyper_parallel::torch_layer::draws
