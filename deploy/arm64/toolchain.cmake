# g++ for arm64 on another machine, with the libraries of a Debian for arm64 in the folder LOCKSLEY_ARM64_ROOT, which deploy/arm64/build makes.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_STRIP aarch64-linux-gnu-strip)

set(LOCKSLEY_ARM64_ROOT "" CACHE PATH "A Debian for arm64, with what deploy/install-dependencies --list names")
set(CMAKE_SYSROOT ${LOCKSLEY_ARM64_ROOT})
# CMake tries the compiler in a project of its own, which must know it, too.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LOCKSLEY_ARM64_ROOT)
# Programs are this machine's, all else is of that folder.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${LOCKSLEY_ARM64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${LOCKSLEY_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${LOCKSLEY_ARM64_ROOT}/usr/share/pkgconfig)
