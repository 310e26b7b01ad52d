#include "hyper_parallel/torch/op_info.h"

#include <memory>
#include <mutex>
#include <unordered_map>

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
  }
  info->special = find_special(info->name);
  info->row = rules::find_row(info->name);
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

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<const OpInfo>> infos;
  std::atomic<int> generation{0};
};

Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const void*, const OpInfo*> known;
  thread_local int generation = 0;
  Table& t = table();
  if (generation != t.generation.load(std::memory_order_acquire)) {
    known.clear();
    generation = t.generation.load(std::memory_order_acquire);
  }
  const void* key = &op.schema();
  const OpInfo*& slot = known[key];
  if (slot == nullptr) {
    std::lock_guard<std::mutex> lock(t.mutex);
    auto& shared = t.infos[key];
    if (!shared) shared = read(op);
    slot = shared.get();
  }
  return *slot;
}

void forget_op_info() {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  // Old entries stay alive: a thread may be using one right now.
  for (auto& [key, info] : t.infos) (void)info.release();
  t.infos.clear();
  t.generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace hyper_parallel::torch_layer
