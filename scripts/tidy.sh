#!/usr/bin/env bash
# clang-tidy on the sources that changed since a commit, or on all of them.
# Usage: scripts/tidy.sh [--all | SINCE-COMMIT]
# Without one: since this branch left main (as fetched, or as it is here); on main itself, since the commit before.
# A clone without that commit has nothing to compare with.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# The newest commit that holds none of this branch's work.
branch_point() {
  local upstream base
  for upstream in origin/main main; do
    base=$(as_user git merge-base "$upstream" HEAD 2>/dev/null) || continue
    [ "$base" = "$(as_user git rev-parse HEAD)" ] || { echo "$base"; return; }
  done
  as_user git rev-parse --verify --quiet HEAD^ || echo HEAD
}

since=${1:-$(branch_point)}
if [ "$since" = --all ]; then
  mapfile -t files < <(find src apps -name '*.cpp' | sort)
else
  mapfile -t files < <(as_user git diff --name-only --diff-filter=d "$since" -- 'src/*.cpp' 'apps/*.cpp' | sort)
fi
[ ${#files[@]} -gt 0 ] || { echo "[ counts ] tidy: no source changed since $since"; exit 0; }
# The compile commands of a clang build: GCC's warning flags mean nothing to clang-tidy.
as_user cmake --preset asan >/dev/null
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p build/asan --quiet 2>/dev/null
echo "[ counts ] tidy: ${#files[@]} files clean"
