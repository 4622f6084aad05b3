#!/usr/bin/env bash
# clang-tidy on the sources that changed, most recently changed first, or on all of them.
# Usage: scripts/tidy.sh [--all | SINCE-COMMIT]
# Without one: since this branch left main (as fetched, or as it is here). On main itself, and where no main is known,
# every source counts as changed. LITHE_TIDY_SECONDS=N: no file is begun after N seconds. --all takes its time, and adds
# clang's static analyzer, which can take several times as long as the rest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

case ${1:-} in -h|--help) sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;; esac
limit=${LITHE_TIDY_SECONDS:-}
jobs=$(nproc)
checks='-clang-analyzer-*'
begun=0 clean=0 bad=0

repository() { as_user git "$@" 2>/dev/null; }

# The newest commit of main without this branch's work; nothing on main itself.
branch_point() {
  local upstream base
  for upstream in origin/main main; do
    base=$(repository merge-base "$upstream" HEAD) || continue
    [ "$base" = "$(repository rev-parse HEAD)" ] || { echo "$base"; return; }
  done
}

every_source() { find src apps -name '*.cpp' | sort; }

# changed [COMMIT]: paths that changed since then, or ever: the latest first, some more than once.
changed() {
  repository diff --name-only HEAD || true
  repository log --format= --name-only "${1:+$1..}HEAD" || true
  [ -n "${1:-}" ] || every_source
}

# includers PATH KIND: files of that kind that include a header of ours.
includers() { grep -rlE --include="*.$2" "^#include [\"<](${1#*/}|${1##*/})[\">]" src apps include | sort || true; }

# source_of PATH: the source through which it is checked: itself, or for a header one that includes it.
source_of() {
  local path=$1
  while [[ $path == *.h ]]; do path=$({ includers "$path" cpp; includers "$path" h; } | sed -n 1p); done
  [[ $path != *.cpp ]] || echo "$path"
}

# Paths in, sources to check out.
sources_of() {
  local path
  while read -r path; do
    if [[ $path =~ ^(src|apps|include)/ && -f $path ]]; then source_of "$path"; fi
  done
}

unique() { awk '!seen[$0]++'; }  # the first of each line

tidy() {
  local findings
  findings=$(clang-tidy-16 -p build/asan --quiet --checks="$checks" "$1" 2>&1) ||
    { printf '%s\n' "$findings"; return 1; }
}

reap() { if wait -n; then clean=$((clean + 1)); else bad=$((bad + 1)); fi; }

if [ "${1:-}" = --all ]; then
  limit='' checks=''
  sources=$(every_source)
else
  [ -z "${1:-}" ] || repository rev-parse --quiet --verify "$1^{commit}" >/dev/null || die "no commit '$1'"
  sources=$(changed "${1:-$(branch_point)}" | unique | sources_of | unique)
fi
[ -n "$sources" ] || { echo "[ counts ] tidy: no source changed"; exit 0; }
mapfile -t files <<< "$sources"
# The compile commands of a clang build: GCC's warning flags mean nothing to clang-tidy.
as_user cmake --preset asan >/dev/null
SECONDS=0
for file in "${files[@]}"; do
  [ "$begun" -lt "$jobs" ] || reap
  [ -z "$limit" ] || [ "$SECONDS" -lt "$limit" ] || break
  tidy "$file" &
  begun=$((begun + 1))
done
while [ $((clean + bad)) -lt "$begun" ]; do reap; done
[ "$bad" -eq 0 ] || echo "tidy: findings in $bad files"
echo "[ counts ] tidy: $clean files clean, $((${#files[@]} - begun)) not checked ($SECONDS s)"
[ "$bad" -eq 0 ]
