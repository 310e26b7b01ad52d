#include "tests/rules/support.h"

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/text/print.h"

namespace hyper_parallel::rules::test {
namespace {

Operand operand(const Mesh* mesh, std::string_view text, std::string name) {
  Operand out;
  out.name = std::move(name);
  if (text.starts_with("!")) {
    out.pinned = true;
    text.remove_prefix(1);
  }
  if (text == "-") {
    out.present = false;
    return out;
  }
  const std::size_t end = text.find(']') + 1;
  out.meta = parse_meta(text.substr(0, end));
  if (end < text.size()) out.layout = parse_layout(mesh, text.substr(end));
  return out;
}

// The first ';' that is not inside a placement.
std::size_t item_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ';' && depth == 0) return i;
  }
  return text.size();
}

template <class Items, class Text>
std::string list(const Items& items, std::string_view separator, Text text) {
  std::vector<std::string> parts;
  for (const auto& item : items) parts.push_back(text(item));
  return join(parts, separator);
}

std::string layout_text(const Layout* layout) {
  return layout == nullptr ? "-" : layout->to_string();
}

}  // namespace

Call call(std::string_view op, std::string_view mesh, const std::vector<std::string>& operands,
          Attrs attrs) {
  Call out;
  out.op = op;
  out.mesh = parse_mesh(mesh);
  out.attrs = std::move(attrs);
  for (std::string_view text : operands) {
    const std::string name = "arg" + std::to_string(out.list_lengths.size());
    if (!text.starts_with("{")) {
      out.inputs.push_back(operand(out.mesh, text, name));
      out.list_lengths.push_back(-1);
      continue;
    }
    text = text.substr(1, text.size() - 2);
    int count = 0;
    while (!text.empty()) {
      const std::size_t end = item_end(text);
      std::string_view item = text.substr(0, end);
      while (item.starts_with(" ")) item.remove_prefix(1);
      out.inputs.push_back(operand(out.mesh, item, name + "[" + std::to_string(count++) + "]"));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    out.list_lengths.push_back(count);
  }
  return out;
}

ConcreteRule rule(const Call& call) {
  const Row* row = find_row(call.op);
  REQUIRE_MESSAGE(row != nullptr, "no row for " << call.op);
  return concretize(*row, call);
}

ConcreteRule rule_of(std::string_view op, const std::vector<std::string>& operands, Attrs attrs) {
  return rule(call(op, "x=2", operands, std::move(attrs)));
}

std::string printed(std::string_view op, const std::vector<std::string>& operands, Attrs attrs) {
  const ConcreteRule r = rule_of(op, operands, std::move(attrs));
  std::string text = to_string(r);
  if (r.parts.empty()) CHECK_MESSAGE(parse_rule(text) == r, text);
  return text;
}

std::string answer(const Inference& inference) {
  std::string out = list(inference.inputs, ", ", layout_text) + " -> " +
                    list(inference.outputs, ", ", layout_text);
  if (!inference.handler.empty()) out += " ~" + inference.handler;
  return out;
}

std::string forward(std::string_view op, std::string_view mesh,
                    const std::vector<std::string>& operands, Attrs attrs) {
  const Call c = call(op, mesh, operands, std::move(attrs));
  return answer(infer_forward(rule(c), c));
}

std::string backward(std::string_view op, std::string_view mesh,
                     const std::vector<std::string>& operands,
                     const std::vector<std::string>& results, Attrs attrs) {
  const Call c = call(op, mesh, operands, std::move(attrs));
  std::vector<const Layout*> layouts;
  for (const std::string& text : results) {
    layouts.push_back(text == "-" ? nullptr : parse_layout(c.mesh, text));
  }
  return answer(infer_backward(rule(c), c, layouts));
}

std::string grad(std::string_view op, std::string_view mesh,
                 const std::vector<std::string>& operands, Attrs attrs) {
  const Call c = call(op, mesh, operands, std::move(attrs));
  const ConcreteRule r = rule(c);
  const Inference inference = infer_forward(r, c);
  std::vector<const Layout*> cotangents;
  for (const Layout* layout : inference.outputs) cotangents.push_back(layout->dual());
  return list(infer_cotangents(r, c, inference, cotangents), ", ", layout_text);
}

std::string table(std::string_view op, const std::vector<std::string>& operands, Attrs attrs) {
  const Call c = call(op, "x=2", operands, std::move(attrs));
  const ConcreteRule r = rule(c);
  return list(strategies(r), "\n", [&](const AxisChoice& s) { return to_string(r, s); });
}

std::string result_sizes(std::string_view op, const std::vector<std::string>& operands,
                         Attrs attrs) {
  const Call c = call(op, "x=2", operands, std::move(attrs));
  return list(rule(c).outputs, " ",
              [](const TensorMap& map) { return hyper_parallel::to_string(map.sizes); });
}

}  // namespace hyper_parallel::rules::test
