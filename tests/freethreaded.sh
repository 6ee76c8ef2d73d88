#!/usr/bin/env bash
# freethreaded.sh [PYTEST ARGUMENTS...]: test this checkout on a free-threaded CPython.
#
# Debian packages no free-threaded interpreter, so one is built (once) from Debian's CPython source
# with --disable-gil. The project and pytest are then installed into a virtual environment of it, the
# import is checked to leave the GIL off, and pytest runs on the arguments, if there are any.
# Exit code: pytest's; 77 when the interpreter cannot be had.
#
#   FASTDL_FREETHREADED_CACHE   cache folder (build/freethreaded)
#   FASTDL_FREETHREADED_SOURCE  Debian suite/source package (trixie/python3.13)
#   FASTDL_FREETHREADED_EXTRAS  more packages for the tests, space-separated
#   JOBS                        parallel compilations (all CPUs)
set -euo pipefail

cannot() { echo "freethreaded: cannot run: $*" >&2; exit 77; }

mkdir -p "${FASTDL_FREETHREADED_CACHE:=build/freethreaded}"
cache=$(cd "$FASTDL_FREETHREADED_CACHE" && pwd)
prefix=$cache/python
python=$cache/venv/bin/python
work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

if [[ ! -e $prefix/ready ]]; then
    for tool in apt-get make cc tar xz; do command -v $tool >/dev/null || cannot "$tool is missing"; done
    # pip needs TLS and zlib; numpy's tests and ours need ctypes.
    printf '#include <%s>\n' openssl/ssl.h zlib.h ffi.h | cc -E - >/dev/null 2>&1 ||
        cannot "headers are missing: install libssl-dev zlib1g-dev libffi-dev"
    work=$(mktemp -d "$cache/build.XXXXXX")
    suite=${FASTDL_FREETHREADED_SOURCE:-trixie/python3.13}
    package=${suite#*/} suite=${suite%%/*}
    # Another suite of the mirror apt already uses, with lists of its own: the system's stay untouched.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Label: Debian' | head -n 1)
    [[ -n $mirror ]] || cannot "apt has no Debian mirror configured (or needs apt-get update)"
    echo "deb-src $mirror $suite main" >"$work/sources.list"
    mkdir -p "$work"/{lists/partial,cache,source}
    apt=(apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)")
    "${apt[@]}" update >"$work/log" 2>&1 || cannot "$suite is not on the mirror: $(tail -n 1 "$work/log")"
    # apt checks each file by itself and only the upstream tarball is wanted, so the exit code is not.
    (cd "$work/source" && "${apt[@]}" source --download-only "$package") >"$work/log" 2>&1 || true
    [[ -e $(echo "$work"/source/*.orig.tar.xz) ]] ||
        cannot "no source of $package in $suite: $(tail -n 1 "$work/log")"
    tar -xf "$work"/source/*.orig.tar.xz -C "$work/source" --strip-components=1
    echo "freethreaded: building $package without the GIL (about five CPU minutes, once)" >&2
    rm -rf "$prefix" "$cache/venv"
    (
        cd "$work/source"
        ./configure -q --prefix="$prefix" --disable-gil --disable-test-modules --with-ensurepip=install
        make -s -j"${JOBS:-$(nproc)}"
        make -s install
    ) >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; cannot "CPython did not build"; }
    touch "$prefix/ready"
    rm -rf "$work"; work=
fi
[[ -x $python ]] || "$(echo "$prefix"/bin/python3.*t)" -m venv "$cache/venv"

# Without --only-binary pip prefers a newer numpy that has no free-threaded wheel and compiles it.
"$python" -m pip install -q --only-binary=numpy -C cmake.define.FASTDL_CUDA=OFF . pytest ${FASTDL_FREETHREADED_EXTRAS:-}
cd "$cache" && "$python" -c "import sys, fastdl; assert not sys._is_gil_enabled(), 'the import enabled the GIL'"
cd "$OLDPWD"
[[ $# -eq 0 ]] || "$python" -m pytest "$@"
