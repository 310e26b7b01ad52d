// Plans between two meshes of the same ranks.

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/build_internal.h"

namespace hyper_parallel::plan {

void add_steps_across_meshes(const Layout* from, const Layout* to, Plan& plan) {
  std::vector<int> a = from->mesh()->ranks();
  std::vector<int> b = to->mesh()->ranks();
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b) {
    throw UnsupportedError(Message("HP-R006", "redistribute: the meshes have different ranks")
                               .fact("tensor", to_string(plan.meta, from))
                               .fact("to", to_string_with_mesh(to))
                               .hint("gather to a plain tensor and distribute it again"));
  }
  add_steps(from, Layout::replicated(from->mesh()), plan);
  add_steps(Layout::replicated(to->mesh()), to, plan);
}

}  // namespace hyper_parallel::plan
