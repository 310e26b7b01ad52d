#include "hyper_parallel/torch/dispatch/handler.h"

#include <string_view>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer {
namespace {

template <void (*kRun)(HandlerCall&)>
void run(const c10::OperatorHandle& op, const OpPlan& plan, torch::jit::Stack* stack) {
  HandlerCall call(op, plan, stack);
  kRun(call);
}

struct Named {
  std::string_view name;
  Handler handler;
};

constexpr Named kHandlers[] = {
    {"argmax", run<handlers::argmax>},
    {"batch_norm", run<handlers::batch_norm>},
    {"cross_entropy", run<handlers::cross_entropy>},
    {"ctc_loss", run<handlers::ctc_loss>},
    {"cumsum", run<handlers::cumsum>},
    {"each", run<handlers::each>},
    {"embedding", run<handlers::embedding>},
    {"embedding_bag", run<handlers::embedding_bag>},
    {"extreme", run<handlers::extreme>},
    {"fused", run<handlers::fused>},
    {"gather", run<handlers::gather>},
    {"halo", run<handlers::halo>},
    {"histogram", run<handlers::histogram>},
    {"index", run<handlers::index>},
    {"index_select", run<handlers::index_select>},
    {"index_write", run<handlers::index_write>},
    {"label_smooth", run<handlers::label_smooth>},
    {"layer_norm", run<handlers::layer_norm>},
    {"linear_addend", run<handlers::linear_addend>},
    {"linear_cross_entropy", run<handlers::linear_cross_entropy>},
    {"log_softmax", run<handlers::log_softmax>},
    {"logsumexp", run<handlers::logsumexp>},
    {"mean", run<handlers::mean>},
    {"mean_loss", run<handlers::mean_loss>},
    {"minmax_dim", run<handlers::minmax_dim>},
    {"nll_loss", run<handlers::nll_loss>},
    {"norm", run<handlers::norm>},
    {"prod", run<handlers::prod>},
    {"rms_norm", run<handlers::rms_norm>},
    {"sdpa", run<handlers::sdpa>},
    {"slice", run<handlers::slice>},
    {"softmax", run<handlers::softmax>},
    {"softmax_cross_entropy", run<handlers::softmax_cross_entropy>},
    {"sort", run<handlers::sort>},
    {"squeeze", run<handlers::squeeze>},
    {"topk", run<handlers::topk>},
    {"var", run<handlers::var>},
};

}  // namespace

Handler find_handler(const std::string& name) {
  for (const Named& h : kHandlers) {
    if (h.name == name) return h.handler;
  }
  throw InternalError(Message("HP-S090", "no handler \"" + name + "\""));
}

}  // namespace hyper_parallel::torch_layer
