#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {
namespace {

const Attr* find(const Call& call, std::string_view name) {
  const auto it = call.attrs.find(name);
  if (it == call.attrs.end() || std::holds_alternative<std::monostate>(it->second)) return nullptr;
  return &it->second;
}

[[noreturn]] void throw_type(const Call& call, std::string_view name, std::string_view wanted) {
  throw UsageError(Message("HP-S005", call.op + ": argument \"" + std::string(name) + "\" is not " +
                                          std::string(wanted)));
}

}  // namespace

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) const {
  const Attr* a = find(*this, name);
  if (a == nullptr) return otherwise;
  if (const auto* i = std::get_if<std::int64_t>(a)) return *i;
  const auto* list = std::get_if<std::vector<std::int64_t>>(a);
  if (list != nullptr && list->size() == 1) return list->front();
  throw_type(*this, name, "an integer");
}

bool Call::boolean(std::string_view name, bool otherwise) const {
  const Attr* a = find(*this, name);
  if (a == nullptr) return otherwise;
  if (const auto* b = std::get_if<bool>(a)) return *b;
  throw_type(*this, name, "a bool");
}

std::vector<std::int64_t> Call::integers(std::string_view name) const {
  const Attr* a = find(*this, name);
  if (a == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(a)) return *list;
  if (const auto* i = std::get_if<std::int64_t>(a)) return {*i};
  throw_type(*this, name, "a list of integers");
}

bool Call::has(std::string_view name) const { return find(*this, name) != nullptr; }

std::string operand_text(const Call& call, std::size_t input) {
  const std::string& name = call.inputs[input].name;
  return call.op + ": operand " + (name.empty() ? std::to_string(input) : "\"" + name + "\"");
}

}  // namespace hyper_parallel::rules
