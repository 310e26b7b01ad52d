#pragma once

/// All that programs need: include this one header and link `hyper_parallel_torch`.
///
///     Mesh, Placement, Layout     how tensors lie
///     distribute_tensor, from_local, to_local, full_tensor, redistribute, reduce_partial
///     zeros, ones, full, rand, randn, empty    new ones;  assign    t[index] = value
///     custom_shard, and all_reduce and other collectives for the code inside; value_and_grad
///     register_rule               a sharding rule for an op of the program's own
///     shard_parameters            a torch::nn::Module by a plan
///     CommReport, explain::table  what ranks exchanged, and why
///     run_local, current_rank     ranks as threads of this process
///     init_gloo_from_env          ranks as processes
///     infer_forward, infer_backward, infer_grad, plan::redistribute    on layouts alone

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/explain/report.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/dispatch/user_ops.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/face/collectives.h"
#include "hyper_parallel/torch/face/factories.h"
#include "hyper_parallel/torch/face/indexing.h"
#include "hyper_parallel/torch/face/module.h"
#include "hyper_parallel/torch/ranks/processes.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel {

/// Ranks as threads of this process, see torch/ranks/ranks.h.
using torch_layer::current_rank;
using torch_layer::init_gloo_from_env;
using torch_layer::RankContext;
using torch_layer::run_local;
using torch_layer::shutdown_gloo;

}  // namespace hyper_parallel
