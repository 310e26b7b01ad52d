#include "hyper_parallel/torch/dispatch/op_info.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "hyper_parallel/rules/row_options.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/dispatch/user_ops.h"

namespace hyper_parallel::torch_layer {
namespace {

// Values of these types never decide a plan: they are handed on as they are. Keying by them would
// miss at every optimizer step (step sizes change).
bool is_keyed(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::StringType:
      return true;
    case c10::TypeKind::ListType:
      return is_keyed(type->castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::OptionalType:
      return is_keyed(type->castRaw<c10::OptionalType>()->getElementType());
    default:
      return false;
  }
}

std::unique_ptr<const OpInfo> read(const c10::OperatorHandle& op) {
  auto info = std::make_unique<OpInfo>();
  const c10::FunctionSchema& schema = op.schema();
  info->name = schema.name();
  if (!schema.overload_name().empty()) info->name += "." + schema.overload_name();
  const bool lists = !schema.arguments().empty() &&
                     schema.arguments()[0].type()->kind() == c10::TypeKind::ListType;
  info->per_member = lists && (info->name.starts_with("aten::_foreach_") ||
                               info->name.starts_with("aten::_fused_"));
  const auto optional_tensor = c10::OptionalType::ofTensor();
  for (const c10::Argument& a : schema.arguments()) {
    OpInfo::Argument out;
    const c10::TypePtr& type = a.type();
    out.tensor = type->isSubtypeOf(*optional_tensor);
    if (auto list = type->cast<c10::ListType>()) {
      out.list = list->getElementType()->isSubtypeOf(*optional_tensor);
    }
    out.keyed = !out.tensor && !out.list && is_keyed(type);
    out.written = a.alias_info() != nullptr && a.alias_info()->isWrite();
    // One overload of a fused optimizer says that it writes the counts of steps. It does not.
    if (info->per_member && a.name() == "state_steps") out.written = false;
    out.out = a.is_out();
    info->writes |= out.written;
    info->has_out |= out.out;
    info->arguments.push_back(out);
  }
  for (const c10::Argument& r : schema.returns()) {
    int source = -1;
    bool view = false;
    if (r.alias_info() != nullptr) {
      view = !r.alias_info()->isWrite();
      for (std::size_t i = 0; r.alias_info()->isWrite() && i < schema.arguments().size(); ++i) {
        const auto* from = schema.arguments()[i].alias_info();
        if (from != nullptr && from->beforeSets() == r.alias_info()->beforeSets()) {
          source = static_cast<int>(i);
        }
      }
    }
    info->written_return.push_back(source);
    info->view_return.push_back(view);
    info->views |= view;
  }
  info->special = is_user_op(info->name) ? &run_user_op : find_special(info->name);
  info->row = rules::find_row(info->name);
  if (info->row != nullptr) {
    info->grad_matters = rules::row_options(*info->row).by_gradient;
  }
  if (info->special != nullptr) {
    info->kind = OpInfo::Kind::special;
  } else if (is_transparent(info->name)) {
    info->kind = OpInfo::Kind::transparent;
  } else if (info->row != nullptr) {
    info->kind = OpInfo::Kind::rule;
  } else if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    info->kind = OpInfo::Kind::decompose;
  }
  return info;
}

std::atomic<int> generation{1};

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<const OpInfo>> infos;
};

Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  // The ops of this thread, one a slot: every call comes by here.
  struct Slot {
    const void* key = nullptr;
    const OpInfo* info = nullptr;
    int generation = 0;
  };
  thread_local std::array<Slot, 1024> slots;
  const void* key = &op.schema();
  const auto address = reinterpret_cast<std::uintptr_t>(key);
  Slot& slot = slots[(address >> 4 ^ address >> 14) % slots.size()];
  const int now = generation.load(std::memory_order_acquire);
  if (slot.key != key || slot.generation != now) {
    Table& t = table();
    const std::lock_guard<std::mutex> lock(t.mutex);
    auto& shared = t.infos[key];
    if (!shared) shared = read(op);
    slot = {key, shared.get(), now};
  }
  return *slot.info;
}

void forget_op_info() {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  // Old entries stay alive: a thread may be using one right now.
  for (auto& [key, info] : t.infos) (void)info.release();
  t.infos.clear();
  generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace hyper_parallel::torch_layer
