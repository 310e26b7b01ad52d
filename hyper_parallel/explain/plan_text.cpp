#include "hyper_parallel/explain/plan_text.h"

#include <array>
#include <cstdio>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/explain/json_text.h"
#include "hyper_parallel/explain/text_table.h"

namespace hyper_parallel::explain {
namespace {

std::string digits(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.9g", value);
  return out.data();
}

std::string step_json(const plan::Step& step) {
  std::string axes;
  for (const int axis : step.axes) {
    axes += (axes.empty() ? "" : ", ") + quoted(step.before->mesh()->name(axis));
  }
  return "{\"step\": " + quoted(plan::to_string(step)) +
         ", \"kind\": " + quoted(plan::to_string(step.kind)) + ", \"axes\": [" + axes +
         "], \"after\": " + quoted(step.after->to_string()) +
         ", \"bytes\": " + digits(step.communicates() ? step.bytes : 0) +
         ", \"seconds\": " + digits(step.seconds) + "}";
}

}  // namespace

std::shared_ptr<const plan::Plan> read_plan(std::string_view source, std::string_view target,
                                            const plan::Topology& topology) {
  const Described from = parse_described(source);
  const bool has_mesh = target.find(':') != std::string_view::npos;
  const Layout* to = has_mesh ? parse_layout(target) : parse_layout(from.layout->mesh(), target);
  return plan::redistribute(from.layout, to, from.meta, topology);
}

std::string plan_text(const plan::Plan& plan) {
  const bool one_mesh = plan.from->mesh() == plan.to->mesh();
  std::string out = to_string(plan.meta, plan.from) + " -> " +
                    (one_mesh ? plan.to->to_string() : to_string_with_mesh(plan.to)) + "\n";
  std::vector<std::vector<std::string>> lines;
  for (const plan::Step& step : plan.steps) {
    lines.push_back({plan::to_string(step), step.after->to_string(), time_text(step.seconds)});
  }
  if (!lines.empty()) out += aligned(lines, {2}) + "\n";
  const std::string whole = plan::to_string(plan);
  out += whole.substr(whole.rfind('\n') + 1);
  if (!lines.empty()) {
    out += "; about " + time_text(plan.seconds) + " on " + std::string(plan.topology->name);
  }
  return out;
}

std::string plan_json(const plan::Plan& plan) {
  std::string out = "{\"tensor\": " + quoted(to_string(plan.meta)) +
                    ", \"source\": " + quoted(to_string_with_mesh(plan.from)) +
                    ", \"target\": " + quoted(to_string_with_mesh(plan.to)) +
                    ", \"topology\": " + quoted(plan.topology->name) + ", \"steps\": [";
  const char* before = "\n  ";
  for (const plan::Step& step : plan.steps) {
    out += before + step_json(step);
    before = ",\n  ";
  }
  return out + "\n], \"bytes\": " + digits(plan.bytes) +
         ", \"lower_bound_bytes\": " + digits(plan.lower_bound) +
         ", \"seconds\": " + digits(plan.seconds) + ", \"note\": " + quoted(plan.note) + "}\n";
}

}  // namespace hyper_parallel::explain
