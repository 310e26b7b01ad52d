#pragma once

#include <cstdint>
#include <optional>

namespace hyper_parallel::rules {

struct Row;

/// What the words of a row say beside the rule itself, for those who run the op. A row in letters
/// says none of it.
struct RowOptions {
  /// What an op over images does with the elements of a window.
  enum class Window : std::uint8_t {
    convolve,  // "convolution ..."
    average,   // "pool N average"
    maximum,   // "pool N"
    adaptive,  // "resample N adaptive": windows side by side, by the size of the result
    repeat,    // "resample N nearest": the reverse, each element some times
  };
  /// How an op that draws random numbers does it.
  enum class Draw : std::uint8_t {
    values,     // "draw": parameters are tensors
    fill,       // "draw fill": parameters are numbers
    dropout,    // "dropout [alpha] [channels] [native]"
    slopes,     // "rrelu"
    layers,     // "recurrent": dropout between layers
    attention,  // "attention": dropout of its weights
  };
  std::optional<Window> window;
  int spatial = 0;  // N, the number of spatial dims; 0: not said
  std::optional<bool>
      smallest;         // "pick argmax min", "reduce min": the smallest wins, not the largest
  bool root = false;    // "reduce var/R dim root": a standard deviation
  bool points = false;  // "histogram points": of rows, not of numbers
  bool counts = false;  // "histogram counts": counts are wanted, not the edges alone
  Draw draw = Draw::values;
  bool alpha = false;        // "dropout alpha": a shift beside the factor
  bool channels = false;     // "dropout channels": one number for a whole channel
  bool by_gradient = false;  // strategies depend on whether a gradient is wanted
};

/// The options that the words of `row` state.
RowOptions row_options(const Row& row);

}  // namespace hyper_parallel::rules
