#!/usr/bin/env bash
# Builds Lithe, fetches the default model and answers a prompt. Installs what it needs (Debian 12, root or sudo).
# Usage: scripts/run.sh [PROMPT [lithe run options...]]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in -h|--help) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;; esac
prompt=${1:-"Explain in three sentences why the sky is blue."}
[ $# -gt 0 ] && shift

install_packages "${build_packages[@]}"
say "Building (the first time takes a few minutes)"
build release -DLITHE_BUILD_TESTS=OFF -- lithe
model=$(fetch_model)
say "Asking $model_name: $prompt"
as_user env LITHE_MAX_TOKENS="${LITHE_MAX_TOKENS:-256}" "$root/build/release/apps/lithe/lithe" run -m "$model" -p "$prompt" "$@"
