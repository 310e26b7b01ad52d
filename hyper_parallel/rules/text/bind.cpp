// Letters meet sizes.

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

using Dim = Notation::Dim;
constexpr std::int64_t kUnknown = -1;

class Binder {
 public:
  Binder(const Notation& notation, const Call& call) : notation_(notation), call_(call) {}

  ConcreteRule run() {
    check_operands();
    rule_ = start(call_);
    sizes_.assign(notation_.letters.size(), kUnknown);
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      places_.push_back(call_.inputs[i].present ? lay_out_input(i) : std::vector<const Dim*>{});
    }
    // Operands that are broadcast set no sizes: they may have 1 where the others have more. Dims of
    // several letters come last, when all letters but one are known.
    for (const bool several : {false, true}) {
      for (const bool broadcast : {false, true}) {
        for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
          if (notation_.inputs[i].broadcast == broadcast) read_sizes(i, several);
        }
      }
    }
    make_factors();
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) fill_input(i);
    for (const Notation::Tensor& t : notation_.outputs) rule_.outputs.push_back(result(t));
    rule_.partial = notation_.partial;
    rule_.partial_op = notation_.reduce;
    rule_.random = notation_.random;
    rule_.aliases = notation_.aliases;
    rule_.handler = notation_.handler;
    return std::move(rule_);
  }

 private:
  void check_operands() const {
    const std::size_t most = notation_.inputs.size();
    std::size_t least = most;
    while (least > 1 && notation_.inputs[least - 1].optional) --least;
    check_count(call_, least, most);
  }

  // Which dim of the notation each dim of the operand is. Dims of the ellipsis point to it.
  std::vector<const Dim*> lay_out_input(std::size_t i) {
    const Notation::Tensor& t = notation_.inputs[i];
    const int ndim = static_cast<int>(call_.inputs[i].meta.sizes.size());
    const int named = static_cast<int>(t.dims.size());
    const bool dots = std::any_of(t.dims.begin(), t.dims.end(), is_dots);
    const bool moved =
        std::any_of(t.dims.begin(), t.dims.end(), [](const Dim& d) { return !d.at.empty(); });
    if (moved && ndim == 0) return {};  // torch allows dim 0 of a tensor without dims
    const int lead = ndim - named + (dots ? 1 : 0);
    if (lead < 0 ? !t.broadcast : (!dots && lead > 0)) {
      throw UsageError(Message("HP-S003", operand_text(call_, i) + " has " + std::to_string(ndim) +
                                              " dims, not " + (dots ? "at least " : "") +
                                              std::to_string(dots ? named - 1 : named))
                           .fact("sizes", hyper_parallel::to_string(call_.inputs[i].meta.sizes)));
    }
    if (dots) dots_ndim_ = std::max(dots_ndim_, at(std::max(lead, 0)));
    return lay_out(t, ndim, std::max(lead, 0));
  }

  static bool is_dots(const Dim& d) { return d.kind == Dim::Kind::ellipsis; }

  // `lead` dims for the ellipsis. Dims with @ take the place that the attribute names, the others
  // fill up from the left; missing leading dims of a broadcast operand are dropped.
  std::vector<const Dim*> lay_out(const Notation::Tensor& t, int ndim, int lead) const {
    std::vector<const Dim*> out(at(ndim), nullptr);
    for (const Dim& d : t.dims) {
      if (d.at.empty()) continue;
      const Dim*& place = out[at(dim_of(call_, d.at, d.at_default, ndim))];
      if (place != nullptr) {
        throw UsageError(Message(
            "HP-S004", call_.op + ": \"" + place->at + "\" and \"" + d.at + "\" name one dim"));
      }
      place = &d;
    }
    std::vector<const Dim*> others;
    for (const Dim& d : t.dims) {
      if (d.at.empty()) others.insert(others.end(), is_dots(d) ? at(lead) : 1, &d);
    }
    std::size_t next = others.size();
    for (std::size_t i = out.size(); i-- > 0;) {
      if (out[i] == nullptr) out[i] = others[--next];
    }
    return out;
  }

  // Calls `visit(place in the ellipsis, dim)` for the dims of the ellipsis.
  template <class Visit>
  void for_dots(const std::vector<const Dim*>& dims, Visit visit) const {
    const auto count =
        std::count_if(dims.begin(), dims.end(), [](const Dim* d) { return is_dots(*d); });
    std::size_t k = dots_ndim_ - static_cast<std::size_t>(count);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (is_dots(*dims[d])) visit(k++, d);
    }
  }

  void read_sizes(std::size_t i, bool several) {
    const Shape& sizes = call_.inputs[i].meta.sizes;
    const std::vector<const Dim*>& dims = places_[i];
    dots_.resize(dots_ndim_, 1);
    for_dots(dims, [&](std::size_t k, std::size_t d) {
      if (sizes[d] == 1 || sizes[d] == dots_[k]) return;
      if (dots_[k] != 1) throw_sizes(call_, i, d, sizes[d], dots_[k], "another operand");
      dots_[k] = sizes[d];
    });
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d]->kind != Dim::Kind::letters) continue;
      if ((dims[d]->letters.size() > 1) != several) continue;
      if (notation_.inputs[i].broadcast && sizes[d] == 1) continue;
      bind(i, d, sizes[d], dims[d]->letters);
    }
  }

  void bind(std::size_t i, std::size_t d, std::int64_t size, const std::vector<int>& letters) {
    std::int64_t known = 1;
    int open = -1;
    for (int l : letters) {
      if (sizes_[at(l)] != kUnknown) {
        known *= sizes_[at(l)];
      } else {
        open = l;
      }
    }
    if (open >= 0 && known > 0 && size % known == 0) {
      sizes_[at(open)] = size / known;
      return;
    }
    if (open >= 0 || known != size) {
      throw_sizes(call_, i, d, size, known, "\"" + letter_names(letters) + "\" elsewhere");
    }
  }

  std::string letter_names(const std::vector<int>& letters) const {
    std::vector<std::string> names;
    for (int l : letters) names.push_back(notation_.letters[at(l)].name);
    return join(names, " ");
  }

  void make_factors() {
    for (std::size_t k = 0; k < dots_ndim_; ++k) {
      dot_factors_.push_back(dots_[k] == 1 ? -1
                                           : add_factor(rule_, "d" + std::to_string(k), dots_[k]));
    }
    for (std::size_t l = 0; l < sizes_.size(); ++l) {
      const Notation::Letter& letter = notation_.letters[l];
      // A letter of size 1, or one that only absent operands have, splits nothing.
      factors_.push_back(
          sizes_[l] == 1 || sizes_[l] == kUnknown ? -1 : add_factor(rule_, letter.name, sizes_[l]));
      if (factors_.back() < 0) continue;
      Factor& f = rule_.factors.back();
      f.handler = letter.handler;
      f.reduce = notation_.reduce;
      const bool reduced = !on_result(static_cast<int>(l));
      if (reduced && !letter.finished) f.kind = FactorKind::reduce;
      if (letter.reduce) {
        f.kind = FactorKind::reduce;
        f.reduce = *letter.reduce;
      }
      if (letter.blocked) f.kind = FactorKind::blocked;
      f.nonempty = notation_.filled || (notation_.nonempty && reduced);
    }
  }

  bool on_result(int letter) const {
    for (const Notation::Tensor& t : notation_.outputs) {
      const auto& dims = t.same ? notation_.inputs[0].dims : t.dims;
      for (const Dim& d : dims) {
        if (std::find(d.letters.begin(), d.letters.end(), letter) != d.letters.end()) return true;
      }
    }
    return false;
  }

  void fill_input(std::size_t i) {
    const Notation::Tensor& t = notation_.inputs[i];
    TensorMap& map = rule_.inputs[i];
    map.linear = t.linear;
    map.addend = t.addend;
    map.term = t.addend ? 1 + static_cast<int>(i) : 0;
    map.shape_only = t.shape_only;
    const std::vector<const Dim*>& dims = places_[i];
    for_dots(dims, [&](std::size_t k, std::size_t d) {
      if (map.sizes[d] != 1) put(map, d, dot_factors_[k]);
    });
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (map.sizes[d] == 1) continue;
      for (int l : dims[d]->letters) put(map, d, factors_[at(l)]);
    }
  }

  TensorMap result(const Notation::Tensor& t) {
    if (t.same) {
      TensorMap out = rule_.inputs[0];
      out.linear = out.addend = out.shape_only = false;
      return out;
    }
    const bool dots = std::any_of(t.dims.begin(), t.dims.end(), is_dots);
    const int lead = static_cast<int>(dots ? dots_ndim_ : 0);
    int ndim = static_cast<int>(t.dims.size()) - (dots ? 1 : 0) + lead;
    const bool moved =
        std::any_of(t.dims.begin(), t.dims.end(), [](const Dim& d) { return !d.at.empty(); });
    if (moved && !places_.empty() && places_[0].empty()) ndim = 0;
    const std::vector<const Dim*> dims =
        ndim == 0 ? std::vector<const Dim*>{} : lay_out(t, ndim, lead);
    TensorMap out = whole(Shape(dims.size(), 1));
    for_dots(dims, [&](std::size_t k, std::size_t d) {
      out.sizes[d] = dots_[k];
      put(out, d, dot_factors_[k]);
    });
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d]->size.empty()) out.sizes[d] = size_of(*dims[d]);
      for (int l : dims[d]->letters) {
        if (sizes_[at(l)] != kUnknown) out.sizes[d] *= sizes_[at(l)];
        put(out, d, factors_[at(l)]);
      }
    }
    if (dots && call_.boolean("keepdim", false)) keep_dims(out);
    return out;
  }

  // The attribute that gives the size of a dim. Throws UsageError HP-S005: out of range.
  std::int64_t size_of(const Dim& dim) const {
    const std::int64_t size = call_.integer(dim.size, 1);
    const std::int64_t most = dim.most < 0 ? kUnknown : sizes_[at(dim.most)];
    if (size >= 0 && (most == kUnknown || size <= most)) return size;
    Message message("HP-S005", call_.op + ": argument \"" + dim.size + "\" is " +
                                   std::to_string(size) + ", out of range");
    if (most != kUnknown) {
      message.fact("range", "0 to " + std::to_string(most) + ", the size of \"" +
                                notation_.letters[at(dim.most)].name + "\"");
    }
    throw UsageError(message);
  }

  // Put back, with size 1, the dims of the first operand that an attribute named and that the
  // result lacks.
  void keep_dims(TensorMap& out) const {
    for (std::size_t d = 0; d < places_[0].size(); ++d) {
      const Dim& dim = *places_[0][d];
      if (dim.at.empty() || dim.letters.empty() || on_result(dim.letters[0])) continue;
      const auto place = static_cast<std::ptrdiff_t>(std::min(d, out.sizes.size()));
      out.sizes.insert(out.sizes.begin() + place, 1);
      out.dims.insert(out.dims.begin() + place, std::vector<int>{});
    }
  }

  const Notation& notation_;
  const Call& call_;
  ConcreteRule rule_;
  std::vector<std::int64_t> sizes_;  // beside letters
  std::vector<int> factors_;         // beside letters, -1: none
  std::size_t dots_ndim_ = 0;        // dims of the ellipsis, as the largest operand has
  Shape dots_;
  std::vector<int> dot_factors_;
  std::vector<std::vector<const Dim*>> places_;  // beside operands
};

}  // namespace

ConcreteRule concretize(const Notation& notation, const Call& call) {
  return Binder(notation, call).run();
}

int factor_of_letter(const ConcreteRule& rule, std::string_view letter) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].name == letter) return static_cast<int>(f);
  }
  return kNoFactor;
}

}  // namespace hyper_parallel::rules
