#include "hyper_parallel/rules/row_options.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {
namespace {

std::optional<RowOptions::Window> window_of(std::string_view kind,
                                            const std::vector<std::string>& options) {
  const auto has = [&](const char* word) {
    return std::find(options.begin(), options.end(), word) != options.end();
  };
  using Window = RowOptions::Window;
  if (kind == "convolution") return Window::convolve;
  if (kind == "pool") return has("average") ? Window::average : Window::maximum;
  if (kind == "resample" && has("adaptive")) return Window::adaptive;
  if (kind == "resample" && has("nearest")) return Window::repeat;
  return std::nullopt;
}

}  // namespace

RowOptions row_options(const Row& row) {
  std::istringstream text(row.spec);
  std::string kind;
  text >> kind;
  std::vector<std::string> options;
  for (std::string word; text >> word;) options.push_back(word);
  const auto has = [&](const char* word) {
    return std::find(options.begin(), options.end(), word) != options.end();
  };
  RowOptions out;
  out.window = window_of(kind, options);
  if (kind == "pool" || kind == "resample") out.spatial = options.at(0).at(0) - '0';
  if (kind == "pick") out.smallest = has("min");
  if (kind == "reduce") {
    out.root = has("root");
    if (has("max") || has("min")) out.smallest = has("min");
    // Maxima and products of parts do not cross autograd.
    out.by_gradient = has("max") || has("min") || has("prod");
  }
  if (kind == "histogram") {
    out.points = has("points");
    out.counts = has("counts");
  }
  using Draw = RowOptions::Draw;
  if (kind == "draw" && has("fill")) out.draw = Draw::fill;
  if (kind == "dropout") out.draw = Draw::dropout;
  if (kind == "rrelu") out.draw = Draw::slopes;
  if (kind == "recurrent") out.draw = Draw::layers;
  if (kind == "attention") out.draw = Draw::attention;
  out.alpha = has("alpha");
  out.channels = has("channels");
  return out;
}

}  // namespace hyper_parallel::rules
