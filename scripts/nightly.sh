#!/usr/bin/env bash
# The longer rest: everything of test.sh, NEON under qemu, the slow tests, the whole tree under ASan, a minute of
# fuzzing a target, TSan for all tests, a clang release build, clang-tidy on every file.
# Usage: scripts/nightly.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LITHE_FUZZ_SECONDS=${LITHE_FUZZ_SECONDS:-60} bash "$root/scripts/test.sh" style release neon asan tsan
say "Slow tests"
(cd "$root" && as_user ctest --preset release -L slow)
say "Everything under ASan and UBSan"
build asan
(cd "$root" && as_user ctest --preset asan -LE e2e)
say "clang release build"
build clang
(cd "$root" && as_user ctest --preset clang)
say "TSan on everything"
build tsan
(cd "$root" && as_user ctest --preset tsan -LE 'slow|e2e')
say "clang-tidy on every file"
bash "$root/scripts/tidy.sh" --all
