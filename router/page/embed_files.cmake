# Writes the C++ source of page_files.h: each file of FOLDER, and each module of LIBRARY, as a raw string literal.
#   cmake -DFOLDER=... -DLIBRARY=... -DOUTPUT=... -P embed_files.cmake
set(DELIMITER "baton_page")
set(TYPE_html "text/html; charset=utf-8")
set(TYPE_css "text/css; charset=utf-8")
set(TYPE_js "text/javascript; charset=utf-8")

file(GLOB NAMES RELATIVE ${FOLDER} ${FOLDER}/*)
file(GLOB MODULES RELATIVE ${LIBRARY} ${LIBRARY}/*.js)
list(APPEND NAMES ${MODULES})
list(REMOVE_ITEM NAMES index.html)
list(SORT NAMES)
set(ENTRIES "")
foreach(NAME index.html ${NAMES})
  set(PATH "/page/${NAME}")
  set(FILE ${FOLDER}/${NAME})
  if(NOT EXISTS ${FILE})
    set(FILE ${LIBRARY}/${NAME})
  endif()
  if(NAME STREQUAL "index.html")
    set(PATH "/")
  endif()
  string(REGEX REPLACE "^.*\\." "" EXTENSION ${NAME})
  if(NOT DEFINED TYPE_${EXTENSION})
    message(FATAL_ERROR "${FILE}: give its content type a line in embed_files.cmake")
  endif()
  file(READ ${FILE} BODY)
  string(FIND "${BODY}" ")${DELIMITER}\"" END)
  if(NOT END EQUAL -1)
    message(FATAL_ERROR "${FILE}: it contains the end of the literal that it is compiled into")
  endif()
  file(SHA256 ${FILE} HASH)
  string(SUBSTRING ${HASH} 0 32 TAG)
  string(APPEND ENTRIES "    {\"${PATH}\", \"${TYPE_${EXTENSION}}\",\n     R\"${DELIMITER}(${BODY})${DELIMITER}\", \"\\\"${TAG}\\\"\"},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made by router/page/embed_files.cmake from router/page/files and router/page/vendor.
#include \"router/page/page_files.h\"

namespace baton {
namespace {

constexpr PageFile kFiles[] = {
${ENTRIES}};

}  // namespace

absl::Span<const PageFile> PageFiles() { return kFiles; }

}  // namespace baton
")
