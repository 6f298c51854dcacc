#!/usr/bin/env bash
# fuzz-libraries.sh DIRECTORY: builds the codecs' libraries from Debian's sources into DIRECTORY/prefix, with the address
# sanitizer and the fuzzer's instrumentation: `FUZZ_LIBRARIES=DIRECTORY/prefix make fuzz` then sees inside of them, which
# it does not with those of the system. Needs cmake, make, dpkg-dev and Debian's archive.
set -euo pipefail
mkdir -p "${1:?usage: fuzz-libraries.sh DIRECTORY}"
cd "$1"
prefix="$PWD/prefix"
# The compiler of the toolchain, whose fuzzer its instrumentation must fit.
CC="$(dirname "$(readlink -f "$(command -v swift)")")/clang"
export CC CFLAGS="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link"

# Lists of sources in a place of their own, so that nothing of the system's changes.
release="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
mkdir -p lists/partial cache/archives/partial
key="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
echo "deb-src $key http://deb.debian.org/debian $release main" >sources.list
apt=(apt-get -q -o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$PWD/lists" -o "Dir::Cache=$PWD/cache")
"${apt[@]}" update
"${apt[@]}" source libpng1.6 libjpeg-turbo libwebp

cd "$(echo libwebp-*/)"
./configure --prefix="$prefix" --disable-shared --enable-libwebpdemux --disable-libwebpmux --disable-png --disable-jpeg \
    --disable-tiff --disable-gif
make -C sharpyuv install
make -C src install
cd "../$(cd .. && echo libpng1.6-*/)"
./configure --prefix="$prefix" --disable-shared
make libpng16.la
make install-libLTLIBRARIES install-pkgconfigDATA install-nodist_pkgincludeHEADERS install-pkgincludeHEADERS \
    install-header-links
cd ..
# Without its assembly code, which cannot be instrumented.
cmake -S libjpeg-turbo-*/ -B libjpeg -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_DEFAULT_LIBDIR=lib -DWITH_SIMD=0 \
    -DENABLE_SHARED=0 -DWITH_TURBOJPEG=0
cmake --build libjpeg --target jpeg-static
cp libjpeg/libjpeg.a "$prefix/lib"
cp libjpeg/jconfig.h libjpeg-turbo-*/{jpeglib,jmorecfg,jerror}.h "$prefix/include"
cp libjpeg/pkgscripts/libjpeg.pc "$prefix/lib/pkgconfig"

# What a static library needs besides must be named; and libpng goes by two names.
sed -i 's/^Libs: .*-lpng16/& -lz -lm/' "$prefix/lib/pkgconfig/libpng16.pc"
ln -sf libpng16.a "$prefix/lib/libpng.a"
ln -sf libpng16.pc "$prefix/lib/pkgconfig/libpng.pc"
echo "FUZZ_LIBRARIES=$prefix"
