#include "hyper_parallel/rules/handlers.h"

#include <algorithm>
#include <array>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/cost.h"

namespace hyper_parallel::rules {
namespace {

constexpr double kFloat = 4;  // statistics travel as f32
constexpr double kIndex = 8;

double all_reduce(double bytes, int n) { return plan::all_reduce_bytes(n, bytes); }

double count(const Shape& sizes) {
  double out = 1;
  for (std::int64_t s : sizes) out *= static_cast<double>(s);
  return out;
}

// Elements of the first operand, with the split factor counted once: one a row.
double rows(const ConcreteRule& rule, int factor) {
  double out = 1;
  for (const auto& dim : rule.inputs[0].dims) {
    for (int f : dim) {
      if (f != factor) out *= static_cast<double>(rule.factors[static_cast<std::size_t>(f)].size);
    }
  }
  return out;
}

double results(const ConcreteRule& rule) {
  return rule.outputs.empty() ? 1 : count(rule.outputs[0].sizes);
}

double element(const Call& call) { return bytes_of(call.inputs[0].meta.dtype); }

double two_statistics(const ConcreteRule& rule, const Call&, int factor, int n) {
  return 2 * all_reduce(kFloat * rows(rule, factor), n);
}
double one_statistic(const ConcreteRule& rule, const Call&, int factor, int n) {
  return all_reduce(kFloat * rows(rule, factor), n);
}
double three_statistics(const ConcreteRule& rule, const Call&, int factor, int n) {
  return 3 * all_reduce(kFloat * rows(rule, factor), n);
}
double channel_statistics(const ConcreteRule& rule, const Call&, int, int n) {
  const Shape& sizes = rule.inputs[0].sizes;
  return all_reduce(3 * kFloat * static_cast<double>(sizes.size() > 1 ? sizes[1] : 1), n);
}
double moments(const ConcreteRule& rule, const Call&, int, int n) {
  return all_reduce(3 * kFloat * results(rule), n);
}
double result_sum(const ConcreteRule& rule, const Call&, int, int n) {
  return all_reduce(kFloat * results(rule), n);
}
double result_sum_twice(const ConcreteRule& rule, const Call&, int, int n) {
  return 2 * all_reduce(kFloat * results(rule), n);
}
double winners(const ConcreteRule& rule, const Call& call, int, int n) {
  return plan::all_gather_bytes(n, (element(call) + kIndex) * results(rule));
}
double products(const ConcreteRule& rule, const Call& call, int, int n) {
  return plan::all_gather_bytes(n, element(call) * results(rule));
}
double row_totals(const ConcreteRule& rule, const Call& call, int factor, int n) {
  return plan::all_gather_bytes(n, element(call) * rows(rule, factor));
}
double whole_operand(const ConcreteRule& rule, const Call& call, int factor, int n) {
  const std::int64_t longest = (rule.factors[static_cast<std::size_t>(factor)].size + n - 1) / n;
  return plan::all_gather_bytes(n,
                                element(call) * rows(rule, factor) * static_cast<double>(longest));
}
double class_statistics(const ConcreteRule& rule, const Call& call, int factor, int n) {
  // Split classes: maximum and sum of exponentials a token. Split tokens: the count.
  for (const auto& dim : rule.outputs[0].dims) {
    for (int f : dim) {
      if (f == factor) return 0;
    }
  }
  const bool tokens = rule.inputs.size() > 1 && [&] {
    for (const auto& dim : rule.inputs[1].dims) {
      for (int f : dim) {
        if (f == factor) return true;
      }
    }
    return false;
  }();
  return tokens ? all_reduce(kFloat, n) : two_statistics(rule, call, factor, n);
}
// The rows that the rank with most of them lacks; none for a mean over the whole dim.
double halo(const ConcreteRule& rule, const Call& call, int factor, int n) {
  if (!rule.factors[static_cast<std::size_t>(factor)].window) return 0;
  const Window& window = *rule.factors[static_cast<std::size_t>(factor)].window;
  const auto piece = [n](std::int64_t size, std::int64_t i) {
    const std::int64_t part = (size + n - 1) / n;
    return Interval{std::min(i * part, size), std::min((i + 1) * part, size)};
  };
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Interval needed = rows_for(window, piece(window.result, i)).inside;
    const Interval own = piece(window.operand, i);
    const std::int64_t held = std::min(needed.end, own.end) - std::max(needed.begin, own.begin);
    most = std::max(most, needed.size() - std::max<std::int64_t>(held, 0));
  }
  return static_cast<double>(call.inputs[0].meta.bytes()) / static_cast<double>(window.operand) *
         static_cast<double>(most);
}
double global_count(const ConcreteRule&, const Call&, int, int n) { return all_reduce(kFloat, n); }

constexpr std::array kHandlers = {
    HandlerInfo{.name = "argmax",
                .doc = "local winner, gather (value, index) of all ranks, winner of winners; R",
                .bytes = winners},
    HandlerInfo{.name = "argsort", .doc = "as sort, the order alone", .bytes = whole_operand},
    HandlerInfo{.name = "batch_norm",
                .doc = "all-reduce the mean and the squared deviations of each channel",
                .bytes = channel_statistics},
    HandlerInfo{
        .name = "cross_entropy",
        .doc =
            "split classes: all-reduce max and sum of exponentials, the owner of a token's class "
            "adds its logit, rank 0 of the axes adds the log; P(sum). Split tokens: local sum "
            "over the global count (weights, ignore_index); P(sum)",
        .bytes = class_statistics},
    HandlerInfo{
        .name = "ctc_loss",
        .doc = "own sequences with their lengths; P(sum), a mean divides by the global number"},
    HandlerInfo{.name = "cumsum",
                .doc = "local scan, gather the row totals, add those of lower ranks",
                .bytes = row_totals},
    HandlerInfo{.name = "each",
                .doc = "a list op: run each part by itself (its handler, or the op)",
                .of_members = true},
    HandlerInfo{.name = "embedding",
                .doc = "look up own rows, zero for indices of other ranks; P(sum)"},
    HandlerInfo{.name = "embedding_bag",
                .doc =
                    "split rows: as embedding, each index with its weight; P(sum). Split bags: own "
                    "bags; where each ends is read from the offsets of all bags"},
    HandlerInfo{
        .name = "extreme",
        .doc = "max, min, amax, amin where a gradient is wanted: all-reduce the value, then the "
               "number of places that hold it, then their share; R",
        .bytes = moments},
    HandlerInfo{.name = "fused",
                .doc = "a fused optimizer: gradients get the strides of their parameters"},
    HandlerInfo{.name = "gather",
                .doc = "as embedding, for gather along a split dim; P(sum)",
                .puts_off = true},
    HandlerInfo{
        .name = "halo",
        .doc = "convolution and pooling over split space: fetch the rows of neighbours that the "
               "own piece of the result reads, in one all-to-all a dim",
        .bytes = halo,
        .counts_addends = true},
    HandlerInfo{.name = "histogram",
                .doc = "all-reduce the range if none is given, then the counts; R",
                .bytes = result_sum},
    HandlerInfo{.name = "index",
                .doc = "as embedding, for self[..., i, ...] with one index tensor; P(sum)",
                .puts_off = true},
    HandlerInfo{.name = "index_fill",
                .doc = "as index_write, for index_fill: a negative index counts from the end"},
    HandlerInfo{.name = "index_select",
                .doc = "as embedding, for index_select along a split dim; P(sum)",
                .puts_off = true},
    HandlerInfo{.name = "index_write",
                .doc = "scatter, index_add, index_copy, index_put along a split dim: each rank "
                       "writes what falls into its part"},
    HandlerInfo{.name = "label_smooth", .doc = "count the classes of all ranks; nothing moves"},
    HandlerInfo{.name = "layer_norm",
                .doc = "all-reduce mean, then the sum of squared deviations",
                .bytes = three_statistics},
    HandlerInfo{
        .name = "linear_addend",
        .doc = "keep the addend on rank 0 of the axes on which the result is P(sum) and the addend "
               "is not, use zero elsewhere; P(sum)"},
    HandlerInfo{.name = "linear_cross_entropy",
                .doc = "split tokens: local sum over the global count of tokens; P(sum)",
                .bytes = global_count},
    HandlerInfo{.name = "log_softmax",
                .doc = "all-reduce max, then the sum of exponentials",
                .bytes = two_statistics},
    HandlerInfo{.name = "logsumexp",
                .doc = "all-reduce max, then the sum of exponentials; R",
                .bytes = result_sum_twice},
    HandlerInfo{.name = "mean", .doc = "local sum over the global count; P(sum)"},
    HandlerInfo{
        .name = "mean_loss",
        .doc = "run the op with reduction=sum, divide by the global number of elements; P(sum)"},
    HandlerInfo{.name = "minmax_dim", .doc = "as argmax, with the values; R", .bytes = winners},
    HandlerInfo{.name = "nll_loss",
                .doc = "as cross_entropy, with log-probabilities given: only the count travels",
                .bytes = global_count},
    HandlerInfo{.name = "norm",
                .doc = "all-reduce of the powers (maximum for ord inf), then the root; R",
                .bytes = result_sum},
    HandlerInfo{.name = "prod",
                .doc = "prod where a gradient is wanted: gather the products of all ranks; R",
                .bytes = products},
    HandlerInfo{.name = "rms_norm", .doc = "all-reduce the sum of squares", .bytes = one_statistic},
    HandlerInfo{
        .name = "sdpa",
        .doc =
            "split rows: own queries against all keys, the causal mask starts at the own offset. "
            "Split query heads (factor q): the key heads that they read are picked from all"},
    HandlerInfo{.name = "slice",
                .doc = "a part of whole segments: start and end are places in the own part"},
    HandlerInfo{.name = "softmax",
                .doc = "all-reduce max, then the sum of exponentials",
                .bytes = two_statistics},
    HandlerInfo{
        .name = "softmax_cross_entropy",
        .doc = "all-reduce max and sum of exponentials, then the logit of each token's class; R",
        .bytes = three_statistics},
    HandlerInfo{
        .name = "sort", .doc = "gather the dim, sort, keep the own part", .bytes = whole_operand},
    HandlerInfo{.name = "squeeze",
                .doc = "drop the dims of global size 1 only, not those of local size 1"},
    HandlerInfo{.name = "topk",
                .doc = "local top k, gather the candidates of all ranks, top k of them; R",
                .bytes = winners},
    HandlerInfo{.name = "var",
                .doc = "all-reduce count, mean and squared deviations (Chan); R",
                .bytes = moments},
};

}  // namespace

std::span<const HandlerInfo> handlers() { return kHandlers; }

const HandlerInfo& find_handler(std::string_view name) {
  for (const HandlerInfo& h : kHandlers) {
    if (h.name == name) return h;
  }
  throw InternalError(Message("HP-S090", "no handler \"" + std::string(name) + "\""));
}

}  // namespace hyper_parallel::rules
