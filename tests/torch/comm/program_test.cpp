// Plans as one rank does them: shapes, what is sent, what stays idle.

#include "hyper_parallel/torch/comm/program.h"

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

using plan::StepKind;
using test::on_ranks;

Program program(const char* from, const char* to) {
  const Described d = parse_described(from);
  return compile(*plan::redistribute(d.layout, parse_layout(d.layout->mesh(), to), d.meta));
}

std::vector<std::int64_t> numbers(const std::vector<c10::SymInt>& list) {
  std::vector<std::int64_t> out;
  for (const c10::SymInt& n : list) out.push_back(n.guard_int(__FILE__, __LINE__));
  return out;
}

TEST_CASE("an uneven gather sends equal rows, of which the last are padding") {
  on_ranks(3, []() -> std::string {
    const std::int64_t mine[] = {2, 2, 1};
    const Program p = program("f32[5, 4] on x=3: S(0)", "R");
    if (p.before != Shape{mine[current_rank().rank()], 4}) return "before";
    if (p.after != Shape{5, 4} || p.actions.size() != 1) return "after";
    const Action& a = p.actions[0];
    if (a.kind != StepKind::all_gather || a.group.size != 3 || a.idle) return "action";
    if (a.part != Shape{2, 4} || !a.tail_padded) return "part";
    return p.may_alias ? "a gather is a new tensor" : "";
  });
}

TEST_CASE("an all-to-all counts the rows of each pair") {
  on_ranks(2, []() -> std::string {
    // Three rows over two ranks are 2 and 1, four columns are 2 and 2.
    const int rank = current_rank().rank();
    const Program p = program("f32[3, 4] on x=2: S(0)", "S(1)");
    if (p.actions.size() != 1 || p.actions[0].kind != StepKind::all_to_all) return "action";
    const Action& a = p.actions[0];
    if (a.before != Shape{rank == 0 ? 2 : 1, 4} || a.after != Shape{3, 2}) return "shapes";
    // Pieces differ, so elements are counted: rows of the sender times two columns.
    const std::int64_t own = rank == 0 ? 4 : 2;
    if (numbers(a.sent) != std::vector<std::int64_t>{own, own}) return "sent";
    if (numbers(a.received) != std::vector<std::int64_t>{4, 2}) return "received";
    return "";
  });
}

TEST_CASE("a cut and its transpose know where the part lies") {
  on_ranks(2, []() -> std::string {
    const int rank = current_rank().rank();
    const Program cut = program("f32[5] on x=2: R", "S(0)");
    if (cut.actions.size() != 1 || cut.actions[0].kind != StepKind::cut) return "cut";
    const Region want = {{rank == 0 ? Interval{0, 3} : Interval{3, 5}}};
    if (cut.actions[0].place != want) return "place";
    if (!cut.may_alias) return "a cut is a view of its operand until it is copied";
    return sends(cut.actions[0]) ? "sends" : "";
  });
}

TEST_CASE("a group that holds nothing is idle on all its ranks") {
  on_ranks(4, []() -> std::string {
    // One row over dp: the ranks of the second half of dp hold none, and gather nothing over tp.
    const bool empty = current_rank().rank() >= 2;
    const Program p = program("f32[1, 4] on dp=2 tp=2: S(0) S(1)", "S(0) R");
    if (p.actions.size() != 1 || p.actions[0].kind != StepKind::all_gather) return "action";
    if (p.actions[0].idle != empty) return "idle";
    return p.after == (empty ? Shape{0, 4} : Shape{1, 4}) ? "" : "after";
  });
}

TEST_CASE("programs are kept for a rank, and made anew for another") {
  const Described d = parse_described("f32[5, 4] on x=2: S(0)");
  const auto plan = plan::redistribute(d.layout, parse_layout(d.layout->mesh(), "R"), d.meta);
  std::vector<std::shared_ptr<Program>> first(2);  // kept, so that addresses tell them apart
  on_ranks(2, [&]() -> std::string {
    const auto p = program_of(*plan);
    first[static_cast<std::size_t>(current_rank().rank())] = p;
    return program_of(*plan) == p ? "" : "not kept";
  });
  CHECK(first[0] != first[1]);
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
