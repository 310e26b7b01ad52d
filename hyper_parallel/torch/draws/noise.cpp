#include "hyper_parallel/torch/draws/noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "hyper_parallel/core/region.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::draws {
namespace {

// The next number of the stream, which seeds and states of torch govern.
std::uint64_t next_key() {
  Drawing drawing;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> guard(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

std::vector<std::int64_t> dense_strides(const at::Tensor& t) {
  if (t.is_contiguous() || !t.is_non_overlapping_and_dense()) return {};
  return t.strides().vec();
}

bool by_index(std::int64_t count) {
  const RandomMode mode = settings().random;
  if (mode == RandomMode::automatic) return count > kMostExact;
  return mode == RandomMode::by_index;
}

at::Tensor noise(const Place& place, const Distribution& draw,
                 c10::function_ref<void(at::Tensor&)> exact) {
  const at::NoGradGuard no_grad;
  if (by_index(product(place.sizes))) {
    const auto& here = my_coordinate(place.layout->mesh());
    const Region region = region_of(place.layout, place.sizes, here);
    at::Tensor out = at::empty(shape_of(region), place.options);
    fill_by_index(out, next_key(), draw, place.sizes, region);
    return out;
  }
  at::Tensor whole = place.strides.empty()
                         ? at::empty(place.sizes, place.options)
                         : at::empty_strided(place.sizes, place.strides, place.options);
  {
    Drawing drawing;
    exact(whole);
  }
  return move(whole, Layout::replicated(place.layout->mesh()), place.layout, place.sizes);
}

at::Tensor coins(const Place& place, double keep) {
  return noise(place, {.kind = Distribution::Kind::bernoulli, .a = keep},
               [&](at::Tensor& whole) { whole.bernoulli_(keep); });
}

}  // namespace hyper_parallel::torch_layer::draws
