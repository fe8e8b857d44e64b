# How compiler and linker make mistakes harder to use: for all that is built here, tests' plugins included. -DLOCKSLEY_HARDEN=OFF switches it
# off. The sanitizers watch the same places, and do without. tests/integration/hardening.py looks for each of these in what was built.
# Included by the root, before the folders.
option(LOCKSLEY_HARDEN "Stack protector, checked calls of libc and libstdc++, read-only relocations, position-independent programs, CET" ON)

# For a folder, before its targets: what costs instructions at run time is left out. With all of it the paths of tests/bench/hot_paths.cc through
# core took up to a third more: spawn 91 -> 108, join 162 -> 214, job 227 -> 301, turn 1397 -> 1640. Core meets no byte from outside: it
# counts, and hands payloads on. (The protocol's, through which all such bytes pass, keep it: parse 122 -> 126, row 224 -> 228, ping 429 -> 458.)
macro(locksley_leave_out_checks)
  set_property(DIRECTORY PROPERTY COMPILE_OPTIONS ${locksley_position_independent})
  set_property(DIRECTORY PROPERTY COMPILE_DEFINITIONS)
endmacro()

set(locksley_position_independent)
if(NOT LOCKSLEY_HARDEN OR LOCKSLEY_SANITIZE)
  return()
endif()

# Position-independent, so that addresses differ from start to start. Libraries end in programs; CMake sees to shared objects itself.
set(is_module $<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>)
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
set(locksley_position_independent $<$<NOT:${is_module}>:-fPIE>)
add_compile_options(${locksley_position_independent})
add_link_options($<${is_program}:-pie>)

add_compile_options(-fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-mbranch-protection=standard)
endif()
# Nothing that the loader has filled in can be written afterwards, nothing that can be written can be run.
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack LINKER:-z,separate-code)

# An index out of range, an empty optional: the end of the process, not of its integrity.
add_compile_definitions(_GLIBCXX_ASSERTIONS)
# It needs the optimiser. A compiler that has a level of its own would complain of a second one.
set(is_optimised $<NOT:$<CONFIG:Debug>>)
add_compile_options($<${is_optimised}:-U_FORTIFY_SOURCE> $<${is_optimised}:-D_FORTIFY_SOURCE=3>)
