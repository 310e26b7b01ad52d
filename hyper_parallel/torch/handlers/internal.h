#pragma once

#include "hyper_parallel/torch/dispatch/handler_call.h"

/// The handlers themselves; what each does and moves is listed in rules/handlers.h.
namespace hyper_parallel::torch_layer::handlers {

// handlers_linear.cpp
void linear_addend(HandlerCall& c);

// handlers_softmax.cpp
void softmax(HandlerCall& c);
void log_softmax(HandlerCall& c);
void logsumexp(HandlerCall& c);

// handlers_norm.cpp
void layer_norm(HandlerCall& c);
void batch_norm(HandlerCall& c);
void rms_norm(HandlerCall& c);

// handlers_loss.cpp
void cross_entropy(HandlerCall& c);
void nll_loss(HandlerCall& c);
void mean_loss(HandlerCall& c);

// handlers_extra.cpp
void label_smooth(HandlerCall& c);
void softmax_cross_entropy(HandlerCall& c);

// handlers_embedding.cpp
void embedding(HandlerCall& c);
void embedding_bag(HandlerCall& c);

// handlers_counting.cpp
void histogram(HandlerCall& c);

// handlers_tokens.cpp
void ctc_loss(HandlerCall& c);
void linear_cross_entropy(HandlerCall& c);

// handlers_halo.cpp
void halo(HandlerCall& c);

// handlers_gather.cpp
void gather(HandlerCall& c);
void index_select(HandlerCall& c);
void index(HandlerCall& c);

// handlers_write.cpp
void index_write(HandlerCall& c);

// handlers_attention.cpp
void sdpa(HandlerCall& c);

// handlers_select.cpp
void argmax(HandlerCall& c);
void minmax_dim(HandlerCall& c);
void topk(HandlerCall& c);
void sort(HandlerCall& c);

// handlers_reduce.cpp
void mean(HandlerCall& c);
void var(HandlerCall& c);
void norm(HandlerCall& c);
void cumsum(HandlerCall& c);

// handlers_extreme.cpp
void extreme(HandlerCall& c);
void prod(HandlerCall& c);

// handlers_shape.cpp
void slice(HandlerCall& c);
void squeeze(HandlerCall& c);

// handlers_each.cpp
void each(HandlerCall& c);
void fused(HandlerCall& c);

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
