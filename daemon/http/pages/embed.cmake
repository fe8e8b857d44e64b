# Writes a source file that holds files as they are, so that the program needs none at run time:
#   cmake -D FOLDER=… -D FILES=a.html,b.js -D OUTPUT=assets.cc -P embed.cmake
# index.html is served at /, every other file at its own name.
set(types_html "text/html; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_svg "image/svg+xml")

string(REPLACE "," ";" files "${FILES}")
set(arrays "")
set(entries "")
set(number 0)
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} hex HEX)
  if(hex STREQUAL "")
    message(FATAL_ERROR "${FOLDER}/${file} is empty")
  endif()
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  file(SHA256 ${FOLDER}/${file} sum)
  string(SUBSTRING ${sum} 0 32 tag)
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  if(NOT DEFINED types_${extension})
    message(FATAL_ERROR "${file}: of which type are files that end in .${extension}?")
  endif()
  set(path /${file})
  if(file STREQUAL "index.html")
    set(path /)
  endif()
  string(APPEND arrays "constexpr char kBytes${number}[] = {${bytes}};\n")
  string(APPEND entries
    "    {\"${path}\", \"${types_${extension}}\", \"\\\"${tag}\\\"\", {kBytes${number}, sizeof kBytes${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "#include \"daemon/http/pages/assets.h\"

namespace locksley::daemon {
namespace {

${arrays}
constexpr Asset kAssets[] = {
${entries}};

}  // namespace

std::span<const Asset> dashboard_assets() { return kAssets; }

}  // namespace locksley::daemon
")
