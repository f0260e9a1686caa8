#!/bin/sh
# probe.sh OUTPUT: finds compilers and libraries and writes what it found as make variables.
# Reads CC, CXX, NVCC, CUDA from the environment. Never fails: what is missing is listed in MISSING.
set -u
output=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=
variables=

say() { variables="$variables$1
"; }

have_command() { command -v "$1" >/dev/null 2>&1; }

# links "SOURCE" FLAGS...: does a program with this source compile and link?
links()
{
    source_text=$1
    shift
    printf '%s\n' "$source_text" >"$work/probe.c"
    # shellcheck disable=SC2086
    ${CC:-gcc} -o "$work/probe" "$work/probe.c" "$@" >/dev/null 2>&1
}

# library NAME SOURCE then lines "CFLAGS|LIBS" on stdin: the first that links is taken.
library()
{
    name=$1
    source_text=$2
    found=0
    while IFS='|' read -r cflags libs; do
        [ $found = 1 ] && continue
        # shellcheck disable=SC2086
        if links "$source_text" $cflags $libs; then
            found=1
            say "HAVE_$name := 1"
            say "${name}_CFLAGS := $cflags"
            say "${name}_LIBS := $libs"
        fi
    done <<END
$(cat)
END
    if [ $found = 0 ]; then
        say "HAVE_$name := 0"
        missing="$missing $(echo "$name" | tr '[:upper:]' '[:lower:]')"
    fi
}

# config PACKAGE: the line "CFLAGS|LIBS" of a pkg-config package, or a line that does not link.
config()
{
    if have_command pkg-config && pkg-config --exists "$1" 2>/dev/null; then
        echo "$(pkg-config --cflags "$1")|$(pkg-config --libs "$1")"
    else
        echo "|-lnot-found"
    fi
}

if links 'int main(void) { return 0; }'; then say "HAVE_CC := 1"; else
    say "HAVE_CC := 0"
    missing="$missing gcc"
fi
if have_command "${CXX:-g++}"; then say "HAVE_CXX := 1"; else
    say "HAVE_CXX := 0"
    missing="$missing g++"
fi
have_command pkg-config || missing="$missing pkg-config"

library DNNL '#include <dnnl.h>
int main(void) { return dnnl_version()->major < 2; }' <<END
$(config dnnl)
|-ldnnl
END

library HDF5 '#include <hdf5.h>
int main(void) { return H5open() < 0; }' <<END
$(config hdf5-serial)
$(config hdf5)
-I/usr/include/hdf5/serial|-lhdf5_serial
|-lhdf5
END

mpi_wrapper="|-lnot-found"
if have_command mpicc && mpicc --showme:compile >/dev/null 2>&1; then
    mpi_wrapper="$(mpicc --showme:compile)|$(mpicc --showme:link)"
fi
library MPI '#include <mpi.h>
int main(int n, char **a) { return n > 9 && MPI_Init(&n, &a); }' <<END
$(config ompi-c)
$mpi_wrapper
$(config mpich)
END
have_command mpirun || missing="$missing mpirun"

library CUNIT '#include <CUnit/CUnit.h>
int main(void) { return CU_initialize_registry(); }' <<END
$(config cunit)
|-lcunit
END

library ZLIB '#include <zlib.h>
int main(void) { return zlibVersion() == 0; }' <<END
$(config zlib)
|-lz
END

library ZIP '#include <zip.h>
int main(void) { return zip_libzip_version() == 0; }' <<END
$(config libzip)
|-lzip
END

library CJSON '#include <cjson/cJSON.h>
int main(void) { return cJSON_Version() == 0; }' <<END
$(config libcjson)
|-lcjson
END

# gemmi: headers only, C++
if have_command "${CXX:-g++}" && printf '#include <gemmi/model.hpp>\nint main() { return 0; }\n' >"$work/probe.cpp" &&
    "${CXX:-g++}" -std=c++17 -fsyntax-only "$work/probe.cpp" >/dev/null 2>&1; then
    say "HAVE_GEMMI := 1"
else
    say "HAVE_GEMMI := 0"
    missing="$missing gemmi"
fi

# programs that searches call: `make test` runs them on small databases
for tool in jackhmmer hhblits hhsearch mmseqs kalign; do
    have_command $tool || missing="$missing $tool"
done

nvcc=
if [ "${CUDA:-1}" != 0 ]; then
    for candidate in ${NVCC:-nvcc} /usr/local/cuda/bin/nvcc; do
        if have_command "$candidate"; then
            nvcc=$(command -v "$candidate")
            break
        fi
    done
fi
say "FOUND_NVCC := $nvcc"

mkdir -p "$(dirname "$output")"
printf '# written by scripts/probe.sh; `make clean` or `make deps` makes it anew\n%sMISSING := %s\n' \
    "$variables" "$(echo "$missing" | sed 's/^ *//')" >"$output.tmp.$$"
mv "$output.tmp.$$" "$output"
