#!/usr/bin/env bash
# Installs what the tests need (Debian 12, root or sudo), builds, and runs everything that CI runs.
# Usage: scripts/test.sh [STAGE...]
# Stages: style release asan tsan tidy (the default); scripts/nightly.sh adds
# slow neon asan_all asan_e2e clang tsan_all tidy_all
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in -h|--help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;; esac
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(style release asan tsan tidy)
fuzz_seconds=${LITHE_FUZZ_SECONDS:-5}
jobs=$(nproc)
logs=$root/build/logs
passed=0 failed=0
report=()
# A sanitizer's finding names its functions and lines.
symbolizer=/usr/lib/llvm-16/bin/llvm-symbolizer
export ASAN_SYMBOLIZER_PATH=$symbolizer TSAN_OPTIONS=external_symbolizer_path=$symbolizer
export UBSAN_OPTIONS=print_stacktrace=1

count() { passed=$((passed + $1)); failed=$((failed + $2)); }

check() {  # check NAME COMMAND...: one more thing that passes or fails
  local name=$1
  shift
  if "$@"; then count 1 0; else count 0 1; printf 'FAILED: %s\n' "$name"; fi
}

# timed STAGE STEP COMMAND...: runs it, and reports how long it took.
timed() {
  local stage=$1 step=$2 begin=$SECONDS outcome=0
  shift 2
  "$@" || outcome=$?
  report+=("$(printf '  %-8s %4d s  %s' "$stage" $((SECONDS - begin)) "$step")")
  return $outcome
}

# counts_of CTEST-LOG: "[ counts ] PROGRAM CASE: what it compared", which ctest hides where a test passes.
counts_of() {
  awk '/^[0-9]+\/[0-9]+ Testing: / {program = $3; test = ""}
       /^\[ RUN      \]/ {test = " " $4}
       /\[ counts \]/ {sub(/.*\[ counts \]/, ""); print "[ counts ] " program test ":" $0}' "$1"
}

# run_ctest PRESET [ARGS...]: the tests of a build, and what each says that it compared; adds to the counts.
run_ctest() {
  local name=$1 log total bad
  shift
  log=$logs/ctest-$name.log
  (cd "$root" && as_user ctest --output-on-failure -j "$jobs" --test-dir "build/$name" "$@" 2>&1) | as_user tee "$log" || true
  counts_of "$root/build/$name/Testing/Temporary/LastTest.log"
  total=$(sed -n 's/.* tests failed out of \([0-9]*\).*/\1/p' "$log" | tail -n 1)
  bad=$(sed -n 's/.*, \([0-9]*\) tests failed out of.*/\1/p' "$log" | tail -n 1)
  [ -n "$total" ] || { count 0 1; return; }
  count $((total - bad)) "$bad"
}

sources() { (cd "$root" && find src include apps tests bench -name '*.cpp' -o -name '*.h' | sort); }
check_format() { (cd "$root" && sources | tr '\n' '\0' | xargs -0 clang-format-16 --dry-run -Werror); }

stage_style() {
  check layers python3 "$root/tools/check_layers"
  check format check_format
}

# What docs/models.md claims is what the tests of this run have proved.
models_table_is_current() {
  python3 "$root/tools/models_table" "$root/build/release/Testing/Temporary/LastTest.log" | diff "$root/docs/models.md" - >&2
}

stage_release() {
  timed release build build release -DLITHE_BUILD_TESTS=ON || return 1
  local model
  model=$(fetch_model) || return 1
  LITHE_MODEL=$model timed release tests run_ctest release -LE slow
  check "docs/models.md (tools/models_table $root/build/release/Testing/Temporary/LastTest.log > docs/models.md)" \
    models_table_is_current
}

fuzz() {
  local name corpus
  name=$(basename "$1")
  corpus=$root/build/fuzz/$name
  as_user mkdir -p "$corpus"
  as_user "$1" -max_total_time="$fuzz_seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$corpus/" "$corpus" "$root/tests/fuzz/corpus/$name" 2>&1 | as_user tee "$logs/$name.log" >/dev/null ||
    { tail -n 40 "$logs/$name.log"; return 1; }
  printf '[ counts ] %s: %s\n' "$name" "$(tail -n 1 "$logs/$name.log")"
}

fuzz_all() {
  local source name
  for source in "$root"/tests/fuzz/fuzz_*.cpp; do
    name=$(basename "$source" .cpp)
    check "$name" fuzz "$root/build/asan/tests/fuzz/$name"
  done
}

# Under ASan and UBSan: everything that reads bytes of somebody else's. Whole models, damaged files and kernels follow in
# scripts/nightly.sh: compiling them so takes longer than all the rest.
asan_tests=(base_test gguf_parse_test gguf_file_test safetensors_test hf_directory_test kv_pool_test tokenizer_test
  hf_vocab_test template_parity_test)

stage_asan() {
  local source targets=()
  for source in "$root"/tests/fuzz/fuzz_*.cpp; do targets+=("$(basename "$source" .cpp)"); done
  timed asan build build asan -- "${targets[@]}" "${asan_tests[@]}" || return 1
  timed asan tests run_ctest asan -R "^($(IFS='|'; echo "${targets[*]}|${asan_tests[*]}"))\$"
  timed asan fuzzing fuzz_all
}

stage_tsan() {
  build tsan -- thread_pool_test || return 1
  run_ctest tsan -R '^thread_pool_test$'
}

# The sources that this branch changed, or on main the latest: those that 2 minutes allow, the last taking up to one.
stage_tidy() { LITHE_TIDY_SECONDS=${LITHE_TIDY_SECONDS:-60} check tidy bash "$root/scripts/tidy.sh"; }

# --- the longer rest

# The portable kernels compiled for AArch64 and run under qemu.
stage_neon() {
  (cd "$root" && as_user cmake -S tests/neon -B build/neon -G Ninja >/dev/null &&
    as_user cmake --build build/neon >&2) || return 1
  run_ctest neon
}

stage_slow() {
  build release || return 1
  run_ctest release -L slow
}

# Every test program under ASan and UBSan, the kernels instrumented too.
stage_asan_all() {
  timed asan_all build build asan_all -- tests/all || return 1
  timed asan_all tests run_ctest asan_all -LE 'slow|e2e'
}

stage_asan_e2e() {
  timed asan_e2e build build asan || return 1
  run_ctest asan -L e2e
}

stage_clang() {
  timed clang build build clang || return 1
  run_ctest clang -LE slow
}

stage_tsan_all() {
  timed tsan_all build build tsan -- tests/all || return 1
  run_ctest tsan -LE 'slow|e2e'
}

stage_tidy_all() { check tidy_all bash "$root/scripts/tidy.sh" --all; }

install_packages "${build_packages[@]}" "${test_packages[@]}"
as_user mkdir -p "$logs"
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || die "no stage '$stage' (see --help)"
  say "Stage: $stage"
  begin=$SECONDS
  before=$failed
  "stage_$stage" || count 0 1
  outcome=ok
  [ "$failed" -eq "$before" ] || outcome=FAILED
  report+=("$(printf '%-8s %4d s  %s' "$stage" $((SECONDS - begin)) "$outcome")")
done
printf '\nStages:\n'
printf '  %s\n' "${report[@]}"
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
