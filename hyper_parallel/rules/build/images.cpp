#include "hyper_parallel/rules/build/images.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::rules {

std::vector<std::int64_t> spatial(const Call& call, std::string_view name, std::size_t count,
                                  std::int64_t otherwise) {
  std::vector<std::int64_t> out = call.integers(name);
  if (out.empty()) out.assign(count, otherwise);
  if (out.size() == 1) out.resize(count, out.front());
  if (out.size() == count) return out;
  throw UsageError(Message("HP-S005", call.op + ": argument \"" + std::string(name) +
                                          "\" needs one number a spatial dim")
                       .fact("needed", std::to_string(count))
                       .fact("given", std::to_string(out.size())));
}

std::int64_t count_windows(std::int64_t room, std::int64_t stride) {
  return room < 0 ? 0 : room / std::max<std::int64_t>(stride, 1) + 1;
}

std::vector<int> spread_image(ConcreteRule& rule, const Call& call, std::size_t count) {
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  if (ndim != count + 1) check_ndim(call, 0, count + 2);
  std::vector<int> factors = spread(rule, 0);
  // Kernels refuse tensors without channels; a batch of none is fine.
  fill(rule, factors[ndim - count - 1]);
  return factors;
}

void put_space(ConcreteRule& rule, TensorMap& out, std::size_t d, int factor, Window window,
               bool sound, bool handled) {
  window.operand = rule.inputs[0].sizes[d];
  window.result = out.sizes[d];
  if (factor == kNoFactor) return;
  sound &= window.operand > 0 && window.result > 1 && window.kernel > 0 && window.stride > 0 &&
           window.dilation > 0 && window.padding >= 0;
  if (!sound) return block(rule, factor);
  put(out, d, factor);
  Factor& f = factor_of(rule, factor);
  if (window.is_identity() && !handled) {
    f.nonempty = true;  // kernels refuse tensors without space
    return;
  }
  f.size = std::min(window.operand, window.result);
  f.plain = true;
  f.handler = "halo";
  f.window = window;
}

}  // namespace hyper_parallel::rules
