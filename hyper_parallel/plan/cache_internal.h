#pragma once

#include <functional>
#include <memory>

#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel::plan {

/// The plan of these arguments, made by `make` if it is not cached, with its `id` set.
std::shared_ptr<const Plan> cached(const Layout* from, const Layout* to, const TensorMeta& meta,
                                   const Topology& topology, const std::function<Plan()>& make);

}  // namespace hyper_parallel::plan
