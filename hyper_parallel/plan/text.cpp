#include <array>
#include <cstdio>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel::plan {
namespace {

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return out.data();
}

}  // namespace

std::string_view to_string(StepKind kind) {
  switch (kind) {
    case StepKind::cut:
      return "cut";
    case StepKind::all_gather:
      return "all_gather";
    case StepKind::reduce_scatter:
      return "reduce_scatter";
    case StepKind::all_reduce:
      return "all_reduce";
    case StepKind::all_to_all:
      return "all_to_all";
    case StepKind::permute:
      return "permute";
    case StepKind::scale:
      return "scale";
    case StepKind::own:
      return "own";
    case StepKind::pad:
      return "pad";
  }
  return "";
}

std::string to_string(const Step& step) {
  std::string out(to_string(step.kind));
  if (step.kind == StepKind::all_reduce || step.kind == StepKind::reduce_scatter) {
    out += "(" + std::string(to_string(step.op)) + ")";
  }
  if (step.kind == StepKind::scale) {
    std::array<char, 32> factor{};
    std::snprintf(factor.data(), factor.size(), " by %.6g", step.factor);
    out += factor.data();
  }
  if (step.from_dim >= 0) out += " dim " + std::to_string(step.from_dim);
  if (step.to_dim >= 0) {
    out += (step.from_dim >= 0 ? " to dim " : " dim ") + std::to_string(step.to_dim);
  }
  out += " over";
  for (int axis : step.axes) out += " " + step.before->mesh()->name(axis);
  return out + ", " + (step.communicates() ? bytes_text(step.bytes) : "local");
}

std::string to_string(const Plan& plan) {
  if (plan.steps.empty()) return "nothing to do";
  std::string out;
  for (const Step& step : plan.steps) out += to_string(step) + "\n";
  out += "total " + bytes_text(plan.bytes);
  if (plan.lower_bound > 0) {
    std::array<char, 32> ratio{};
    std::snprintf(ratio.data(), ratio.size(), ", %.2fx", plan.bytes / plan.lower_bound);
    out += std::string(ratio.data()) + " the lower bound";
  }
  if (!plan.note.empty()) out += " (" + plan.note + ")";
  return out;
}

}  // namespace hyper_parallel::plan
