// Numbers whose parameters are numbers, and those whose parameters are tensors.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <optional>

#include "hyper_parallel/torch/draws/draws.h"
#include "hyper_parallel/torch/draws/noise.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::draws {
namespace {

using Kind = Distribution::Kind;

// random_() without bounds: all integers that the type has, or that it counts without a gap.
// Source: torch 2.13, ATen/native/DistributionTemplates.h, random_.
std::uint64_t all_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return (std::uint64_t{1} << 53) + 1;
    case at::kFloat:
      return (std::uint64_t{1} << 24) + 1;
    case at::kHalf:
      return (std::uint64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (std::uint64_t{1} << 8) + 1;
    case at::kLong:
      return std::uint64_t{1} << 63;
    case at::kInt:
      return std::uint64_t{1} << 31;
    case at::kShort:
      return std::uint64_t{1} << 15;
    case at::kChar:
      return std::uint64_t{1} << 7;
    case at::kByte:
      return std::uint64_t{1} << 8;
    default:
      return 2;
  }
}

struct Named {
  std::string_view op;
  Kind kind;
};

// The distribution of each op by index; one that is not here draws whole.
constexpr std::array kNamed = {
    Named{"aten::bernoulli", Kind::bernoulli},  Named{"aten::bernoulli_", Kind::bernoulli},
    Named{"aten::cauchy_", Kind::cauchy},       Named{"aten::exponential_", Kind::exponential},
    Named{"aten::geometric_", Kind::geometric}, Named{"aten::log_normal_", Kind::log_normal},
    Named{"aten::normal_", Kind::normal},       Named{"aten::normal_functional", Kind::normal},
    Named{"aten::rand_like", Kind::uniform},    Named{"aten::randint_like", Kind::integer},
    Named{"aten::randn_like", Kind::normal},    Named{"aten::random_", Kind::integer},
    Named{"aten::uniform", Kind::uniform},      Named{"aten::uniform_", Kind::uniform},
};

double number(const Frame& f, const char* name, double otherwise) {
  const auto at = f.op.schema().argumentIndexWithName(name);
  if (!at) return otherwise;
  const c10::IValue& v = f.argument(static_cast<std::size_t>(*at));
  return v.isScalar() ? v.toScalar().toDouble() : otherwise;
}

std::optional<std::int64_t> integer(const Frame& f, const char* name) {
  const auto at = f.op.schema().argumentIndexWithName(name);
  if (!at) return std::nullopt;
  const c10::IValue& v = f.argument(static_cast<std::size_t>(*at));
  if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
  return v.isInt() ? std::optional(v.toInt()) : std::nullopt;
}

/// What the call draws; nothing where only the op itself knows.
std::optional<Distribution> distribution_of(const Frame& f, at::ScalarType type) {
  const std::string& op = f.op.schema().name();
  const auto named =
      std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& n) { return n.op == op; });
  if (named == kNamed.end()) return std::nullopt;
  Distribution out{.kind = named->kind};
  switch (named->kind) {
    case Kind::uniform:
      out.a = number(f, "from", 0);
      out.b = number(f, "to", 1);
      break;
    case Kind::normal:
    case Kind::log_normal:
      out.a = number(f, "mean", named->kind == Kind::normal ? 0 : 1);
      out.b = number(f, "std", named->kind == Kind::normal ? 1 : 2);
      break;
    case Kind::exponential:
      out.a = number(f, "lambd", 1);
      break;
    case Kind::cauchy:
      out.a = number(f, "median", 0);
      out.b = number(f, "sigma", 1);
      break;
    case Kind::geometric:
    case Kind::bernoulli:
      out.a = number(f, "p", 0.5);
      break;
    case Kind::integer: {
      const char* below = op == "aten::randint_like" ? "low" : "from";
      const char* above = op == "aten::randint_like" ? "high" : "to";
      const auto high = integer(f, above);
      out.low = integer(f, below).value_or(0);
      out.count = high ? static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(out.low)
                       : all_of(type) - static_cast<std::uint64_t>(out.low);
      break;
    }
  }
  return out;
}

std::int64_t count_of(c10::IntArrayRef sizes) { return c10::multiply_integers(sizes); }

// The numbers take the place of self.
void write(Frame& f, const at::Tensor& self, const at::Tensor& part) {
  const Layout* layout = impl_of(self)->layout();
  at::Tensor target = local_for_use(self);
  target.copy_(move(part, layout->reduced(), layout, self.sizes()));
  refresh(self, target, layout, self.sizes());
  leave(f, {self});
}

at::Tensor numbers(const Layout* layout, c10::IntArrayRef sizes, at::TensorOptions options,
                   const Distribution& draw) {
  const Place place{
      .layout = layout, .sizes = {sizes.begin(), sizes.end()}, .strides = {}, .options = options};
  return noise(place, draw, [](at::Tensor&) {});
}

// The result hangs on its parameters, and their gradients are zero, as on one device.
at::Tensor beside(const at::Tensor& drawn, const at::Tensor& parameter) {
  if (!parameter.requires_grad() || !at::GradMode::is_enabled()) return drawn;
  return drawn + parameter.masked_fill(at::ones({}, parameter.options().dtype(at::kBool)), 0);
}

}  // namespace

void fill(Frame& f, const OpPlan& plan, Operands& operands) {
  const at::Tensor self = operands.tensors[0];
  if (!by_index(count_of(self.sizes()))) return whole(f, plan, operands, true);
  at::TensorOptions options = impl_of(self)->local().options();
  if (const auto at = f.op.schema().argumentIndexWithName("dtype")) {
    const c10::IValue& v = f.argument(static_cast<std::size_t>(*at));
    if (!v.isNone()) options = options.dtype(v.toScalarType());
  }
  const auto draw = distribution_of(f, c10::typeMetaToScalarType(options.dtype()));
  if (!draw) return whole(f, plan, operands, true);
  if (f.info.writes) {
    check_writable(f, self);
    return write(f, self,
                 numbers(impl_of(self)->layout()->reduced(), self.sizes(), options, *draw));
  }
  leave(f, {wrap(numbers(plan.outputs[0], self.sizes(), options, *draw), plan.outputs[0],
                 self.sizes())});
}

// bernoulli(p), normal(mean, std): the numbers are drawn in the layout of the result, where the
// parameters are.
void values(Frame& f, const OpPlan& plan, Operands& operands) {
  const bool coins =
      f.op.schema().name() == "aten::bernoulli" || f.op.schema().name() == "aten::bernoulli_";
  const bool normal = f.op.schema().name() == "aten::normal";
  const at::Tensor self = operands.tensors[0];
  const c10::IntArrayRef sizes =
      f.info.writes || plan.output_sizes.empty() ? self.sizes() : plan.output_sizes[0];
  if (!(coins || normal) || !by_index(count_of(sizes)))
    return whole(f, plan, operands, f.info.writes);
  const std::size_t last = operands.tensors.size() - 1;
  const at::Tensor parameter = local_operand(plan, operands, coins ? last : 0);
  const Layout* layout = f.info.writes ? impl_of(self)->layout()->reduced() : plan.outputs[0];
  const at::TensorOptions options = parameter.options();
  if (coins) {
    const at::Tensor u = numbers(layout, sizes, options, {.kind = Kind::uniform});
    const at::Tensor drawn = u.lt(parameter);
    if (f.info.writes) return write(f, self, drawn);
    const at::Tensor out = beside(drawn.to(options.dtype()), parameter);
    return leave(f, {wrap(out, layout, sizes)});
  }
  const at::Tensor z = numbers(layout, sizes, options, {.kind = Kind::normal});
  const c10::IValue &mean = f.argument(0), &deviation = f.argument(1);
  at::Tensor out =
      deviation.isTensor() ? z * local_operand(plan, operands, last) : z * deviation.toScalar();
  out = mean.isTensor() ? out + parameter : out + mean.toScalar();
  leave(f, {wrap(out, layout, sizes)});
}

// x [*d], noise [*d]: slopes in [lower, upper) where x is not positive, else 1; they are left in
// noise. One device draws them one after the other for the negative elements alone, so the exact
// ones depend on the signs of all before.
void slopes(Frame& f, const OpPlan& plan, Operands& operands) {
  const bool in_place = f.info.written_return[0] == 0;
  const at::Tensor t = operands.tensors[0];
  const at::Tensor noise_of = operands.tensors[1];
  const Layout* all = Layout::replicated(plan.mesh);
  const Layout* own = is_dtensor(t) ? impl_of(t)->layout() : all;
  const Layout* layout = in_place ? own : plan.outputs[0];
  if (in_place && is_dtensor(t)) check_writable(f, t);
  at::Tensor local = local_operand(plan, operands, 0);
  at::Tensor slope;
  {
    const at::NoGradGuard no_grad;
    if (by_index(count_of(t.sizes()))) {
      const Distribution draw{.kind = Kind::uniform,
                              .a = f.argument(2).toScalar().toDouble(),
                              .b = f.argument(3).toScalar().toDouble()};
      slope =
          numbers(layout->reduced(), t.sizes(), local.options(), draw).masked_fill_(local.gt(0), 1);
    } else {
      const at::Tensor x = move(is_dtensor(t) ? impl_of(t)->local() : t, own, all, t.sizes());
      const at::Tensor drawn = at::empty_like(x);
      f.argument(0) = in_place ? x.clone() : x.contiguous();
      f.argument(1) = drawn;
      Drawing drawing;
      f.op.callBoxed(f.stack);
      f.stack->resize(f.base);
      slope = move(drawn, all, layout, t.sizes());
    }
  }
  at::Tensor result;
  if (in_place) {
    local.mul_(slope);
    refresh(t, local, layout, t.sizes());
    result = t;
  } else {
    result = wrap(at::mul(local, slope), layout, t.sizes());
  }
  if (is_dtensor(noise_of)) {
    const Layout* there = impl_of(noise_of)->layout();
    refresh(noise_of, move(slope, layout, there, t.sizes()), there, t.sizes());
  }
  leave(f, {result});
}

}  // namespace hyper_parallel::torch_layer::draws
