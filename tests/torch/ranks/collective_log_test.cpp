#include "hyper_parallel/torch/ranks/local/collective_log.h"

#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

Logged logged(const std::string& group, const std::string& what, const std::string& op = "") {
  Logged out;
  out.group = group;
  out.ranks = {0, 2};
  out.what = what;
  out.op = op;
  return out;
}

TEST_CASE("a log numbers the collectives of each group") {
  CollectiveLog log;
  log.add(logged("a", "all_gather f32[2]"));
  log.add(logged("b", "barrier"));
  const auto entry = log.add(logged("a", "all_reduce(sum) f32[6, 6]", "mm"));
  log.change(entry, Logged::State::failed);
  CHECK(log.text() ==
        "#1 all_gather f32[2] on ranks [0, 2]  issued\n"
        "#1 barrier on ranks [0, 2]  issued\n"
        "#2 all_reduce(sum) f32[6, 6] on ranks [0, 2] for mm  failed\n");
  CHECK(log.counts().at("a") == 2);
  CHECK(log.last(1).front().op == "mm");
}

TEST_CASE("a log keeps the last ones") {
  CollectiveLog log;
  const auto first = log.add(logged("a", "barrier"));
  for (int i = 0; i < 100; ++i) log.add(logged("a", "barrier"));
  log.change(first, Logged::State::done);  // fell out
  CHECK(log.last().size() == CollectiveLog::kKept);
  CHECK(log.last().front().number == 101 - CollectiveLog::kKept + 1);
  CHECK(log.last().back().state == Logged::State::issued);
}

TEST_CASE("shapes count where all ranks bring the same") {
  Logged each = logged("a", "all_to_all f32[2, 3]");
  CHECK(signature(each) == "all_to_all f32[2, 3]");
  each.same_shape = false;
  CHECK(signature(each) == "all_to_all f32");
}

TEST_CASE("a note is read back") {
  RankNote note;
  note.beat = 7;
  note.state = RankNote::State::failed;
  note.error = "failed: ValueError: a\tb\nc";
  note.counts = {{"a", 3}};
  note.last = {logged("a", "all_gather f32[2]"), logged("a", "barrier", "mm")};
  note.last[0].number = 2;
  note.last[1].number = 3;
  note.last[1].state = Logged::State::waits;
  const auto read = parse_note(to_text(note));
  REQUIRE(read.has_value());
  CHECK(to_text(*read) == to_text(note));
  CHECK(read->error == "failed: ValueError: a b c");
  CHECK(read->count("a") == 3);
  CHECK(read->count("b") == 0);
  REQUIRE(read->find("a", 3) != nullptr);
  CHECK(read->find("a", 3)->what == "barrier");
  CHECK(read->find("a", 4) == nullptr);
  CHECK(summary(*read) ==
        "failed, waits in #3 barrier on ranks [0, 2] for mm, before #2 all_gather f32[2]");
}

TEST_CASE("other texts are no notes") {
  for (const char* text : {"", "\n", "note", "note\tx\tr\t\n", "note\t1\t\t\n", "last\ta\n",
                           "note\t1\tr\t\nlast\ta\tb\t.\t1\tbarrier\t\n"}) {
    CHECK_FALSE(parse_note(text).has_value());
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
