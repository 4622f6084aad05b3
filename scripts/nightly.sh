#!/usr/bin/env bash
# The longer rest: everything of test.sh with a minute of fuzzing a target, the slow tests, NEON under qemu, the
# whole tree under ASan, a clang release build, TSan for all tests, clang-tidy on every file. Takes hours on 2 cores.
# Usage: scripts/nightly.sh
export LITHE_FUZZ_SECONDS=${LITHE_FUZZ_SECONDS:-60}
exec bash "$(dirname "${BASH_SOURCE[0]}")/test.sh" \
  style release slow asan tsan neon asan_all asan_e2e clang tsan_all tidy_all
