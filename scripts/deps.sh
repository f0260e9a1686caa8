#!/bin/sh
# deps.sh: installs the packages that are missing, with apt-get (Debian, Ubuntu).
set -u
packages="gcc g++ make pkg-config libdnnl-dev libhdf5-dev hdf5-tools libopenmpi-dev openmpi-bin libcunit1-dev
    zlib1g-dev libzip-dev libcjson-dev gemmi-dev gemmi tm-align hmmer hhsuite
    hhsuite-data mmseqs2 kalign jq clang-format valgrind"

if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: this system has no apt-get; please install by hand what these Debian packages hold:" >&2
    echo $packages | sed 's/^/deps:   /' >&2
    exit 1
fi

wanted=
for package in $packages; do
    state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)
    [ "$state" = "install ok installed" ] || wanted="$wanted $package"
done
if [ -z "$wanted" ]; then
    echo "deps: everything is installed"
    exit 0
fi

sudo=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "deps: need root to install:$wanted" >&2
        exit 1
    fi
    sudo=sudo
fi
install()
{
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $wanted
}
echo "deps: installing$wanted"
# Package lists may be absent or old: update when the first try fails.
install >/dev/null 2>&1 || { $sudo apt-get update && install; } || {
    echo "deps: apt-get failed; see above" >&2
    exit 1
}
rm -f build*/config.mk # what is found now differs
echo "deps: done"
