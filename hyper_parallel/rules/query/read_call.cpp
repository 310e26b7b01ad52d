#include "hyper_parallel/rules/query/read_call.h"

#include <utility>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/text/values.h"

namespace hyper_parallel::rules {
namespace {

// The names of operands in errors: "input 0", "input 1[2]" in a list.
std::vector<std::string> names_of(const std::vector<int>& list_lengths) {
  std::vector<std::string> out;
  for (std::size_t place = 0; place < list_lengths.size(); ++place) {
    const std::string name = "input " + std::to_string(place);
    if (list_lengths[place] < 0) out.push_back(name);
    for (int i = 0; i < list_lengths[place]; ++i) {
      out.push_back(name + "[" + std::to_string(i) + "]");
    }
  }
  return out;
}

bool names_mesh(const std::string& layout) { return layout.find(':') != std::string::npos; }

}  // namespace

Query read_call(std::string_view op, std::string_view operands, std::string_view attrs) {
  const OperandTexts texts = parse_operands(operands);
  const std::vector<std::string> names = names_of(texts.list_lengths);
  Call call;
  call.op = op;
  call.list_lengths = texts.list_lengths;
  call.attrs = parse_attrs(attrs);
  bool any = false;
  for (const auto& text : texts.operands) {
    if (!text || text->layout.empty()) continue;
    any = true;
    if (call.mesh == nullptr && names_mesh(text->layout)) {
      call.mesh = parse_layout(text->layout)->mesh();
    }
  }
  if (!any) call.mesh = Mesh::get({2}, {"x"});
  bool first = !any;
  for (std::size_t i = 0; i < texts.operands.size(); ++i) {
    Operand operand;
    operand.name = names[i];
    operand.present = texts.operands[i].has_value();
    if (operand.present) {
      const OperandText& text = *texts.operands[i];
      operand.meta = {text.sizes, parse_dtype(text.dtype)};
      if (!text.layout.empty()) {
        operand.layout = names_mesh(text.layout) || call.mesh == nullptr
                             ? parse_layout(text.layout)
                             : parse_layout(call.mesh, text.layout);
      } else if (std::exchange(first, false)) {
        operand.layout = Layout::replicated(call.mesh);
      }
    }
    call.inputs.push_back(std::move(operand));
  }
  return query(std::move(call));
}

}  // namespace hyper_parallel::rules
