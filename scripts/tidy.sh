#!/usr/bin/env bash
# clang-tidy on the sources that changed since a commit (default: what the last day's commits touched), or on all.
# Usage: scripts/tidy.sh [--all | SINCE-COMMIT]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

since=${1:-}
if [ -z "$since" ]; then
  since=$(git rev-list -1 --before='1 day ago' HEAD 2>/dev/null || true)
  [ -n "$since" ] || since=--all
fi
if [ "$since" = --all ]; then
  mapfile -t files < <(find src apps -name '*.cpp' | sort)
else
  mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- 'src/*.cpp' 'apps/*.cpp' | sort)
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: no source changed"; exit 0; }
# The compile commands of a clang build: GCC's warning flags mean nothing to clang-tidy.
as_user cmake --preset asan >/dev/null
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p build/asan --quiet 2>/dev/null
echo "tidy: ${#files[@]} files clean"
