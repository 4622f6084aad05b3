#!/usr/bin/env bash
# Installs what the tests need (Debian 12, root or sudo), builds, and runs everything that CI runs.
# Usage: scripts/test.sh [STAGE...]     stages: style release asan tsan (the default), neon tidy
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in -h|--help) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;; esac
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(style release asan tsan)
fuzz_seconds=${LITHE_FUZZ_SECONDS:-10}
logs=$root/build/logs
passed=0 failed=0
report=()

count() { passed=$((passed + $1)); failed=$((failed + $2)); }

check() {  # check NAME COMMAND...: one more thing that passes or fails
  local name=$1
  shift
  if "$@"; then count 1 0; else count 0 1; printf 'FAILED: %s\n' "$name"; fi
}

# run_ctest PRESET [ARGS...]: all tests of a build; adds to the counts.
run_ctest() {
  local name=$1 log total bad
  shift
  log=$logs/ctest-$name.log
  (cd "$root" && as_user ctest --output-on-failure --test-dir "build/$name" "$@" 2>&1) | tee "$log" || true
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

stage_release() {
  build release -DLITHE_BUILD_TESTS=ON || return 1
  local model
  model=$(fetch_model) || return 1
  LITHE_MODEL=$model run_ctest release -LE slow
}

fuzz() {
  local name corpus
  name=$(basename "$1")
  corpus=$root/build/fuzz/$name
  as_user mkdir -p "$corpus"
  as_user "$1" -max_total_time="$fuzz_seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$corpus/" "$corpus" "$root/tests/fuzz/corpus/$name" >"$logs/$name.log" 2>&1 ||
    { tail -n 40 "$logs/$name.log"; return 1; }
  printf '%s: %s\n' "$name" "$(tail -n 1 "$logs/$name.log")"
}

# The portable kernels compiled for AArch64 and run under qemu.
stage_neon() {
  (cd "$root" && as_user cmake -S tests/neon -B build/neon -G Ninja >/dev/null &&
    as_user cmake --build build/neon >&2) || return 1
  run_ctest neon
}

# The parsers under ASan and UBSan: everything that reads bytes of somebody else's. The kernels and models join with
# scripts/nightly.sh, whose build of the whole tree takes longer than CI has.
asan_tests=(base_test gguf_parse_test gguf_file_test kv_pool_test tokenizer_test template_parity_test)

stage_asan() {
  local target targets=()
  for target in "$root"/tests/fuzz/fuzz_*.cpp; do targets+=("$(basename "$target" .cpp)"); done
  build asan -- "${targets[@]}" "${asan_tests[@]}" || return 1
  run_ctest asan -R "^($(IFS='|'; echo "${targets[*]}|${asan_tests[*]}"))\$"
  for target in "${targets[@]}"; do check "$target" fuzz "$root/build/asan/tests/fuzz/$target"; done
}

stage_tsan() {
  build tsan -- thread_pool_test || return 1
  run_ctest tsan -R '^thread_pool_test$'
}

stage_tidy() { check tidy bash "$root/scripts/tidy.sh"; }

install_packages "${build_packages[@]}" "${test_packages[@]}"
as_user mkdir -p "$logs"
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || die "no stage '$stage' (style release asan tsan neon tidy)"
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
