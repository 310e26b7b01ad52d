#include "hyper_parallel/explain/report.h"

#include "hyper_parallel/explain/text_table.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::explain {
namespace {

// Two sums in one collective, a gather of each phase, one of the program's own code.
std::vector<CommRow> step() {
  CommRow gather;
  gather.kind = "all_gather";
  gather.axes = {"tp"};
  gather.bytes = 1048576;
  gather.op = "aten::linear";
  gather.reason = "input \"x\" < whole";
  gather.tensor = "f32[4, 8]";
  gather.from = "R S(1)";
  gather.to = "R R";
  gather.ranks = 4;
  CommRow sum;
  sum.kind = "all_reduce";
  sum.axes = {"dp", "tp"};
  sum.bytes = 96;
  sum.backward = true;
  sum.tensor = "f32[8]";
  sum.from = "P(sum) P(sum)";
  sum.to = "R R";
  sum.joined = 3;
  CommRow own = gather;
  own.op = own.reason = own.from = own.to = "";
  own.bytes = 16;
  CommRow last = gather;
  last.backward = true;
  last.op = last.reason = "";
  return {sum, sum, gather, own, last};
}

TEST_SUITE("Explain") {
  TEST_CASE("RowsThatWentOutAsOneCountOnce") {
    const std::vector<CommRow> rows = step();
    CHECK(count(rows) == 4);
    CHECK(bytes(rows) == 2 * 96 + 2 * 1048576 + 16);
    CHECK(count({}) == 0);
  }

  TEST_CASE("SelectionsFitAllThatIsGiven") {
    const std::vector<CommRow> rows = step();
    CHECK(select(rows, {}).size() == 5);
    CHECK(select(rows, {.kind = "all_gather"}).size() == 3);
    CHECK(select(rows, {.kind = "all_gather", .phase = "forward"}).size() == 2);
    CHECK(select(rows, {.axes = std::vector<std::string>{"dp", "tp"}}).size() == 2);
    CHECK(select(rows, {.axes = std::vector<std::string>{"dp"}}).empty());
    CHECK(select(rows, {.op = "aten::linear"}).front() == rows[2]);
    CHECK(select(rows, {.phase = "sideways"}).empty());
  }

  TEST_CASE("TheTableHasForwardFirstAndTheTotalLast") {
    CHECK(table(step()) ==
          "phase     collective  axes   count  bytes a rank\n"
          "forward   all_gather  tp         2     1,048,592\n"
          "backward  all_reduce  dp tp      1           192\n"
          "backward  all_gather  tp         1     1,048,576\n"
          "total                            4     2,097,360");
    CHECK(table({}) ==
          "phase  collective  axes  count  bytes a rank\n"
          "total                        0             0");
  }

  TEST_CASE("EachCollectiveSaysWhy") {
    const std::vector<CommRow> rows = step();
    CHECK(
        why(std::vector(rows.begin() + 1, rows.end())) ==
        "backward  all_reduce over dp tp  f32[8] P(sum) P(sum) -> R R         96 bytes  for a "
        "gradient\n"
        "forward   all_gather over tp     f32[4, 8] R S(1) -> R R      1,048,576 bytes  for "
        "aten::linear: input \"x\" < whole\n"
        "forward   all_gather over tp     f32[4, 8]                           16 bytes  asked for "
        "by the program\n"
        "backward  all_gather over tp     f32[4, 8] R S(1) -> R R      1,048,576 bytes  for a "
        "gradient");
    CHECK(why({}) == "no collective was issued");
  }

  TEST_CASE("ThePageStandsAloneAndEscapes") {
    const std::string page = html(step(), "a < b");
    CHECK(page.find("<h1>a &lt; b</h1>") != std::string::npos);
    CHECK(page.find("input &quot;x&quot; &lt; whole") != std::string::npos);
    CHECK(page.find("<code>f32[4, 8] R S(1) -&gt; R R</code>") != std::string::npos);
    CHECK(page.find("1,048,576") != std::string::npos);
    CHECK(page.find("<td>for a gradient</td>") != std::string::npos);
    CHECK(page.find("<td>for a gradient; went out with no. 1</td>") != std::string::npos);
    CHECK(page.find("<td>asked for by the program</td>") != std::string::npos);
    for (const char* outside : {"http", "<script", "src=", "@import", "url("}) {
      CAPTURE(outside);
      CHECK(page.find(outside) == std::string::npos);
    }
    CHECK(html({}, "").find("No collective was issued.") != std::string::npos);
  }

  TEST_CASE("JsonHasTheFieldsOfARow") {
    CommRow row = step()[0];
    row.reason = "a \"b\" \\ \n";
    CHECK(json(std::vector{row}) ==
          "{\"report\": \"hyper_parallel.comm\", \"version\": 1, \"rows\": [\n"
          "  {\"kind\": \"all_reduce\", \"axes\": [\"dp\", \"tp\"], \"bytes\": 96, \"phase\": "
          "\"backward\", \"op\": \"\", \"reason\": \"a \\\"b\\\" \\\\ \\u000a\", \"tensor\": "
          "\"f32[8]\", \"source\": \"P(sum) P(sum)\", \"target\": \"R R\", \"ranks\": 1, "
          "\"joined\": 3}\n]}\n");
    CHECK(json({}) == "{\"report\": \"hyper_parallel.comm\", \"version\": 1, \"rows\": [\n]}\n");
  }

  TEST_CASE("ColumnsAreAsWideAsTheirCharacters") {
    CHECK(aligned({{"é", "1"}, {"ab", "22"}}, {1}) == "é    1\nab  22");
    CHECK(aligned({}).empty());
    CHECK(with_commas(0) == "0");
    CHECK(with_commas(999) == "999");
    CHECK(with_commas(1000) == "1,000");
    CHECK(with_commas(-1234567) == "-1,234,567");
  }
}

}  // namespace
}  // namespace hyper_parallel::explain
