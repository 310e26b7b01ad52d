#include "hyper_parallel/torch/comm/observer.h"

#include <utility>

#include "hyper_parallel/torch/ranks/of_rank.h"

namespace hyper_parallel::torch_layer {

const CommObserver*& comm_observer() {
  struct Tag;
  return of_rank<const CommObserver*, Tag>();
}

const CommObserver* set_comm_observer(const CommObserver* observer) {
  return std::exchange(comm_observer(), observer);
}

int next_joined() {
  thread_local int last = 0;
  return ++last;
}

}  // namespace hyper_parallel::torch_layer
