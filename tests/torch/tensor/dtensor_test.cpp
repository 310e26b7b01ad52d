// The wrapper: what it forgets when its value changes, and moves that are shared.

#include "hyper_parallel/torch/tensor/dtensor.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include <optional>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "hyper_parallel/torch/tensor/moved.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

const Mesh* mesh() { return Mesh::get({2}, {"dp"}); }
const Layout* split() { return Layout::get(mesh(), std::vector<Placement>{Placement::shard(0)}); }

at::Tensor rows(double value = 1) {
  return distribute_tensor(at::full({4, 4}, value, at::kDouble), split());
}

std::shared_ptr<const plan::Plan> gather(const at::Tensor& t) {
  return plan::redistribute(layout_of(t), Layout::replicated(mesh()), meta_of(t));
}

/// Counts the gathers of `call` on this rank.
template <class Call>
int gathers(Call call) {
  CommReport report;
  report.start();
  call();
  report.stop();
  return static_cast<int>(report.rows().size());
}

TEST_SUITE("DTensor") {
  TEST_CASE("SizesOfTheGlobalTensorAndNoMemory") {
    run_local(2, [] {
      const at::Tensor t = rows();
      CHECK(t.sizes() == at::IntArrayRef{4, 4});
      CHECK(impl_of(t)->local().sizes() == at::IntArrayRef{2, 4});
      CHECK(t.is_contiguous());
      CHECK_THROWS(t.data_ptr());
    });
  }

  TEST_CASE("TheDownNodeIsKnownByIdentity") {
    run_local(2, [] {
      const at::Tensor leaf = rows().set_requires_grad(true);
      CHECK(has_own_graph(leaf));
      at::Tensor y = leaf * 2;
      CHECK_FALSE(has_own_graph(y));
      CHECK(impl_of(y)->is_down_node(y.grad_fn().get()));
      CHECK_FALSE(impl_of(y)->is_down_node(nullptr));
      CHECK_FALSE(impl_of(leaf)->is_down_node(nullptr));
    });
  }

  TEST_CASE("MovesAreSharedWhateverIsKeptAlive") {
    run_local(2, [] {
      const at::Tensor t = rows();
      at::Tensor first;
      CHECK(gathers([&] { first = moved(t, gather(t)); }) == 1);
      if (current_rank().rank() == 0) first.reset();
      CHECK(gathers([&] { first = moved(t, gather(t)); }) == 0);
      CHECK(first.allclose(at::ones({4, 4}, at::kDouble)));
    });
  }

  TEST_CASE("AWriteEndsTheMemo") {
    using Write = void (*)(at::Tensor& t);
    const Write writes[] = {
        [](at::Tensor& t) { t.add_(1); },
        [](at::Tensor& t) { impl_of(t)->local().add_(1); },  // its memory
        [](at::Tensor& t) { t.transpose(0, 1).add_(1); },    // through a view
        [](at::Tensor& t) { t.set_data(rows(2)); },
    };
    for (const Write write : writes) {
      run_local(2, [write] {
        at::Tensor t = rows();
        moved(t, gather(t));
        write(t);
        at::Tensor again;
        CHECK(gathers([&] { again = moved(t, gather(t)); }) == 1);
        CHECK(again.allclose(at::full({4, 4}, 2.0, at::kDouble)));
      });
    }
  }

  TEST_CASE("SoDoesAWriteOfTheMovedTensor") {
    run_local(2, [] {
      const at::Tensor t = rows();
      moved(t, gather(t)).add_(1);
      CHECK(moved(t, gather(t)).allclose(at::ones({4, 4}, at::kDouble)));
    });
  }

  TEST_CASE("LeavesInGradModeMoveEachTime") {
    run_local(2, [] {
      const at::Tensor t = rows().set_requires_grad(true);
      const auto twice = [&] {
        moved(t, gather(t));
        moved(t, gather(t));
      };
      CHECK(gathers(twice) == 2);
      const at::NoGradGuard no_grad;
      CHECK(gathers(twice) == 1);
    });
  }

  TEST_CASE("AMoveInNoGradModeHasNoGraphForLater") {
    run_local(2, [] {
      const at::Tensor t = rows().set_requires_grad(true) * 2;
      {
        const at::NoGradGuard no_grad;
        CHECK_FALSE(moved(t, gather(t)).requires_grad());
      }
      CHECK(moved(t, gather(t)).requires_grad());
    });
  }

  TEST_CASE("InferenceTensorsMoveEachTime") {
    run_local(2, [] {
      const c10::InferenceMode mode;
      const at::Tensor t = rows();
      CHECK(gathers([&] { moved(t, gather(t)); }) == 1);
      CHECK(gathers([&] { moved(t, gather(t)); }) == 1);
    });
  }

  TEST_CASE("AWeakReferenceKeepsNeitherMemoryNorGraph") {
    run_local(2, [] {
      using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
      at::Tensor leaf = rows().set_requires_grad(true);
      at::Tensor t = leaf * 2;
      moved(t, gather(t));
      const Weak wrapper(t.getIntrusivePtr());
      const Weak local(impl_of(t)->local().getIntrusivePtr());
      const Weak source(leaf.getIntrusivePtr());
      t.reset();
      leaf.reset();
      CHECK(wrapper.expired());
      CHECK(local.expired());
      CHECK(source.expired());
    });
  }

  TEST_CASE("OnlyTheLastMovesAreKept") {
    run_local(2, [] {
      const at::Tensor t = rows();
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> kept(
          moved(t, gather(t)).getIntrusivePtr());
      std::vector<at::Tensor> others;
      for (int i = 0; i < 7; ++i) {
        others.push_back(rows());
        moved(others.back(), gather(t));
      }
      CHECK_FALSE(kept.expired());
      CHECK(gathers([&] { moved(t, gather(t)); }) == 0);
      others.push_back(rows());
      moved(others.back(), gather(t));
      CHECK(kept.expired());
      CHECK(gathers([&] { moved(t, gather(t)); }) == 1);
    });
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
