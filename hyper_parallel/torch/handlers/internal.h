#pragma once

#include <span>

#include "hyper_parallel/torch/dispatch/handler.h"
#include "hyper_parallel/torch/dispatch/handler_call.h"

namespace hyper_parallel::torch_layer::handlers {

// The handlers of each file, each entry beside its function. What they do and move:
// rules/handlers.h.
std::span<const HandlerEntry> attention_entries();
std::span<const HandlerEntry> counting_entries();
std::span<const HandlerEntry> embedding_entries();
std::span<const HandlerEntry> extra_entries();
std::span<const HandlerEntry> extreme_entries();
std::span<const HandlerEntry> gather_entries();
std::span<const HandlerEntry> halo_entries();
std::span<const HandlerEntry> linear_entries();
std::span<const HandlerEntry> lists_entries();
std::span<const HandlerEntry> loss_entries();
std::span<const HandlerEntry> norm_entries();
std::span<const HandlerEntry> reduce_entries();
std::span<const HandlerEntry> select_entries();
std::span<const HandlerEntry> shape_entries();
std::span<const HandlerEntry> softmax_entries();
std::span<const HandlerEntry> tokens_entries();
std::span<const HandlerEntry> write_entries();

/// `addend` on rank 0 of the axes where `result` is P(sum) and `layout` (null: plain) is not, zeros
/// on the other ranks.
at::Tensor counted_once(const at::Tensor& addend, const Layout* layout, const Layout* result,
                        const Mesh* mesh);

/// Softmax and its log over a dim cut by `axes`, in the type of `x`, which must not be a half type.
at::Tensor split_softmax(const at::Tensor& x, std::int64_t dim, const Mesh* mesh,
                         const std::vector<int>& axes);
at::Tensor split_log_softmax(const at::Tensor& x, std::int64_t dim, const Mesh* mesh,
                             const std::vector<int>& axes);

/// The largest value along `dims` over all ranks of `axes`, dims kept; -inf where there is none.
/// No gradient.
at::Tensor split_max(const at::Tensor& x, c10::ArrayRef<std::int64_t> dims, const Mesh* mesh,
                     const std::vector<int>& axes);

}  // namespace hyper_parallel::torch_layer::handlers
