#include "kernels/kernel_table.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/env.h"
#include "kernels/fill.h"

namespace lithe::kernels {
namespace {

constexpr int kIsaCount = 4;
constexpr std::array<std::string_view, kIsaCount> kIsaNames = {"reference", "portable", "avx2", "avx512"};

// __builtin_cpu_supports also asks whether the operating system saves the registers.
#if defined(__x86_64__)
// clang 16's __builtin_cpu_supports does not know F16C.
bool cpu_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool cpu_has_sse4() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && cpu_has_f16c();
}
bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vbmi");
}
#endif

/// What this CPU lacks for `isa`, or nothing.
std::optional<std::string_view> missing(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::reference:
      return std::nullopt;
    case Isa::portable:
      return cpu_has_sse4() ? std::nullopt : std::optional<std::string_view>("SSE4.2");
    case Isa::avx2:
      return cpu_has_avx2() ? std::nullopt : std::optional<std::string_view>("AVX2, FMA, BMI2 or F16C");
    case Isa::avx512:
      return cpu_has_avx512() ? std::nullopt
                              : std::optional<std::string_view>("AVX-512 (F, BW, DQ, VL, CD, VBMI) or VNNI");
  }
  return "an instruction set of this name";
#else
  if (isa == Isa::reference || isa == Isa::portable) return std::nullopt;
  return "the x86 instruction set";
#endif
}

std::string_view table_name(const KernelTable& table) {
  switch (table.isa) {
    case Isa::reference:
      return "reference";
#if defined(__x86_64__)
    case Isa::portable:
      return "portable-sse4";
#else
    case Isa::portable:
      return "portable-neon";
#endif
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return table.runs_bf16 ? "avx512-vnni-bf16" : "avx512-vnni";
  }
  return "";
}

struct Tables {
  std::vector<Isa> available;
  std::array<KernelTable, kIsaCount> table;

  Tables() {
    for (int i = 0; i < kIsaCount; ++i) {
      const auto isa = static_cast<Isa>(i);
      if (missing(isa)) continue;
      KernelTable& t = table[static_cast<std::size_t>(i)];
      t.isa = isa;
      fill_matmul(isa, t);
      fill_rows(isa, t);
      fill_attention(isa, t);
      t.name = table_name(t);
      available.push_back(isa);
    }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

}  // namespace

Result<const KernelTable*> kernel_table(Isa isa) {
  if (const auto what = missing(isa)) {
    return unsupported("this CPU lacks {}, which the {} kernels need", *what, isa_name(isa));
  }
  return &tables().table[static_cast<std::size_t>(isa)];
}

Result<const KernelTable*> default_kernel_table() {
  const auto wish = env("ISA");
  if (!wish) return kernel_table(available_isas().back());
  for (int i = 0; i < kIsaCount; ++i) {
    if (*wish == kIsaNames[static_cast<std::size_t>(i)]) return kernel_table(static_cast<Isa>(i));
  }
  return invalid("LITHE_ISA={}: write reference, portable, avx2 or avx512", *wish);
}

std::span<const Isa> available_isas() {
  return tables().available;
}

std::string_view isa_name(Isa isa) {
  return kIsaNames[static_cast<std::size_t>(isa)];
}

}  // namespace lithe::kernels
