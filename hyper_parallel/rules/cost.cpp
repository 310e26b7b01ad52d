#include "hyper_parallel/rules/cost.h"

#include <algorithm>
#include <limits>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

double CostModel::slowdown(const Mesh* mesh, const std::vector<int>& axes) const {
  if (topology_->ranks_per_host == 0) return 1;
  const double fastest =
      std::max(topology_->inside_host.bytes_per_second, topology_->between_hosts.bytes_per_second);
  return fastest / plan::link(*topology_, mesh, axes).bytes_per_second;
}

Price CostModel::change(const Layout* from, const Layout* to, const TensorMeta& meta) const {
  if (from == to) return {};
  for (std::int64_t size : meta.sizes) {
    if (size < 0) return {kNever, kNever};
  }
  try {
    const auto plan = plan::redistribute(from, to, meta, *topology_);
    Price out;
    out.bytes = plan->bytes;
    if (topology_->ranks_per_host == 0) {
      out.cost = plan->bytes;
      return out;
    }
    for (const plan::Step& step : plan->steps) {
      if (step.bytes > 0) out.cost += step.bytes * slowdown(step.before->mesh(), step.axes);
    }
    return out;
  } catch (const UnsupportedError&) {
    return {kNever, kNever};
  }
}

Price CostModel::handler(const ConcreteRule& rule, const Call& call, int factor,
                         const std::vector<int>& axes, double share) const {
  const std::string& name = rule.factors[static_cast<std::size_t>(factor)].handler;
  if (name.empty()) return {};
  const HandlerInfo& info = find_handler(name);
  if (info.bytes == nullptr) return {};
  return over(call.mesh, axes, share * info.bytes(rule, call, factor, call.mesh->size(axes)));
}

Price CostModel::over(const Mesh* mesh, const std::vector<int>& axes, double bytes) const {
  return {bytes, bytes * slowdown(mesh, axes)};
}

}  // namespace hyper_parallel::rules
