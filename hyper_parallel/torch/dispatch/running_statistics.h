#pragma once

#include "hyper_parallel/torch/dispatch/frame.h"

namespace hyper_parallel::torch_layer {

/// Whether the call updates argument `i`, a running statistic of a norm. Not every schema says so.
/// They are small, so they may move for the call: their new values move back to where they were.
inline bool is_updated_statistic(const Frame& f, std::size_t i) {
  const auto& schema = f.op.schema();
  const std::string& name = schema.arguments()[i].name();
  if (name != "running_mean" && name != "running_var") return false;
  if (f.info.arguments[i].written) return true;
  if (!f.info.name.starts_with("aten::")) return false;  // ours return them
  const auto training = schema.argumentIndexWithName("training");
  return training.has_value() && f.argument(static_cast<std::size_t>(*training)).toBool();
}

}  // namespace hyper_parallel::torch_layer
