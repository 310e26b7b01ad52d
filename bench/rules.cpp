// Time the inference of layouts, without torch: what a miss in dispatch costs before any planning.

#include "hyper_parallel/rules/query/infer.h"

#include <cstdio>

#include "bench/timer.h"
#include "hyper_parallel/core/text.h"

namespace {

using namespace hyper_parallel;

rules::Operand operand(const char* name, const char* text) {
  const Described d = parse_described(text);
  return {.meta = d.meta, .layout = d.layout, .name = name};
}

void time_op(const char* title, const rules::Call& call) {
  const rules::Row* row = rules::find_row(call.op);
  const rules::ConcreteRule rule = rules::concretize(*row, call);
  const rules::Inference forward = rules::infer_forward(rule, call);
  const std::vector<const Layout*> grads = {forward.outputs[0]->dual()};
  const rules::Query query = rules::query(call);
  rules::GradientCall whole;
  for (const rules::Operand& o : call.inputs) whole.inputs.push_back(o.layout);
  whole.out_grads = forward.outputs;
  std::printf("%s\n", title);
  bench::show("concretize", [&] { rules::concretize(*row, call); });
  bench::show("query (by name, concretize)", [&] { rules::query(call); });
  bench::show("infer_forward", [&] { rules::infer_forward(rule, call); });
  bench::show("infer_backward", [&] { rules::infer_backward(rule, call, forward.outputs); });
  bench::show("infer_cotangents", [&] { rules::infer_cotangents(rule, call, forward, grads); });
  bench::show("infer_grad, as an op", [&] { rules::infer_grad(query, whole); });
}

}  // namespace

int main() {
  const char* x = "f32[1024, 512] on dp=2 cp=2 tp=4: S(0) S(0) R";
  const char* w = "f32[512, 2048] on dp=2 cp=2 tp=4: R R S(1)";
  const char* weight = "f32[2048, 512] on dp=2 cp=2 tp=4: R R S(0)";
  const char* bias = "f32[2048] on dp=2 cp=2 tp=4: R R S(0)";
  const char* other = "f32[1024, 512] on dp=2 cp=2 tp=4: S(1) R S(0)";
  rules::Call call;
  call.mesh = parse_described(x).layout->mesh();
  call.op = "aten::mm";
  call.inputs = {operand("self", x), operand("mat2", w)};
  call.list_lengths = {-1, -1};
  time_op("mm on dp=2 cp=2 tp=4, nothing to move", call);
  call.inputs = {operand("self", other), operand("mat2", w)};
  time_op("mm, inputs must move", call);
  const char* tokens = "f32[64, 128, 512] on dp=2 cp=2 tp=4: S(0) S(1) R";
  call.op = "aten::matmul";
  call.inputs = {operand("self", tokens), operand("other", w)};
  time_op("matmul, nothing to move", call);
  call.op = "aten::linear";
  call.inputs = {operand("input", x), operand("weight", weight), operand("bias", bias)};
  call.list_lengths = {-1, -1, -1};
  time_op("linear with bias, nothing to move", call);
  return 0;
}
