#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/dispatch/running_statistics.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

// Tags keep words of different kinds apart, so that no two different calls share a key.
enum Tag : std::uint64_t {
  kAbsent = 0xA0,
  kPlain,
  kNumber,
  kWrapped,
  kList,
  kNone,
  kInt,
  kBool,
  kString,
  kInts,
  kUnkeyed,
  kZero,
};

void add_sizes(const at::Tensor& t, PlanKey& key) {
  const auto sizes = t.sizes();
  key.push_back((static_cast<std::uint64_t>(t.scalar_type()) << 32) | sizes.size());
  for (std::int64_t s : sizes) key.push_back(static_cast<std::uint64_t>(s));
}

[[noreturn]] void throw_nested(const Frame& f) {
  throw UnsupportedError(
      Message("HP-D035", f.info.name + ": a nested tensor beside DTensors")
          .hint("pad it; nn.TransformerEncoder(..., enable_nested_tensor=False), or "
                "torch.backends.mha.set_fastpath_enabled(False)"));
}

void add_tensor(const Frame& f, std::size_t i, const c10::IValue& v, Operands& operands,
                PlanKey& key) {
  if (!v.isTensor() || !v.toTensor().defined()) {
    operands.tensors.emplace_back();
    operands.argument.push_back(static_cast<int>(i));
    key.push_back(kAbsent);
    return;
  }
  const at::Tensor& t = v.toTensor();
  if (is_dtensor(t)) {
    const Layout* layout = impl_of(t)->layout();
    if (operands.mesh == nullptr) operands.mesh = layout->mesh();
    operands.several_meshes |= layout->mesh() != operands.mesh;
    key.push_back(kWrapped);
    key.push_back(reinterpret_cast<std::uint64_t>(layout));
    add_sizes(t, key);
  } else {
    if (t.is_nested()) throw_nested(f);
    operands.plain_write |= f.info.arguments[i].written && !is_updated_statistic(f, i);
    key.push_back(t.unsafeGetTensorImpl()->is_wrapped_number() ? kNumber : kPlain);
    add_sizes(t, key);
  }
  operands.tensors.push_back(t);
  operands.argument.push_back(static_cast<int>(i));
}

void add_value(const c10::IValue& v, PlanKey& key) {
  if (v.isNone()) {
    key.push_back(kNone);
  } else if (v.isInt()) {
    key.push_back(kInt);
    key.push_back(static_cast<std::uint64_t>(v.toInt()));
  } else if (v.isBool()) {
    key.push_back(kBool + (v.toBool() ? 0x1000 : 0));
  } else if (v.isString()) {
    const std::string& s = v.toStringRef();
    key.push_back(kString + (static_cast<std::uint64_t>(s.size()) << 16));
    for (std::size_t at = 0; at < s.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, s.data() + at, std::min<std::size_t>(8, s.size() - at));
      key.push_back(word);
    }
  } else if (v.isIntList() || v.isSymIntList() || v.isBoolList()) {
    const auto items = v.toListRef();
    key.push_back(kInts + (static_cast<std::uint64_t>(items.size()) << 16));
    for (const c10::IValue& item : items) {
      if (item.isBool()) {
        key.push_back(item.toBool() ? 1 : 0);
      } else {
        key.push_back(static_cast<std::uint64_t>(
            item.isSymInt() ? item.toSymInt().guard_int(__FILE__, __LINE__) : item.toInt()));
      }
    }
  } else if (v.isSymInt()) {
    key.push_back(kInt);
    key.push_back(static_cast<std::uint64_t>(v.toSymInt().guard_int(__FILE__, __LINE__)));
  } else {
    key.push_back(kUnkeyed);
  }
}

}  // namespace

bool is_zero(const c10::IValue& v) { return v.isScalar() && v.toScalar().equal(0); }

bool wants_grad(const Operands& operands) {
  return at::GradMode::is_enabled() &&
         std::any_of(operands.tensors.begin(), operands.tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

void read_call(const Frame& f, Operands& operands, PlanKey& key) {
  key.push_back(reinterpret_cast<std::uint64_t>(&f.info));
  key.push_back(static_cast<std::uint64_t>(settings().policy));
  for (std::size_t i = 0; i < f.count(); ++i) {
    const OpInfo::Argument& a = f.info.arguments[i];
    const c10::IValue& v = f.argument(i);
    if (a.tensor) {
      add_tensor(f, i, v, operands, key);
    } else if (a.list && !v.isNone()) {
      const auto items = v.toListRef();
      key.push_back(kList + (static_cast<std::uint64_t>(items.size()) << 16));
      for (const c10::IValue& item : items) add_tensor(f, i, item, operands, key);
    } else if (a.keyed) {
      add_value(v, key);
    } else {
      // Whether it is given and whether it is 0 matters (a dropout rate); what it is does not.
      key.push_back(v.isNone() ? kNone : is_zero(v) ? kZero : kUnkeyed);
    }
  }
  if (f.info.grad_matters) key.push_back(wants_grad(operands) ? 1 : 0);
}

}  // namespace hyper_parallel::torch_layer
