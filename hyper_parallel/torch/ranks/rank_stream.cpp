#include "hyper_parallel/torch/ranks/rank_stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "hyper_parallel/torch/base/key.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

// A mode of the thread, above all tensors' keys. All ops pass it but those that draw.
constexpr c10::DispatchKey kDrawKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

struct Stream {
  at::Tensor state;  // undefined: not a rank thread
  bool drawing = false;
};
Stream& stream() { return of_rank<Stream>(); }

std::mutex& turns() {
  static std::mutex instance;
  return instance;
}

bool has_dtensor(const c10::IValue& v) {
  if (v.isTensor()) return is_dtensor(v.toTensor());
  return v.isTensorList() && std::ranges::any_of(v.toTensorVector(), is_dtensor);
}

// Ops on DTensors draw by themselves, after they have met.
void draw(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kDrawKey);
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const bool other = std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& v) {
    return v.isGenerator() || has_dtensor(v);
  });
  std::optional<Drawing> own;
  if (!other) own.emplace();
  op.redispatchBoxed(below, stack);
}

// Composite ops draw by the ops that they are made of.
void take_over_draws() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kDrawKey, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasTag(at::Tag::nondeterministic_seeded) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      continue;
    }
    const std::string whole =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library->impl(whole.c_str(), torch::CppFunction::makeFromBoxedFunction<&draw>());
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace

void begin_rank_stream(const at::Tensor& state) {
  static const bool once = (take_over_draws(), true);
  (void)once;
  stream().state = state.defined() ? state.clone() : at::Tensor();
  c10::impl::tls_set_dispatch_key_included(kDrawKey, state.defined());
}

void seed_rank_stream(std::uint64_t seed) {
  stream().state = at::make_generator<at::CPUGeneratorImpl>(seed).get_state();
}

at::Tensor rank_stream_state() {
  const at::Tensor& state = stream().state;
  return state.defined() ? state.clone() : state;
}

void set_rank_stream_state(const at::Tensor& state) {
  at::make_generator<at::CPUGeneratorImpl>(0).set_state(state);  // refuses what is no state
  stream().state = state.clone();
}

Drawing::Drawing() {
  Stream& mine = stream();
  if (!mine.state.defined() || mine.drawing) return;
  turn_ = std::unique_lock(turns());
  mine.drawing = true;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> guard(generator.mutex());
  before_ = generator.get_state();
  generator.set_state(mine.state);
}

Drawing::~Drawing() {
  if (!turn_.owns_lock()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> guard(generator.mutex());
  Stream& mine = stream();
  mine.state = generator.get_state();
  generator.set_state(before_);
  mine.drawing = false;
}

}  // namespace hyper_parallel::torch_layer
