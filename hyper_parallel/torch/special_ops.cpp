// Ops that no rule can describe: they read or change the wrapper itself.

#include <unordered_map>
#include <unordered_set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/bridge.h"
#include "hyper_parallel/torch/frame.h"

namespace hyper_parallel::torch_layer {
namespace {

void pop_push(Frame& f, c10::IValue result) {
  f.stack->erase(f.stack->begin() + static_cast<std::ptrdiff_t>(f.base), f.stack->end());
  f.stack->push_back(std::move(result));
}

// Deciding whether `x.data = y` may keep the object: both wrapped, or both plain.
void compatible_shallow_copy(Frame& f) {
  const bool a = is_dtensor(f.argument(0).toTensor());
  const bool b = is_dtensor(f.argument(1).toTensor());
  pop_push(f, a == b);
}

void is_same_size(Frame& f) {
  pop_push(f, f.argument(0).toTensor().sizes() == f.argument(1).toTensor().sizes());
}

[[noreturn]] void no_storage(Frame& f) {
  throw UnsupportedError(Message("HP-D015", f.info.name + " needs the memory of the whole tensor")
                             .fact("tensor", describe(f.argument(0).toTensor()))
                             .hint("to_local() for this rank's part, full_tensor() for the whole"));
}

void refuse(Frame& f) { no_storage(f); }

const std::unordered_map<std::string, SpecialOp>& specials() {
  static const auto* const table = new std::unordered_map<std::string, SpecialOp>{
      {"aten::_has_compatible_shallow_copy_type", compatible_shallow_copy},
      {"aten::is_same_size", is_same_size},
      {"aten::set_.source_Storage", refuse},
      {"aten::set_.source_Storage_storage_offset", refuse},
      {"aten::set_.source_Tensor", refuse},
      {"aten::set_.source_Tensor_storage_offset", refuse},
      {"aten::resize_", refuse},
      {"aten::resize_as_", refuse},
      {"aten::as_strided", refuse},
      {"aten::as_strided_", refuse},
      {"aten::to_sparse", refuse},
      {"aten::pin_memory", refuse},
      {"aten::record_stream", refuse},
  };
  return *table;
}

const std::unordered_set<std::string>& transparent() {
  static const auto* const table = new std::unordered_set<std::string>{
      "aten::_backward",
      "aten::set_data",
      "aten::data",
      "aten::is_leaf",
      "aten::output_nr",
      "aten::_version",
      "aten::requires_grad_",
      "aten::retain_grad",
      "aten::retains_grad",
      "aten::size.int",
      "aten::stride.int",
      "aten::sym_size",
      "aten::sym_size.int",
      "aten::sym_stride",
      "aten::sym_stride.int",
      "aten::sym_numel",
      "aten::sym_storage_offset",
      "aten::is_complex",
      "aten::is_floating_point",
      "aten::is_signed",
      "aten::is_conj",
      "aten::is_neg",
      "aten::is_inference",
      "aten::_is_zerotensor",
  };
  return *table;
}

}  // namespace

SpecialOp find_special(const std::string& name) {
  const auto it = specials().find(name);
  return it == specials().end() ? nullptr : it->second;
}

bool is_transparent(const std::string& name) { return transparent().count(name) != 0; }

}  // namespace hyper_parallel::torch_layer
