// Ops along one dim whose results depend on order: scans, sorts, selections of the largest.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

constexpr Row kRows[] = {
    {"aten::argsort", "... d~argsort@dim=-1 -> ="},
    {"aten::argsort.stable", "... d~argsort@dim=-1 -> ="},
    {"aten::cummax", "... d!@dim -> =, ="},
    {"aten::cummin", "... d!@dim -> =, ="},
    {"aten::cumprod", "... d!@dim -> ="},
    {"aten::cumsum", "*... d~cumsum@dim -> ="},
    {"aten::logcumsumexp", "... d!@dim -> ="},
    {"aten::msort", "d! ... -> ="},
    {"aten::sort", "... d~sort@dim=-1 -> =, ="},
    {"aten::sort.stable", "... d~sort@dim=-1 -> =, ="},
    {"aten::topk", "... d~topk/R@dim=-1 -> ... _=k<d@dim=-1, ... _=k<d@dim=-1"},
};

}  // namespace

Family scan_family() { return {"scan", kRows, {}, {}}; }

}  // namespace hyper_parallel::rules
