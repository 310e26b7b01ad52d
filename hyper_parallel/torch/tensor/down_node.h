#pragma once

#include <torch/csrc/autograd/function.h>

#include <typeinfo>

#include "hyper_parallel/core/layout.h"

/// The down node (bridge.h) of a DTensor that an op made, as its `grad_fn` shows it.
namespace hyper_parallel::torch_layer {

/// The C++ type of down nodes.
const std::type_info& down_node_type();

/// The layout of the DTensor whose gradient `node` takes; null for any other node.
const Layout* layout_of_down_node(const torch::autograd::Node& node);

}  // namespace hyper_parallel::torch_layer
