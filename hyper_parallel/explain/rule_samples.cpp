#include "hyper_parallel/explain/rule_samples.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::explain {
namespace {

// By a row's text, or its first words. Operands are separated by ";", "-" is absent, { } holds a
// list.
constexpr std::pair<std::string_view, std::string_view> kByText[] = {
    {"add_where", "f32[8, 16]; bool[4, 1]; i64[4]; f32[4, 16]"},
    {"attention", "f32[2, 4, 8, 16]; f32[2, 4, 12, 16]; f32[2, 4, 12, 16]"},
    {"batch_norm", "f32[8, 4, 6]; f32[4]; f32[4] | training=False"},
    {"batch_statistics", "f32[8, 4, 6]; f32[4]; f32[4]; f32[4]; f32[4] | training=True"},
    {"block_diag", "{f32[8, 16]; f32[4, 8]}"},
    {"cat", "{f32[8, 16]; f32[4, 16]}"},
    {"channel_shuffle", "f32[8, 4, 6, 6] | groups=2"},
    {"chunk_cat", "{f32[8, 16]; f32[8, 4]} | dim=1 num_chunks=2"},
    {"columns",
     "f32[8, 4, 6, 6] | kernel_size=[2, 2] dilation=[1, 1] padding=[0, 0] stride=[2, 2]"},
    {"columns back",
     "f32[8, 16, 9] | output_size=[6, 6] kernel_size=[2, 2] dilation=[1, 1] padding=[0, 0] "
     "stride=[2, 2]"},
    {"complex", "f32[8, 2]"},
    {"complex real", "c64[8]"},
    {"convolution",
     "f32[8, 4, 16, 16]; f32[6, 4, 3, 3]; f32[6] | stride=[1, 1] padding=[0, 0] dilation=[1, 1] "
     "transposed=False output_padding=[0, 0] groups=1"},
    {"convolution 1", "f32[8, 4, 16]; f32[6, 4, 3]; f32[6]"},
    {"convolution 2", "f32[8, 4, 16, 16]; f32[6, 4, 3, 3]; f32[6]"},
    {"convolution 3", "f32[8, 4, 8, 8, 8]; f32[6, 4, 3, 3, 3]; f32[6]"},
    {"copy", "f32[8, 16]; f32[8, 16]"},
    {"ctc_loss", "f32[12, 8, 16]; i64[8, 4] | reduction=2"},
    {"diag_embed", "f32[8, 16]"},
    {"diagonal", "f32[4, 8, 8] | dim1=1 dim2=2"},
    {"draw", "f32[8, 16]"},
    {"dropout", "f32[8, 16] | p=0.5 train=True"},
    {"dynamic", "i64[8]"},
    {"each", "{f32[8, 16]; f32[4]}"},
    {"eigh", "f32[4, 8, 8]"},
    {"einsum", "{f32[8, 16]; f32[16, 4]} | equation='mk,kn->mn'"},
    {"elements_of_first", "f32[8, 16]; f32[4]"},
    {"embedding", "f32[100, 16]; i64[2, 8]"},
    {"embedding_bag", "f32[100, 16]; i64[32]; i64[8]"},
    {"expand", "f32[8, 1] | size=[8, 16]"},
    {"flatten", "f32[8, 4, 16] | start_dim=1"},
    {"flip_or_roll", "f32[8, 16] | dims=[0] shifts=[1]"},
    {"fused", "{f32[8]}; {f32[8]}; {f32[8]}; {f32[8]}; {}; {f32[]}"},
    {"gather", "f32[8, 16]; i64[8, 4] | dim=1"},
    {"gather_nd", "f32[8, 4, 16]; i64[6, 2]"},
    {"glu", "f32[8, 16] | dim=1"},
    {"group_norm", "f32[8, 4, 6]; f32[4]; f32[4] | num_groups=2"},
    {"group_norm native", "f32[8, 4, 6]; f32[4]; f32[4] | N=8 C=4 HxW=6 group=2"},
    {"grouped_mm", "f32[16, 8]; f32[4, 8, 16]; i32[4]"},
    {"histc", "f32[8] | bins=4 min=-1 max=1"},
    {"histogram counts edges", "f32[8, 16] | bins=4"},
    {"histogram given counts edges", "f32[8, 16]; f32[5]"},
    {"histogram points", "f32[8, 2] | bins=[4, 3]"},
    {"histogram points given counts", "f32[8, 2]; f32[5]; f32[4]"},
    {"host", "f32[1]"},
    {"index", "f32[8, 16]; i64[4]"},
    {"index_put", "f32[8, 16]; i64[4]; f32[4, 16] | accumulate=True"},
    {"index_select", "f32[8, 16]; i64[4] | dim=0"},
    {"index_where", "f32[8, 16]; bool[4, 1]; i64[4] | fill=0"},
    {"inner", "f32[4, 8]; f32[6, 8]"},
    {"label_smooth", "f32[8, 16]"},
    {"like", "f32[8, 16]"},
    {"linear_cross_entropy", "f32[8, 16]; f32[100, 16]; i64[8] | reduction='sum'"},
    {"loss_of_classes cross_entropy", "f32[8, 100]; i64[8] | reduction=2"},
    {"loss_of_classes nll_loss", "f32[8, 100]; i64[8] | reduction=2"},
    {"loss_of_pairs", "f32[8, 16]; f32[8, 16] | reduction=2"},
    {"loss_with_softmax", "f32[8, 100]; i64[8, 1]"},
    {"lstsq", "f32[4, 8, 6]; f32[4, 8, 3]"},
    {"lu", "f32[4, 8, 6]"},
    {"lu_unpack", "f32[4, 8, 8]; i32[4, 8]"},
    {"margin", "f32[8, 16]; i64[8] | reduction=2"},
    {"margin native", "f32[8, 16]; i64[8, 16] | reduction=2"},
    {"matmul", "f32[4, 8, 16]; f32[16, 32]"},
    {"movedim", "f32[4, 8, 16] | source=[0] destination=[2]"},
    {"multinomial", "f32[8, 16] | num_samples=2"},
    {"narrow", "f32[8, 16] | dim=1 start=0 length=4"},
    {"new", "f32[8, 16] | size=[8, 16]"},
    {"new strided", "f32[8, 16] | size=[8, 16]"},
    {"nonzero", "f32[8, 16]"},
    {"nonzero_static", "f32[8, 16] | size=4"},
    {"norm", "f32[8, 16]; f32[16] | normalized_shape=[16]"},
    {"norm ! native", "f32[8, 16]; f32[16]; f32[16] | normalized_shape=[16]"},
    {"norm layer_norm", "f32[8, 16]; f32[16]; f32[16] | normalized_shape=[16]"},
    {"one_hot", "i64[8] | num_classes=4"},
    {"pad", "f32[8, 16] | pad=[1, 1]"},
    {"part", "f32[8, 16]; f32[16] | dim=0 index=1"},
    {"part diagonal", "f32[4, 8, 8]; f32[8, 4] | dim1=0 dim2=1"},
    {"part slice", "f32[8, 16]; f32[8, 4] | dim=1 start=0 end=4"},
    {"pdist", "f32[8, 16]"},
    {"permute", "f32[4, 8, 16] | dims=[2, 0, 1]"},
    {"pick", "f32[8, 16] | dim=1"},
    {"pixels", "f32[8, 16, 6, 6] | upscale_factor=2"},
    {"pixels back", "f32[8, 4, 6, 6] | downscale_factor=2"},
    {"pointwise addcdiv", "f32[8, 16]; f32[8, 16]; f32[8, 16]"},
    {"pointwise addcmul", "f32[8, 16]; f32[8, 16]; f32[8, 16]"},
    {"pointwise additive", "f32[8, 16]; f32[8, 16]"},
    {"pointwise blend", "f32[8, 16]; f32[8, 16]"},
    {"pointwise choose 0 2", "f32[8, 16]; bool[8, 16]; f32[]"},
    {"pointwise choose 1 2", "bool[8, 16]; f32[8, 16]; f32[8, 16]"},
    {"pointwise first", "f32[8, 16]; f32[8, 16]"},
    {"pointwise multilinear", "f32[8, 16]; f32[8, 16]"},
    {"pointwise zero=other 1", "bool[8, 16]; f32[8, 16] | other=0"},
    {"pointwise zero=self 1", "bool[8, 16]; f32[8, 16] | self=0"},
    {"pointwise zero=value 0", "f32[8, 16]; bool[8, 16] | value=0"},
    {"pool 1", "f32[8, 4, 16] | kernel_size=[2]"},
    {"pool 2", "f32[8, 4, 16, 16] | kernel_size=[2, 2]"},
    {"pool 3", "f32[8, 4, 8, 8, 8] | kernel_size=[2, 2, 2]"},
    {"pool_back", "f32[8, 4, 8, 8]; f32[8, 4, 16, 16]; i64[8, 4, 8, 8]"},
    {"prelu", "f32[8, 16]; f32[16]"},
    {"qr", "f32[4, 8, 6]"},
    {"recurrent", "f32[6, 8, 4]; f32[1, 8, 3]; {f32[9, 4]; f32[9, 3]}"},
    {"recurrent cell", "f32[8, 4]; f32[8, 3]; f32[9, 4]; f32[9, 3]"},
    {"recurrent cell lstm", "f32[8, 4]; {f32[8, 3]; f32[8, 3]}; f32[12, 4]; f32[12, 3]"},
    {"recurrent lstm", "f32[6, 8, 4]; {f32[1, 8, 3]; f32[1, 8, 3]}; {f32[12, 4]; f32[12, 3]}"},
    {"reduce", "f32[8, 16] | dim=[1]"},
    {"renorm", "f32[8, 16] | p=2.0 dim=0 maxnorm=1.0"},
    {"repeat", "f32[8, 16] | repeats=[2, 1]"},
    {"repeat_interleave", "f32[8, 16] | repeats=2 dim=0"},
    {"repeats", "f32[8, 16]; i64[8] | dim=0"},
    {"resample 1", "f32[8, 4, 16] | output_size=[8]"},
    {"resample 2", "f32[8, 4, 16, 16] | output_size=[8, 8]"},
    {"resample 3", "f32[8, 4, 8, 8, 8] | output_size=[4, 4, 4]"},
    {"right_side", "f32[4, 8, 8]; i32[4, 8]; f32[4, 8, 3]"},
    {"rope", "f32[2, 8, 4, 16]; f32[2, 8, 4, 16]; -; f32[1, 8, 1, 16]; f32[1, 8, 1, 16]"},
    {"rot90", "f32[8, 16] | k=1 dims=[0, 1]"},
    {"rrelu", "f32[8, 16]; f32[8, 16] | training=True"},
    {"same", "f32[8, 16]"},
    {"scatter", "f32[8, 16]; i64[8, 4]; f32[8, 4] | dim=1"},
    {"scatter value", "f32[8, 16]; i64[8, 4] | dim=1"},
    {"scatter_nd_add", "f32[8, 16]; i64[6, 1]; f32[6, 16]"},
    {"searchsorted", "f32[8, 16]; f32[8, 4]"},
    {"segment_reduce", "f32[8, 16]; i64[3] | axis=0"},
    {"select", "f32[8, 16] | dim=0 index=1"},
    {"slice", "f32[8, 16] | dim=1 start=0 end=4"},
    {"slices", "f32[8, 4, 16] | axes=[1] starts=[0] ends=[2]"},
    {"solve", "f32[4, 8, 8]; f32[4, 8, 3]"},
    {"split chunks", "f32[8, 16] | chunks=2"},
    {"split size", "f32[8, 16] | split_size=4"},
    {"split sizes", "f32[8, 16] | split_sizes=[2, 6]"},
    {"squeeze", "f32[8, 1, 16] | dim=[1]"},
    {"stack", "{f32[8, 16]; f32[8, 16]}"},
    {"statistics", "f32[8, 4, 6]; f32[4]; f32[4]"},
    {"statistics groups", "f32[8, 4, 6]; f32[4]; f32[4] | num_groups=2"},
    {"steps", "f32[]; f32[] | steps=8"},
    {"strided", "f32[8, 16] | size=[8, 4]"},
    {"strided scatter", "f32[8, 16]; f32[8, 4] | size=[8, 4] stride=[16, 1]"},
    {"svd", "f32[4, 8, 6]"},
    {"take", "f32[8, 16]; i64[4]"},
    {"transform", "f32[8, 16] | dim=[1]"},
    {"transpose", "f32[8, 16] | dim0=0 dim1=1 axis0=0 axis1=1"},
    {"triangle", "f32[4, 8, 16]"},
    {"type_as", "f32[8, 16]; f32[4]"},
    {"unbind", "f32[2, 16]"},
    {"unfold", "f32[8, 16] | dimension=1 size=4 step=4"},
    {"unfold_back", "f32[4, 16, 2] | input_sizes=[8, 16] dim=0 size=2 step=2"},
    {"unique", "i64[8, 16]"},
    {"unsqueeze", "f32[8, 16] | dim=1"},
    {"view", "f32[8, 16] | size=[8, 4, 4] shape=[8, 4, 4]"},
    {"whole", "f32[8]; bool[8]; f32[8]"},
};

constexpr std::pair<std::string_view, std::string_view> kByOp[] = {
    {"aten::conv_transpose1d", "f32[8, 4, 16]; f32[4, 6, 3]; f32[6]"},
    {"aten::conv_transpose2d.input", "f32[8, 4, 16, 16]; f32[4, 6, 3, 3]; f32[6]"},
    {"aten::conv_transpose3d.input", "f32[8, 4, 8, 8, 8]; f32[4, 6, 3, 3, 3]; f32[6]"},
    {"aten::linalg_pinv.atol_rtol_tensor", "f32[4, 8, 6]; f32[4]; f32[4]"},
    {"aten::addbmm", "f32[8, 32]; f32[4, 8, 16]; f32[4, 16, 32]"},
    {"aten::index_copy", "f32[8, 16]; i64[4]; f32[4, 16] | dim=0"},
    {"aten::index_add", "f32[8, 16]; i64[4]; f32[4, 16] | dim=0"},
    {"aten::index_fill.int_Scalar", "f32[8, 16]; i64[4] | dim=0"},
    {"aten::linalg_inv", "f32[4, 8, 8]"},
    {"aten::linalg_solve_triangular", "f32[4, 8, 8]; f32[4, 8, 3]"},
    {"aten::masked_select", "f32[8]; bool[8]"},
    {"aten::nll_loss2d", "f32[8, 100, 4, 4]; i64[8, 4, 4] | reduction=2"},
    {"hyper_parallel::roi_align",
     "f32[2, 4, 8, 8]; f32[6, 4]; i64[2] | pooled_height=3 pooled_width=3"},
};

// Elementwise ops of two tensors whose names do not say so.
constexpr std::string_view kTwo[] = {
    "atan2",      "arctan2",      "bitwise_and",   "bitwise_or",  "bitwise_xor", "copysign",
    "eq",         "floor_divide", "fmax",          "fmin",        "fmod",        "gcd",
    "ge",         "greater",      "greater_equal", "gt",          "heaviside",   "hypot",
    "igamma",     "igammac",      "isclose",       "lcm",         "le",          "less",
    "less_equal", "logaddexp",    "logaddexp2",    "logical_and", "logical_or",  "logical_xor",
    "lt",         "maximum",      "minimum",       "ne",          "nextafter",   "not_equal",
    "remainder",  "xlogy"};

template <std::size_t n>
std::optional<std::string> find(const std::pair<std::string_view, std::string_view> (&table)[n],
                                std::string_view key) {
  for (const auto& [name, text] : table) {
    if (name == key) return std::string(text);
  }
  return std::nullopt;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

int size_of(std::string_view letter) {
  constexpr std::pair<std::string_view, int> kSizes[] = {{"m", 8},  {"k", 16},  {"n", 32}, {"b", 4},
                                                         {"d", 16}, {"v", 100}, {"t", 4}};
  for (const auto& [name, size] : kSizes) {
    if (name == letter) return size;
  }
  return 8;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return std::string(text.substr(at, end - at));
}

// The attributes that a rule in letters names: `@dim`, `@dim=-1` (its default), `_=dim`.
std::string attributes_of(std::string_view spec) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto set = [&](const std::string& name, const std::string& value) {
    if (name.empty()) return;
    for (auto& [known, text] : out) {
      if (known == name) {
        text = value;
        return;
      }
    }
    out.emplace_back(name, value);
  };
  for (std::size_t at = spec.find('@'); at != std::string_view::npos; at = spec.find('@', at + 1)) {
    const std::string name = word_at(spec, at + 1);
    std::size_t end = at + 1 + name.size();
    std::string value;
    if (end < spec.size() && spec[end] == '=') {
      const bool minus = end + 1 < spec.size() && spec[end + 1] == '-';
      for (end += minus ? 2 : 1;
           end < spec.size() && std::isdigit(static_cast<unsigned char>(spec[end])) != 0; ++end) {
        value += spec[end];
      }
      if (minus && !value.empty()) value.insert(0, 1, '-');
    }
    set(name, value.empty() ? "1" : value);
  }
  for (std::size_t at = spec.find("_="); at != std::string_view::npos;
       at = spec.find("_=", at + 1)) {
    set(word_at(spec, at + 2), "2");
  }
  std::string text;
  for (const auto& [name, value] : out) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

std::string tensor(const std::vector<std::string>& sizes) { return "f32[" + join(sizes) + "]"; }

// Operands for a rule in letters: `*m k, *k n -> m n`.
std::string from_letters(std::string_view spec) {
  std::vector<std::string> operands;
  std::istringstream in{std::string(spec.substr(0, spec.find("->")))};
  for (std::string operand; std::getline(in, operand, ',');) {
    std::erase_if(operand, [](char c) {
      return std::string_view("*+?^#").find(c) != std::string_view::npos;
    });
    std::vector<std::string> sizes;
    for (const std::string& dim : words_of(operand)) {
      const std::string letter = dim.substr(0, dim.find_first_of("!~@"));
      if (letter != "()") sizes.push_back(std::to_string(size_of(letter)));
    }
    operands.push_back(tensor(sizes));
  }
  const std::string attrs = attributes_of(spec);
  return join(operands, "; ") + (attrs.empty() ? "" : " | " + attrs);
}

// Operands for a row of batched matrices: `batched mq mm -> mq`.
std::string from_batched(const std::vector<std::string>& words) {
  std::vector<std::string> operands;
  for (std::size_t i = 1; i < words.size() && words[i] != "->"; ++i) {
    std::vector<std::string> sizes = {"4"};
    for (const char letter : words[i]) {
      if (letter == '.') continue;
      sizes.emplace_back(std::string_view("mnrst").find(letter) != std::string_view::npos ? "8"
                                                                                          : "3");
    }
    operands.push_back(tensor(sizes));
  }
  return join(operands, "; ");
}

bool takes_two(std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view base = name.substr(0, dot);
  const std::string_view overload = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  if (overload.starts_with("Scalar")) return false;
  if (overload.starts_with("Tensor") && !overload.ends_with("Scalar")) return true;
  if (overload == "other" || overload == "Tensor_mode") return true;
  return std::find(std::begin(kTwo), std::end(kTwo), base) != std::end(kTwo);
}

}  // namespace

std::string rule_sample(std::string_view op, std::string_view spec) {
  if (auto known = find(kByOp, op)) return *known;
  const std::vector<std::string> words = words_of(spec);
  if (words.empty()) return "";
  const bool batched = words[0] == "batched";
  if (spec.find("->") != std::string_view::npos && !batched) return from_letters(spec);
  if (batched) return from_batched(words);
  const std::size_t colons = op.find("::");
  const std::string_view name = colons == std::string_view::npos ? "" : op.substr(colons + 2);
  const std::string second = words.size() > 1 ? words[1] : "";
  const std::optional<std::string> by_text = find(kByText, spec);
  if (words[0] == "pointwise") {
    const bool open = second.empty() || second == "monotone" || second == "quotient";
    if (open && takes_two(name)) return "f32[8, 16]; f32[8, 16]";
    return open || !by_text ? "f32[8, 16]" : *by_text;
  }
  if (words[0] == "each") {
    const auto has = [&](std::string_view part) {
      return name.find(part) != std::string_view::npos;
    };
    const bool two =
        has(".List") || has(".Tensor") || second.starts_with("copy") || second.starts_with("lerp");
    const std::string list = *find(kByText, "each");
    return list + (has("addc") ? "; " + list + "; " + list : two ? "; " + list : "");
  }
  if (by_text) return *by_text;
  if (auto known = find(kByText, words[0] + " " + second)) return *known;
  return find(kByText, words[0]).value_or("");
}

}  // namespace hyper_parallel::explain
